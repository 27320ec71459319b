"""Commands and events that cross the pipe: one JSON line each, tagged by ``type``.

A command carries an ``id``; every event it causes carries the same. A command ends with exactly one of its
results or ``Failed``. Events without an id are about the engine itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from llmchat.domain.chat import Message, ReplyStats, Sampling
from llmchat.domain.hardware import Gpu
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan
from llmchat.errors import Problem

MAX_LINE = 16 * 2**20
"""Bytes; asyncio's own limit of 64 KiB breaks long events."""


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    id: int


class Inspect(Command, frozen=True):
    """Build the model on ``meta`` and say what it is made of. Ends with Inspected."""

    path: str
    """A folder with at least a config.json."""
    model_id: str
    revision: str = ""


class Convert(Command, frozen=True):
    """Turn a GGUF file into a Hugging Face folder, complete or not at all. Progress; ends with Converted."""

    source: str
    target: str


class Calibrate(Command, frozen=True):
    """Measure bandwidths and products of matrices, a few seconds. Ends with Calibrated."""

    disk_file: str = ""
    """A large file of the model to time the disk with; empty skips that."""


class Load(Command, frozen=True):
    """Hold the model as planned, and prove it with one token. Progress; ends with Loaded."""

    path: str
    plan: Plan
    facts: ModelFacts


class Generate(Command, frozen=True):
    """Answer. Started, then Deltas; ends with Finished."""

    messages: tuple[Message, ...]
    sampling: Sampling
    continue_last: bool = False
    """The last message is the assistant's and is to be continued."""


class Stop(Command, frozen=True):
    """Stop the running command ``id`` as soon as possible: it ends with its result or Failed(Cancelled)."""


AnyCommand = Inspect | Convert | Calibrate | Load | Generate | Stop


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    pass


class Hello(Event, frozen=True):
    """The process runs; torch is not imported yet."""

    pid: int


class Ready(Event, frozen=True):
    """torch and transformers are imported; the GPUs as CUDA sees them."""

    versions: dict[str, str]
    """Package to version: torch, cuda, transformers, accelerate, bitsandbytes, rmm."""
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()
    """What is wrong, in words: ``bitsandbytes cannot run its kernels here: ...``."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine itself holds on one device, by its own count."""

    weights: int = 0
    kv_cache: int = 0
    reserved: int = 0
    """Bytes that torch's allocator has reserved (weights and KV cache included); on the CPU what the process
    holds: its heap, shared memory, and ``mapped``."""
    mapped: int = 0
    """Bytes of weights that are views into mapped files: the only pages of files that count as held."""
    context: int = 0
    """Bytes that a CUDA context takes on this GPU beside ``reserved``; 0 where that is not known."""


class Heartbeat(Event, frozen=True):
    """Twice a second, from a thread of its own."""

    held: dict[str, Held]


class Progress(Event, frozen=True):
    id: int
    stage: str
    """In words, for the screen: ``Reading weights``."""
    done: int
    total: int
    """0: not known."""
    unit: Literal["bytes", "tensors", "tokens", ""] = ""


class Inspected(Event, frozen=True):
    id: int
    facts: ModelFacts


class Converted(Event, frozen=True):
    id: int
    target: str


class Calibrated(Event, frozen=True):
    id: int
    gpus: tuple[Gpu, ...]
    """With the speeds filled in."""
    ram_bandwidth: float | None
    disk_bandwidth: float | None
    layer_overhead: float | None
    """Of the fastest GPU, or of the CPU where there is none."""
    cpu_layer_overhead: float | None = None
    ram_bandwidth_16bit: float | None = None
    cpu_matmul: float | None = None
    cpu_matmul_16bit: float | None = None
    time: float = 0.0
    """Unix seconds; 0: not known."""


class Loaded(Event, frozen=True):
    id: int
    devices: dict[str, Account]
    """Measured, by kind, after the proof token; ``other`` and ``free`` are left 0: the parent knows them."""
    seconds: float
    notes: tuple[str, ...] = ()
    """What came out otherwise than planned, in words."""


class Started(Event, frozen=True):
    """The prompt is built; prefill begins."""

    id: int
    prompt_tokens: int
    reused_tokens: int = 0
    seen_from: int = 0
    """Index of the first of the given messages (the system prompt aside) that the model sees: older ones no
    longer fit the context."""
    notes: tuple[str, ...] = ()
    """Said on screen: ``completion mode``, ``system prompt folded into the first message``."""


class Delta(Event, frozen=True):
    """Text since the last one; at most 30 a second."""

    id: int
    text: str
    tokens: int
    """Generated so far, this one included."""
    kind: Literal["answer", "thinking"] = "answer"


class Finished(Event, frozen=True):
    id: int
    stats: ReplyStats


class Failed(Event, frozen=True):
    id: int
    problem: Problem
    stats: ReplyStats | None = None
    """Of a reply that had begun."""


AnyEvent = (
    Hello
    | Ready
    | Heartbeat
    | Progress
    | Inspected
    | Converted
    | Calibrated
    | Loaded
    | Started
    | Delta
    | Finished
    | Failed
)

_encoder = msgspec.json.Encoder()
_commands: msgspec.json.Decoder[AnyCommand] = msgspec.json.Decoder(AnyCommand)
_events: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(message: AnyCommand | AnyEvent) -> bytes:
    """One JSON line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_command(line: bytes) -> AnyCommand:
    """Raises msgspec.DecodeError (ValidationError is one) for anything else than a command."""
    return _commands.decode(line)


def decode_event(line: bytes) -> AnyEvent:
    """Raises msgspec.DecodeError for anything else than an event."""
    return _events.decode(line)
