"""The disk where a folder lies: what is free there, and on Linux of which kind it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from llmchat.domain.hardware import DiskKind
from llmchat.session.hardware.cgroup import PROC
from llmchat.session.hardware.ram import SYSTEM

__all__ = ["free", "kind"]

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)
NETWORK_FUSE = ("fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs")
MEMORY = frozenset({"ramfs", "tmpfs"})
REMOTE_DISKS = ("Amazon Elastic Block Store", "nvme_card-pd")
"""Models of NVMe devices that are a cloud's network disks (AWS, Google)."""
VIRTUAL = ("qemu", "vmware", "virtual", "msft", "google")
"""In the vendor or model of a virtual disk: such ones call themselves rotating whatever they lie on."""
SLOWEST: tuple[DiskKind, ...] = ("network", "hdd", "", "ssd", "nvme", "memory")
"""Of an array, the first of these that one of its members is."""


class Mount(NamedTuple):
    device: str
    """``major:minor``."""
    point: Path
    type: str
    source: str
    options: str
    """Of the file system."""


def free(folder: Path) -> int | None:
    """Bytes free where ``folder`` lies or would lie; None where that cannot be told."""
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
    return None


def kind(folder: Path, proc: Path = PROC, system: Path = SYSTEM) -> DiskKind:
    """Of the disk where ``folder`` lies or would lie; empty where that cannot be told."""
    try:
        mounts = _mounts(proc)
        mount = _mount_of(folder.resolve(), mounts)
        if mount and mount.type == "overlay":
            # A container's: its files lie in upperdir, which often is a path that only the host knows.
            upper = re.search(r"(?:^|,)upperdir=([^,]+)", mount.options)
            below = _mount_of(Path(upper[1]), mounts) if upper else None
            mount = below if below and below.point != mount.point else None
        return _kind(mount, system) if mount else ""
    except OSError:
        return ""


def _kind(mount: Mount, system: Path) -> DiskKind:
    if mount.type in NETWORK or mount.type.startswith(NETWORK_FUSE):
        return "network"
    if mount.type in MEMORY:
        return "memory"
    device = system / "dev" / "block" / mount.device
    if not device.exists():  # btrfs numbers its file systems itself
        device = system / "class" / "block" / Path(mount.source).name
    return _device_kind(device.resolve()) if device.exists() else ""


def _device_kind(device: Path) -> DiskKind:
    """``device``: a folder under /sys/devices of a disk or a partition."""
    members = [_device_kind(member.resolve()) for member in sorted(device.glob("slaves/*"))]
    if members:
        return min(members, key=SLOWEST.index)
    whole = device.parent if (device / "partition").exists() else device
    name, model = whole.name, _text(whole / "device" / "model")
    if name.startswith(("nbd", "rbd", "drbd")) or any(remote in model for remote in REMOTE_DISKS):
        return "network"
    if name.startswith(("ram", "zram")):
        return "memory"
    if name.startswith("nvme"):
        return "nvme"
    rotates = _text(whole / "queue" / "rotational")
    if name.startswith("loop") or rotates not in ("0", "1"):
        return ""
    maker = f"{_text(whole / 'device' / 'vendor')} {model}".lower()
    virtual = name.startswith(("vd", "xvd")) or any(word in maker for word in VIRTUAL)
    return "ssd" if rotates == "0" else "" if virtual else "hdd"


def _mounts(proc: Path) -> list[Mount]:
    found = []
    for line in (proc / "self" / "mountinfo").read_text(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) > 4 and len(right) > 1:
            options = right[2] if len(right) > 2 else ""
            found.append(Mount(left[2], Path(_unescaped(left[4])), right[0], right[1], _unescaped(options)))
    return found


def _mount_of(path: Path, mounts: list[Mount]) -> Mount | None:
    """The innermost; of two at the same place the later one hides the other."""
    around = [mount for mount in mounts if path.is_relative_to(mount.point)]
    return max(reversed(around), key=lambda mount: len(mount.point.parts), default=None)


def _unescaped(text: str) -> str:
    """A space is written as ``\\040``."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
