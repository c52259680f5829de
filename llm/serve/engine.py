"""What the server asks of a model: the part of ``LanguageModel`` and ``Session`` that it uses, as protocols.

Tests serve an engine of bytes that needs no weights (``etir_testing.llm.engine``); everything else of the server is the
same with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from etir.llm.sampling import Sampling

    Logits = NDArray[np.float32]

FINISHES = ("stop", "stop_string", "length", "context")
"""What ends an answer: an end token, a stop string, the most tokens that were asked for, the end of the context."""


class Token(Protocol):
    """One generated token: ``text`` is what it adds, whole characters only; ``finish`` is None before the last."""

    @property
    def id(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def finish(self) -> str | None: ...


class Tokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...


class Session(Protocol):
    """One cache over the model's weights; ``tokens`` is what it holds."""

    @property
    def tokens(self) -> Sequence[int]: ...
    def prefill(self, ids: Sequence[int]) -> None:
        """Feed tokens after those that the cache holds."""
        ...

    def rewind(self, count: int) -> None:
        """Take the last ``count`` tokens back."""
        ...

    def generate(
        self,
        ids: Sequence[int],
        sampling: Sampling = ...,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        on_logits: Callable[[Any], Any] | None = None,
        *,
        grammar: Literal["json"] | None = None,
    ) -> Iterator[Token]:
        """Tokens after the whole prompt ``ids``; the prefix that the cache holds is not computed again."""
        ...


class Model(Protocol):
    """Weights, tokenizer and chat template of one file."""

    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def context(self) -> int: ...
    @property
    def vocabulary_size(self) -> int: ...
    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str: ...
    def session(self) -> Session: ...
    def memory(self) -> Mapping[str, int]: ...
