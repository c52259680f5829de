"""Text to token ids and back; the C++ underneath is ``runtime/llm/tokenizer.h``.

    tokenizer = Tokenizer.load("model.tokenizer.json")
    ids = tokenizer.encode("Hello")
    text = tokenizer.decode(ids)

C++ reads one format, Hugging Face's ``tokenizer.json``: it is what the stock runner reads, too, and there is a package
that says what each of its parts means. The other formats (GGUF, sentencepiece, tiktoken) are converted to it in
Python (:mod:`etir.llm.vocabularies`), once, where a model is compiled: on a phone nothing is converted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.llm.errors import E1701, E1705
from etir.llm.vocabularies import read_tokenizer
from etir.runtime.library import native

if TYPE_CHECKING:
    from etir.runtime import _native


class TokenStream:
    """Text as ids come: every piece is whole characters, and all pieces together are what ``decode`` gives."""

    def __init__(self, handle: _native.TokenStream):
        self._handle = handle

    def push(self, id: int) -> str:
        """What one more id adds; empty while a character is not whole."""
        return self._handle.push(id)

    def flush(self) -> str:
        """What waited for the rest of a character, which does not come. The stream begins anew."""
        return self._handle.flush()


class Tokenizer:
    """A tokenizer. It does not change: any number of threads may use it at once."""

    def __init__(self, handle: _native.Tokenizer, source: bytes | None = None):
        self._handle = handle
        self.source = source
        """The ``tokenizer.json`` that it was made from; None for the one of a loaded model."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Read a ``tokenizer.json``, a folder with one, a ``.gguf``, a sentencepiece ``.model``, a ``.tiktoken`` file.

        Raises EtirError: E1701 for a file that is none of these or damaged, E1702 and E1703 for unknown parts.
        """
        return cls.from_json(read_tokenizer(Path(path)))

    @classmethod
    def from_json(cls, text: bytes | str | dict[str, Any]) -> Tokenizer:
        """A tokenizer from the contents of a ``tokenizer.json``. Raises EtirError (E1701 to E1703)."""
        if isinstance(text, dict):
            text = json.dumps(text)
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError:
                raise E1701.error("the text is no Unicode: it has halves of characters") from None
        return cls(native().Tokenizer(text), text)

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]:
        """The ids of a text.

        Args:
            text: halves of surrogate pairs in it count as U+FFFD.
            add_special_tokens: add what the tokenizer puts around a text, for instance ``[CLS]`` and ``[SEP]``.
            parse_special: whether ``<|im_end|>`` in the text is that token, or letters like all others, as for what a
                user wrote.

        Raises EtirError: E1704, E1706.
        """
        return self._handle.encode(text, add_special_tokens, parse_special)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids. Raises EtirError (E1705) for an id that there is not."""
        ids = [int(id) for id in ids]
        for id in ids:
            self._check(id)
        return self._handle.decode(ids, skip_special_tokens)

    def stream(self, skip_special_tokens: bool = True) -> TokenStream:
        """Text as ids come."""
        return TokenStream(self._handle.stream(skip_special_tokens))

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""
        return self._handle.size

    def token_id(self, text: str) -> int | None:
        """The id of a token as the vocabulary spells it (``Ġthe``), or None."""
        id = self._handle.id_of(text)
        return None if id < 0 else id

    def token(self, id: int) -> str:
        """A token as the vocabulary spells it; empty in a gap of the ids. Raises EtirError (E1705)."""
        self._check(id)
        return self._handle.token_of(id) or ""

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token is in the middle of a text. Raises EtirError (E1705)."""
        self._check(id)
        return self._handle.bytes_of(id)

    def is_special(self, id: int) -> bool:
        """Whether a token steers the model and is no text. Raises EtirError (E1705)."""
        self._check(id)
        return self._handle.is_special(id)

    def _check(self, id: int) -> None:
        if not 0 <= id < self.vocabulary_size:
            raise E1705.error(f"there is no token {id}; ids are from 0 to {self.vocabulary_size - 1}")

    def __repr__(self) -> str:
        return f"<etir.llm.Tokenizer of {self.vocabulary_size} tokens>"
