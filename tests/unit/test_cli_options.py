"""What the command line understands, and what it says when it does not."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from llmchat.cli import main
from llmchat.commands import values
from llmchat.commands.options import DEFAULT_MACHINE, parse
from llmchat.commands.running import session_options
from llmchat.domain.chat import Sampling
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB
from llmchat.domain.plan import Precision, Request
from llmchat.errors import UsageError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10GiB", 10 * GIB),
        ("10 gib", 10 * GIB),
        ("1.5GiB", 3 * GIB // 2),
        ("10GB", 10**10),
        ("512MiB", 2**29),
        ("2TB", 2 * 10**12),
        ("0", 0),
        ("1073741824", GIB),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert values.size(text, "--ram-budget") == count


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "10G", "ten", "10GiBs", "1e9", "1,5GiB", "nan", "inf"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="--ram-budget"):
        values.size(text, "--ram-budget")


def test_budgets_per_gpu() -> None:
    assert values.gpu_budgets(["0=10GiB", "1=0, 2=1GB"]) == {0: 10 * GIB, 1: 0, 2: 10**9}


@pytest.mark.parametrize("text", ["10GiB", "=10GiB", "x=10GiB", "-1=10GiB", "0=", "0=ten", "0=1GiB,,"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="--gpu-budget"):
        values.gpu_budgets([text])


def test_a_gpu_named_twice() -> None:
    with pytest.raises(UsageError, match="GPU 0 has two"):
        values.gpu_budgets(["0=1GiB", "0=2GiB"])


def test_everything_at_once() -> None:
    line = (
        "ask smollm2 why - --strategy cpu --precision 4bit --context 4096 --gpu-budget 0=10GiB --ram-budget 8GiB "
        "--prefer speed --revision main --system Short. --max-tokens 9 --temperature 0 --top-p 0.5 --seed 0 --json"
    )
    options = parse(shlex.split(line))
    assert (options.command, options.model, options.prompt, options.json) == ("ask", "smollm2", ("why", "-"), True)
    assert options.request == Request(
        strategy="cpu",
        precision=Precision.INT4,
        context=4096,
        gpu_budget={0: 10 * GIB},
        ram_budget=8 * GIB,
    )
    assert (options.revision, options.system, options.prefer) == ("main", "Short.", "speed")
    drawn = options.sampling(Sampling(top_k=40))
    assert drawn == Sampling(top_k=40, max_tokens=9, temperature=0, top_p=0.5, seed=0)


def test_a_preference_is_known_to_be_the_person_s_own_word() -> None:
    assert parse([]).prefer is None
    assert session_options(parse(["--prefer", "balanced"])).prefer == "balanced"


def test_nothing_at_all() -> None:
    options = parse([])
    assert (options.command, options.model, options.request, options.fake) == ("chat", None, Request(), None)
    assert not options.draws


def test_a_default_value_that_was_given_still_counts_over_the_settings() -> None:
    options = parse(["--top-p", "1"])
    assert options.draws
    assert options.sampling(Sampling(top_p=0.1)).top_p == 1


def test_a_model_called_like_a_command() -> None:
    options = parse(["./ask"])
    assert (options.command, options.model) == ("chat", "./ask")


def test_a_command_after_options_is_explained() -> None:
    with pytest.raises(UsageError, match="command plan stands after options"):
        parse(["--context", "100", "plan"])


@pytest.mark.parametrize(
    ("argv", "model", "machine"),
    [
        (["--fake-engine"], None, "four-gpus.json"),
        (["--fake-engine", "llama"], "llama", "four-gpus.json"),
        (["llama", "--fake-engine", "{own}"], "llama", "own.json"),
        (["--fake-engine={own}", "llama"], "llama", "own.json"),
    ],
)
def test_the_fake_engine_takes_a_machine_or_its_own(
    argv: list[str], model: str | None, machine: str, tmp_path: Path
) -> None:
    own = tmp_path / "own.json"
    own.write_bytes(DEFAULT_MACHINE.read_bytes())
    options = parse([argument.replace("{own}", str(own)) for argument in argv])
    assert options.model == model
    assert options.fake and options.fake.name == machine


def test_the_packaged_machine_has_four_gpus_and_is_whole() -> None:
    machine = msgspec.json.decode(DEFAULT_MACHINE.read_bytes(), type=HardwareProfile)
    assert [gpu.index for gpu in machine.gpus] == [0, 1, 2, 3]
    assert all(
        gpu.free and gpu.free <= gpu.total and gpu.read_bandwidth and gpu.link_bandwidth for gpu in machine.gpus
    )
    assert machine.ram_available <= machine.ram_total


BAD = [
    (["--strategy", "ram-ofload"], "Did you mean ram-offload?"),
    (["--strategy", "zzz"], "Known: "),
    (["--precision", "4-bit"], "Did you mean 4bit?"),
    (["--prefer", "fast"], "Known: balanced, quality, speed"),
    (["--context", "0"], "--context: '0'"),
    (["--context", "8k"], "--context: '8k'"),
    (["--gpu-budget", "10GiB"], "0=10GiB"),
    (["--ram-budget", "lots"], "--ram-budget: 'lots'"),
    (["--temperature", "11"], "from 0 to 10"),
    (["--temperature", "nan"], "from 0 to 10"),
    (["--top-p", "1.1"], "to 1."),
    (["--top-p", "0"], "'0' is not a number"),
    (["--max-tokens", "-5"], "--max-tokens"),
    (["--seed", "1.5"], "--seed"),
    (["--fake-engine", "missing.json"], "missing.json: No such file"),
    (["--hardware", "missing.json"], "missing.json: No such file"),
    (["--colour", "red"], "Unrecognized arguments: --colour red"),
    (["--strategy"], "Argument --strategy: expected one argument"),
]


@pytest.mark.parametrize(("argv", "said"), BAD)
def test_a_bad_option_is_one_message_and_exit_code_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["plan", "smollm2"] if argv[0] == "--hardware" else ["ask", "smollm2", "hi"]
    assert main([*command, *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("llmchat: ") and said in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "said"), [(["ask"], "MODEL, PROMPT"), (["ask", "m"], "PROMPT"), (["plan"], "MODEL")]
)
def test_what_is_missing_is_named(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"ram_total": 1}', "ram_available"),
        ('{"ram_total": "8", "ram_available": 1}', "$.ram_total"),
        ('{"ram_total": 1, "ram_available": 1, "gpu": []}', "gpu"),
        ('{"ram_total": 1, "ram_available": 1, "gpus": [{"index": 0}]}', "$.gpus[0]"),
    ],
)
def test_a_machine_file_that_is_none(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.json"
    machine.write_text(text)
    assert main(["plan", "smollm2", "--hardware", str(machine)]) == 2
    err = capsys.readouterr().err
    assert said in err and str(machine) in err


@pytest.mark.parametrize("command", [[], ["ask"], ["plan"], ["doctor"]])
def test_help_has_examples_and_exit_codes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown and "exit codes:" in shown and "130" in shown


def test_help_names_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert ",".join(values.strategies()) in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from llmchat import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"llmchat {__version__}\n"
