"""The kind of a disk, from made-up /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_probe import tree

from llmchat.session.hardware import disk

MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 259:3 / /models rw,relatime - xfs /dev/nvme0n1p1 rw
31 30 0:40 / /models/old\\040ones ro - nfs4 server:/old rw,vers=4.2
32 22 0:41 / /dev/shm rw - tmpfs tmpfs rw
33 22 254:0 / /cloud rw - ext4 /dev/vda rw
34 22 0:42 / /pool rw - btrfs /dev/sdb1 rw
35 22 253:0 / /lvm rw - ext4 /dev/mapper/vg-lv rw
36 22 259:9 / /ebs rw - ext4 /dev/nvme1n1 rw
37 22 0:43 / /box rw - overlay overlay rw,lowerdir=/a,upperdir=/models/upper,workdir=/w
38 22 0:44 / /wsl rw - 9p C:\\134 rw
39 33 259:3 /a /cloud rw - xfs /dev/nvme0n1p1 rw
"""


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A magnetic disk, two SSDs by SATA, NVMe disks here and in a cloud, and an array of both kinds."""
    root = tree(
        tmp_path / "sys",
        {
            "devices/ata1/block/sda/queue/rotational": "1\n",
            "devices/ata1/block/sda/device/vendor": "ATA\n",
            "devices/ata1/block/sda/device/model": "ST4000DM004\n",
            "devices/ata1/block/sda/sda2/partition": "2\n",
            "devices/ata2/block/sdb/queue/rotational": "0\n",
            "devices/ata2/block/sdb/sdb1/partition": "1\n",
            "devices/nvme0/nvme0n1/queue/rotational": "0\n",
            "devices/nvme0/nvme0n1/nvme0n1p1/partition": "1\n",
            "devices/nvme1/nvme1n1/queue/rotational": "0\n",
            "devices/nvme1/nvme1n1/device/model": "Amazon Elastic Block Store\n",
            "devices/virtual/block/vda/queue/rotational": "1\n",
            "devices/virtual/block/dm-0/queue/rotational": "0\n",
        },
    )
    links = {
        "dev/block/8:2": "devices/ata1/block/sda/sda2",
        "class/block/sdb1": "devices/ata2/block/sdb/sdb1",
        "dev/block/259:3": "devices/nvme0/nvme0n1/nvme0n1p1",
        "dev/block/259:9": "devices/nvme1/nvme1n1",
        "dev/block/254:0": "devices/virtual/block/vda",
        "dev/block/253:0": "devices/virtual/block/dm-0",
        "devices/virtual/block/dm-0/slaves/sdb1": "devices/ata2/block/sdb/sdb1",
        "devices/virtual/block/dm-0/slaves/sda2": "devices/ata1/block/sda/sda2",
    }
    for link, target in links.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(root / target)
    return root


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/hub", "hdd"),
        ("/models/hub", "nvme"),
        ("/models/old ones/hub", "network"),
        ("/dev/shm/hub", "memory"),
        ("/pool/hub", "ssd"),
        ("/lvm/hub", "hdd"),
        ("/ebs/hub", "network"),
        ("/box/hub", "nvme"),
        ("/wsl/hub", ""),
        ("/cloud/hub", "nvme"),
    ],
)
def test_kinds(tmp_path: Path, system: Path, folder: str, kind: str) -> None:
    proc = tree(tmp_path / "proc", {"self/mountinfo": MOUNTS})
    assert disk.kind(Path(folder), proc, system) == kind


@pytest.mark.parametrize(
    "mounts",
    [
        "33 22 254:0 / / rw - ext4 /dev/vda rw\n",
        "1 0 0:9 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/x/diff\n",
        "1 0 0:9 / / rw - overlay overlay rw\n",
        "1 0 8:77 / / rw - ext4 /dev/sdz9 rw\n",
        "rubbish\n",
        "",
    ],
)
def test_what_cannot_be_told_is_empty(tmp_path: Path, system: Path, mounts: str) -> None:
    """Among it a virtual disk: it says that it rotates, whatever it lies on."""
    proc = tree(tmp_path / "proc", {"self/mountinfo": mounts})
    assert disk.kind(Path("/srv/hub"), proc, system) == ""
    assert disk.kind(Path("/srv/hub"), tmp_path / "none", system) == ""


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    found = disk.free(tmp_path / "not" / "yet")
    assert found is not None and found > 0
