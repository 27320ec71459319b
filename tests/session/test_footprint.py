"""RAM of an engine and its children, from a /proc on paper and from the real one."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from llmchat.session.hardware.footprint import Footprint, footprint

STATUS = """\
Name:\tpython
VmRSS:\t{all} kB
RssAnon:\t{anon} kB
RssFile:\t{file} kB
RssShmem:\t{shmem} kB
Threads:\t9
"""
MIB = 2**20


def process(
    proc: Path, pid: int, *, anon: int, file: int, shmem: int, children: str = "", dirty: int = -1
) -> None:
    """Sizes in MiB. ``dirty``: what it alone has, where the kernel tells."""
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True)
    sizes = {"anon": anon * 1024, "file": file * 1024, "shmem": shmem * 1024}
    (folder / "status").write_text(STATUS.format(all=sum(sizes.values()), **sizes))
    (folder / "task" / str(pid) / "children").write_text(children)
    if dirty >= 0:
        (folder / "smaps_rollup").write_text(
            f"00400000-7fff r--p 00000000 00:00 0  [rollup]\nPrivate_Dirty: {dirty * 1024} kB\n"
        )


def test_the_heap_and_shared_memory_are_held_and_files_are_not(tmp_path: Path) -> None:
    process(tmp_path, 5, anon=1000, file=4000, shmem=600)
    assert footprint(5, tmp_path) == Footprint(private=1600 * MIB, mapped=4000 * MIB)


def test_children_count_with_what_they_do_not_share(tmp_path: Path) -> None:
    process(tmp_path, 5, anon=1000, file=400, shmem=0, children="6 7 ")
    process(tmp_path, 6, anon=1000, file=400, shmem=0, dirty=30)  # forked: the rest is its parent's
    process(tmp_path, 7, anon=200, file=100, shmem=10, children="8 9 ")  # the kernel does not tell more
    process(tmp_path, 8, anon=5, file=1, shmem=0, dirty=5)  # 9 has ended meanwhile
    assert footprint(5, tmp_path) == Footprint(private=(1000 + 30 + 210 + 5) * MIB, mapped=400 * MIB)


def test_a_kernel_that_lists_no_children(tmp_path: Path) -> None:
    process(tmp_path, 5, anon=100, file=0, shmem=0)
    (tmp_path / "5" / "task" / "5" / "children").unlink()
    assert footprint(5, tmp_path) == Footprint(private=100 * MIB, mapped=0)


def test_a_process_that_has_ended() -> None:
    assert footprint(2**22 + 1) is None
    assert footprint(None) is None


def test_where_there_is_no_proc(tmp_path: Path) -> None:
    own = footprint(os.getpid(), tmp_path)
    assert own is not None and own.private > 5 * MIB and own.mapped > 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_this_process_grows_by_what_it_takes_and_not_by_what_it_reads(tmp_path: Path) -> None:
    size = 64 * MIB
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(size))
    before = footprint(os.getpid())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert sum(view[:: mmap.PAGESIZE]) == 0
        reading = footprint(os.getpid())
        heap = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # not what was freed before
        for page in range(0, size, mmap.PAGESIZE):
            heap[page] = 1
        holding = footprint(os.getpid())
    assert before and reading and holding and len(heap) == size
    assert reading.private - before.private < size // 8
    assert reading.mapped - before.mapped > size * 0.9
    assert holding.private - reading.private == pytest.approx(size, rel=0.1)
