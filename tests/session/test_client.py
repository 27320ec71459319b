"""The engine client against scripted engines over real pipes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from llmchat.errors import Cancelled, EngineDied, LlmchatError, ModelError
from llmchat.protocol import AnyEvent, Convert, Converted, Failed, Heartbeat, Hello, Inspect, Progress, Ready
from llmchat.session import paths
from llmchat.session.process import engine_log
from llmchat.session.process.client import EngineClient, Patience

QUICK = Patience(hanging=0.3, kill=0.8, importing=0.8, tick=0.05, leave=0.4)

PRELUDE = """
import json, os, signal, subprocess, sys, time
def say(type, **fields):
    sys.stdout.write(json.dumps({"type": type, **fields}) + "\\n"); sys.stdout.flush()
def hear():
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    return json.loads(line)
say("Hello", pid=os.getpid())
"""

READY = 'say("Ready", versions={}, gpus=[])\n'
ECHO = 'while True:\n    c = hear()\n    say("Converted", id=c["id"], target=c.get("target", ""))\n'


class Engines:
    """Starts scripted engines; ``events`` and ``deaths`` are what their clients told."""

    def __init__(self) -> None:
        self.clients: list[EngineClient] = []
        self.events: list[AnyEvent] = []
        self.deaths: list[EngineDied] = []
        self.hangs: list[bool] = []

    async def __call__(self, script: str, patience: Patience = QUICK, begin: str = READY) -> EngineClient:
        """``begin`` comes before the script: a signal to ignore, or nothing instead of Ready."""
        client = EngineClient(
            argv=(sys.executable, "-c", PRELUDE + begin + textwrap.dedent(script)),
            on_event=self.events.append,
            on_death=self.deaths.append,
            on_hang=self.hangs.append,
            patience=patience,
        )
        self.clients.append(client)
        await client.start()
        return client


@pytest.fixture
async def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engines]:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    made = Engines()
    yield made
    for client in made.clients:
        await client.close()
        assert client.pid is None or not psutil.pid_exists(client.pid)


def convert(target: str = "there") -> Convert:
    return Convert(id=0, source="here", target=target)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of other processes
            await asyncio.sleep(0.005)


async def test_a_command_gets_its_result_and_its_events(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        say("Progress", id=c["id"], stage="Reading", done=1, total=2)
        say("Converted", id=c["id"], target=c["target"])
        hear()
        """
    )
    seen: list[AnyEvent] = []
    result = await client.run(convert(), Converted, seen.append)
    assert result.target == "there"
    assert [type(event) for event in seen] == [Progress, Converted]
    assert [type(event) for event in engines.events] == [Hello, Ready]
    assert (await client.wait_ready()).versions == {}
    assert not engines.deaths


async def test_ids_are_given_by_the_client_and_results_find_their_command(engines: Engines) -> None:
    client = await engines(
        """
        first, second = hear(), hear()
        say("Converted", id=second["id"], target=second["target"])
        say("Converted", id=first["id"], target=first["target"])
        hear()
        """
    )
    one, two = await asyncio.gather(client.run(convert("1"), Converted), client.run(convert("2"), Converted))
    assert (one.target, two.target) == ("1", "2")


async def test_failed_is_raised_as_the_error_it_carries(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        say("Failed", id=c["id"], problem={"kind": "ModelError", "title": "T", "message": "M", "remedy": "R"})
        hear()
        """
    )
    seen: list[AnyEvent] = []
    with pytest.raises(ModelError) as raised:
        await client.run(convert(), Converted, seen.append)
    assert (raised.value.title, raised.value.message, raised.value.remedy) == ("T", "M", "R")
    assert isinstance(seen[-1], Failed)


async def test_cancelling_the_wait_stops_the_command(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        say("Progress", id=c["id"], stage="Working", done=0, total=0)
        s = hear()
        say("Heartbeat", held={})
        assert s["type"] == "Stop" and s["id"] == c["id"]
        hear()
        """
    )
    begun = asyncio.Event()
    task = asyncio.create_task(client.run(convert(), Converted, lambda _: begun.set()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: any(isinstance(event, Heartbeat) for event in engines.events))


async def test_events_of_ended_commands_are_dropped(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        say("Converted", id=c["id"], target="1")
        say("Progress", id=c["id"], stage="late", done=0, total=0)
        say("Converted", id=c["id"], target="again")
        say("Converted", id=99, target="nobody's")
        c = hear()
        say("Converted", id=c["id"], target="2")
        hear()
        """
    )
    seen: list[AnyEvent] = []
    await client.run(convert(), Converted, seen.append)
    assert (await client.run(convert(), Converted)).target == "2"
    assert client.stale == 3
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "RAM ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("sys.exit(0)", "without being asked"),
        ("raise RuntimeError('no such device')", "exit code 1: RuntimeError: no such device"),
    ],
)
async def test_death_is_explained_to_every_waiting_command(engines: Engines, ending: str, words: str) -> None:
    client = await engines(f"hear(); hear()\nprint('last words', file=sys.stderr, flush=True)\n{ending}\n")
    results = await asyncio.gather(
        client.run(convert(), Converted), client.run(convert(), Converted), return_exceptions=True
    )
    for error in results:
        assert isinstance(error, EngineDied)
        assert words in error.message
        assert "last words" in error.detail
    assert len(engines.deaths) == 1
    assert not client.alive
    with pytest.raises(EngineDied):
        await client.run(convert(), Converted)


async def test_kill_from_outside_is_seen_at_once(engines: Engines) -> None:
    client = await engines(ECHO, Patience())
    await client.wait_ready()
    assert client.pid
    os.kill(client.pid, signal.SIGKILL)
    async with asyncio.timeout(2):
        await until(lambda: engines.deaths)
    assert "signal 9" in engines.deaths[0].message


async def test_death_before_ready_reaches_wait_ready(engines: Engines) -> None:
    client = await engines("sys.exit(3)", begin="")
    with pytest.raises(EngineDied, match="exit code 3"):
        await client.wait_ready()


async def test_a_program_that_is_not_there(engines: Engines, tmp_path: Path) -> None:
    client = EngineClient(argv=(str(tmp_path / "nowhere"),))
    with pytest.raises(EngineDied, match="No such file"):
        await client.start()
    with pytest.raises(EngineDied):
        client.submit(convert())
    await client.close()


async def test_garbage_half_lines_and_endless_lines_are_survived(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        out = sys.stdout.buffer
        out.write(b"hello from a library\\n\\xff\\xfe\\x00\\n{\\n[1,2]\\nnull\\n\\n")
        out.write(b'{"type": "Nonsense"}\\n{"type": "Progress", "id": "one"}\\n')
        out.write(b"x" * (17 * 2**20) + b"\\n")
        half = json.dumps({"type": "Converted", "id": c["id"], "target": "whole"}).encode()
        out.write(half[:10]); out.flush(); time.sleep(0.05)
        out.write(half[10:] + b"\\n"); out.flush()
        hear()
        """,
        Patience(),
    )
    assert (await client.run(convert(), Converted)).target == "whole"
    assert client.garbage >= 8
    assert "not an event" in client.log_tail()


async def test_a_half_line_at_the_end_is_no_event(engines: Engines) -> None:
    client = await engines('c = hear()\nsys.stdout.write(\'{"type": "Converted", "id": 1, "tar\')')
    with pytest.raises(EngineDied):
        await client.run(convert(), Converted)
    assert client.garbage == 1


async def test_a_flood_does_not_starve_the_loop(engines: Engines) -> None:
    client = await engines(
        """
        c = hear()
        line = json.dumps({"type": "Heartbeat", "held": {}}) + "\\n"
        for _ in range(300):
            sys.stdout.write(line * 100)
        say("Converted", id=c["id"], target="after")
        hear()
        """,
        Patience(),
    )
    worst, over = 0.0, asyncio.Event()

    async def clock() -> None:
        nonlocal worst
        now = asyncio.get_running_loop().time
        while not over.is_set():
            before = now()
            await asyncio.sleep(0.005)
            worst = max(worst, now() - before)

    ticking = asyncio.create_task(clock())
    assert (await client.run(convert(), Converted)).target == "after"
    over.set()
    await ticking
    assert sum(isinstance(event, Heartbeat) for event in engines.events) == 30_000
    assert worst < 0.25


async def test_a_handler_that_raises_does_not_deafen_the_client(engines: Engines) -> None:
    client = await engines(ECHO, Patience())

    def broken(_: AnyEvent) -> None:
        raise ValueError("a bug")

    assert (await client.run(convert("1"), Converted, broken)).target == "1"
    assert (await client.run(convert("2"), Converted)).target == "2"
    assert "ValueError: a bug" in client.log_tail()


async def test_hanging_is_told_then_ended(engines: Engines) -> None:
    client = await engines("hear()\ntime.sleep(60)\n")
    with pytest.raises(EngineDied) as raised:
        await client.run(convert(), Converted)
    assert raised.value.title == "The engine hung"
    assert engines.hangs == [True]


async def test_hanging_may_pass(engines: Engines) -> None:
    patience = Patience(hanging=0.2, kill=30, importing=30, tick=0.05, leave=0.4)
    client = await engines(
        'c = hear()\ntime.sleep(0.8)\nsay("Converted", id=c["id"], target="late")\nhear()\n', patience
    )
    assert (await client.run(convert(), Converted)).target == "late"
    assert engines.hangs == [True, False]
    assert not client.hanging


async def test_an_idle_engine_may_be_quiet(engines: Engines) -> None:
    client = await engines(ECHO)
    await client.wait_ready()
    await asyncio.sleep(QUICK.kill + 0.3)
    assert client.alive
    assert (await client.run(convert(), Converted)).target == "there"
    assert engines.hangs == []


async def test_a_stopped_process_is_killed(engines: Engines) -> None:
    client = await engines("c = hear()\nos.kill(os.getpid(), signal.SIGSTOP)\n")
    with pytest.raises(EngineDied, match="no sign of life"):
        await client.run(convert(), Converted)


async def test_kill_of_a_hanging_engine_says_so(engines: Engines) -> None:
    client = await engines("hear()\ntime.sleep(60)\n", Patience(tick=0.05))
    running = client.submit(convert())
    await client.wait_ready()
    client.kill()
    with pytest.raises(EngineDied, match="no sign of life"):
        await running.result(Converted)


async def test_close_ends_a_willing_engine_gently(engines: Engines) -> None:
    client = await engines(ECHO, Patience())
    await client.wait_ready()
    waiting = asyncio.create_task(client.run(convert(), Converted))
    await waiting
    begun = asyncio.get_running_loop().time()
    await client.close()
    assert asyncio.get_running_loop().time() - begun < 1.5
    assert not engines.deaths
    with pytest.raises(Cancelled):
        client.submit(convert())


@pytest.mark.parametrize("stubborn", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
async def test_close_ends_a_stubborn_engine(engines: Engines, stubborn: str) -> None:
    client = await engines("time.sleep(60)", begin=f"{stubborn}\n{READY}")
    await client.wait_ready()
    running = client.submit(convert())
    await client.close()
    assert client.pid and not psutil.pid_exists(client.pid)
    with pytest.raises(Cancelled):
        await running.result(Converted)


async def test_close_survives_its_caller(engines: Engines) -> None:
    client = await engines("time.sleep(60)\n")
    await client.wait_ready()
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await until(lambda: client.pid and not psutil.pid_exists(client.pid))


async def test_children_of_the_engine_end_with_it(engines: Engines) -> None:
    client = await engines(
        """
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        c = hear()
        say("Converted", id=c["id"], target=str(child.pid))
        sys.exit(4)
        """
    )
    child = int((await client.run(convert(), Converted)).target)
    await until(lambda: engines.deaths)
    await until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    assert "exit code 4" in engines.deaths[0].message


async def test_no_zombie_after_many(engines: Engines) -> None:
    for _ in range(5):
        client = await engines(ECHO, Patience())
        await client.wait_ready()
        await client.close()
    mine = psutil.Process().children(recursive=True)
    pids = {client.pid for client in engines.clients}
    assert not [process for process in mine if process.pid in pids]


async def test_the_engine_gets_no_token(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    client = await engines(
        """
        c = hear()
        say("Converted", id=c["id"], target=f"{os.environ.get('HF_TOKEN')} {os.environ['HF_HUB_OFFLINE']}")
        hear()
        """
    )
    assert (await client.run(convert(), Converted)).target == "None 1"
    assert client.pid
    assert "hf_secret" not in " ".join(psutil.Process(client.pid).cmdline())


async def test_logs_are_private_and_few(engines: Engines) -> None:
    for _ in range(engine_log.KEEP + 3):
        client = await engines(ECHO, Patience())
        await client.close()
    logs = sorted(paths.log_dir().glob("engine-*.log"))
    assert len(logs) == engine_log.KEEP
    assert all(stat.S_IMODE(log.stat().st_mode) == 0o600 for log in logs)


async def test_a_flood_into_the_log_is_cut(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "MAX_BYTES", 100_000)
    client = await engines("sys.stderr.write('noise\\n' * 50_000); sys.stderr.flush()\nhear()\n")
    await until(lambda: "older lines were dropped" in client.log_tail())
    assert client._log is not None and client._log.path.stat().st_size < 100_000


async def test_a_wrong_kind_of_result_is_our_bug(engines: Engines) -> None:
    client = await engines(ECHO, Patience())
    command = Inspect(id=0, path="", model_id="")
    with pytest.raises(LlmchatError, match="Converted instead of"):
        await client.run(command, Failed)
