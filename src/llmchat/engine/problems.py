"""Any exception as an error that a person can read: memory, disk, or honestly a bug."""

from __future__ import annotations

import errno
import re
import traceback

import psutil
import torch
from safetensors import SafetensorError

from llmchat.domain.memory import gib
from llmchat.engine.hardware import memory
from llmchat.errors import InternalError, LlmchatError, ModelError, OutOfMemory, StorageError

MEMORY_WORDS = ("out of memory", "std::bad_alloc", "bad_alloc", "can't allocate memory", "not enough memory")
"""In RuntimeErrors of CUDA, RMM and torch's CPU allocator."""
ASKED = re.compile(r"(?:tried|failed) to allocate ([\d.]+) (bytes|KiB|MiB|GiB)", re.IGNORECASE)
"""As CUDA's and the CPU's allocators of torch word it."""
UNITS = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def readable(error: BaseException) -> LlmchatError:
    """``error`` itself if it is meant for people, else the nearest error that is, with the traceback as detail."""
    if isinstance(error, LlmchatError):
        return error
    detail = "".join(traceback.format_exception(error))
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in text.lower() for words in MEMORY_WORDS)
    ):
        return out_of_memory(text, detail)
    if isinstance(error, SafetensorError):
        return ModelError(
            "Damaged weights", f"The weights cannot be read: {text}.", "Download the model again.", detail=detail
        )
    if isinstance(error, ImportError):
        return ModelError(
            "A package is missing",
            f"This model needs a package that is not installed: {text}",
            "Install it into llmchat's environment, or choose another model.",
            detail=detail,
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError("Disk full", disk_full(error), "Free some space, then try again.", detail=detail)
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return StorageError("No access", text + ".", "Check the rights of that folder.", detail=detail)
    return InternalError(
        "Something went wrong in the engine",
        f"{type(error).__name__}: {text or 'no message'}",
        "Try another strategy; the log (F12) has the details for a bug report.",
        detail=detail,
    )


def disk_full(error: OSError) -> str:
    where = error.filename or "the disk"
    return f"No space is left for writing {where}."


def out_of_memory(text: str, detail: str = "") -> OutOfMemory:
    """With what was asked for and what is free, as far as the message and the devices tell."""
    asked = _asked(text)
    parts = [f"{gib(asked, 2)} more were asked for" if asked else "More memory was asked for than there is"]
    if memory.cuda_in_use():
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            parts.append(f"GPU {index} has {gib(free, 2)} of {gib(total)} free")
    else:
        parts.append(f"{gib(psutil.virtual_memory().available, 2)} of RAM are available")
    return OutOfMemory(
        "Out of memory",
        "; ".join(parts) + ".",
        "Choose a smaller context, a lower precision, or a strategy that spreads the weights (F4).",
        detail=detail,
    )


def _asked(text: str) -> int | None:
    """Bytes of the allocation that failed, if the message tells."""
    match = ASKED.search(text)
    return int(float(match[1]) * UNITS[match[2].lower()]) if match else None
