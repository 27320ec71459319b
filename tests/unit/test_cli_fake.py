"""The commands from end to end, with the fake engine behind them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def start(home: Path, *arguments: str, stdin: str | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "llmchat.cli", *arguments],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LLMCHAT_HOME": str(home), "HF_HUB_OFFLINE": "1"},
        preexec_fn=_with_ctrl_c,
    )


def _with_ctrl_c() -> None:
    """A shell lets what it starts in the background ignore SIGINT, and so would the program under test."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[str], stdin: str | None = None) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(stdin, timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


def run(home: Path, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    return finish(start(home, *arguments, stdin=stdin), stdin)


def test_ask_puts_the_answer_on_stdout_and_the_rest_on_stderr(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "ask", "smollm2", "hello", "--fake-engine")
    assert code == 0, err
    assert out.strip() and out.endswith("\n")
    assert "reply: " in err and "tok/s" in err and "memory: " in err and "\x1b" not in err


def test_ask_reads_stdin_only_where_a_dash_stands(tmp_path: Path) -> None:
    words = " ".join(["longer"] * 400)
    _, _, short = run(tmp_path, "ask", "smollm2", "hello", "--fake-engine", stdin=words)
    _, _, long = run(tmp_path, "ask", "smollm2", "hello", "-", "--fake-engine", stdin=words)
    assert prompt_tokens(long) > prompt_tokens(short) + 200


def prompt_tokens(err: str) -> int:
    line = next(line for line in err.splitlines() if line.startswith("reply: "))
    return int(next(part for part in line.split(", ") if "in the prompt" in part).split()[0])


def test_ask_as_json(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "ask", "smollm2", "hello", "--json", "--max-tokens", "5", "--fake-engine")
    assert code == 0, err
    read = json.loads(out)
    assert read["tokens"] == 5 and read["reason"] == "length" and read["answer"]
    assert set(read["memory"]["measured"]) >= {"cpu"} or read["memory"]["measured"]


def test_ask_keeps_no_chat(tmp_path: Path) -> None:
    run(tmp_path, "ask", "smollm2", "a secret question", "--fake-engine")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"a secret question" in path.read_bytes() for path in files)


def test_ctrl_c_keeps_the_part_that_came(tmp_path: Path) -> None:
    process = start(tmp_path, "ask", "smollm2", "!long 2000", "--fake-engine")
    assert process.stdout is not None
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130, err
    assert first + out.rstrip("\n")
    assert "you stopped it" in err and "Traceback" not in err


def test_ctrl_c_while_the_model_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMCHAT_FAKE_LOAD_SECONDS", "60")
    process = start(tmp_path, "ask", "smollm2", "hello", "--fake-engine")
    end = time.monotonic() + 30
    while not any(tmp_path.rglob("*.log")) and time.monotonic() < end:  # written when the engine is started
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, "") and "Traceback" not in err


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    process = start(tmp_path, "ask", "smollm2", "!long 2000", "--fake-engine")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    try:
        assert process.wait(timeout=10) == 1
    finally:
        process.kill()
    with process.stderr:
        assert "Traceback" not in process.stderr.read()


def test_plan_ranks_on_the_made_up_machine(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "plan", "smollm2", "--json", "--fake-engine")
    assert code == 0, err
    read = json.loads(out)
    assert len(read["hardware"]["gpus"]) == 4
    assert read["best"] in read["proposals"]


def test_any_hub_id_will_do_and_nothing_is_fetched_or_kept(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "plan", "acme/llama-70b", "--json", "--fake-engine")
    assert code == 0, err
    assert json.loads(out)["model"]["parameters"] > 60e9
    assert not any(tmp_path.rglob("facts/*"))


@pytest.mark.parametrize("strategy", ["cpu", "ram-offload"])
def test_what_was_asked_for_is_what_is_planned(strategy: str, tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "plan", "smollm2", "--strategy", strategy, "--json", "--fake-engine")
    assert code == 0, err
    assert json.loads(out)["best"]["strategy"] == strategy


def test_doctor_knows_the_folders_and_the_machine(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "doctor", "--quick", "--json")
    assert code == 0, err
    read = json.loads(out)
    assert read["hardware"]["ram_total"] > 0 and read["engine"] is None
    assert all(str(tmp_path) in f["path"] for f in read["folders"] if f["purpose"] != "hub models")
