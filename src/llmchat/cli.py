"""The command ``llmchat``: finds the subcommand, runs it, and turns errors into a message and an exit code.

Only argparse is imported before the command is known: the first paint counts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

from llmchat.errors import InternalError, LlmchatError


def main(argv: Sequence[str] | None = None) -> int:
    """Run llmchat with ``argv`` (without the program's name); returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        from llmchat.commands import run

        return run(arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _abandon_stdout()
        return 1
    except LlmchatError as error:
        report(error)
        return error.exit_code
    except Exception as error:
        report(_unexpected(error))
        return 1


def report(error: LlmchatError) -> None:
    """One message on stderr; with ``LLMCHAT_DEBUG=1`` the traceback before it."""
    if os.environ.get("LLMCHAT_DEBUG") == "1":
        traceback.print_exception(error)
    lines = [f"llmchat: {error.title}. {error.message}"]
    if error.remedy:
        lines.append(error.remedy)
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join(lines) + "\n")


def _unexpected(error: Exception) -> InternalError:
    wrapped = InternalError(
        "Something went wrong in llmchat",
        f"{type(error).__name__}: {error}",
        "Set LLMCHAT_DEBUG=1 and run it again to see where; please report what it prints.",
    )
    wrapped.__cause__ = error
    return wrapped


def _abandon_stdout() -> None:
    """The reader of our output went away: let the interpreter's last flush go nowhere instead of failing."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())
