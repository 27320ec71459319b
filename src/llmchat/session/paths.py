"""Where llmchat keeps its files.

Four folders by the system's conventions; ``LLMCHAT_HOME`` puts all of them under one folder, for a person who
wants everything in one place and for tests. A folder is made when it is asked for, readable by its owner only.
"""

from __future__ import annotations

import os
from pathlib import Path

from llmchat.errors import StorageError

__all__ = ["HOME_VARIABLE", "cache_dir", "config_dir", "data_dir", "log_dir", "make_private"]

HOME_VARIABLE = "LLMCHAT_HOME"
APP = "llmchat"


def cache_dir() -> Path:
    """Files that can be made again: model facts, the converted embedded model."""
    return _folder("cache")


def data_dir() -> Path:
    """Files that cannot be made again: the conversations."""
    return _folder("data")


def config_dir() -> Path:
    """The settings file and the person's themes."""
    return _folder("config")


def log_dir() -> Path:
    """The program's logs."""
    return _folder("log")


def make_private(folder: Path) -> Path:
    """Make ``folder`` and its parents where missing, ``folder`` itself for its owner only (0700).

    Raises StorageError when it cannot be made. A folder that exists keeps the permissions it has.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(
            "A folder cannot be made",
            f"{folder}: {error.strerror or error}.",
            f"Make the folder by hand, or set {HOME_VARIABLE} to a folder that can be written.",
        ) from error
    return folder


def _folder(kind: str) -> Path:
    home = os.environ.get(HOME_VARIABLE)
    if home:
        root = make_private(Path(home).expanduser().absolute())
        return make_private(root / kind)
    return make_private(_platform_folder(kind))


def _platform_folder(kind: str) -> Path:
    import platformdirs

    dirs = platformdirs.PlatformDirs(APP, appauthor=False)
    return Path(
        {
            "cache": dirs.user_cache_dir,
            "data": dirs.user_data_dir,
            "config": dirs.user_config_dir,
            "log": dirs.user_log_dir,
        }[kind]
    )
