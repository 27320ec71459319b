from __future__ import annotations

import stat
from pathlib import Path

import pytest

from llmchat.errors import StorageError
from llmchat.session import paths


def test_one_home_for_all_folders_readable_by_the_owner_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path / "home"))
    folders = [paths.cache_dir(), paths.data_dir(), paths.config_dir(), paths.log_dir()]
    assert len(set(folders)) == 4
    for folder in folders:
        assert folder.parent == tmp_path / "home"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_it_the_system_s_conventions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LLMCHAT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert paths.data_dir() == tmp_path / "share" / "llmchat"
    assert paths.data_dir().is_dir()


def test_a_file_in_the_way_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path / "home"))
    with pytest.raises(StorageError) as caught:
        paths.config_dir()
    assert str(tmp_path / "home") in caught.value.problem.message
    assert "LLMCHAT_HOME" in caught.value.problem.remedy
