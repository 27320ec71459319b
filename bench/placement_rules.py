"""What a placement needs on each GPU, by rules that know nothing of any planner, and whether a model fits at all.

A placement maps names of modules to ``cuda:N``, ``cpu`` or ``disk``; the longest name that a tensor's name begins
with decides. Bytes on a GPU that takes part:

- the CUDA context, and the activations of a chunk of 512 tokens;
- every tensor that lies there, a tied one once for each device that uses it;
- the KV cache of the layers that it executes; layers in RAM or on disk are executed by the main GPU. Kept in 8 bit
  or in RAM, one layer's cache in 16 bit instead of that, while attention reads it;
- on the main GPU, if anything is offloaded, the largest offloaded module that tensors hang on: that is what
  accelerate's hooks have there at a time.

That is what it needs for sure: a GPU without these bytes runs out of memory. Whether a model would have fitted is
judged with what transformers needs for a moment, too. In attention a layer's KV cache grows by concatenation, so
old and new lie side by side, its keys and values are repeated for every query head, and there is a mask. While a
checkpoint with separate experts is loaded, the parts of a fused matrix lie beside the whole, but no KV cache yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, GIB, cuda
from llmchat.domain.plan import Kv

CUDA_CONTEXT = GIB // 2
CHUNK = 512
"""Tokens of a prompt that are read at a time."""
ITEM = 2
"""Bytes of a 16-bit number."""
HIDDEN_STATES = 4
"""Alive at once: the residual, what was normed, what attention gives, their sum."""
MLP_STATES = 3
"""Alive at once: gate, up, their product."""

EXPERTS_NDIM = 3
"""Of a fused matrix: experts x out x in."""

Placement = Mapping[str, str]


@dataclass(frozen=True)
class Shape:
    """A model as the rules see it, taken from the empty model and its config."""

    tensors: Mapping[str, int]
    """Full name to bytes; a tied tensor under each of its names."""
    tied: Mapping[str, str]
    """Name to the name whose tensor it shares."""
    layers: tuple[str, ...]
    """Names of the decoder layers, in order."""
    kv_per_token: int
    """Bytes of one layer."""
    kv_per_token_8bit: int
    """The same in 8 bit, with a 16-bit scale for every 32 numbers."""
    repeated_per_token: int
    """The same in 16 bit once keys and values are repeated for every query head; 0 where each has its own."""
    windows: tuple[int | None, ...]
    """By layer: the tokens that it keeps; None keeps all."""
    loading: int
    """Bytes beside the weights while they are loaded."""
    hidden: int
    intermediate: int
    """Of an MLP, or of the experts that are chosen together."""
    vocabulary: int

    @cached_property
    def weights(self) -> int:
        return sum(size for name, size in self.tensors.items() if name not in self.tied)

    @cached_property
    def by_layer(self) -> tuple[int, ...]:
        """Bytes of the weights of each layer."""
        return tuple(
            sum(size for name, size in self.tensors.items() if name.startswith(layer + "."))
            for layer in self.layers
        )

    def kv(self, context: int, policy: Kv = "device") -> tuple[int, ...]:
        """Bytes of each layer's KV cache on the GPU. A window stays as it is under every policy."""
        full = {"device": self.kv_per_token, "8bit": self.kv_per_token_8bit, "ram": 0}[policy]
        return tuple(
            self.kv_per_token * window if window and window < context else full * context
            for window in self.windows
        )

    def kv_read(self, context: int, policy: Kv) -> int:
        """Bytes in 16 bit of the layer that attention reads, where they are not kept so."""
        return 0 if policy == "device" or None not in self.windows else self.kv_per_token * context

    @property
    def activations(self) -> int:
        states = CHUNK * ITEM * (HIDDEN_STATES * self.hidden + MLP_STATES * self.intermediate)
        return states + 4 * self.vocabulary

    def attention(self, context: int) -> int:
        """Bytes beside the activations while a chunk is read with ``context`` tokens in the KV cache."""
        return max(self.kv(context)) + self.repeated_per_token * context + CHUNK * context * ITEM


@dataclass(frozen=True)
class Room:
    """Bytes left on a GPU, for weights and KV cache while it runs, and for weights while it loads."""

    running: int
    loading: int

    def without(self, weights: int, kv: int) -> Room:
        return Room(self.running - weights - kv, self.loading - weights)

    @property
    def valid(self) -> bool:
        return self.running >= 0 and self.loading >= 0


@dataclass(frozen=True)
class Judgement:
    needed: Mapping[str, int]
    """GPU to bytes."""
    off_gpus: int
    """Bytes of weights in RAM or on disk."""
    short: Mapping[str, int]
    """GPU to bytes more than are free there, for those that would run out of memory."""


def shape(model: Any, layers: Sequence[str]) -> Shape:
    """From a transformers model on ``meta`` whose attention keeps keys and values by head."""
    text = model.config.get_text_config(decoder=True)
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * len(layers)
    window = getattr(text, "sliding_window", None)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    queries, keys = text.num_attention_heads, text.num_key_value_heads
    expert = getattr(text, "moe_intermediate_size", None) or text.intermediate_size
    return Shape(
        tensors={name: tensor.numel() * tensor.element_size() for name, tensor in named},
        tied=dict(model.all_tied_weights_keys),
        layers=tuple(layers),
        kv_per_token=2 * keys * head * ITEM,
        kv_per_token_8bit=2 * keys * (head + head // 32 * ITEM),
        repeated_per_token=2 * queries * head * ITEM if queries > keys else 0,
        windows=tuple(window if kind == "sliding_attention" else None for kind in kinds),
        loading=max((t.numel() * t.element_size() for _, t in named if t.ndim == EXPERTS_NDIM), default=0),
        hidden=text.hidden_size,
        intermediate=expert * (getattr(text, "num_experts_per_tok", None) or 1),
        vocabulary=text.vocab_size,
    )


def judge(
    shape: Shape,
    machine: HardwareProfile,
    placement: Placement,
    context: int,
    main: str = "",
    kv: Kv = "device",
) -> Judgement:
    """``main``: the device that executes what is offloaded; empty: the first GPU that takes part, as accelerate
    chooses it. ``kv``: where the KV cache is kept, as in a Plan."""
    homes = {name: home(placement, name) for name in shape.tensors}
    gpus = {device for device in (main, *homes.values()) if device not in ("", CPU, DISK)}
    needed = dict.fromkeys(sorted(gpus), CUDA_CONTEXT + shape.activations + shape.kv_read(context, kv))
    main = main or next(iter(needed), CPU)
    off = 0
    moved: dict[str, int] = {}
    for name, size in shape.tensors.items():
        device = homes[name]
        if name in shape.tied and homes.get(shape.tied[name]) == device:
            continue
        if device in needed:
            needed[device] += size
        else:
            off += size if name not in shape.tied else 0
            module = name.rpartition(".")[0]
            moved[module] = moved.get(module, 0) + size
    for layer, size in zip(shape.layers, shape.kv(context, kv), strict=True):
        device = home(placement, layer)
        runs_on = device if device in needed else main
        if runs_on in needed:
            needed[runs_on] += size
    if main in needed:
        needed[main] += max(moved.values(), default=0)
    free = {cuda(gpu.index): gpu.free or 0 for gpu in machine.gpus}
    short = {device: count - free[device] for device, count in needed.items() if count > free[device]}
    return Judgement(needed, off, short)


def home(placement: Placement, name: str) -> str:
    """The device of a tensor or module. Raises KeyError for one that was not placed."""
    at = name
    while at and at not in placement:
        at = at.rpartition(".")[0]
    return placement[at]


def fits(shape: Shape, machine: HardwareProfile, context: int, attention: int, loading: int) -> bool:
    """Whether a search finds room for all weights and the KV cache on the GPUs: what lies before and what lies
    behind the layers on any two of them, then the layers, the largest first, each where the least remains.
    ``attention``: bytes that each GPU needs beyond the CUDA context and the activations; ``loading``: beside the
    weights alone."""
    free = [(gpu.free or 0) - CUDA_CONTEXT for gpu in machine.gpus]
    rooms = [
        Room(count - shape.activations - attention, count - loading)
        for count in free
        if count > max(shape.activations + attention, loading)
    ]
    back = sum(
        size for name, size in shape.tensors.items() if name.startswith("lm_head.") and name not in shape.tied
    )
    front = shape.weights - sum(shape.by_layer) - back
    layers = sorted(zip(shape.by_layer, shape.kv(context), strict=True), key=sum, reverse=True)
    if shape.weights + sum(shape.kv(context)) > sum(room.running for room in rooms):
        return False
    ends = product(range(len(rooms)), range(len(rooms)))
    return any(_packed(rooms, (front, first), (back, last), layers) for first, last in ends)


def _packed(
    rooms: Sequence[Room], front: tuple[int, int], back: tuple[int, int], layers: Sequence[tuple[int, int]]
) -> bool:
    """``front`` and ``back``: bytes and the number of a room. ``layers``: bytes of weights and of KV cache."""
    left = list(rooms)
    for size, number in (front, back):
        left[number] = left[number].without(size, 0)
        if not left[number].valid:
            return False
    for weights, kv in layers:
        able = [number for number, room in enumerate(left) if room.without(weights, kv).valid]
        if not able:
            return False
        best = min(able, key=lambda number: left[number].running)
        left[best] = left[best].without(weights, kv)
    return True
