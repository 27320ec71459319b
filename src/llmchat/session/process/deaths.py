"""Why an engine process ended, in words."""

from __future__ import annotations

import signal

from llmchat.errors import EngineDied, EngineKilled

RELOAD = "The conversation is kept: load the model again, or choose another strategy (F4)."


def died(code: int | None, log: str) -> EngineDied:
    """The error for an exit code as ``subprocess`` gives it: negative for a signal. ``log``: its last lines."""
    if code == -9:
        return EngineKilled(
            "The engine died",
            "The engine was killed (signal 9): by the system, most likely, because the RAM ran out.",
            "Choose a strategy that needs less RAM (F4), a shorter context, or close other programs.",
            detail=log,
        )
    if code is not None and code < 0:
        message = f"The engine crashed with {_signal(-code)}. That is a fault in a native library or a driver."
        remedy = RELOAD
    elif code == 0:
        message, remedy = "The engine ended without being asked to.", RELOAD
    else:
        message = f"The engine ended with exit code {code}{_last(log)}."
        remedy = RELOAD
    return EngineDied("The engine died", message, remedy, detail=log)


def hung(seconds: float, log: str) -> EngineDied:
    """The error for an engine that was killed after ``seconds`` without a sign of life."""
    message = f"The engine gave no sign of life for {seconds:.0f} s and was ended."
    return EngineDied("The engine hung", message, RELOAD, detail=log)


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _last(log: str) -> str:
    """The log's last line, which for an uncaught exception names it."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("[llmchat]")]
    return f": {lines[-1].strip()[:200].rstrip('.')}" if lines else ""
