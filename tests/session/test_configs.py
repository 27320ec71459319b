"""Planning for a config alone, and for a folder whose weights are not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session_kit import MACHINE, Kit

from llmchat.errors import ModelError
from llmchat.session.controller import Session
from llmchat.session.models import catalog, configs
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase, SessionState

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path / "home"))


def written(place: Path, content: object = LLAMA) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content if isinstance(content, str) else json.dumps(content))
    return place


def test_a_config_is_kept_under_its_model_s_name(tmp_path: Path) -> None:
    first = configs.keep(written(tmp_path / "Llama 70B" / "config.json"))
    second = configs.keep(written(tmp_path / "llama.json"))
    assert (first.name, second.name) == ("Llama-70B", "llama")
    assert configs.keep(tmp_path / "Llama 70B") == first
    assert json.loads((first / "config.json").read_text()) == LLAMA
    assert configs.keep(written(tmp_path / "llama.json", LLAMA | {"hidden_size": 1})) != second


def test_what_is_kept_is_resolved_as_a_config(tmp_path: Path) -> None:
    ref = catalog.resolve(str(configs.keep(written(tmp_path / "gated.json"))), "")
    assert (ref.kind, ref.title, ref.name, ref.present) == ("config", "gated", "gated", False)


@pytest.mark.parametrize("content", ["{", "[]", {"a": 1}, "version https://git-lfs.github.com/spec/v1"])
def test_what_is_no_config(content: object, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        configs.keep(written(tmp_path / "x.json", content))
    assert str(tmp_path / "x.json") in caught.value.message


def test_a_config_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.json"):
        configs.keep(tmp_path / "nowhere.json")


async def plan(model: Path) -> SessionState:
    session = Session(SessionOptions(hardware=MACHINE, autoload=False, keep=False))
    await session.start()
    session.open(str(model))
    await session.wait_ranking()
    await session.close()
    return session.state


async def test_a_config_is_planned_and_not_loaded(kit: Kit, tmp_path: Path) -> None:
    folder = configs.keep(written(tmp_path / "gated.json"))
    state = await plan(folder)
    assert state.ranking and state.ranking.best
    assert state.facts and state.facts.id == "gated"
    await kit.session.start()
    kit.session.open(str(folder))
    state = await kit.until(lambda s: s.problem)
    assert state.phase is Phase.FAILED and state.problem and "Only the config" in state.problem.title


async def test_a_folder_without_weights_is_planned_and_says_so(kit: Kit) -> None:
    (kit.folder / "model.safetensors").unlink()
    state = await plan(kit.folder)
    assert state.ranking and state.ranking.best
    assert state.facts and "weights that are whole" in state.facts.unknown[-1]
    await kit.session.start()
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.problem)
    assert state.phase is Phase.FAILED and state.problem and "safetensors" in state.problem.title
