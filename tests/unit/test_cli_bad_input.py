"""What cannot be done is one clear message and exit code 2, from the program as people start it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from llmchat.domain.memory import GIB

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


Command = Callable[[str], tuple[str, ...]]
COMMANDS = (lambda model: ("plan", model), lambda model: ("ask", model, "hi"))
"""What a person types about a model."""
ONE_GPU = ("--fake-engine", str(Path(__file__).parents[1] / "data/hardware/rtx3090-x1.json"))


class Answer(BaseHTTPRequestHandler):
    """A hub that knows nobody and nothing: 401 with a token, 404 without."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") is not None
        self.send_response(401 if known else 404)
        if not known:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny checkpoint with one tensor: enough to be looked at."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    header = json.dumps({"x": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}}).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(128))
    return model


def llmchat(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "LLMCHAT_"))}
    return subprocess.run(
        [sys.executable, "-m", "llmchat.cli", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env={**clean, "LLMCHAT_HOME": str(home / "llmchat"), "HF_HOME": str(home / "hf"), **environment},
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that ended with 2 and printed nothing else."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("llmchat: ") and "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_model_id(command: Command, tmp_path: Path, hub: str) -> None:
    assert "knows no model nobody/nothing" in refused(
        llmchat(tmp_path, *command("nobody/nothing"), HF_ENDPOINT=hub)
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_token(command: Command, tmp_path: Path, hub: str) -> None:
    said = refused(llmchat(tmp_path, *command("nobody/nothing"), HF_ENDPOINT=hub, HF_TOKEN="hf_wrong"))
    assert "token" in said and "hf_wrong" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hub_that_is_not_there(command: Command, tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, *command("nobody/nothing"), HF_ENDPOINT="http://127.0.0.1:9"))
    assert "cannot be reached" in said and "network" in said


def test_a_hub_that_is_switched_off(tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, "plan", "nobody/nothing", HF_HUB_OFFLINE="1"))
    assert "offline" in said.lower()


def test_what_is_neither_folder_nor_id(tmp_path: Path) -> None:
    assert "missing is not a folder" in refused(llmchat(tmp_path, "plan", "./missing"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_without_config(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no config.json" in refused(llmchat(tmp_path, *command(str(tmp_path / "empty"))))


def test_a_truncated_weights_file_is_not_loaded_and_the_plan_says_so(tmp_path: Path, folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-64])
    said = refused(llmchat(tmp_path, "ask", str(folder), "Hello"))
    assert "model.safetensors" in said and "is cut off" in said and "download it again" in said
    planned = llmchat(tmp_path, "plan", str(folder))
    assert planned.returncode == 0 and "not known: weights that are whole" in planned.stdout
    assert "is cut off" in planned.stdout


def test_a_strategy_that_cannot_fit_says_by_how_much(tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({"ram_total": GIB, "ram_available": GIB // 8, "cores": 2}))
    done = llmchat(tmp_path, "plan", "smollm2", "--strategy", "cpu", "--fake-engine", str(machine))
    assert done.returncode == 2
    assert "GiB short in RAM" in done.stdout and "GiB short in RAM" in done.stderr


def test_what_cannot_fit_is_not_asked(tmp_path: Path) -> None:
    said = refused(
        llmchat(tmp_path, "ask", "smollm2", "hi", "--ram-budget", "1MiB", "--gpu-budget", "0=0", *ONE_GPU)
    )
    assert "short" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_context_beyond_the_models(command: Command, tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, *command("smollm2"), "--context", "100000000", "--fake-engine"))
    assert "context" in said.lower() and "100,000,000" in said.replace("100000000", "100,000,000")


def test_a_prompt_beyond_the_context(tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, "ask", "smollm2", "word " * 5000, "--context", "256", "--fake-engine"))
    assert "256" in said


@pytest.mark.smollm2
def test_a_prompt_beyond_the_context_of_a_real_model(tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, "ask", "smollm2", "word " * 600, "--context", "256"))
    assert "the context holds 256" in said and "Shorten it" in said


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    said = refused(llmchat(tmp_path, "plan", "smollm2", "--gpu-budget", "7=1GiB", "--fake-engine"))
    assert "7" in said


def test_broken_settings(tmp_path: Path) -> None:
    from_home = llmchat(tmp_path, "doctor", "--quick", "--json")
    folders = {f["purpose"]: f["path"] for f in json.loads(from_home.stdout)["folders"]}
    Path(folders["settings, themes"], "settings.toml").write_text('[sampling]\ntemperature = "hot"\n')
    said = refused(llmchat(tmp_path, "ask", "smollm2", "hi", "--seed", "1", "--fake-engine"))
    assert "settings.toml" in said and "temperature" in said


def test_a_token_that_the_hub_refuses_is_among_the_doctors_findings(tmp_path: Path, hub: str) -> None:
    done = llmchat(tmp_path, "doctor", "--quick", "--json", HF_ENDPOINT=hub, HF_TOKEN="hf_wrong")
    findings = json.loads(done.stdout)["findings"]
    assert any("hub token (HF_TOKEN in the environment)" in f["text"] and f["remedy"] for f in findings)
    assert "hf_wrong" not in done.stdout
