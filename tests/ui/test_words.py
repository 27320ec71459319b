from __future__ import annotations

from msgspec.structs import replace

from llmchat.domain.memory import CPU, GIB, Account
from llmchat.session.state import Phase, Reply, Step
from llmchat.ui import words
from llmchat.ui.screens.load import progress_words

from . import states


def test_standing_of_an_offloaded_model() -> None:
    assert words.standing(states.offloaded()) == (
        "ram-offload: 36 of 80 layers in RAM; predicted 0.74 tok/s, measured 0.71"
    )


def test_standing_of_several_gpus_and_of_none() -> None:
    assert words.standing(states.ready()).startswith("multi-gpu: 80 layers over 4 GPUs; predicted 14.2 tok/s")
    assert "all 30 layers in RAM" in words.standing(states.ready(gpus=False))


def test_standing_before_the_first_reply() -> None:
    state = replace(states.ready(), measured_speed=None)
    assert words.standing(state).endswith("predicted 14.2 tok/s, not measured yet")


def test_standing_with_a_context_that_slows_it_down() -> None:
    state = replace(states.ready(), plan=replace(states.MULTI, full_tokens_per_second=1.3))
    assert words.standing(state).endswith("predicted 14.2 tok/s (1.3 when full), measured 14.1")


def test_measured_beside_planned() -> None:
    state = replace(states.offloaded(), measured_first=0.41, measured_first_tokens=300)
    assert words.measured(state) == [
        "0.71 tok/s, predicted 0.74; first token 0.41 s for 300 tokens, predicted 12.0 s for 512",
        "GPU 0 75.0 GiB (planned 77.0), RAM 62.6 GiB (planned 62.7); planned is with the KV cache full",
    ]
    grown = {CPU: replace(states.CPU_PLAN.devices[CPU], weights=GIB)}
    fresh = replace(states.ready(), measured_speed=None, measured=grown, plan=states.CPU_PLAN)
    assert words.measured(fresh) == [
        "its speed comes with the next reply of some length",
        "RAM 1.6 GiB (planned 0.85)",
    ]
    assert words.measured(replace(states.ready(), measured=None)) == []


def test_standing_without_a_model_says_what_to_do() -> None:
    assert "F3" in words.standing(states.idle())
    assert "F4" in words.standing(states.failed())


def test_room_until_the_context_is_full() -> None:
    assert words.room(states.ready()) == "about 8,000 more tokens until the context of 8,192 is full"


def test_room_until_a_gpu_is_full() -> None:
    """GPU 1 has 100 MiB left; 20 layers of 4,096 bytes a token are there: 1,280 tokens."""
    state = states.ready()
    assert state.memory is not None
    gpus = list(state.memory.gpus)
    full = replace(gpus[1].account, free=100 * 2**20)
    gpus[1] = replace(gpus[1], account=full)
    tight = replace(state, memory=replace(state.memory, gpus=tuple(gpus)))
    assert words.room(tight) == "about 1,200 more tokens until GPU 1 is full"


def test_a_cache_made_in_advance_fills_nothing() -> None:
    state = states.ready()
    assert state.memory is not None
    gpus = tuple(
        replace(gpu, account=replace(gpu.account, kv_cache=int(0.6 * GIB), free=0)) for gpu in state.memory.gpus
    )
    tight = replace(state, memory=replace(state.memory, gpus=gpus))
    assert "until the context" in words.room(tight)


def test_a_gpu_of_unknown_memory_is_not_called_full() -> None:
    state = states.ready()
    assert state.memory is not None
    gpus = (replace(state.memory.gpus[0], account=Account()), *state.memory.gpus[1:])
    assert "until the context" in words.room(replace(state, memory=replace(state.memory, gpus=gpus)))


def test_room_is_silent_while_nothing_is_loaded() -> None:
    assert words.room(states.failed()) == ""
    assert words.room(states.idle()) == ""


def test_offloaded_layers_keep_their_cache_on_the_main_device() -> None:
    per_token = words.kv_per_token(states.OFFLOAD, states.facts())
    assert per_token == {"cuda:0": 80 * 4096}


def test_activity() -> None:
    state = states.generating()
    assert words.activity(state) == "answering · 24 tokens"
    reading = Reply(turn_id="t", started=0.0, prompt_tokens=2000, prefill_done=512)
    assert words.activity(replace(state, reply=reading)) == "reading the prompt · 512 of 2,000"
    assert words.activity(states.loading()) == "Reading weights"
    assert words.activity(states.ready()) == ""
    assert words.activity(replace(states.idle(), engine="up")) == "engine starting"
    assert words.activity(replace(states.failed(), phase=Phase.FAILED)) == "no model loaded"


def test_numbers() -> None:
    assert [words.number(int(value * GIB)) for value in (0, 0.264, 3.14, 71.24, 503.4)] == [
        "0",
        "0.26",
        "3.1",
        "71.2",
        "503",
    ]
    assert words.size(None) == ""
    assert words.size(269_060_552) == "257 MiB"
    assert words.used_of(Account(weights=int(71.2 * GIB), free=int(8.8 * GIB))) == "71.2/80.0"
    assert [words.duration(s) for s in (8, 60, 200, 7500)] == ["8 s", "1 min", "3 min 20 s", "2 h 5 min"]


def test_progress_with_rate_and_time_left() -> None:
    step = Step(stage="Reading", done=40 * GIB, total=120 * GIB, unit="bytes", started=990.0)
    assert progress_words(step, 1000.0) == "40.0 of 120.0 GiB   4.00 GiB/s   20 s left"


def test_progress_of_unknown_length_and_of_none() -> None:
    assert progress_words(Step(stage="x", done=GIB, unit="bytes", started=990.0), 1000.0) == "1.0 GiB   102 MiB/s"
    assert progress_words(Step(stage="Planning"), 1000.0) == ""


def test_printable_takes_the_power_from_escape_sequences() -> None:
    assert words.printable("a\x1b[31mred\x1b[0m\x1b]0;title\x07\x07 b\tc\n\x9bd") == "ared b\tc\nd"


def test_machine() -> None:
    assert words.machine(states.FOUR_GPUS) == "4 x H100 80GB HBM3 · 320 GiB on GPUs · 471 of 503 GiB RAM free"
    assert words.machine(replace(states.NO_GPU, ram_limit="cgroup")).endswith("11.0 of 16.0 GiB RAM free (cgroup)")


def test_device_names() -> None:
    assert [words.device_name(d) for d in ("cuda:3", CPU, "disk")] == ["GPU 3", "RAM", "disk"]
