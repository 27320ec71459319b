"""Exit codes, and that nobody ever sees a traceback unasked."""

from __future__ import annotations

import io
import sys

import pytest

from llmchat import cli, commands, errors
from llmchat.commands import ask


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("Title", "What happened.", "Do this."), 2),
        (errors.FitError("Title", "What happened.", "Do this."), 2),
        (errors.OutOfMemory("Title", "What happened.", "Do this."), 1),
        (errors.Cancelled("Title", "What happened.", "Do this."), 130),
    ],
)
def test_an_error_is_one_message(
    error: errors.LlmchatError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "run", _raising(error))
    assert cli.main([]) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", "llmchat: Title. What happened.\nDo this.\n")


def test_a_bug_is_one_message_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(commands, "run", _raising(ZeroDivisionError("division by zero")))
    assert cli.main([]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in err and "LLMCHAT_DEBUG=1" in err and "Traceback" not in err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LLMCHAT_DEBUG", "1")
    monkeypatch.setattr(commands, "run", _raising(ZeroDivisionError("division by zero")))
    assert cli.main([]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and "test_cli.py" in err and err.rstrip().splitlines()[-2].startswith("llmchat: ")


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run", _raising(KeyboardInterrupt()))
    assert cli.main([]) == 130


def test_without_a_terminal_the_chat_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["smollm2"]) == 2
    assert "Not a terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parts", "stdin", "prompt"),
    [
        (("why",), "", "why"),
        (("why", "is", "it"), "", "why is it"),
        (("-",), "  from stdin\n", "from stdin"),
        (("explain", "this:", "-"), "x = 1\n", "explain this:\n\nx = 1"),
        (("-", "in short"), "x = 1\n", "x = 1\n\nin short"),
        (("a", "-"), "", "a"),
        (("-",), b"\xff caf\xc3\xa9", "\ufffd caf\u00e9"),
    ],
)
def test_prompts(parts: tuple[str, ...], stdin: str | bytes, prompt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = stdin if isinstance(stdin, bytes) else stdin.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert ask.read_prompt(parts) == prompt


@pytest.mark.parametrize("parts", [("-",), ("",), ("  ", " ")])
def test_an_empty_prompt(parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    with pytest.raises(errors.UsageError, match="empty"):
        ask.read_prompt(parts)


def _raising(error: BaseException):
    def run(argv: object) -> int:
        raise error

    return run
