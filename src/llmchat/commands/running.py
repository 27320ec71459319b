"""A session for one command: made from the options, waited for, always closed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator

from llmchat.commands.options import Options
from llmchat.errors import LlmchatError
from llmchat.session import settings
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.state import SessionState


def session_options(options: Options, *, autoload: bool = True, keep: bool = True) -> SessionOptions:
    """What the session is told. Reads the settings only when an option is to be laid over them."""
    base = settings.load().sampling if options.draws else None
    return SessionOptions(
        request=options.request,
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


async def until(session: Session, condition: Callable[[SessionState], bool]) -> SessionState:
    """The first state that meets ``condition``; every state is shown to it. Raises its problem, if that comes
    first."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[SessionState] = loop.create_future()

    def look(state: SessionState) -> None:
        if found.done():
            return
        try:
            if condition(state):
                found.set_result(state)
            elif state.problem:
                found.set_exception(LlmchatError.from_problem(state.problem))
        except Exception as error:
            found.set_exception(error)

    unsubscribe = session.subscribe(look)
    try:
        look(session.state)
        return await found
    finally:
        unsubscribe()


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
