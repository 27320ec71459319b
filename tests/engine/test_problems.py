"""Exceptions of libraries as problems of people."""

from __future__ import annotations

import errno

import pytest
import torch
from safetensors import SafetensorError

from llmchat.engine.problems import readable
from llmchat.errors import Cancelled, InternalError, ModelError, OutOfMemory, StorageError


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has ..."),
        RuntimeError("std::bad_alloc: out_of_memory: CUDA error (failed to allocate 1610612736 bytes)"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1610612736 bytes."
        ),
        MemoryError(),
    ],
)
def test_out_of_memory_with_numbers_and_a_remedy(error: Exception) -> None:
    shown = readable(error)
    assert type(shown) is OutOfMemory
    assert "GiB" in shown.message
    assert ("1.50 GiB" in shown.message) == ("allocate 1" in str(error))
    assert "F4" in shown.remedy


def test_what_is_meant_for_people_stays() -> None:
    error = Cancelled("Stopped", "Stopped at your request.")
    assert readable(error) is error


def test_a_full_disk_names_the_file() -> None:
    shown = readable(OSError(errno.ENOSPC, "No space left on device", "/cache/model"))
    assert type(shown) is StorageError
    assert "/cache/model" in shown.message


def test_damaged_weights() -> None:
    assert type(readable(SafetensorError("header too large"))) is ModelError


def test_all_else_is_a_bug_with_its_traceback() -> None:
    try:
        raise KeyError("layer")
    except KeyError as caught:
        shown = readable(caught)
    assert type(shown) is InternalError
    assert "KeyError" in shown.message
    assert "test_problems.py" in shown.detail and "Traceback" not in shown.message
