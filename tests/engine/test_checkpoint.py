"""Damaged and foreign weights: a ModelError that names the file, before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from llmchat.engine.model import checkpoint
from llmchat.errors import ModelError


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "copy")


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def test_a_whole_checkpoint_gives_its_headers(tiny: Path) -> None:
    entries = checkpoint.check(tiny)
    index = json.loads((tiny / checkpoint.INDEX).read_text())
    assert set(entries) == set(index["weight_map"])
    assert (
        sum(end - start for start, end in (e["data_offsets"] for e in entries.values()))
        == (index["metadata"]["total_size"])
    )
    assert len(shards(tiny)) > 1


@pytest.mark.parametrize("keep", [4, 60, -1])
def test_a_truncated_file_is_named(copy: Path, keep: int) -> None:
    """Cut in the length field, in the header, in the data."""
    victim = shards(copy)[-1]
    victim.write_bytes(victim.read_bytes()[:keep])
    with pytest.raises(ModelError, match=victim.name):
        checkpoint.check(copy)


def test_a_missing_shard_is_named(copy: Path) -> None:
    victim = shards(copy)[0]
    victim.unlink()
    with pytest.raises(ModelError, match=victim.name):
        checkpoint.check(copy)


def test_something_else_than_safetensors_is_named(copy: Path) -> None:
    victim = shards(copy)[0]
    victim.write_bytes(b"<html>Not found</html>" * 100)
    with pytest.raises(ModelError, match=victim.name):
        checkpoint.check(copy)


def test_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        checkpoint.files(tmp_path)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no safetensors"):
        checkpoint.files(tmp_path)
