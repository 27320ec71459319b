"""A model as blocks that are never split over devices: what precedes the layers, the layers, what follows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.placing import kv_policy
from llmchat.domain.placing.fill import Space
from llmchat.domain.plan import Kv, Precision
from llmchat.domain.precision import weight_bytes


@dataclass(frozen=True)
class Block:
    names: tuple[str, ...]
    weights: int
    kv: int
    largest: int
    """Bytes of its largest module: what is in flight when the block is offloaded."""

    @property
    def size(self) -> int:
        return self.weights + self.kv

    @property
    def space(self) -> Space:
        return Space(self.weights, self.size)


@dataclass(frozen=True)
class Blocks:
    front: Block
    """Embeddings and all that runs before the layers, with what is tied to it (often the head)."""
    layers: tuple[Block, ...]
    """In execution order; layers that share tensors are one block at the place of the first."""
    back: Block
    """The last norm and the head."""

    @property
    def weights(self) -> int:
        return self.front.weights + self.back.weights + sum(layer.weights for layer in self.layers)

    @property
    def kv(self) -> int:
        return self.front.kv + self.back.kv + sum(layer.kv for layer in self.layers)

    @property
    def size(self) -> int:
        return self.weights + self.kv

    @property
    def space(self) -> Space:
        return Space(self.weights, self.size)

    @property
    def all(self) -> tuple[Block, ...]:
        return (self.front, *self.layers, self.back)


def split(model: ModelFacts, precision: Precision, context: int, policy: Kv) -> Blocks:
    """Blocks with their bytes under ``precision`` and with a KV cache for ``context`` tokens. What of that lies in
    RAM by ``policy`` is not in them."""
    groups = _groups(model)
    last = max((i for i, group in enumerate(groups) if _is_layers(group)), default=-1)

    def block(members: Iterable[Module]) -> Block:
        return _block(tuple(members), precision, context, model.hidden_size, policy)

    return Blocks(
        front=block(m for group in groups[: last + 1] if not _is_layers(group) for m in group),
        layers=tuple(block(group) for group in groups if _is_layers(group)),
        back=block(m for group in groups[last + 1 :] for m in group),
    )


def _groups(model: ModelFacts) -> list[list[Module]]:
    """Modules that must share a device, at the place of the first of them."""
    leader = {module.name: module.name for module in model.modules}
    for names in model.tied:
        joined = {leader[name] for name in names}
        first = leader[names[0]]
        leader = {name: first if at in joined else at for name, at in leader.items()}
    groups: dict[str, list[Module]] = {}
    for module in model.modules:
        groups.setdefault(leader[module.name], []).append(module)
    return list(groups.values())


def _is_layers(group: list[Module]) -> bool:
    return all(module.kind == "layer" for module in group)


def _block(modules: tuple[Module, ...], precision: Precision, context: int, hidden_size: int, policy: Kv) -> Block:
    sizes = [weight_bytes(module, precision, hidden_size) for module in modules]
    return Block(
        names=tuple(module.name for module in modules),
        weights=sum(sizes),
        kv=sum(kv_policy.with_layer(module.cache, context, policy) for module in modules),
        largest=max(sizes, default=0),
    )
