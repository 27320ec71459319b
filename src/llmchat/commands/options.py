"""The grammar of the command line, and what it says: parsers, help, and the typed result."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from llmchat import __version__
from llmchat.commands import values
from llmchat.domain.chat import Sampling
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.plan import Prefer, Request
from llmchat.errors import UsageError

Command = Literal["chat", "ask", "plan", "doctor"]
SUBCOMMANDS = ("ask", "plan", "doctor")
DEFAULT_MACHINE = Path(__file__).with_name("four-gpus.json")
"""The machine of ``--fake-engine`` without a file."""

DRAWING = ("max_tokens", "temperature", "top_p", "seed")
"""Options about drawing tokens: fields of ``Sampling``."""

MODEL_HELP = "hub id (owner/name), folder, or smollm2 (the small model that can come with llmchat)"
EXITS = """\
exit codes:
  0    it worked
  1    it was possible and went wrong: out of memory, the engine died, disk full
  2    it cannot be done as asked: an option, the model, access, offline, no plan fits
  130  you stopped it

LLMCHAT_HOME puts cache, chats and settings under one folder; LLMCHAT_DEBUG=1 shows tracebacks."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, understood."""

    command: Command
    model: str | None = None
    prompt: tuple[str, ...] = ()
    """Words of the prompt; ``-`` stands for standard input."""
    request: Request = Request()
    prefer: Prefer | None = None
    """None: the settings'."""
    revision: str = ""
    system: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    config: Path | None = None
    """A config.json, or its folder, to plan for in place of a model."""
    hardware: HardwareProfile | None = None
    fake: Path | None = None
    json: bool = False
    quick: bool = False
    measure: bool = False

    @property
    def draws(self) -> bool:
        """Whether any option about drawing tokens was given."""
        return any(getattr(self, name) is not None for name in DRAWING)

    def sampling(self, base: Sampling) -> Sampling:
        """``base`` with what was given on the command line put in its place."""
        given = {name: getattr(self, name) for name in DRAWING if getattr(self, name) is not None}
        return msgspec.structs.replace(base, **given)


FIELDS = frozenset(Options.__struct_fields__)


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are UsageErrors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError("Wrong usage", f"{message[:1].upper()}{message[1:]}.", f"See {self.prog} --help.")


def parse(argv: Sequence[str]) -> Options:
    """Understand the command line. Raises UsageError; SystemExit after --help and --version."""
    arguments = _spell_out_fake(argv)
    command: Command = "chat"
    if arguments and arguments[0] in SUBCOMMANDS:
        command = arguments.pop(0)  # type: ignore[assignment]
    found = vars(_PARSERS[command]().parse_args(arguments))
    if command == "chat" and found["model"] in SUBCOMMANDS:
        raise UsageError(
            "Wrong usage",
            f"The command {found['model']} stands after options.",
            f"Write it first: llmchat {found['model']} ... (a model folder of that name is ./{found['model']}).",
        )
    if command == "plan":
        _one_model(found)
    if command == "doctor" and found["measure"] and found["quick"]:
        raise UsageError(
            "Wrong usage", "--quick starts no engine, and --measure needs one.", "Leave out one of the two."
        )
    return _options(command, found)


def _one_model(found: dict[str, Any]) -> None:
    """``plan`` is about a model or about a config."""
    if (found["model"] is None) == (found["config"] is None):
        raise UsageError(
            "Wrong usage",
            "Give either a MODEL or --config FILE.",
            "As in: llmchat plan smollm2, or llmchat plan --config config.json.",
        )
    if found["config"] is not None and found["fake"] is not None:
        raise UsageError(
            "Wrong usage",
            "The fake engine cannot read --config.",
            "Leave out --fake-engine; --hardware FILE.json plans for another machine.",
        )


def _options(command: Command, found: dict[str, Any]) -> Options:
    request = {
        name: found.pop(name)
        for name in ("context", "strategy", "precision", "kv", "gpus", "ram_budget")
        if found.get(name) is not None
    }
    budgets = values.gpu_budgets(found.pop("gpu_budget", None) or ())
    rest = {
        name: value for name, value in found.items() if value is not None and name in Options.__struct_fields__
    }
    if "prompt" in rest:
        rest["prompt"] = tuple(rest["prompt"])
    return Options(command=command, request=Request(gpu_budget=budgets, **request), **rest)


def _spell_out_fake(argv: Sequence[str]) -> list[str]:
    """``--fake-engine`` takes a file only when one ending in .json follows: else the default machine."""
    arguments = list(argv)
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--fake-engine":
            following = arguments[index + 1 : index + 2]
            own = bool(following) and following[0].endswith(".json")
            arguments[index : index + 1 + own] = [f"--fake-engine={following[0] if own else DEFAULT_MACHINE}"]
    return arguments


def _machine(text: str) -> Path:
    values.hardware(Path(text), "--fake-engine")
    return Path(text).resolve()


def _parser(prog: str, usage: str, description: str, examples: str) -> Parser:
    parser = Parser(
        prog=prog,
        usage=usage,
        description=description,
        epilog=f"examples:\n{examples}\n\n{EXITS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _add_holding(parser: Parser) -> None:
    """How the model is to be held. What is set here is never changed by the planner: it refuses instead."""
    group = parser.add_argument_group("how the model is held (what you set is never changed)")
    add = group.add_argument
    add("--strategy", metavar="NAME", type=values.strategy, help=f"one of: {', '.join(values.strategies())}")
    add("--precision", metavar="P", type=values.precision, help="published (as it is), 8bit or 4bit")
    add(
        "--context",
        metavar="TOKENS",
        type=partial(values.whole, option="--context"),
        help="room for the conversation (default: the model's, at most 8192)",
    )
    add(
        "--kv",
        metavar="WHERE",
        type=values.kv,
        help="the KV cache: device (with its layers), 8bit (there, in 8 bit) or ram (default: device if it fits)",
    )
    add(
        "--gpus",
        metavar="N,N",
        type=values.gpus,
        help="use only these GPUs, the first ones first, as 1,0",
    )
    add(
        "--gpu-budget",
        metavar="N=SIZE",
        action="append",
        help="most to use on GPU N, as 0=10GiB; may be repeated, 0=0 leaves a GPU out",
    )
    add(
        "--ram-budget",
        metavar="SIZE",
        type=partial(values.size, option="--ram-budget"),
        help="most RAM to use, as 64GiB",
    )
    add(
        "--prefer",
        metavar="RULE",
        type=values.prefer,
        help="balanced: best precision at reading speed (default); quality; speed",
    )
    add("--revision", metavar="REV", help="branch, tag or commit of a hub model")


def _add_talking(parser: Parser) -> None:
    group = parser.add_argument_group("the answer")
    add = group.add_argument
    add("--system", metavar="TEXT", help="system prompt")
    add(
        "--max-tokens",
        metavar="N",
        type=partial(values.whole, option="--max-tokens"),
        help="stop after N tokens (default: what is left of the context)",
    )
    add(
        "--temperature",
        metavar="T",
        type=partial(values.fraction, option="--temperature", least=0, most=10),
        help="0 takes the likeliest token each time; 1 is as trained (default: as the model's authors set it)",
    )
    add(
        "--top-p",
        metavar="P",
        type=partial(values.fraction, option="--top-p", least=1e-6, most=1),
        help="draw from the likeliest tokens that make up P, up to 1 (default: the authors')",
    )
    add("--seed", metavar="N", type=partial(values.whole, option="--seed", least=0), help="draw the same again")


def _add_fake(parser: Parser) -> None:
    parser.add_argument(
        "--fake-engine",
        dest="fake",
        metavar="[FILE.json]",
        type=_machine,
        help="no real model: a made-up machine (four GPUs, or the one of the file) and a made-up answer",
    )


def _chat() -> Parser:
    parser = _parser(
        "llmchat",
        "llmchat [MODEL] [options]\n       llmchat ask MODEL PROMPT [options]\n"
        "       llmchat plan MODEL [options]\n       llmchat doctor [options]",
        "Chat in the terminal with a language model, held over your GPUs, RAM and disk\n"
        "in the best way that fits; see where it lies in memory, and change it with F4.\n\n"
        "commands:\n"
        "  (none)  open the chat\n"
        "  ask     one answer on standard output, for scripts\n"
        "  plan    every way in which a model could be held here; loads nothing\n"
        "  doctor  this machine, and what is wrong with it\n\n"
        "`llmchat COMMAND --help` has the rest.",
        "  llmchat                                   choose a model on screen\n"
        "  llmchat smollm2                           the small model, no account needed\n"
        "  llmchat meta-llama/Llama-3.1-8B-Instruct --precision 4bit\n"
        "  llmchat ~/models/mine --strategy ram-offload --gpu-budget 0=10GiB\n"
        "  llmchat --fake-engine                     look around without a model\n"
        "  llmchat ./ask                             a folder that is called like a command",
    )
    parser.add_argument("--version", action="version", version=f"llmchat {__version__}", help="print it and exit")
    parser.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL_HELP}; nothing: choose on screen")
    _add_holding(parser)
    _add_talking(parser)
    _add_fake(parser)
    return parser


def _ask() -> Parser:
    parser = _parser(
        "llmchat ask",
        "llmchat ask MODEL PROMPT... [options]",
        "Answer once. The answer streams to standard output, progress and statistics go to\n"
        "standard error. Nothing is saved. Ctrl+C stops and keeps what came.",
        '  llmchat ask smollm2 "What is the capital of France?"\n'
        '  git diff | llmchat ask smollm2 "Write a commit message for this:" -\n'
        "  llmchat ask smollm2 - --json < question.txt | jq -r .answer",
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "prompt",
        nargs="+",
        metavar="PROMPT",
        help="what to ask; - stands for standard input, which is read only then",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, at the end")
    _add_holding(parser)
    _add_talking(parser)
    _add_fake(parser)
    return parser


def _plan() -> Parser:
    parser = _parser(
        "llmchat plan",
        "llmchat plan MODEL [options]\n       llmchat plan --config FILE [options]",
        "Every strategy at every precision: what fits, the memory it takes, how fast it should\n"
        "answer, and what is missing where it does not fit. Loads nothing; of a hub model only\n"
        "the small files are fetched.",
        "  llmchat plan meta-llama/Llama-3.1-70B-Instruct --context 32768\n"
        "  llmchat plan smollm2 --gpu-budget 0=8GiB --json | jq .best\n"
        "  llmchat plan smollm2 --hardware other-machine.json\n"
        "  llmchat plan --config downloads/config.json",
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="in place of MODEL: the config.json of a model that is gated or out of reach, or its folder",
    )
    parser.add_argument("--json", action="store_true", help="the whole ranking as one JSON object")
    parser.add_argument(
        "--hardware",
        metavar="FILE.json",
        type=lambda text: values.hardware(Path(text), "--hardware"),
        help='plan for another machine (made from the "hardware" of llmchat doctor --json)',
    )
    _add_holding(parser)
    _add_fake(parser)
    return parser


def _doctor() -> Parser:
    parser = _parser(
        "llmchat doctor",
        "llmchat doctor [options]",
        "What llmchat sees of this machine: GPUs, RAM, disk, packages, the hub token and the\n"
        "folders it uses; and what is wrong, with what to do about it. Exit code 1 when something\n"
        "stops llmchat from working.",
        "  llmchat doctor\n  llmchat doctor --measure\n  llmchat doctor --json > report.json",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="do not start the engine (saves some seconds)")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time the machine anew, in place of what was measured before (best while nothing else runs)",
    )
    return parser


_PARSERS: dict[Command, Callable[[], Parser]] = {"chat": _chat, "ask": _ask, "plan": _plan, "doctor": _doctor}
