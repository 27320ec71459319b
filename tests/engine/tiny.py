"""Tiny random models and tokenizers, built in code: what generation does is the same as with large ones."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from llmchat.domain.chat import Message, ReplyStats, Sampling
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision
from llmchat.engine.loaded import LoadedModel
from llmchat.engine.reply.generate import Generator
from llmchat.engine.reply.sampling import Sampler
from llmchat.engine.task import Task
from llmchat.protocol import AnyEvent, Delta, Generate, Started

from .architectures import CONFIGS

SPECIAL = ("<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
BOS, EOS, END = 1, 2, 4
CHATML = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 384
GREEDY = Sampling(temperature=0.0, top_p=1.0)


@functools.cache
def _bpe() -> Tokenizer:
    """Byte-level BPE with a few merges of English."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        ["the quick brown fox jumps over the lazy dog", "hello world and more"] * 8, trainer
    )
    return tokenizer


def tokenizer(template: str | None = CHATML) -> Any:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_bpe().to_str()), pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    fast.add_special_tokens({"additional_special_tokens": list(SPECIAL[3:])})
    if template is not None:
        fast.chat_template = template
    return fast


@functools.cache
def model(name: str) -> Any:
    """fp32 on the CPU. Wide weights and a head of its own: greedy tokens then depend on all of the context."""
    changes = {"vocab_size": VOCABULARY, "tie_word_embeddings": False}
    config = type(CONFIGS[name]).from_dict(CONFIGS[name].to_dict() | changes)
    torch.manual_seed(0)
    built = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    built.generation_config.eos_token_id = None
    return built


def plan(context: int = 512) -> Plan:
    return Plan(
        strategy="cpu",
        runner="resident",
        precision=Precision.PUBLISHED,
        dtype="float32",
        context=context,
        placement={"": "cpu"},
        main_device="cpu",
        devices={"cpu": Account()},
        tokens_per_second=1.0,
        time_to_first_token=1.0,
    )


def loaded(
    name: str = "llama", *, context: int = 512, template: str | None = CHATML, eos: frozenset[int] = frozenset()
) -> LoadedModel:
    """Without stop tokens unless given: random models would end at any moment."""
    facts = ModelFacts(
        id=name,
        architecture=name,
        dtype="float32",
        parameters=0,
        hidden_size=64,
        vocab_size=VOCABULARY,
        max_context=None,
        modules=(),
    )
    return LoadedModel(model(name), tokenizer(template), plan(context), facts, torch.device("cpu"), eos)


class Talk:
    """A generator, and all that it said."""

    def __init__(self, model: LoadedModel) -> None:
        self.loaded = model
        self.generator = Generator(model)
        self.events: list[AnyEvent] = []
        self.stats: ReplyStats | None = None
        self.task = Task(1, self.hear)

    def hear(self, event: AnyEvent) -> None:
        self.events.append(event)

    def ask(self, *turns: str, sampling: Sampling = GREEDY, continues: bool = False, **changes: Any) -> ReplyStats:
        """``turns``: user and assistant in turn, the user first."""
        messages = chat(*turns)
        return self.send(messages, sampling=sampling, continues=continues, **changes)

    def send(
        self, messages: tuple[Message, ...], sampling: Sampling = GREEDY, continues: bool = False, **changes: Any
    ) -> ReplyStats:
        self.events.clear()
        self.task = Task(1, self.hear)
        command = Generate(
            id=1,
            messages=messages,
            sampling=msgspec.structs.replace(sampling, **changes),
            continue_last=continues,
        )
        self.stats = self.generator.run(command, self.task, self.hear)
        return self.stats

    def text(self, kind: str = "answer") -> str:
        return "".join(e.text for e in self.events if isinstance(e, Delta) and e.kind == kind)

    @property
    def started(self) -> Started:
        return next(e for e in self.events if isinstance(e, Started))


def chat(*turns: str, system: str = "") -> tuple[Message, ...]:
    head = (Message(role="system", content=system),) if system else ()
    return head + tuple(
        Message(role="user" if index % 2 == 0 else "assistant", content=text) for index, text in enumerate(turns)
    )


def record(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens that are picked from now on, one list for all replies."""
    picked: list[int] = []
    original = Sampler.pick

    def pick(self: Sampler, logits: torch.Tensor) -> int:
        token = original(self, logits)
        picked.append(token)
        return token

    monkeypatch.setattr(Sampler, "pick", pick)
    return picked


def plain(model: Any, ids: list[int], count: int, **options: Any) -> list[int]:
    """Transformers' own greedy tokens, end tokens ignored."""
    prompt = torch.tensor([ids])
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=count,
        min_new_tokens=count,
        pad_token_id=0,
        **options,
    )
    return out[0, len(ids) :].tolist()


def prompt(talk: Talk, *turns: str) -> list[int]:
    """The token ids of a conversation by the template."""
    messages = [{"role": m.role, "content": m.content} for m in chat(*turns)]
    return talk.loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)[
        "input_ids"
    ]
