"""Checkpoints that are not what they say, and demands that a model or a target cannot meet."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etir.diagnostics import EtirError
from etir.llm.checkpoint.architectures import LONG, SHORT
from etir.llm.checkpoint.gguf_header import read_gguf
from etir.llm.checkpoint.load import load_checkpoint
from etir.llm.compile import LanguageModelOptions, compile_language_model
from etir.tools import et_llm

from etir_testing.models import checkpoints


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    checkpoints.write_gguf(path, "llama", "Q4_0")
    return path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder") / "small"
    checkpoints.write_folder(path, "llama", shards=3)
    return path


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def _fails(path: Path, id: str, text: str, **keywords: Any) -> None:
    with pytest.raises(EtirError, match=text) as error:
        load_checkpoint(path, **keywords)
    assert error.value.ids == (id,)


# --- GGUF -------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04 and more")
    _fails(tmp_path / "m.gguf", "E1601", "no GGUF file: it starts with 504b0304")
    _fails(tmp_path / "other.gguf", "E1601", "there is no")
    (tmp_path / "empty.gguf").write_bytes(b"")
    _fails(tmp_path / "empty.gguf", "E1601", "cannot read")
    (tmp_path / "old.gguf").write_bytes(b"GGUF" + struct.pack("<I", 1) + bytes(40))
    _fails(tmp_path / "old.gguf", "E1601", "of GGUF version 1")


def test_every_place_at_which_a_file_may_end(gguf: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf)
    start = min(tensor.start for tensor in read_gguf(path).tensors.values())
    for size in [*range(5, start, 37), start, len(gguf) - 1]:
        path.write_bytes(gguf[:size])
        with pytest.raises(EtirError) as error:
            read_gguf(path)
        assert error.value.ids == ("E1602",), size


@pytest.mark.parametrize(
    ("at", "what"),
    [(8, "fields|tensors"), (16, "claims to have")],
)
def test_counts_that_no_file_has(at: int, what: str, gguf: bytes, tmp_path: Path) -> None:
    """2^60 tensors or fields are refused at once, not counted."""
    damaged = gguf[:at] + struct.pack("<Q", 1 << 60) + gguf[at + 8 :]
    (tmp_path / "m.gguf").write_bytes(damaged)
    _fails(tmp_path / "m.gguf", "E1602", what)


def test_a_type_that_nobody_knows(gguf: bytes, tmp_path: Path) -> None:
    name = b"blk.0.attn_q.weight"
    at = gguf.index(name) + len(name) + 4 + 16
    (tmp_path / "m.gguf").write_bytes(gguf[:at] + struct.pack("<I", 4711) + gguf[at + 4 :])
    _fails(tmp_path / "m.gguf", "E1604", "'blk.0.attn_q.weight' is of GGML type 4711")


@pytest.mark.parametrize(
    ("fields", "id", "text"),
    [
        ({"general.architecture": "mamba"}, "E1603", "of architecture 'mamba'"),
        ({"llama.rope.scaling.type": "longrope"}, "E1603", "rope.scaling.type = longrope"),
        ({"tokenizer.ggml.pre": "nobody-s"}, "E1606", "cuts text as 'nobody-s' does"),
        ({"tokenizer.ggml.eos_token_id": 4711}, "E1606", "eos is token 4711 of 96"),
        ({"llama.attention.head_count": 0}, "E1602", "head_count = 0, which is not an integer above 0"),
        ({"llama.attention.head_count": "four"}, "E1602", "head_count = 'four', which is not an integer"),
        (
            {"llama.attention.head_count": 3},
            "E1602",
            "make no model: .*not a multiple of the number of",
        ),
        ({"llama.attention.head_count_kv": [2, 1]}, "E1603", "layers that differ are not read"),
        ({"llama.attention.key_length": 7}, "E1602", "make no model: .*requires an even rotary dimension"),
        ({"llama.attention.layer_norm_rms_epsilon": -1.0}, "E1602", "which is not a number above 0"),
        ({"llama.rope.freq_base": float("nan")}, "E1602", "freq_base = nan, which is not a number above 0"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0}, "E1602", "no field .*original_context"),
        ({"llama.block_count": 2**31 - 1}, "E1605", "says that it has 2,147,483,647, and there is no 'blk.2147483646'"),
        ({"llama.rope.dimension_count": 8}, "E1603", "Llama, which has nothing for llama.rope.dimension_count = 8"),
        ({"llama.final_logit_softcapping": 3.0}, "E1603", "has nothing for llama.final_logit_softcapping = 3.0"),
        ({"llama.attention.sliding_window": "x"}, "E1602", "sliding_window = 'x', which is no integer"),
    ],
)
def test_fields(fields: dict[str, Any], id: str, text: str, tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", fields=fields)
    _fails(tmp_path / "m.gguf", id, text)


def test_a_tensor_that_is_missing(tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", leave_out=["blk.1.ffn_up.weight"])
    _fails(tmp_path / "m.gguf", "E1605", r"lacks 'blk.1.ffn_up.weight' \(model.layers.1.mlp.up_proj.weight\)")


@pytest.mark.parametrize(
    ("decoder", "tensor", "text"),
    [
        (
            "mixtral",
            "blk.0.ffn_up_exps.weight",
            r"lacks 'blk.0.ffn_up_exps.weight' \(model.layers.0.mlp.experts.gate_up",
        ),
        ("gpt_oss", "blk.1.attn_sinks.weight", r"lacks 'blk.1.attn_sinks.weight' \(model.layers.1.self_attn.sinks\)"),
        ("stablelm2", "blk.1.attn_k_norm.weight", r"lacks 'blk.1.attn_k_norm.weight' \(.*norms.0.weight\), 'blk.1"),
    ],
)
def test_parts_that_are_missing(decoder: str, tensor: str, text: str, tmp_path: Path) -> None:
    checkpoints.write_gguf(tmp_path / "m.gguf", decoder, leave_out=[tensor])
    _fails(tmp_path / "m.gguf", "E1605", text)


def test_experts_of_another_shape(tmp_path: Path) -> None:
    name = "blk.0.ffn_up_exps.weight"
    more = {name: np.zeros((4, 64, 128), np.float32)}
    checkpoints.write_gguf(tmp_path / "m.gguf", "mixtral", leave_out=[name], more=more)
    _fails(tmp_path / "m.gguf", "E1605", r"'blk.0.ffn_up_exps.weight', of shape \[4, 64, 128\]")


def test_a_tensor_that_belongs_to_nothing(tmp_path: Path) -> None:
    """A variant of the architecture: its model would be another one without a word."""
    more = {"blk.1.attn_q_norm.weight": np.ones(16, np.float32)}
    checkpoints.write_gguf(tmp_path / "m.gguf", "llama", more=more)
    _fails(tmp_path / "m.gguf", "E1603", "of another form than transformers' Llama, .* nothing for 'blk.1.attn_q_norm")


@pytest.mark.parametrize(("decoder", "left_out"), [("llama", ()), ("phi3", (SHORT,))])
def test_frequencies_that_nothing_reads(decoder: str, left_out: tuple[str, ...], tmp_path: Path) -> None:
    """Of an architecture that has none, and a set for long texts alone."""
    factors = np.ones(8, np.float32)
    more = {name: factors for name in (LONG, SHORT) if name not in left_out}
    checkpoints.write_gguf(tmp_path / "m.gguf", decoder, more=more)
    _fails(tmp_path / "m.gguf", "E1603", "scales its positions in a way that is not read from GGUF: rope_factors_long")


@pytest.mark.parametrize(("decoder", "count"), [("bloom", 8), ("gemma3", 8), ("llama", 5)])
def test_factors_of_frequencies_that_the_model_does_not_have(decoder: str, count: int, tmp_path: Path) -> None:
    """None at all, one set for each kind of layer, as many as another width of heads has."""
    checkpoints.write_gguf(tmp_path / "m.gguf", decoder, more={"rope_freqs.weight": np.ones(count, np.float32)})
    _fails(tmp_path / "m.gguf", "E1603", "scales its positions in a way that is not read from GGUF: rope_freqs.weight")


# --- folders ----------------------------------------------------------------------------------------------------------


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _other_type(folder: Path) -> None:
    _set(folder / "config.json", "model_type", "nobody-s")


def _no_decoder(folder: Path) -> None:
    _set(folder / "config.json", "model_type", "vit")


def _no_shard(folder: Path) -> None:
    sorted(folder.glob("*.safetensors"))[1].unlink()


def _short_shard(folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-100])


def _more_layers(folder: Path) -> None:
    _set(folder / "config.json", "num_hidden_layers", 3)


def _other_vocabulary(folder: Path) -> None:
    _set(folder / "config.json", "vocab_size", 90)


def _no_such_function(folder: Path) -> None:
    _set(folder / "config.json", "hidden_act", "nobody-s")


def _quantized(folder: Path) -> None:
    _set(folder / "config.json", "quantization_config", {"quant_method": "gptq", "bits": 4, "group_size": 32})


def _other_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')


def _large_tokenizer(folder: Path) -> None:
    found = json.loads((folder / "tokenizer.json").read_text())
    found["model"]["vocab"]["more"] = 96
    (folder / "tokenizer.json").write_text(json.dumps(found))


def _gap_in_the_tokenizer(folder: Path) -> None:
    """96 tokens, of which one has the number 150."""
    found = json.loads((folder / "tokenizer.json").read_text())
    del found["model"]["vocab"]["q"]
    found["model"]["vocab"]["more"] = 150
    (folder / "tokenizer.json").write_text(json.dumps(found))


def _no_names_of_shards(folder: Path) -> None:
    _set(folder / "model.safetensors.index.json", "weight_map", {"a": 5})


def _pickled(folder: Path) -> None:
    for file in [*folder.glob("*.safetensors"), folder / "model.safetensors.index.json"]:
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")


def _no_text(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xe9")


def _no_token(folder: Path) -> None:
    _set(folder / "tokenizer_config.json", "eos_token", 5)


def _set(path: Path, key: str, value: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))


@pytest.mark.parametrize(
    ("damage", "id", "text"),
    [
        (_no_config, "E1601", "no config.json"),
        (_no_json, "E1602", "is no JSON"),
        (_other_type, "E1603", "of type 'nobody-s', which transformers does not know"),
        (_no_decoder, "E1603", "of type 'vit', which is no decoder of text"),
        (_no_shard, "E1605", "has no model-00002"),
        (_short_shard, "E1602", "is damaged"),
        (_more_layers, "E1605", r"lacks model.layers.2"),
        (_other_vocabulary, "E1605", r"lacks .*embed_tokens.weight, of shape \[96, 64\] and not \[90, 64\]"),
        (_no_such_function, "E1602", "no model can be made of '.*config.json': KeyError: 'nobody-s'"),
        (_quantized, "E1604", "is quantized already, by 'gptq', which is not read"),
        (_other_tokenizer, "E1606", "cannot be read"),
        (_large_tokenizer, "E1606", "has 97 tokens, and the model 96 rows"),
        (_gap_in_the_tokenizer, "E1606", "has 151 tokens, and the model 96 rows"),
        (_no_names_of_shards, "E1602", "index.json' has no weight_map of names of files"),
        (_pickled, "E1605", "has no model.safetensors\n.*never opened: save the model again"),
        (_no_text, "E1602", "chat_template.jinja' is not UTF-8: unexpected end of data at byte 0"),
        (_no_token, "E1606", "eos_token is 5, which is no token"),
    ],
)
def test_folders(damage: Callable[[Path], None], id: str, text: str, copied: Path) -> None:
    damage(copied)
    _fails(copied, id, text)


def test_ends_of_texts_that_are_no_tokens_are_left_out(copied: Path) -> None:
    """A program that names them could not be loaded."""
    _set(copied / "generation_config.json", "eos_token_id", [-1, 3, 4711])
    assert load_checkpoint(copied).chat.eos_ids == (3, 95)


def test_where_folders_keep_tokens_and_templates(copied: Path) -> None:
    """Files that older versions of transformers wrote."""
    (copied / "tokenizer_config.json").unlink()
    (copied / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "~"}, "bos_token": "!"}))
    (copied / "chat_template.json").write_text(json.dumps({"chat_template": "{{ bos_token }}"}))
    chat = load_checkpoint(copied).chat
    assert (chat.bos, chat.eos, chat.bos_id, chat.template) == ("!", "~", 1, "{{ bos_token }}")


def test_a_tokenizer_that_is_not_there(folder: Path) -> None:
    _fails(folder, "E1606", "there is no", tokenizer=folder / "other.json")


# --- demands ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "id", "text"),
    [
        (LanguageModelOptions(context=65), "E1607", "a context of 65: the model has up to 64 positions"),
        (LanguageModelOptions(context=1), "E1607", "a context of 1"),
        (LanguageModelOptions(context=32, max_prefill=33), "E1607", "33 tokens in a call"),
        (LanguageModelOptions("int5"), "E1608", "no recipe 'int5'; did you mean"),
        (LanguageModelOptions("fp32", round_weights="mse"), "E1608", "'fp32' has no integers to round"),
        (LanguageModelOptions("int4", round_weights="gptq"), "E1608", "looks at what goes through the layers"),
    ],
)
def test_demands(how: LanguageModelOptions, id: str, text: str, folder: Path) -> None:
    with pytest.raises(EtirError, match=text) as error:
        compile_language_model(load_checkpoint(folder), how, target="etir")
    assert error.value.ids == (id,)


def test_a_target_without_kernels_for_integers(folder: Path) -> None:
    with pytest.raises(EtirError, match="recipe '8da4w' on target 'executorch'") as error:
        compile_language_model(load_checkpoint(folder), LanguageModelOptions("8da4w", 32), target="executorch")
    assert error.value.ids == ("E1608",)


def test_a_model_that_cannot_be_exported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_checkpoint(folder)

    def forward(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a size that depends on the data")

    monkeypatch.setattr(found.model, "forward", forward)
    with pytest.raises(EtirError, match="LlamaForCausalLM cannot be exported: a size that depends") as error:
        compile_language_model(found, target="etir")
    assert error.value.ids == ("E1610",)


def test_a_package_that_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from etir.llm.checkpoint import libraries

    monkeypatch.setattr(libraries, "NEEDED", ("torch", "a-package-of-nobody"))
    _fails(folder, "E1609", "a-package-of-nobody is not installed")


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = str(tmp_path / "m.pte")
    assert et_llm.main(["compile", str(tmp_path / "none.gguf"), "-o", output]) == 1
    assert "error[E1601]: there is no" in capsys.readouterr().err
    assert et_llm.main(["compile", str(tmp_path), "-o", output, "--recipe", "int5"]) == 1
    assert "error[E1608]" in capsys.readouterr().err
    assert et_llm.main(["compile", str(tmp_path), "-o", "-"]) == 1
    assert "error[E0901]" in capsys.readouterr().err
    assert not Path(output).exists()
