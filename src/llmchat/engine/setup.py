"""How torch and its companions are set in every process of the engine."""

from __future__ import annotations

import logging

import torch


def prepare() -> None:
    """Call once, before anything is computed."""
    # With cuDNN's attention every new length of the KV cache took 70 ms more on an H200 (torch 2.11).
    torch.backends.cuda.enable_cudnn_sdp(False)
    # "inputs will be cast to float16", once for every layer and token in 8 bit: 140 KB of log for a short answer.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
