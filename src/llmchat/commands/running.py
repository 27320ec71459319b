"""A session for one command: made from the options, waited for, always closed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator

from llmchat.commands.options import Options
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.saved import settings


def session_options(options: Options, *, autoload: bool = True, keep: bool = True) -> SessionOptions:
    """What the session is told. Reads the settings only when an option is to be laid over them."""
    base = settings.load().sampling if options.draws else None
    return SessionOptions(
        request=options.request,
        prefer=options.prefer,
        revision=options.revision,
        system=options.system,
        sampling=options.sampling(base) if base else None,
        hardware=options.hardware,
        fake=options.fake,
        autoload=autoload,
        keep=keep,
    )


@contextlib.asynccontextmanager
async def running(options: SessionOptions) -> AsyncIterator[Session]:
    """A started session; its engine is ended at the end, whatever happens."""
    session = Session(options)
    try:
        await session.start()
        yield session
    finally:
        await session.close()


@contextlib.contextmanager
def on_interrupt(handler: Callable[[], None]) -> Iterator[None]:
    """Call ``handler`` on the loop at Ctrl+C instead of raising KeyboardInterrupt, where the system allows it."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, handler)
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
