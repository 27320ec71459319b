"""What the commands print."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from llmchat.commands import ask, plan, plan_text, words
from llmchat.commands.findings import look
from llmchat.commands.options import DEFAULT_MACHINE
from llmchat.commands.stream import Progress, Stream
from llmchat.domain.chat import Chat, ReplyStats, StopReason, Turn
from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.domain.memory import GIB, Account
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Plan, Precision, Ranking, Refusal
from llmchat.session.state import Notice, Reply, SessionState, Step

MACHINE = msgspec.json.decode(DEFAULT_MACHINE.read_bytes(), type=HardwareProfile)
FACTS = ModelFacts(
    id="org/model",
    architecture="LlamaForCausalLM",
    dtype="bfloat16",
    parameters=8_030_000_000,
    hidden_size=4096,
    vocab_size=128256,
    max_context=131072,
    modules=(Module(name="model.layers.0", kind="layer", bytes=15 * GIB, active_bytes=15 * GIB),),
)
PLAN = Plan(
    strategy="ram-offload",
    runner="offloaded",
    precision=Precision.INT4,
    dtype="bfloat16",
    context=8192,
    placement={"model": "cuda:0"},
    main_device="cuda:0",
    devices={
        "cuda:0": Account(weights=10 * GIB, kv_cache=GIB, compute=GIB // 2, free=GIB),
        "cpu": Account(weights=5 * GIB),
    },
    tokens_per_second=12.34,
    time_to_first_token=0.5,
    because=("It fits.",),
)
REFUSAL = Refusal(
    strategy="single-gpu",
    precision=Precision.PUBLISHED,
    context=8192,
    reason="GPU 0 is too small.",
    device="cuda:0",
    missing=3 * GIB,
    remedies=("Use 8 bit.",),
)
OTHER = Refusal(strategy="managed", precision=Precision.PUBLISHED, context=8192, reason="There is no RMM.")
RANKING = Ranking(proposals=(PLAN, REFUSAL, OTHER), best=PLAN, why="The only one that fits.")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stats(reason: StopReason = "end", tokens: int = 41) -> ReplyStats:
    return ReplyStats(prompt_tokens=30, tokens=tokens, time_to_first_token=0.25, seconds=4.0, reason=reason)


def answered(**changes: object) -> tuple[SessionState, Turn]:
    turn = Turn(id="2", role="assistant", content="Paris.", created=0.0, stats=stats())
    state = SessionState(
        plan=PLAN,
        measured={"cuda:0": Account(weights=11 * GIB)},
        chat=Chat(id="c", created=0, updated=0, turns=(turn,)),
    )
    return msgspec.structs.replace(state, **changes), turn


# --- plan ----------------------------------------------------------------------------------------------------


def test_the_plan_table_says_what_fits_and_what_is_missing() -> None:
    lines = plan_text.describe(RANKING, FACTS, MACHINE).splitlines()
    head = next(line for line in lines if "tok/s" in line)
    best = next(line for line in lines if line.startswith("*"))
    assert best.split() == "* ram-offload · 4bit 12.3 12.3 0.5 11.5 5.0 best".split()  # noqa: SIM905
    for column in ("tok/s", "full", "GPU 0", "RAM"):
        end = head.index(column) + len(column)
        assert best[end - 1] != " " and best[end : end + 1] in (" ", ""), f"{column} is not aligned"
    assert "GPU 1" not in head, "nothing would lie there"
    assert "8.03 billion parameters, 15.0 GiB as published" in lines[0]
    why = lines.index("The only one that fits.")
    assert lines[why + 1] == "  - It fits."
    refused = [line.split(maxsplit=2) for line in lines[lines.index("Not possible:") + 2 :]]
    assert [row[2] for row in refused] == ["3.0 GiB short on GPU 0", "There is no RMM"]


def test_a_machine_without_gpus_has_no_gpu_columns() -> None:
    machine = HardwareProfile(ram_total=8 * GIB, ram_available=4 * GIB)
    text = plan_text.describe(RANKING, FACTS, machine)
    assert "  no GPU\n  RAM    4.0 GiB of 8.0 GiB free" in text
    head = next(line for line in text.splitlines() if "tok/s" in line)
    assert "GPU" not in head


@pytest.mark.parametrize(
    ("value", "text"), [(12.34, "12.3"), (1, "1.0"), (0.5, "0.5"), (0.0187, "0.019"), (0, "0.0")]
)
def test_slow_speeds_are_not_shown_as_nothing(value: float, text: str) -> None:
    assert words.number(value) == text


def test_the_plan_as_json_can_be_read_back() -> None:
    read = json.loads(words.pretty(plan.report(RANKING, FACTS, MACHINE)))
    assert [proposal["type"] for proposal in read["proposals"]] == ["plan", "refusal", "refusal"]
    assert msgspec.convert(read["best"], Plan) == PLAN
    assert msgspec.convert(read["hardware"], HardwareProfile) == MACHINE
    assert read["model"]["weight_bytes"] == 15 * GIB


# --- ask -----------------------------------------------------------------------------------------------------


def test_statistics_name_speed_reason_plan_and_memory() -> None:
    state, turn = answered(notices=(Notice(after=1, text="completion mode"),))
    assert words.statistics(state, turn).splitlines() == [
        "note: completion mode",
        "reply: 41 tokens at 10.0 tok/s, first after 0.25 s, 30 in the prompt, the model ended it",
        "plan: ram-offload · 4bit, context 8192, predicted 12.3 tok/s",
        "memory: GPU 0 planned 11.5 GiB, measured 11.0 GiB; RAM planned 5.0 GiB",
    ]


def test_statistics_have_measured_beside_predicted() -> None:
    slowed = msgspec.structs.replace(PLAN, full_tokens_per_second=1.25)
    state, turn = answered(plan=slowed, measured_speed=11.8, measured_first=0.41, measured_first_tokens=300)
    assert words.statistics(state, turn).splitlines()[1:3] == [
        "plan: ram-offload · 4bit, context 8192, predicted 12.3 tok/s (1.2 with the context full), measured 11.8",
        "first token: 0.41 s for 300 tokens, predicted 0.50 s for 512",
    ]
    read = json.loads(words.pretty(ask.report(state, turn)))
    assert read["measured"] == {"tokens_per_second": 11.8, "time_to_first_token": 0.41, "first_token_prompt": 300}
    assert read["plan"]["full_tokens_per_second"] == 1.25
    assert (read["plan"]["time_to_first_token"], read["plan"]["first_token_prompt"]) == (0.5, 512)


def test_a_single_token_has_no_speed() -> None:
    state, turn = answered()
    turn = msgspec.structs.replace(turn, stats=stats("length", tokens=1))
    assert "reply: 1 tokens, first" in words.statistics(state, turn)
    assert "the token limit was reached" in words.statistics(state, turn)


def test_the_answer_as_json() -> None:
    state, turn = answered()
    read = json.loads(words.pretty(ask.report(state, turn)))
    assert (read["answer"], read["tokens"], read["reason"], read["tokens_per_second"]) == (
        "Paris.",
        41,
        "end",
        10.0,
    )
    assert set(read["measured"].values()) == {None}
    assert read["plan"]["label"] == "ram-offload · 4bit"
    assert read["memory"]["planned"]["cuda:0"]["total"] == 23 * GIB // 2
    assert read["memory"]["measured"]["cuda:0"]["weights"] == 11 * GIB


def test_the_stream_prints_only_what_is_new_and_ends_the_line() -> None:
    out = io.StringIO()
    stream = Stream(out=out)
    for answer in ("Pa", "Paris", "Paris", "Paris."):
        stream.show(answer)
    assert out.getvalue() == "Paris."
    stream.end("Paris. Yes.")
    assert out.getvalue() == "Paris. Yes.\n"


def test_no_second_line_end() -> None:
    out = io.StringIO()
    Stream(out=out).end("Paris.\n")
    assert out.getvalue() == "Paris.\n"


def test_a_terminal_gets_no_control_characters_but_a_file_gets_every_byte() -> None:
    evil = "a\x1b]52;c;aGk=\x07b\x9b31mc\td\r\n"
    terminal, file = Terminal(), io.StringIO()
    Stream(out=terminal).end(evil)
    Stream(out=file).end(evil)
    assert terminal.getvalue() == "a]52;c;aGk=b31mc\td\n"
    assert file.getvalue() == evil


def test_json_keeps_the_stream_silent() -> None:
    out = io.StringIO()
    stream = Stream(quiet=True, out=out)
    stream.show("Paris")
    stream.end("Paris")
    assert out.getvalue() == ""


def test_progress_is_one_line_that_goes_away() -> None:
    err = Terminal()
    with Progress(err) as progress:
        progress.show(SessionState(step=Step(stage="Reading weights", done=3 * GIB, total=15 * GIB, unit="bytes")))
        assert err.getvalue() == "\r\x1b[KReading weights 3.0 GiB of 15.0 GiB"
        progress.show(SessionState(reply=Reply(turn_id="1", started=0.0)))
        assert err.getvalue().endswith("\r\x1b[KReading the prompt")
        progress.show(SessionState(reply=Reply(turn_id="1", started=0.0, answer="P")))
    assert err.getvalue().endswith("\r\x1b[K")


def test_no_progress_in_a_log_file() -> None:
    err = io.StringIO()
    with Progress(err) as progress:
        progress.show(SessionState(step=Step(stage="Reading weights")))
    assert err.getvalue() == ""


# --- doctor --------------------------------------------------------------------------------------------------


def machine(**changes: object) -> HardwareProfile:
    return msgspec.structs.replace(MACHINE, **changes)


def software(**changes: object) -> Software:
    return msgspec.structs.replace(MACHINE.software, **changes)


V100 = Gpu(index=0, name="Tesla V100", total=32 * GIB, free=31 * GIB, capability=(7, 0))


@pytest.mark.parametrize(
    ("changes", "severity", "said", "remedy"),
    [
        ({"software": software(torch="")}, "error", "torch is not installed", "pip install torch"),
        ({"software": software(torch_cuda=None)}, "warning", "CPU build", "cuda12 and cuda13"),
        ({"software": software(rmm=None)}, "hint", "no managed strategy", "extra cuda13"),
        ({"software": software(rmm=None, torch_cuda="12.8")}, "hint", "no managed strategy", "extra cuda12"),
        ({"software": software(bitsandbytes=None)}, "hint", "no 8-bit and 4-bit", "bitsandbytes"),
        ({"gpus": ()}, "warning", "lists no GPU", "nvidia-smi"),
        ({"gpus": (V100,)}, "warning", "older than what CUDA 13.0 supports", "cuda12"),
        (
            {"driver": "535.1", "driver_cuda": "12.2"},
            "warning",
            "CUDA up to 12.2; torch is built for 13.0",
            "cuda12",
        ),
        ({"pinned_limit": GIB // 2}, "hint", "About 0.5 GiB of RAM can be pinned", "WSL"),
        ({"disk_free": GIB}, "warning", "Only 1.0 GiB are free", "HF_HOME"),
        ({"ram_available": GIB, "ram_limit": "cgroup"}, "warning", "limit: cgroup", "container"),
    ],
)
def test_findings(changes: dict[str, object], severity: str, said: str, remedy: str) -> None:
    [finding] = look(machine(**changes), embedded=True, drivers_gpu=True)
    assert finding.severity == severity and said in finding.text and remedy in finding.remedy


def test_nothing_is_wrong_with_a_good_machine() -> None:
    assert look(MACHINE, embedded=True, drivers_gpu=True) == []


def test_a_v100_with_cuda_12_is_fine() -> None:
    profile = machine(gpus=(V100,), software=software(torch="2.10.0", torch_cuda="12.8"))
    assert look(profile, embedded=True, drivers_gpu=True) == []


def test_the_engines_warnings_and_the_small_model_are_named() -> None:
    findings = look(MACHINE, embedded=False, drivers_gpu=True, warnings=("bitsandbytes fails here",))
    assert [finding.severity for finding in findings] == ["hint", "warning"]
    assert "--no-deps" in findings[0].remedy and findings[1].text == "bitsandbytes fails here"


def test_a_table_is_aligned() -> None:
    assert words.table(["a", "n", "x"], [["long", "1", "end"], ["b", "100", "e"]], left=1).splitlines() == [
        "a       n  x",
        "long    1  end",
        "b     100  e",
    ]
