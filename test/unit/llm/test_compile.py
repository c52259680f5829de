"""Small decoders from checkpoints to programs: every decoder, every recipe, both targets, eager and the stock runner as
oracles.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import CompiledLanguageModel, LanguageModelOptions, compile_language_model
from etir.llm.recipe_names import RECIPES
from etir.quantization.passes.experts_to_layers import ExpertsToLayersPass
from etir.tools import et_llm

from etir_testing.forks import commands
from etir_testing.models import checkpoints
from etir_testing.models.rounded_weights import round_weights
from etir_testing.models.routing import clear_prompt
from etir_testing.models.static_cache import DECODERS, PROMPT, VOCABULARY, without_cache

CONTEXT, PREFILL = 32, 8
OTHERS = [name for name in DECODERS if name not in ("llama", "gemma3")]
# What recipes may lose beyond what their integers do: the relative error of logits. Inputs on int8 lose more.
LOST = {"fp32": 1e-5, "fp16": 0.02, "int8": 1e-4, "int4": 1e-4, "8da4w": 0.12}
ON_INTEGERS = 0.12


def _compiled(folder: Path, recipe: str = "fp32", target: str = "etir", **keywords: Any) -> CompiledLanguageModel:
    how = LanguageModelOptions(recipe, context=CONTEXT, max_prefill=PREFILL)
    return compile_language_model(load_checkpoint(folder), how, target=target, **keywords)


def _run(compiled: CompiledLanguageModel) -> Any:
    """A step of a program on etir's runtime: tokens and the first one's position to logits f32[vocabulary]."""
    import etir.runtime

    method = etir.runtime.load(bytes(compiled.program.buffer))["forward"]

    def step(ids: list[int], start: int) -> np.ndarray:
        found = method(torch.tensor([ids]), torch.arange(start, start + len(ids)))[0]
        assert tuple(found.shape) == (1, VOCABULARY)
        return np.asarray(found)[0].copy()

    return step


def _generates_eager_s_tokens(folder: Path, model: Any) -> None:
    expected = without_cache(model)
    assert expected.margin > 1e-3
    step = _run(_compiled(folder))
    logits = step(list(PROMPT), 0)
    found: list[int] = []
    for index, wanted in enumerate(expected.logits):
        np.testing.assert_allclose(logits, wanted.numpy(), rtol=1e-4, atol=1e-4)
        found.append(int(logits.argmax()))
        logits = step(found[-1:], len(PROMPT) + index)
    assert found == expected.tokens


@pytest.mark.parametrize("name", ["llama", "gemma3", *(pytest.param(n, marks=pytest.mark.nightly) for n in OTHERS)])
def test_programs_generate_eager_s_tokens(name: str, tmp_path: Path) -> None:
    _generates_eager_s_tokens(tmp_path, checkpoints.write_folder(tmp_path, name))


_GATE = [("llama", recipe, "etir") for recipe in RECIPES if recipe != "fp32"]
# Experts: rows of gate and up one after the other, and in turns in transposed matrices with biases.
_GATE += [("mixtral", "8da4w", "etir"), ("mixtral", "int8", "etir"), ("gpt_oss", "int4", "etir")]
_GATE += [("gpt_oss", "int4", "executorch")]
_NIGHTLY = [
    (name, recipe, target)
    for name in (*DECODERS, "mixtral", "gpt_oss", "qwen3moe")
    for recipe in RECIPES
    for target in ("etir", "xnnpack")
    if (name, recipe, target) not in _GATE
]


@pytest.mark.parametrize(
    ("name", "recipe", "target"),
    [*_GATE, *(pytest.param(*row, marks=pytest.mark.nightly) for row in _NIGHTLY)],
)
def test_recipes_lose_what_their_integers_do(name: str, recipe: str, target: str, tmp_path: Path) -> None:
    """The oracle is eager on the numbers that the integers stand for."""
    model = checkpoints.write_folder(tmp_path, name)
    keywords = {"target": "executorch", "delegates": ["xnnpack"]} if target == "xnnpack" else {"target": target}
    compiled = _compiled(tmp_path, recipe, **keywords)
    # XNNPACK has no rows for experts of 4 bits whose inputs are integers.
    experts = 8 if (recipe, target) == ("8da4w", "xnnpack") else None
    round_weights(model, RECIPES[recipe].bits, experts)
    prompt = clear_prompt(model)
    with torch.no_grad():
        expected = model(torch.tensor([prompt])).logits[0, -1].numpy()
    logits = _on_stock(compiled, tmp_path, prompt) if target != "etir" else _run(compiled)(list(prompt), 0)
    # XNNPACK's head computes on int8 in every recipe of integers.
    most = ON_INTEGERS if target == "xnnpack" and RECIPES[recipe].layers else LOST[recipe]
    assert np.abs(logits - expected).max() < most * np.abs(expected).max()
    assert bool(compiled.reports) == bool(RECIPES[recipe].layers)


_STOCK_STEP = """
import sys, numpy, torch
from executorch.extension.llm.custom_ops import custom_ops
from executorch.extension.pybindings.portable_lib import _load_for_executorch
method = _load_for_executorch(sys.argv[1])
ids = torch.tensor([[int(word) for word in sys.argv[2].split()]])
numpy.save(sys.argv[3], method.run_method("forward", (ids, torch.arange(ids.shape[1])))[0].numpy())
"""


def _on_stock(compiled: CompiledLanguageModel, folder: Path, prompt: tuple[int, ...]) -> np.ndarray:
    """The logits of a prompt on the stock runtime, in a process of its own: its libraries register for good."""
    compiled.save(folder / "m.pte")
    words = " ".join(map(str, prompt))
    files = str(folder / "m.pte"), words, str(folder / "logits.npy")
    subprocess.run([commands() / "python", "-c", _STOCK_STEP, *files], check=True, capture_output=True, timeout=300)
    return np.load(folder / "logits.npy")[0]


_STOCK_RUNNER = """
import sys
import torch
from executorch.extension.llm.custom_ops import custom_ops
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
runner = TextLLMRunner(sys.argv[1], sys.argv[2])
pieces = []
config = GenerationConfig(max_new_tokens=int(sys.argv[4]), temperature=0.0, echo=False)
runner.generate(sys.argv[3], config, pieces.append)
open(sys.argv[5], "w").write("".join(pieces))
"""


def stock_text(folder: Path, prompt: str, count: int) -> str:
    """What the stock runner generates greedily from ``m.pte``, the end of the text included."""
    files = [str(folder / name) for name in ("m.pte", "m.tokenizer.json")]
    out = folder / "text.txt"
    command: list[str | Path] = [commands() / "python", "-c", _STOCK_RUNNER, *files, prompt, str(count), str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return out.read_text()


@pytest.mark.parametrize("name", ["llama", *(pytest.param(n, marks=pytest.mark.nightly) for n in [*OTHERS, "gemma3"])])
def test_the_stock_runner_generates_eager_s_text(name: str, tmp_path: Path) -> None:
    """The file, the tokenizer and the constant methods are what ``TextLLMRunner`` takes."""
    from tokenizers import Tokenizer

    model = checkpoints.write_folder(tmp_path / "small", name)
    command = ["compile", str(tmp_path / "small"), "-o", str(tmp_path / "m.pte"), "--recipe", "fp32"]
    command += ["--target", "executorch", "--context", str(CONTEXT), "--max-prefill", str(PREFILL)]
    assert et_llm.main(command) == 0
    tokenizer = Tokenizer.from_str(checkpoints.tokenizer_json())
    prompt = "the cat"
    ids = tokenizer.encode(prompt).ids
    wanted = checkpoints.greedy(model, ids, 12)
    assert stock_text(tmp_path, prompt, 12) == tokenizer.decode(wanted, skip_special_tokens=False)


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    import etir.runtime

    checkpoints.write_gguf(tmp_path / "small.gguf", "llama", "Q4_1", tie_word_embeddings=True)
    output = tmp_path / "m.pte"
    command = ["compile", str(tmp_path / "small.gguf"), "-o", str(output), "--recipe", "int4", "--context", "32"]
    assert et_llm.main(command) == 0
    loaded = etir.runtime.load(str(output))
    said = {name: loaded[name]()[0] for name in loaded.methods if name != "forward"}
    assert said == {
        "get_max_seq_len": 32,
        "get_max_context_len": 32,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
        "use_sdpa_with_kv_cache": True,
        "get_vocab_size": VOCABULARY,
        "get_n_layers": 2,
        "get_eos_ids": VOCABULARY - 1,
    }
    chat = json.loads((tmp_path / "m.chat.json").read_text())
    assert chat == {
        "name": "small llama",
        "context": 32,
        "chat_template": checkpoints.TEMPLATE,
        "bos_token": None,
        "eos_token": checkpoints.END,
        "eos_ids": [VOCABULARY - 1],
        "add_bos": False,
        "segments": {
            "begin": "",
            "first": "",
            "generation": ">",
            "roles": {
                role: {"before": f"<{role}>", "after": "", "strip": False} for role in ("user", "assistant", "system")
            },
        },
    }
    assert json.loads((tmp_path / "m.tokenizer.json").read_text())["model"]["type"] == "BPE"


def test_the_user_is_told_of_weights_that_stay_floating_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here of experts, in loops that are not known as such."""
    monkeypatch.setattr(ExpertsToLayersPass, "run", lambda *_: None)
    model = checkpoints.write_gguf(tmp_path / "m.gguf", "mixtral", "Q4_0")
    experts = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
    compiled = compile_language_model(
        load_checkpoint(tmp_path / "m.gguf"), LanguageModelOptions("int4", CONTEXT, PREFILL), target="etir"
    )
    told = re.fullmatch(r"([\d,]+) of ([\d,]+) weights are floating point still, .*experts.*", compiled.remarks[-1])
    assert told is not None
    left, whole = (int(told[i].replace(",", "")) for i in (1, 2))
    matrices = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert experts <= left < experts * 1.01
    # Frequencies of positions are a few more.
    assert matrices <= whole < matrices * 1.01


@pytest.mark.parametrize("name", ["falcon40b", "bloom"])
def test_layers_whose_weights_are_transposed_or_joined_keep_their_integers(name: str, tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", name, "Q4_0")
    found = load_checkpoint(tmp_path / "m.gguf")
    with torch.no_grad():
        expected = found.model(torch.tensor([PROMPT])).logits[0, -1].numpy()
    compiled = compile_language_model(found, LanguageModelOptions("int4", CONTEXT, PREFILL), target="etir")
    np.testing.assert_allclose(_run(compiled)(list(PROMPT), 0), expected, rtol=1e-3, atol=1e-4)
    count = len(found.blocks)
    assert compiled.remarks == (f"{count} of {count} weights that are integers in the file stay as they are",)


@pytest.mark.parametrize(
    ("name", "type", "count"),
    [
        ("llama", "Q4_0", 15),
        ("llama", "Q4_1", 15),
        ("llama", "Q8_0", 15),
        ("mixtral", "Q8_0", 15),
        ("gpt_oss", "Q4_1", 15),
    ],
)
def test_integers_of_a_file_are_those_of_the_program(name: str, type: str, count: int, tmp_path: Path) -> None:
    """The logits are those of the checkpoint's own numbers, not of numbers that were rounded again."""
    checkpoints.write_gguf(tmp_path / "m.gguf", name, type, tie_word_embeddings=True)
    found = load_checkpoint(tmp_path / "m.gguf")
    with torch.no_grad():
        expected = found.model(torch.tensor([PROMPT])).logits[0, -1].numpy()
    recipe = "int8" if type == "Q8_0" else "int4"
    compiled = compile_language_model(found, LanguageModelOptions(recipe, CONTEXT, PREFILL), target="etir")
    np.testing.assert_allclose(_run(compiled)(list(PROMPT), 0), expected, rtol=1e-3, atol=1e-4)
    assert compiled.remarks == (f"{count} of {count} weights that are integers in the file stay as they are",)
    assert compiled.reports == ()
