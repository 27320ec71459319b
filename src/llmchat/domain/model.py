"""What a model is made of, seen from memory. Built by the engine on ``meta``, kept as JSON by config hash."""

from __future__ import annotations

from typing import Literal

import msgspec

ModuleKind = Literal["embedding", "layer", "norm", "head", "other"]


class LayerCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """KV cache of one layer for a context of n tokens: ``constant + per_token * min(n, window)`` bytes."""

    per_token: int = 0
    window: int | None = None
    """Tokens kept by a sliding or chunked layer; None keeps all."""
    constant: int = 0
    """Bytes of a linear-attention or recurrent state."""
    per_token_8bit: int | None = None
    """``per_token`` as the engine stores it in 8 bit; the same where a layer stays as it is; None: not known."""

    def size(self, context: int) -> int:
        return self.constant + self.per_token * min(context, self.window or context)


class Module(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The unit of placement: never split over devices. Named as in the loaded model: ``model.layers.3``."""

    name: str
    kind: ModuleKind
    bytes: int
    """Parameters and buffers in the dtype they have in memory, as published. A tied tensor counts once, on the
    first module that holds it."""
    linear_params: int = 0
    """Parameters in the linear layers that bitsandbytes replaces (0 for heads and fused experts)."""
    linear_bytes: int = 0
    """The share of ``bytes`` that those parameters take as published."""
    active_bytes: int
    """Bytes read to decode one token: experts by the share that is chosen, an embedding's one row, a tied head
    the whole matrix."""
    largest_tensor: int = 0
    stored: int | None = None
    """Bytes it takes as a quantized checkpoint keeps it; None where ``bytes`` says it. Whether memory holds it so
    or expanded to ``bytes`` depends on the machine: see ``domain/prequantized.py``."""
    stored_active: int | None = None
    """``active_bytes`` as a quantized checkpoint keeps them; None where that is not known apart."""
    cache: LayerCache = LayerCache()


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    """Hub id, or the folder's name."""
    revision: str = ""
    architecture: str
    """Class name: ``LlamaForCausalLM``."""
    dtype: str
    """Of most weights in memory, as torch spells it: ``bfloat16``."""
    parameters: int
    hidden_size: int
    vocab_size: int
    attention_bytes: int | None = None
    """Of one token's keys and values in one layer once they are expanded for every query head (grouped queries,
    MLA): heads x (key size + value size) x bytes; None: taken as twice the hidden size."""
    max_context: int | None
    """Tokens the model was made for; None where the config does not say."""
    modules: tuple[Module, ...]
    """All of them, in the order in which a forward pass runs them."""
    tied: tuple[tuple[str, ...], ...] = ()
    """Module names that share a tensor and so must share a device."""
    has_chat_template: bool = True
    prequantized: str | None = None
    """The checkpoint's own quantization (``mxfp4``, ``gptq``); then bitsandbytes is not offered."""
    unknown: tuple[str, ...] = ()
    """What could not be found out, in words."""

    @property
    def layers(self) -> tuple[Module, ...]:
        return tuple(m for m in self.modules if m.kind == "layer")

    @property
    def weight_bytes(self) -> int:
        return sum(m.bytes for m in self.modules)

    def kv_bytes(self, context: int) -> int:
        """Bytes of the 16-bit KV cache of all layers at ``context`` tokens."""
        return sum(m.cache.size(context) for m in self.modules)
