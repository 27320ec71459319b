"""What the command line hands to a session."""

from __future__ import annotations

from pathlib import Path

import msgspec

from llmchat.domain.chat import Sampling
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.plan import Prefer, Request


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything has a default: ``SessionOptions()`` is llmchat without options."""

    request: Request = Request()
    """``prefer``, and a ``comfortable`` left at its default, are taken from the settings."""
    prefer: Prefer | None = None
    """The person's own word, which counts over the settings; None: the settings'."""
    revision: str = ""
    """Of a hub model; empty: its default branch."""
    system: str = ""
    """System prompt of new chats; empty: the one of the settings."""
    sampling: Sampling | None = None
    """None: the settings'."""
    hardware: HardwareProfile | None = None
    """A given machine instead of the probed one."""
    fake: Path | None = None
    """Hardware JSON: run the fake engine of that machine."""
    autoload: bool = True
    """Load the best plan after ``open``; False stops at the ranking. The engine is then started only if it is
    needed for that."""
    keep: bool = True
    """False for a single question: no history, and neither account nor models are looked up."""
