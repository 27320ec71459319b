"""What the model has read: its tokens, and the KV cache they left behind, kept from one reply to the next."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch
from transformers import cache_utils
from transformers.cache_utils import DynamicCache

from llmchat.domain.plan import Kv
from llmchat.engine.hardware.memory import cuda_in_use, device_name
from llmchat.engine.kv.cache import new_cache
from llmchat.engine.model.kvcache import cache_argument, tensors
from llmchat.errors import ModelError

ATTENTION = frozenset(
    {
        "DynamicLayer",
        "DynamicSlidingWindowLayer",
        "DynamicIndexedLayer",
        "DummyLayer",
        "GrowingLayer",
        "EightBitLayer",
        "RamLayer",
    }
)
RECURRENT = frozenset(
    {
        "LinearAttentionLayer",
        "LinearAttentionAndFullAttentionLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer",
    }
)
"""Cache layers of transformers, and ours, by kind; of others nothing is assumed."""
CONTINUING = frozenset(
    {
        "falcon_h1",
        "granitemoehybrid",
        "lfm2",
        "lfm2_moe",
        "mamba2",
        "olmo_hybrid",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
    }
)
"""Model types with recurrent layers that go on rightly when several tokens come after others. Measured with
transformers 5.24, and tested; bamba, jamba, mamba, recurrent_gemma forget their state there, without a word."""


class Context:
    """One sequence of tokens in a loaded model. After an exception from ``feed`` only ``clear`` is right."""

    def __init__(self, model: Any, device: torch.device, kv: Kv = "device", limit: int = 0) -> None:
        """``device``: where token ids go; the logits come out wherever the model's last module lies. ``kv``: how
        the KV cache is kept; ``limit``: tokens for which its buffers are made."""
        self._model, self._device, self._kv, self._limit = model, device, kv, limit
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = cache_argument(model)
        self._keeps_last = "logits_to_keep" in parameters
        kind = model.config.get_text_config(decoder=True).model_type
        self._continues = kind in CONTINUING and hasattr(DynamicCache, "is_recording_past")  # since 5.24
        self._tokens: list[int] = []
        self._cache = self._new_cache()

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def extends(self) -> bool:
        """Whether the cache can be fed in several pieces; if not, a prompt goes in at once, and anew each time."""
        kinds = {type(layer).__name__ for layer in self._cache.layers}
        return kinds <= ATTENTION or (kinds <= ATTENTION | RECURRENT and self._continues)

    def rewind(self, prompt: Sequence[int]) -> int:
        """Keep what is common with ``prompt``, at most all of it but one token; returns how many tokens that is.

        A cache that cannot be shortened (a filled sliding window, a recurrent state) is given up instead.
        """
        pairs = zip(self._tokens, prompt[:-1], strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if not common or not self.extends or not self._shorten(common):
            self.clear()
        return len(self._tokens)

    def feed(self, tokens: Sequence[int]) -> torch.Tensor:
        """Read ``tokens``; returns the logits after the last of them, shape (vocabulary,), float32.

        Raises ModelError for a model that leaves nothing in the cache: it would forget every token.
        """
        ids = torch.tensor([list(tokens)], dtype=torch.long, device=self._device)
        options: dict[str, Any] = {self._cache_argument: self._cache, "use_cache": True, "return_dict": True}
        if self._keeps_last:
            options["logits_to_keep"] = 1
        with torch.no_grad():
            logits = self._model(input_ids=ids, **options).logits
        if not self._tokens and not self._holds_something():
            raise ModelError(
                "Architecture not supported",
                f"{type(self._model).__name__} does not keep what it has read in transformers' KV cache.",
                "Choose another model.",
            )
        self._tokens += tokens
        return logits[0, -1].to(torch.float32, copy=True)  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Forget everything and give the memory back."""
        if not self._tokens and not self._holds_something():
            return
        self._tokens = []
        self._cache = self._new_cache()
        if cuda_in_use():
            torch.cuda.empty_cache()

    def bytes(self) -> dict[str, int]:
        """Bytes that the cache holds, by device; a view counts with all of its storage."""
        sizes: dict[str, int] = {}
        seen: set[tuple[str, int]] = set()
        for layer in list(self._cache.layers):
            for tensor in tensors(layer):
                storage, device = tensor.untyped_storage(), device_name(tensor.device)
                if (device, storage.data_ptr()) not in seen:
                    seen.add((device, storage.data_ptr()))
                    sizes[device] = sizes.get(device, 0) + storage.nbytes()
        return sizes

    def _holds_something(self) -> bool:
        return any(True for layer in self._cache.layers for _ in tensors(layer))

    def _new_cache(self) -> Any:
        return new_cache(self._model.config, self._kv, self._limit)

    def _shorten(self, length: int) -> bool:
        """Crop the cache to ``length`` tokens. False where it cannot be; then it is not to be used any more."""
        surplus = len(self._tokens) - length
        if surplus == 0:
            return True
        if not all(type(layer).__name__ in ATTENTION for layer in self._cache.layers):
            return False
        try:
            self._cache.crop(-surplus)
        except (RuntimeError, ValueError):
            return False
        self._tokens = self._tokens[:length]
        return all(self._length(layer) in (None, length) for layer in self._cache.layers)

    @staticmethod
    def _length(layer: Any) -> int | None:
        """Tokens that a layer remembers; None for one that keeps none of its own."""
        keeps = isinstance(layer, cache_utils.CacheLayerMixin) and layer.is_initialized
        return int(layer.get_seq_length()) if keeps else None
