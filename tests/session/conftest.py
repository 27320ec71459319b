from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from session_kit import Kit

from llmchat.session.process import client


@pytest.fixture
async def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kit]:
    """A session that is not started yet; afterwards it is closed, and no engine may be left."""
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(client, "ENGINE", (sys.executable, str(Path(__file__).with_name("scripted_engine.py"))))
    made = Kit(tmp_path)
    yield made
    await made.session.close()
    assert made.leftovers() == []
