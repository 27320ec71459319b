from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from llmchat.domain.chat import Chat, ReplyStats, Turn
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB, Account
from llmchat.domain.plan import Plan, Precision
from llmchat.errors import StorageError
from llmchat.session.saved import export
from llmchat.session.state import ModelRef, SessionState

STATS = ReplyStats(prompt_tokens=1234, tokens=21, time_to_first_token=0.51, seconds=2.0, reason="stopped")
CHAT = Chat(
    id="a",
    title="The | capital\x1b[31m",
    created=1_780_000_000.0,
    updated=1_780_000_000.0,
    system="Be brief.",
    turns=(
        Turn(id="1", role="user", content="Hello", created=0.0),
        Turn(
            id="2",
            role="assistant",
            content="Hi",
            thinking="They greet.",
            model="org/m",
            label="ram-offload · 4bit",
            stats=STATS,
            created=0.0,
        ),
    ),
)
PLAN = Plan(
    strategy="ram-offload",
    runner="offloaded",
    precision=Precision.INT4,
    dtype="bfloat16",
    context=8192,
    placement={"model": "cuda:0", "rest": "disk"},
    main_device="cuda:0",
    devices={"cuda:0": Account(weights=10 * GIB, compute=GIB), "cpu": Account(), "disk": Account(weights=2 * GIB)},
    tokens_per_second=3.14,
    time_to_first_token=1.0,
    quantized_share=0.97,
)
HARDWARE = HardwareProfile(
    gpus=tuple(Gpu(index=i, name="NVIDIA H100", total=80 * GIB, free=None) for i in range(4)),
    ram_total=503 * GIB,
    ram_available=400 * GIB,
    ram_limit="cgroup",
    cpu="EPYC",
    cores=64,
    disk_bandwidth=1.7e9,
)
STATE = SessionState(
    plan=PLAN,
    hardware=HARDWARE,
    model=ModelRef(kind="hub", id="org/m", revision="v2"),
    measured={"cuda:0": Account(weights=10 * GIB, compute=2 * GIB)},
    measured_speed=3.25,
)


def test_model_revision_strategy_hardware_and_speed_are_there() -> None:
    text = export.markdown(CHAT, STATE)
    for words in (
        "| Model | org/m, revision v2 |",
        "| Strategy | ram-offload |",
        "| Precision | 4bit, 97% of the parameters; computed in bfloat16 |",
        "| Memory, GPU 0 | planned 11.0 GiB, measured 12.0 GiB |",
        "| Memory, disk | planned 2.0 GiB |",
        "| Speed | predicted 3.1, measured 3.2 tokens/s |",
        "| GPUs | 4 × NVIDIA H100 (80 GiB) |",
        "| RAM | 503.0 GiB (cgroup) |",
        "| CPU | EPYC, 64 cores |",
        "| Disk | 1.7 GB/s |",
        "| Context | 8,192 tokens |",
        "## System prompt\n\nBe brief.",
        "## You\n\nHello",
        "## org/m, ram-offload · 4bit",
        "They greet.",
        "*21 tokens · 10.0 tokens/s · first token after 0.51 s · prompt of 1,234 tokens · stopped by hand*",
    ):
        assert words in text, words
    assert "Memory, RAM" not in text
    assert text.startswith("# The | capital[31m\n")
    assert "\x1b" not in text


def test_the_first_token_and_the_speed_with_the_context_full() -> None:
    slowed = replace(PLAN, full_tokens_per_second=0.5)
    text = export.markdown(CHAT, replace(STATE, plan=slowed, measured_first=0.41, measured_first_tokens=300))
    assert "| Speed | predicted 3.1, measured 3.2 tokens/s; predicted 0.5 with the context full |" in text
    assert "| First token | 0.41 s for 300 tokens, predicted 1.00 s for 512 |" in text
    assert "First token" not in export.markdown(CHAT, STATE)


def test_without_a_model_what_the_chat_knows() -> None:
    text = export.markdown(replace(CHAT, model="org/old", strategy="cpu"), SessionState())
    assert "| Model | org/old |" in text
    assert "| Strategy | cpu |" in text
    assert "Speed" not in text and "GPUs" not in text


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        ("```python\nprint(1)", "print(1)\n```"),
        ("````\n```\nx", "x\n````"),
        ("~~~\nx", "x\n~~~"),
        ("```\nx\n```", "x\n```"),
        ("```a`b", "```a`b"),
        ("text", "text"),
    ],
)
def test_an_open_code_block_does_not_swallow_the_next_message(content: str, ending: str) -> None:
    turns = (Turn(id="1", role="assistant", content=content, created=0.0), CHAT.turns[0])
    text = export.markdown(replace(CHAT, turns=turns), SessionState())
    assert f"{ending}\n\n## You" in text


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "chat.md"
    written = [export.write(path, text) for text in ("one", "two", "three")]
    assert [file.name for file in written] == ["chat.md", "chat-2.md", "chat-3.md"]
    assert [file.read_text() for file in written] == ["one", "two", "three"]


def test_names_that_a_file_cannot_have(tmp_path: Path) -> None:
    assert export.write(tmp_path / "a\x1b\nb.md", "x").name == "a b.md"
    long = export.write(tmp_path / ("ü" * 300 + ".md"), "x")
    assert long.name.endswith("ü.md") and long.read_text() == "x"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        export.write(tmp_path / "file" / "chat.md", "x")
