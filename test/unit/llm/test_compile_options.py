"""Options of ``et-llm compile``: each changes what it says, and the model still computes what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etir.dialects.et.program import StateOp
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model
from etir.tools import et_llm

from etir_testing.models import checkpoints
from etir_testing.models.static_cache import PROMPT, VOCABULARY


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder, and the model that was written there."""
    path = tmp_path_factory.mktemp("checkpoint") / "small"
    return path, checkpoints.write_folder(path, "llama")


def _compile(folder: Path, output: Path, *options: str) -> None:
    assert et_llm.main(["compile", str(folder), "-o", str(output), "--context", "32", *options]) == 0


def _logits(output: Path) -> np.ndarray:
    import etir.runtime

    method = etir.runtime.load(str(output))["forward"]
    return np.asarray(method(torch.tensor([PROMPT]), torch.arange(len(PROMPT)))[0])


def _expected(model: Any) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].numpy()


def test_logits_of_every_position_without_fused_attention(
    small: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--recipe", "fp32", "--all-logits", "--attention", "unfused", "--report", "json"]
    _compile(small[0], tmp_path / "m.pte", *options)
    found = _logits(tmp_path / "m.pte")
    assert found.shape == (1, len(PROMPT), VOCABULARY)
    np.testing.assert_allclose(found[0], _expected(small[1]), rtol=1e-4, atol=1e-4)
    assert json.loads(capsys.readouterr().out) == []
    import etir.runtime

    assert etir.runtime.load(str(tmp_path / "m.pte"))["use_sdpa_with_kv_cache"]()[0] is False


def test_a_cache_of_integers_and_rounding_that_looks_at_a_text(small: tuple[Path, Any], tmp_path: Path) -> None:
    """Beside weights of 4 bits, which lose much in a model of this size, the cache loses little; GPTQ rounds otherwise,
    and not worse.
    """
    expected = _expected(small[1])[-1]
    (tmp_path / "seen.txt").write_text("the quick brown fox jumps over the lazy dog. " * 8)
    options = {
        "nearest": ["--round-weights", "nearest"],
        "cache": ["--round-weights", "nearest", "--cache", "int8"],
        "gptq": ["--round-weights", "gptq", "--calibration", str(tmp_path / "seen.txt")],
    }
    found: dict[str, np.ndarray] = {}
    for name, chosen in options.items():
        _compile(small[0], tmp_path / f"{name}.pte", "--recipe", "int4", *chosen)
        found[name] = _logits(tmp_path / f"{name}.pte")[0]
    largest = np.abs(expected).max()
    errors = {name: float(np.abs(logits - expected).max() / largest) for name, logits in found.items()}
    assert 0 < np.abs(found["cache"] - found["nearest"]).max() / largest < 0.06, errors
    assert (found["gptq"] != found["nearest"]).any(), errors
    assert max(errors.values()) < 1.3 * errors["nearest"] < 0.6, errors


def test_what_caches_hold(small: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """bfloat16 where layers compute on integers, if nobody says otherwise; what cannot be is refused."""
    checkpoint = str(small[0])

    def kept(recipe: str, **options: Any) -> set[str]:
        how = LanguageModelOptions(recipe, context=32, **options)
        module = compile_language_model(load_checkpoint(checkpoint), how, target="etir").program.module
        types = [op.type for op in module.body.block.ops if isinstance(op, StateOp)]
        return {str(type.get_element_type()) for type in types if len(type.get_shape()) == 4}

    assert kept("fp32") == kept("int4") == kept("8da4w", cache="float32") == {"f32"}
    assert kept("int4", cache="float16") == kept("fp16") == kept("fp16", cache="float16") == {"f16"}
    assert kept("8da4w") == {"bf16"}
    for cache in ("float16", "bfloat16"):
        for options in (("--target", "executorch"), ("--attention", "unfused")):
            arguments = ["compile", str(small[0]), "-o", str(tmp_path / "m.pte"), "--cache", cache, *options]
            assert et_llm.main(arguments) == 1
            assert f"error[E1608]: a cache of {cache}: " in capsys.readouterr().err


def test_a_delegate_and_a_tokenizer_of_its_own(
    small: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = checkpoints.tokenizer_json().replace(checkpoints.END, "<|fin|>")
    (tmp_path / "other.json").write_text(other)
    options = ["--recipe", "8da4w", "--target", "executorch", "--delegate", "xnnpack", "--max-prefill", "8", "--report"]
    _compile(small[0], tmp_path / "m.pte", *options, "--tokenizer", str(tmp_path / "other.json"))
    assert (tmp_path / "m.tokenizer.json").read_text() == other
    printed = capsys.readouterr().out
    assert "quantization: 8da4w; layers: 14 int8 at run time, int4 weights" in printed
    assert "xnnpack" in printed


def test_caches_that_are_not_what_was_asked_for(tmp_path: Path) -> None:
    """Gemma 2 caps its scores, so that its attention goes over the whole cache on the stock runtime; Llama's does not,
    and on etir's runtime neither does.
    """
    cache: Any = "int8"
    for name, target, remarks in (("llama", "executorch", 0), ("gemma2", "executorch", 1), ("gemma2", "etir", 0)):
        checkpoints.write_folder(tmp_path / name, name)
        how = LanguageModelOptions("fp32", 16, 8, cache=cache)
        said = compile_language_model(load_checkpoint(tmp_path / name), how, target=target).remarks
        assert len(said) == remarks, said
        assert all(f"4 of 4 caches of keys and values do not hold {cache}" in line for line in said)


@pytest.mark.parametrize("cache", ["int8", "float32"])
def test_a_model_of_two_bytes_keeps_its_caches(small: tuple[Path, Any], cache: Any) -> None:
    """What is to blame is the recipe, not the attention."""
    how = LanguageModelOptions("fp16", 16, 8, cache=cache)
    [said] = compile_language_model(load_checkpoint(small[0]), how, target="etir").remarks
    assert f"4 of 4 caches of keys and values do not hold {cache}" in said and "recipe 'fp16'" in said
