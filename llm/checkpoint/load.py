"""Any checkpoint by its path."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from etir.llm.checkpoint.checkpoint import Checkpoint
from etir.llm.errors import E1601, E1606


def load_checkpoint(path: str | PathLike[str], tokenizer: str | PathLike[str] | None = None) -> Checkpoint:
    """The model of a GGUF file or of a Hugging Face folder, in float32, with ``tokenizer`` (a ``tokenizer.json``, or a
    folder with one) instead of its own if given.

    Raises E1601 to E1606 as the checkpoint is wrong, E1609 where a package is missing.
    """
    source = Path(path)
    other = None if tokenizer is None else Path(tokenizer)
    if other is not None and not other.exists():
        raise E1606.error(f"there is no '{other}'")
    if not source.exists():
        raise E1601.error(f"there is no '{source}'")
    if source.is_dir():
        from etir.llm.checkpoint.folder import load_folder

        found = load_folder(source, other)
    else:
        found = _load_gguf(source, other)
    table: Any = found.model.get_input_embeddings()
    rows = int(table.weight.shape[0])
    if found.vocabulary > rows:
        raise E1606.error(f"the tokenizer has {found.vocabulary} tokens, and the model {rows} rows for them")
    return found


def _load_gguf(path: Path, tokenizer: Path | None) -> Checkpoint:
    from etir.llm.checkpoint.libraries import import_transformers

    import_transformers()
    from etir.llm.checkpoint.folder import tokenizer_text
    from etir.llm.checkpoint.gguf_config import architecture_of
    from etir.llm.checkpoint.gguf_header import read_gguf
    from etir.llm.checkpoint.gguf_model import load_gguf_model
    from etir.llm.checkpoint.gguf_tokenizer import chat_of, gguf_tokenizer

    file = read_gguf(path)
    name, _ = architecture_of(file)
    remarks: tuple[str, ...] = ()
    if tokenizer is None:
        text, vocabulary, chat = gguf_tokenizer(file, name)
    else:
        text, vocabulary, remarks = tokenizer_text(tokenizer)
        chat = chat_of(file)
    model, blocks, told = load_gguf_model(file)
    title = file.fields.get("general.name")
    found = Checkpoint(title if isinstance(title, str) else path.stem, model, text, chat, vocabulary, blocks)
    return replace(found, remarks=(*remarks, *told))
