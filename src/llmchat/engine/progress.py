"""Progress and cancelling of from_pretrained, through transformers' tqdm hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging

from llmchat.engine.task import Task


class _Bar:
    """Stands in for tqdm in the loop over the weights: the only thing called between two tensors."""

    def __init__(self, items: Sequence[Any], task: Task, stage: str, sizes: Mapping[str, int]) -> None:
        self._items, self._task, self._stage, self._sizes = items, task, stage, sizes

    def __iter__(self) -> Iterator[Any]:
        read, total = 0, sum(self._sizes.values())
        for count, item in enumerate(self._items, start=1):
            self._task.check()
            yield item
            read += self._sizes.get(item[0], 0) if isinstance(item, tuple) else 0
            if total:
                self._task.progress(self._stage, read, total, "bytes")
            else:
                self._task.progress(self._stage, count, len(self._items), "tensors")
        if total:
            self._task.progress(self._stage, total, total, "bytes")  # buffers are made, not read

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        """``update``, ``close``, ``set_postfix`` and the like do nothing."""
        return lambda *args, **kwargs: None


@contextmanager
def weights_progress(task: Task, sizes: Mapping[str, int], stage: str = "Reading weights") -> Iterator[None]:
    """While inside, transformers' loops over weights report progress and raise Cancelled once ``task`` is stopped.

    ``sizes``: bytes of every tensor by the name that the loaded model gives it; empty counts tensors instead.
    """

    def hook(factory: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = args[0] if args else kwargs.get("iterable", ())
        return _Bar(items, task, stage, sizes)

    task.progress(stage, 0, sum(sizes.values()), "bytes" if sizes else "")
    previous = logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        logging.set_tqdm_hook(previous)
