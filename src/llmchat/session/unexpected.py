"""An exception that nobody foresaw, as an error for people: its own words go to the log."""

from __future__ import annotations

import traceback

from llmchat.errors import InternalError


def unexpected(title: str, error: BaseException) -> InternalError:
    """Says what kind of error it is; type, text and traceback are the detail."""
    return InternalError(
        title,
        _cause(error),
        "Try it again; the log (F12) has the details for a bug report.",
        detail="".join(traceback.format_exception(error)),
    )


def _cause(error: BaseException) -> str:
    """In words."""
    match error:
        case ImportError():
            package = f" ({error.name})" if error.name else ""
            return f"A Python package is missing or does not work{package}."
        case PermissionError():
            return f"Access was refused{_where(error)}."
        case TimeoutError():
            return "Something took too long."
        case OSError():
            reason = f": {error.strerror}" if error.strerror else ""
            return f"The system reported an error{_where(error)}{reason}."
        case MemoryError():
            return "llmchat ran out of RAM."
    return "An error came up that llmchat did not expect."


def _where(error: OSError) -> str:
    return f" at {error.filename}" if error.filename else ""
