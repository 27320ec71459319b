"""Files from the hub into its cache: several at once, counted in bytes, given up within half a second."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from llmchat.errors import Cancelled
from llmchat.session.hub.client import SECONDS, api
from llmchat.session.models.hubcache import repository

__all__ = ["transfer"]

AT_ONCE = 4
"""Files; more do not make a download faster, and each keeps a buffer."""
CHUNK = 2**20
"""Bytes between two looks at whether to stop."""
POLL_SECONDS = 0.1
END_SECONDS = 0.2
"""To let threads clean up behind a cancelled download before it is left to them."""
STALE_SECONDS = 3600.0
"""A part of a file that nobody has written to for so long was left by a process that is gone."""


class _Stopped(Exception):
    """Raised inside the hub client by the progress bar, to leave its download."""


class _Count:
    """Bytes that came, and whether to go on; shared by the threads of one transfer."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, count: int) -> None:
        if self.stopped.is_set():
            raise _Stopped
        with self._lock:
            self._bytes += count


def transfer(
    model_id: str,
    commit: str,
    files: Mapping[str, int],
    progress: Callable[[int], None],
    cancelled: Callable[[], bool],
) -> None:
    """Fetch ``files`` (name to bytes). Raises Cancelled, or the first error of the hub client."""
    if not files:
        return
    from huggingface_hub import constants

    api()
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    _sweep(model_id)
    count, names, errors = _Count(), queue.SimpleQueue[str](), list[Exception]()
    for name in sorted(files, key=lambda name: -files[name]):
        names.put(name)

    def work() -> None:
        bar = _bar_class(count)
        while not count.stopped.is_set():
            try:
                _fetch(model_id, commit, names.get_nowait(), bar)
            except queue.Empty:
                return
            except Exception as error:
                errors.append(error)
                count.stopped.set()

    # Not a pool: its threads would be waited for at exit, and one may hang in a read until its time limit.
    threads = [
        threading.Thread(target=work, daemon=True, name=f"hub-{i}") for i in range(min(AT_ONCE, len(files)))
    ]
    for thread in threads:
        thread.start()
    seen = -1
    while any(thread.is_alive() for thread in threads) and not errors:
        if cancelled():
            _abandon(threads, count)
            raise Cancelled("Download stopped", "Finished files are kept.", "Open the model again to go on.")
        if count.bytes != seen:
            seen = count.bytes
            progress(min(seen, sum(files.values())))
        next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(POLL_SECONDS)
    if errors:
        _abandon(threads, count)
        raise errors[0]


def _fetch(model_id: str, commit: str, name: str, bar: type[Any]) -> None:
    from huggingface_hub import hf_hub_download

    hf_hub_download(model_id, name, revision=commit, library_name="llmchat", etag_timeout=SECONDS, tqdm_class=bar)


def _abandon(threads: list[threading.Thread], count: _Count) -> None:
    count.stopped.set()
    with contextlib.suppress(ImportError):
        from huggingface_hub.utils._xet import abort_xet_session

        abort_xet_session()
    until = time.monotonic() + END_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _sweep(model_id: str) -> None:
    """Delete parts of files that no running process is fetching: the client begins anew with each."""
    for part in (repository(model_id) / "blobs").glob("*.incomplete"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()


def _bar_class(count: _Count) -> type[Any]:
    """A progress bar as the hub client wants one: it draws nothing and counts."""

    class Bar:
        def __init__(self, *args: Any, **options: Any) -> None:
            self.total = options.get("total")
            self.n = options.get("initial") or 0
            count.add(self.n)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *exception: object) -> None:
            pass

        def update(self, n: float | None = 1) -> None:
            self.n += int(n or 0)
            count.add(int(n or 0))

        def update_transfer(self, n: float | None = 1) -> None:
            """Bytes on the wire, which Xet counts apart: the ones written are counted."""

        def set_postfix_str(self, *args: Any, **options: Any) -> None:
            pass

        set_transfer_postfix_str = set_description = set_description_str = set_postfix_str

        def refresh(self, *args: Any, **options: Any) -> None:
            pass

        close = refresh

    return Bar
