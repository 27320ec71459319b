"""The embedded model through every runner on the CPU: what plain transformers answers, word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchat.domain.chat import Message, Sampling
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Precision
from llmchat.engine.load import load
from llmchat.engine.model.inspect import inspect
from llmchat.engine.reply.generate import Generator
from llmchat.engine.task import Task
from llmchat.protocol import AnyEvent, Delta, Generate, Load

from .conftest import MakePlan
from .test_runners import QUANTIZATION

pytestmark = pytest.mark.smollm2

QUESTION = "What is the capital of France?"
TOKENS = 12


@pytest.fixture(scope="module")
def facts(smollm2: Path) -> ModelFacts:
    return inspect(smollm2, "smollm2")


@pytest.fixture(scope="module")
def plain(smollm2: Path) -> Callable[[Precision], str]:
    """Precision to the greedy answer of ``model.generate``."""
    answers: dict[Precision, str] = {}

    def answer(precision: Precision) -> str:
        if precision not in answers:
            tokenizer = AutoTokenizer.from_pretrained(smollm2)
            model = AutoModelForCausalLM.from_pretrained(
                smollm2, dtype=torch.bfloat16, device_map="cpu", quantization_config=QUANTIZATION[precision]()
            )
            inputs = tokenizer.apply_chat_template(
                [{"role": "user", "content": QUESTION}],
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
            )
            with torch.inference_mode():
                output = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
            start = inputs["input_ids"].shape[1]
            answers[precision] = tokenizer.decode(output[0, start:], skip_special_tokens=True)
        return answers[precision]

    return answer


def third_on_disk(module: Module) -> str:
    return "disk" if module.kind == "layer" and int(module.name.rsplit(".", 1)[1]) % 3 == 0 else "cpu"


def in_ram(module: Module) -> str:
    return "cpu"


@pytest.mark.parametrize(
    ("runner", "where", "precision"),
    [
        ("resident", in_ram, Precision.PUBLISHED),
        ("resident", in_ram, Precision.INT8),
        ("resident", in_ram, Precision.INT4),
        ("offloaded", in_ram, Precision.PUBLISHED),
        ("offloaded", third_on_disk, Precision.PUBLISHED),
    ],
)
def test_answer(
    runner: str,
    where: Callable[[Module], str],
    precision: Precision,
    smollm2: Path,
    facts: ModelFacts,
    make_plan: MakePlan,
    plain: Callable[[Precision], str],
) -> None:
    plan = make_plan(facts, where, runner=runner, precision=precision)
    task = Task(1, lambda event: None)
    loaded, event = load(Load(id=1, path=str(smollm2), plan=plan, facts=facts), task, {})
    if precision is Precision.PUBLISHED:
        assert event.devices["cpu"].weights == pytest.approx(plan.devices["cpu"].weights, rel=0.01)
    else:
        assert event.devices["cpu"].weights < facts.weight_bytes
    events: list[AnyEvent] = []
    question = Generate(
        id=2,
        messages=(Message(role="user", content=QUESTION),),
        sampling=Sampling(temperature=0, top_p=1, max_tokens=TOKENS),
    )
    Generator(loaded).run(question, task, events.append)
    loaded.close()
    answer = "".join(event.text for event in events if isinstance(event, Delta))
    assert answer == plain(precision)
    assert "Paris" in answer or precision is not Precision.PUBLISHED
