"""The channel alone: order, early stops, partial writes, a broken pipe."""

from __future__ import annotations

import io
import os
import threading

import pytest

from llmchat.engine.channel import Channel
from llmchat.engine.task import Task
from llmchat.errors import Cancelled
from llmchat.protocol import AnyEvent, Convert, Hello, Inspect, Progress, Stop, decode_event, encode


class Pipe:
    """The parent's ends of a channel."""

    def __init__(self) -> None:
        reading, self.commands = os.pipe()
        self.closed = threading.Event()
        self.written = io.BytesIO()
        self.channel = Channel(os.fdopen(reading, "rb"), self.written, self.closed.set)

    def write(self, *commands: Inspect | Convert | Stop) -> None:
        os.write(self.commands, b"".join(map(encode, commands)))

    def end(self) -> None:
        os.close(self.commands)
        assert self.closed.wait(5)


def inspect(id: int) -> Inspect:
    return Inspect(id=id, path="p", model_id="m")


def test_commands_come_in_order_and_end_with_the_pipe() -> None:
    pipe = Pipe()
    pipe.write(inspect(1), Convert(id=2, source="s", target="t"))
    pipe.end()
    assert [command.id for command in pipe.channel.commands()] == [1, 2]


def test_stop_reaches_a_running_and_a_waiting_task_and_no_other() -> None:
    pipe = Pipe()
    pipe.write(inspect(1), inspect(2), inspect(3), Stop(id=2), Stop(id=99))
    pipe.write(inspect(4))
    states = {}
    for command in pipe.channel.commands():
        if command.id == 4:
            os.close(pipe.commands)
            break
        if command.id == 1:  # all lines are read once the fourth is there
            wait_for(pipe, 4)
        states[command.id] = pipe.channel.task(command).cancelled
    assert states == {1: False, 2: True, 3: False}


def wait_for(pipe: Pipe, id: int) -> None:
    end = threading.Event()
    for _ in range(500):
        if id in pipe.channel._tasks:
            return
        end.wait(0.01)
    raise AssertionError(f"command {id} was not read")


def test_events_are_whole_lines_even_through_short_writes() -> None:
    class Short(io.RawIOBase):
        def __init__(self) -> None:
            self.taken = bytearray()

        def write(self, data: object) -> int:
            self.taken += bytes(data)[:3]  # type: ignore[call-overload]
            return min(3, len(data))  # type: ignore[arg-type]

    short = Short()
    reading, writing = os.pipe()
    channel = Channel(os.fdopen(reading, "rb"), short, lambda: None)  # type: ignore[arg-type]
    threads = [threading.Thread(target=lambda n=n: channel.send(Hello(pid=n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(writing)
    events = [decode_event(line) for line in bytes(short.taken).splitlines()]
    assert sorted(event.pid for event in events if isinstance(event, Hello)) == list(range(20))


def test_a_broken_pipe_closes() -> None:
    reading, commands = os.pipe()
    broken, writing = os.pipe()
    os.close(broken)
    closed = threading.Event()
    channel = Channel(os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0), closed.set)
    channel.send(Hello(pid=1))
    assert closed.is_set()
    os.close(commands)


def test_progress_is_thinned_but_stages_and_ends_are_not() -> None:
    events: list[AnyEvent] = []
    task = Task(3, events.append)
    for done in range(1001):
        task.progress("Reading", done, 1000, "bytes")
    task.progress("Writing")
    seen = [(event.stage, event.done) for event in events if isinstance(event, Progress)]
    assert seen[0] == ("Reading", 0)
    assert seen[-2:] == [("Reading", 1000), ("Writing", 0)]
    assert len(seen) < 20


def test_check_raises_once_cancelled() -> None:
    task = Task(1, lambda event: None)
    task.check()
    task.cancel()
    with pytest.raises(Cancelled):
        task.check()
