"""What needs a real card: one random-weight checkpoint of about 1.1 GB, and plain transformers' tokens of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

torch.backends.cuda.enable_cudnn_sdp(False)  # as in the engine: another kernel rounds otherwise

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

QUESTION = "Name the colours of the rainbow, and say which one you like best."
NEW_TOKENS = 32


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.xdist_group("gpu"))  # one at a time: they measure the card's memory
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA GPU here"))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import checkpoints

    return checkpoints.make("llama-1b", tmp_path_factory.mktemp("models") / "llama-1b")


@pytest.fixture(scope="session")
def plain_answer(checkpoint: Path) -> Callable[[str], str]:
    """Precision (``published``, ``8bit``, ``4bit``) to the greedy answer of ``model.generate`` on GPU 0."""
    answers: dict[str, str] = {}

    def answer(precision: str) -> str:
        if precision not in answers:
            answers[precision] = _generate(checkpoint, precision)
        return answers[precision]

    return answer


def _generate(checkpoint: Path, precision: str) -> str:
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    quantization = {
        "8bit": lambda: BitsAndBytesConfig(load_in_8bit=True),
        "4bit": lambda: BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        ),
    }
    config = quantization[precision]() if precision in quantization else None
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(
        checkpoint, device_map={"": 0}, dtype=torch.bfloat16, quantization_config=config
    )
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    ).to("cuda:0")
    with torch.inference_mode():
        output = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
    text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    del model, output, inputs
    gc.collect()
    torch.cuda.empty_cache()
    return str(text)
