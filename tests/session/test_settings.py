from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from llmchat.domain.chat import Sampling
from llmchat.errors import StorageError, UsageError
from llmchat.session.saved import settings
from llmchat.session.saved.settings import Settings
from llmchat.session.saved.settings_text import TEMPLATE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_no_file_is_the_defaults(file: Path) -> None:
    assert settings.load(file) == Settings()


def test_the_template_is_the_defaults_and_shows_every_key(file: Path) -> None:
    file.write_text(TEMPLATE)
    assert settings.load(file) == Settings()
    shown = tomllib.loads(_uncommented(TEMPLATE))
    assert set(shown) == set(Settings.__struct_fields__)
    assert set(shown["sampling"]) == set(Sampling.__struct_fields__)
    defaults = msgspec.to_builtins(Settings())
    for key in ("theme", "panel", "system", "prefer", "comfortable", "ascii", "reduced_motion"):
        assert shown[key] == defaults[key]


def _uncommented(text: str) -> str:
    return "\n".join(line[2:] if line.startswith("# ") and " = " in line else line for line in text.splitlines())


def test_all_keys_are_read(file: Path) -> None:
    file.write_text(
        'theme = "light"\npanel = "hidden"\nsystem = "Be brief."\nprefer = "speed"\ncomfortable = 5\n'
        'model_folders = ["~/m"]\nascii = true\nreduced_motion = true\n'
        '[sampling]\ntemperature = 0\nseed = 7\n[keys]\nstrategy = "f5"\n'
    )
    assert settings.load(file) == Settings(
        theme="light",
        panel="hidden",
        system="Be brief.",
        prefer="speed",
        comfortable=5.0,
        model_folders=("~/m",),
        ascii=True,
        reduced_motion=True,
        sampling=Sampling(temperature=0.0, seed=7),
        keys={"strategy": "f5"},
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("theme = \n", ["line 1"]),
        ('\nthem = "dark"\n', ["line 2", "them", "theme is near"]),
        ("panel = 'big'\n", ["line 1", "panel", "big"]),
        ("[sampling]\n# a\ntemprature = 1\n", ["line 3", "sampling.temprature", "sampling.temperature is near"]),
        ("[sampling]\n\ntop_k = 'x'\n", ["line 3", "sampling.top_k", "int"]),
        ("[sampling]\ntop_p = 1.5\n", ["line 2", "sampling.top_p", "1.5", "1"]),
        ("[sampling]\ntemperature = nan\n", ["line 2", "temperature"]),
        ("sampling = {seed = -1}\n", ["line 1", "sampling.seed", "-1"]),
        ("model_folders = 'a'\n", ["line 1", "model_folders", "array"]),
        ("model_folders = ['a', 1]\n", ["line 1", "model_folders"]),
        ("sampling = 3\n", ["line 1", "sampling"]),
        ("zzz = 1\n", ["line 1", "zzz", "theme"]),
        ("comfortable = 0\n", ["line 1", "comfortable"]),
        ("[keys]\nstrategy = 4\n", ["keys"]),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_key(file: Path, text: str, words: list[str]) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        settings.load(file)
    assert str(file) in caught.value.problem.message
    for word in words:
        assert word in caught.value.problem.message


def test_a_file_that_is_no_text(file: Path) -> None:
    file.write_bytes(b'theme = "\xff"')
    with pytest.raises(UsageError, match="UTF-8"):
        settings.load(file)


def test_saving_keeps_comments_order_and_what_is_not_changed(file: Path) -> None:
    file.write_text('# mine\ntheme = "dark"  # at night\ncomfortable = 4.0\n\n[keys]\n# important\nhelp = "f9"\n')
    settings.save({"theme": "light", "panel": "compact"}, file)
    text = file.read_text()
    assert '# mine\ntheme = "light"  # at night\n' in text
    assert '[keys]\n# important\nhelp = "f9"\n' in text
    assert settings.load(file) == Settings(theme="light", panel="compact", comfortable=4.0, keys={"help": "f9"})


def test_a_new_file_is_the_template_with_the_key_in_its_place(file: Path) -> None:
    settings.save({"panel": "hidden", "sampling": Sampling(temperature=0.0)}, file)
    lines = file.read_text().splitlines()
    assert lines[lines.index('panel = "hidden"') - 1].startswith("# The memory view")
    assert "temperature = 0.0" in lines[lines.index("[sampling]") :]
    assert settings.load(file) == Settings(panel="hidden", sampling=Sampling(temperature=0.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": Sampling(seed=3, max_tokens=9)},
        {"system": 'a "quoted"\nline \\ and ü'},
        {"model_folders": ("/a", "~/b")},
        {"keys": {"message.next": "j,down"}},
        {"ascii": True, "reduced_motion": True, "prefer": "quality", "comfortable": 3.5, "theme": "x"},
    ],
)
def test_what_is_saved_comes_back(file: Path, changes: dict[str, object]) -> None:
    settings.save(changes, file)
    assert settings.load(file) == Settings(**changes)


def test_none_takes_a_key_out(file: Path) -> None:
    settings.save({"sampling": Sampling(seed=3)}, file)
    settings.save({"sampling": Sampling()}, file)
    assert settings.load(file).sampling.seed is None
    settings.save({"theme": "light"}, file)
    settings.save({"theme": None}, file)
    assert settings.load(file) == Settings()


def test_a_wrong_value_is_not_written(file: Path) -> None:
    settings.save({"theme": "light"}, file)
    before = file.read_text()
    with pytest.raises(UsageError, match="panel"):
        settings.save({"panel": "big"}, file)
    assert file.read_text() == before


def test_a_broken_file_is_not_overwritten(file: Path) -> None:
    file.write_text("theme = = 1\n")
    with pytest.raises(UsageError, match=r"settings\.toml"):
        settings.save({"panel": "full"}, file)
    assert file.read_text() == "theme = = 1\n"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    with pytest.raises(StorageError, match="blocked"):
        settings.save({"panel": "full"}, tmp_path / "blocked" / "settings.toml")


def test_no_half_written_files_are_left(file: Path) -> None:
    settings.save({"theme": "light"}, file)
    assert [entry.name for entry in file.parent.iterdir()] == ["settings.toml"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('theme = "dark"\n')
    file.symlink_to(real)
    settings.save({"theme": "light"}, file)
    assert file.is_symlink()
    assert settings.load(real).theme == "light"
