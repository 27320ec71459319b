"""An engine without a model, for tests of the session: does what the prompt and ``behaviour.json`` say.

``behaviour.json`` in ``LLMCHAT_HOME``: ``{"load": {"cpu": "oom"}}`` by plan: ``oom``, ``die``, ``slow``, ``note``,
``more`` (3 GiB in RAM, and a note where the plan has less).
Prompts: see ``REPLIES``; any other is echoed with the number of messages seen.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from llmchat import protocol
from llmchat.domain.chat import ReplyStats
from llmchat.domain.measured import gaps
from llmchat.domain.memory import Account, gib
from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.domain.plan import Plan
from llmchat.domain.words import at
from llmchat.errors import Problem
from llmchat.protocol import AnyCommand, AnyEvent

MIB = 2**20
HOME = Path(os.environ["LLMCHAT_HOME"])
commands: queue.Queue[AnyCommand] = queue.Queue()
stopped: set[int] = set()
lock = threading.Lock()


def send(event: AnyEvent) -> None:
    with lock:
        sys.stdout.buffer.write(protocol.encode(event))
        sys.stdout.buffer.flush()


def listen() -> None:
    for line in sys.stdin.buffer:
        command = protocol.decode_command(line)
        if isinstance(command, protocol.Stop):
            stopped.add(command.id)
        else:
            commands.put(command)
    os._exit(0)


def beat() -> None:
    while True:
        send(protocol.Heartbeat(held={"cpu": protocol.Held(weights=MIB, kv_cache=MIB, reserved=3 * MIB)}))
        time.sleep(0.1)


def fail(id: int, kind: str, title: str) -> None:
    send(protocol.Failed(id=id, problem=Problem(kind=kind, title=title, message=f"{title}, scripted.")))


def stopping(id: int, seconds: float) -> bool:
    """Work for so long; True when a Stop came meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if id in stopped:
            return True
        time.sleep(0.005)
    return False


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def facts(command: protocol.Inspect) -> ModelFacts:
    layer = LayerCache(per_token=1024)
    middle = tuple(
        Module(name=f"model.layers.{i}", kind="layer", bytes=8 * MIB, active_bytes=8 * MIB, cache=layer,
               linear_params=4 * MIB, linear_bytes=8 * MIB, largest_tensor=2 * MIB)
        for i in range(4)
    )  # fmt: skip
    edges = (
        Module(name="model.embed_tokens", kind="embedding", bytes=4 * MIB, active_bytes=1024),
        Module(name="model.norm", kind="norm", bytes=1024, active_bytes=1024),
        Module(name="lm_head", kind="head", bytes=4 * MIB, active_bytes=4 * MIB),
    )
    return ModelFacts(
        id=command.model_id, revision=command.revision, architecture="LlamaForCausalLM", dtype="bfloat16",
        parameters=20 * MIB, hidden_size=64, vocab_size=1000, max_context=4096,
        modules=(edges[0], *middle, *edges[1:]),
    )  # fmt: skip


def told(plan: Plan, measured: dict[str, Account]) -> Iterator[str]:
    for device in gaps(plan, measured):
        got, want = (held.weights + held.compute for held in (measured[device], plan.devices[device]))
        yield f"{gib(got, 2)} of weights and workspace are {at(device)}; {gib(want, 2)} were planned"


def load(command: protocol.Load) -> None:
    path = HOME / "behaviour.json"
    behaviour = json.loads(path.read_text()) if path.exists() else {}
    act = behaviour.get("load", {}).get(command.plan.label, "")
    send(protocol.Progress(id=command.id, stage="Reading weights", done=1, total=2, unit="tensors"))
    if act == "die":
        die()
    if act == "oom":
        fail(command.id, "OutOfMemory", "Out of memory")
        return
    if stopping(command.id, 30.0 if act == "slow" else 0.02):
        fail(command.id, "Cancelled", "Stopped")
        return
    notes = ("0.10 GiB of weights are in RAM; 0.04 GiB were planned",) if act == "note" else ()
    devices = {device: Account(weights=40 * MIB, kv_cache=MIB, compute=MIB) for device in command.plan.devices}
    if act == "more":
        devices = {"cpu": Account(weights=3 * 1024 * MIB, compute=MIB)}
        notes = tuple(told(command.plan, devices))
    send(protocol.Loaded(id=command.id, devices=devices, seconds=0.02, notes=notes))


def stats(tokens: int, reason: str = "end") -> ReplyStats:
    return ReplyStats(prompt_tokens=10, tokens=tokens, time_to_first_token=0.01, seconds=0.1, reason=reason)  # type: ignore[arg-type]


def tell(id: int, *words: str) -> int:
    for number, word in enumerate(words, 1):
        send(protocol.Delta(id=id, text=word, tokens=number))
    return len(words)


def slow(id: int) -> None:
    for number in range(1, 2000):
        send(protocol.Delta(id=id, text=f"{number} ", tokens=number))
        if stopping(id, 0.02):
            send(protocol.Finished(id=id, stats=stats(number, "stopped")))
            return


def deaf(id: int) -> None:
    tell(id, "part ")
    time.sleep(60)


def dead(id: int) -> None:
    tell(id, "the ", "part ")
    die()


def out_of_memory(id: int) -> None:
    tell(id, "the ", "part ")
    fail(id, "OutOfMemory", "Out of memory")


def refused(id: int) -> None:
    fail(id, "PromptError", "Prompt too long")


def read(reused: int) -> Callable[[int], None]:
    """A reply to a prompt of 300 tokens, ``reused`` of them from the cache."""

    def reply(id: int) -> None:
        tell(id, "ok")
        told = ReplyStats(
            prompt_tokens=300, reused_tokens=reused, tokens=1, time_to_first_token=0.4, seconds=0.0, reason="end"
        )
        send(protocol.Finished(id=id, stats=told))

    return reply


def many(id: int) -> None:
    send(protocol.Finished(id=id, stats=stats(tell(id, *["word "] * 3000))))


def thinking(id: int) -> None:
    send(protocol.Delta(id=id, text="hm", tokens=1, kind="thinking"))
    send(protocol.Delta(id=id, text="yes", tokens=2))
    send(protocol.Finished(id=id, stats=stats(2)))


REPLIES: dict[str, Callable[[int], None]] = {
    "slow": slow,
    "deaf": deaf,
    "die": dead,
    "die at once": lambda id: die(),
    "short": lambda id: send(protocol.Finished(id=id, stats=stats(tell(id, "ok")))),
    "oom": out_of_memory,
    "refuse": refused,
    "many": many,
    "read 300": read(0),
    "read 63": read(237),
    "think": thinking,
}


def generate(command: protocol.Generate) -> None:
    prompt = command.messages[-1].content
    notes = ("Completion mode.",) if prompt == "complete" else ()
    border = 2 if prompt == "long" else 0
    send(protocol.Started(id=command.id, prompt_tokens=10, seen_from=border, notes=notes))
    reply = REPLIES.get(prompt)
    if reply:
        reply(command.id)
        return
    roles = "".join(message.role[0] for message in command.messages)
    count = tell(command.id, f"You said {prompt!r} ", f"after {roles}.")
    send(protocol.Finished(id=command.id, stats=stats(count)))


def main() -> None:
    send(protocol.Hello(pid=os.getpid()))
    threading.Thread(target=listen, daemon=True).start()
    threading.Thread(target=beat, daemon=True).start()
    send(protocol.Ready(versions={}, gpus=()))
    while True:
        match commands.get():
            case protocol.Inspect() as command:
                send(protocol.Inspected(id=command.id, facts=facts(command)))
            case protocol.Calibrate(id=id):
                send(
                    protocol.Calibrated(
                        id=id, gpus=(), ram_bandwidth=2e10, disk_bandwidth=1e9, layer_overhead=1e-3
                    )
                )
            case protocol.Load() as command:
                load(command)
            case protocol.Generate() as command:
                generate(command)


if __name__ == "__main__":
    main()
