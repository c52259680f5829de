"""A Hugging Face folder: config.json, safetensors, tokenizer, generation_config.json, chat template.

transformers loads the weights, since a checkpoint's names are not always those of its model: it knows what to rename,
to join and to split. What it would only warn of is an error here: weights that are missing get random numbers there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from etir.diagnostics import EtirError
from etir.llm.checkpoint.checkpoint import Chat, Checkpoint
from etir.llm.checkpoint.libraries import first_line, import_transformers
from etir.llm.errors import E1601, E1602, E1603, E1604, E1605, E1606
from etir.llm.vocabularies import read_tokenizer

_INDEX = "model.safetensors.index.json"


def load_folder(path: Path, tokenizer: Path | None = None) -> Checkpoint:
    """The checkpoint of a folder, ``tokenizer`` instead of its own if given. Raises E1601 to E1606."""
    import torch

    transformers = import_transformers()
    described = _json(path / "config.json")
    if described is None:
        raise E1601.error(f"'{path}' has no config.json")
    _check_files(path)
    config = _config(path, described)
    cls = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    try:
        model, told = cls.from_pretrained(
            str(path),
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # They are named below, all of them.
        )
    except Exception as error:  # Whatever it could not load: its message names the file or the tensor.
        raise _not_loaded(path, cls, config, described, error) from error
    mismatched = sorted(tuple(key) for key in told.get("mismatched_keys", ()))
    lacks = sorted(told["missing_keys"])
    lacks += [f"{name}, of shape {list(has)} and not {list(wanted)}" for name, has, wanted in mismatched]
    if lacks:
        raise E1605.error(f"'{path}' lacks {', '.join(lacks[:5])}" + (f" and {len(lacks) - 5} more" * (len(lacks) > 5)))
    text, vocabulary, rewritten = tokenizer_text(path if tokenizer is None else tokenizer)
    return Checkpoint(path.resolve().name, model.eval(), text, _chat(path, model, text), vocabulary, {}, rewritten)


def _not_loaded(path: Path, cls: Any, config: Any, described: dict[str, Any], error: Exception) -> EtirError:
    """Why a model could not be loaded: it is quantized already, its configuration makes none, or its files."""
    import torch

    quantized = described.get("quantization_config")
    if isinstance(quantized, dict):
        return E1604.error(
            f"'{path}' is quantized already, by '{quantized.get('quant_method', '?')}', which is not read: "
            f"{first_line(error)}",
            help="take the checkpoint that it was made of, or a GGUF file of the same model",
        )
    try:
        with torch.device("meta"):
            cls(config)
    except Exception as wrong:
        return E1602.error(
            f"no model can be made of '{path / 'config.json'}': {type(wrong).__name__}: {first_line(wrong)}"
        )
    return E1602.error(f"the weights of '{path}' cannot be loaded: {first_line(error)}")


def _config(path: Path, described: dict[str, Any]) -> Any:
    transformers = import_transformers()
    name = described.get("model_type", "")
    try:
        config = transformers.AutoConfig.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
    except Exception as error:
        if name in transformers.CONFIG_MAPPING:
            raise E1602.error(f"'{path / 'config.json'}': {first_line(error)}") from error
        raise E1603.error(f"'{path}' is a model of type '{name}', which transformers does not know") from error
    if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise E1603.error(f"'{path}' is a model of type '{name}', which is no decoder of text")
    return config


def _check_files(path: Path) -> None:
    """The safetensors are there, and as long as their headers say."""
    from safetensors import SafetensorError, safe_open

    index = _json(path / _INDEX)
    names = ["model.safetensors"]
    if index is not None:
        shards = index.get("weight_map")
        if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
            raise E1602.error(f"'{path / _INDEX}' has no weight_map of names of files")
        names = sorted(set(shards.values()))
    missing = [name for name in names if not (path / name).is_file()]
    if missing:
        raise E1605.error(f"'{path}' has no {', '.join(missing)}", help=_instead(path))
    for name in names:
        try:
            with safe_open(path / name, "numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise E1602.error(f"'{path / name}' is damaged: {first_line(error)}") from None


def _instead(path: Path) -> str | None:
    """What to do about a folder with weights of another form; None where there are none."""
    if (path / "adapter_config.json").is_file():
        return "it has an adapter alone: merge it into its model (peft's merge_and_unload) and save that"
    if any(path.glob("*.bin")) or any(path.glob("*.pth")):
        return "weights that are pickled are never opened: save the model again with transformers' save_pretrained"
    return None


def tokenizer_text(path: Path) -> tuple[str, int, tuple[str, ...]]:
    """The text of the ``tokenizer.json`` of a folder, or of the file, its number of tokens, and remarks.

    Raises E1606.
    """
    from tokenizers import Tokenizer

    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.is_file() and file.suffix == ".json":
            text = file.read_text(encoding="utf-8")
            return text, _vocabulary(Tokenizer.from_str(text)), ()
        found = import_transformers().AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        backend = found.backend_tokenizer
    except Exception as error:  # The library has no class of its own for what is wrong with a file.
        raise E1606.error(f"the tokenizer of '{path}' cannot be read: {first_line(error)}") from error
    made = _pieces(path, backend) or backend
    return made.to_str(), _vocabulary(made), (f"the tokenizer of '{path}' is written as tokenizer.json",)


def _pieces(path: Path, backend: Any) -> Any:
    """A tokenizer that cuts text as the sentencepiece model of a folder does, with the tokens that ``backend``,
    transformers' conversion of it, has besides; None where there is no such model, or where its class gives pieces
    other ids. What a model says of characters and of spaces at the begin is lost in that conversion.
    """
    from tokenizers import Tokenizer

    file = path / "tokenizer.model"
    try:
        own = json.loads(read_tokenizer(file)) if file.is_file() else {}
    except EtirError:
        return None
    if own.get("pre_tokenizer") is not None:  # tiktoken's, whose pattern of words is in no file.
        return None
    vocabulary = own.get("model", {}).get("vocab", [])
    pieces = [row[0] for row in vocabulary] if isinstance(vocabulary, list) else list(vocabulary)
    if not pieces or any(backend.id_to_token(id) != piece for id, piece in enumerate(pieces)):
        return None
    given = json.loads(backend.to_str())
    added: dict[int, dict[str, Any]] = {token["id"]: token for token in own["added_tokens"]}
    for token in given["added_tokens"]:
        id = token["id"]
        if id >= len(pieces):
            added[id] = token
        elif id in added:
            added[id] = {**added[id], "special": added[id]["special"] or token["special"]}
    parts = {"added_tokens": [added[id] for id in sorted(added)], "post_processor": given["post_processor"]}
    words = given["pre_tokenizer"] or {}
    steps = own["normalizer"]["normalizers"]
    if words.get("prepend_scheme") in ("first", "never") and any(step["type"] == "Prepend" for step in steps):
        # The folder's settings say where a text gets a space: at its begin alone, and not after special tokens.
        others = [step for step in steps if step["type"] != "Prepend" and step.get("pattern") != {"String": " "}]
        parts["normalizer"] = {"type": "Sequence", "normalizers": others} if others else None
        parts |= {"pre_tokenizer": words, "decoder": given["decoder"]}
    return Tokenizer.from_str(json.dumps(own | parts))


def _vocabulary(tokenizer: Any) -> int:
    """One more than the largest number of a token: there may be gaps."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def _chat(path: Path, model: Any, text: str) -> Chat:
    from tokenizers import Tokenizer

    settings = (_json(path / "special_tokens_map.json") or {}) | (_json(path / "tokenizer_config.json") or {})
    tokenizer = Tokenizer.from_str(text)
    rows = int(model.get_input_embeddings().weight.shape[0])

    def token(name: str) -> str | None:
        found = settings.get(f"{name}_token")
        found = found.get("content") if isinstance(found, dict) else found
        if found is not None and not isinstance(found, str):
            raise E1606.error(f"'{path}': {name}_token is {found!r}, which is no token")
        return found

    def number(text: str | None, name: str) -> list[int]:
        known = getattr(model.generation_config, f"{name}_token_id", None)
        if known is None:
            known = getattr(model.config, f"{name}_token_id", None)
        ids = list(known) if isinstance(known, (list, tuple)) else [known]
        # Some configurations have -1 for none, or ids of a model with more rows.
        ids = [id for id in ids if isinstance(id, int) and 0 <= id < rows]
        own = None if text is None else tokenizer.token_to_id(text)
        return list(dict.fromkeys(ids + ([own] if own is not None else [])))

    bos, eos = token("bos"), token("eos")
    starts, ends = number(bos, "bos"), number(eos, "eos")
    return Chat(
        template=_template(path, settings),
        bos=bos if bos is not None or not starts else tokenizer.id_to_token(starts[0]),
        eos=eos if eos is not None or not ends else tokenizer.id_to_token(ends[0]),
        eos_ids=tuple(ends),
        bos_id=starts[0] if starts else None,
        add_bos=_adds_bos(tokenizer, starts),
    )


def _template(path: Path, settings: dict[str, Any]) -> str | None:
    """The chat template: of a file of its own, as transformers writes it, or of settings. Raises E1602."""
    if (file := path / "chat_template.jinja").is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise E1602.error(f"'{file}' is not UTF-8: {error.reason} at byte {error.start}") from None
    template: Any = (_json(path / "chat_template.json") or settings).get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _adds_bos(tokenizer: Any, starts: list[int]) -> bool:
    """Whether the tokenizer itself puts the first token before a text."""
    ids = tokenizer.encode("a", add_special_tokens=True).ids
    return bool(ids) and ids[0] in starts


def _json(path: Path) -> dict[str, Any] | None:
    """The object that a file has; None without the file. Raises E1602 for another text."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise E1602.error(f"'{path}' is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise E1602.error(f"'{path}' is no object of JSON")
    return found
