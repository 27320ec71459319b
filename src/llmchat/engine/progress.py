"""Progress and cancelling of from_pretrained, through transformers' tqdm hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging

from llmchat.engine.task import Task


class _Bar:
    """Stands in for tqdm in the loop over the weights: the only thing called between two tensors."""

    def __init__(self, items: Any, task: Task, sizes: Mapping[str, int], done: Callable[[int], None]) -> None:
        self._items, self._task, self._sizes, self._done = items, task, sizes, done

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._task.check()
            yield item
            name = item[0] if isinstance(item, tuple) else item
            self._done(self._sizes.get(name, 0) if isinstance(name, str) else 0)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        """``update``, ``close``, ``set_postfix`` and the like do nothing."""
        return lambda *args, **kwargs: None


@contextmanager
def weights_progress(task: Task, sizes: Mapping[str, int], stage: str = "Reading weights") -> Iterator[None]:
    """While inside, loops of transformers over weights report bytes and raise Cancelled once ``task`` is stopped.

    ``sizes``: bytes of every tensor by the name that the loaded model gives it.
    """
    total, read = sum(sizes.values()), 0

    def done(size: int) -> None:
        nonlocal read
        read += size
        task.progress(stage, read, total, "bytes")

    def hook(factory: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = args[0] if args else kwargs.get("iterable")
        return _Bar(items if items is not None else (), task, sizes, done)

    task.progress(stage, 0, total, "bytes")
    previous = logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        logging.set_tqdm_hook(previous)
