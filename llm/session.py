"""Language models and conversations with them; the C++ underneath is ``runtime/llm/session.h``.

    model = LanguageModel.load("model.pte")
    session = model.session()
    ids = model.tokenizer.encode(model.render([{"role": "user", "content": "Hello"}]))
    for token in session.generate(ids, Sampling(temperature=0.7)):
        print(token.text, end="")

``generate`` takes the whole conversation each time. The session knows which tokens its cache holds and feeds what
comes after the longest common prefix, so that nothing is kept twice and nothing can come apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from etir.llm.chat_description import ChatDescription
from etir.llm.errors import E1701, E1712, E1724, E1733
from etir.llm.sampling import Sampling
from etir.llm.template import render
from etir.llm.tokenizer import Tokenizer
from etir.llm.vocabularies import read_tokenizer
from etir.runtime.library import native

if TYPE_CHECKING:
    from etir.runtime import _native

Finish = Literal["stop", "stop_string", "length", "context"]
"""How an answer ended: by a token for that, by a stop string, at ``max_tokens``, at the end of the context."""


@dataclass(frozen=True)
class Token:
    """A piece of an answer."""

    id: int
    text: str
    """What it adds: whole characters, empty while one is not whole or a stop string may have begun."""
    finish: Finish | None = None
    """Set for the last token."""


@dataclass(frozen=True)
class Statistics:
    """Counts and seconds of one answer."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Tokens of the prompt that the cache held already."""
    generated_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    """Of all tokens but the first."""
    first_token_seconds: float = 0.0


class Generation(Iterator["Token"]):
    """An answer, token by token. ``close`` cancels it; the session then holds what was fed."""

    def __init__(self, handle: _native.Generation, on_logits: Callable[[Any], None] | None):
        self._handle = handle
        self._on_logits = on_logits

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Token:
        """Raises EtirError: E1723, E1728, E1729, E1733."""
        found = self._handle.next(self._on_logits)
        if found is None:
            raise StopIteration
        return Token(*found)

    def close(self) -> None:
        """End the answer here."""
        self._handle.cancel()

    def text(self) -> str:
        """The rest of the answer at once."""
        return "".join(token.text for token in self)

    @property
    def statistics(self) -> Statistics:
        """So far."""
        return Statistics(*self._handle.statistics)


class Session:
    """A conversation with a cache of its own. Calls from several threads wait for each other."""

    def __init__(self, handle: _native.Session):
        self._handle = handle
        self._last: Generation | None = None

    @property
    def tokens(self) -> list[int]:
        """What the cache holds."""
        return self._handle.tokens

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed tokens after those that the cache holds. Raises EtirError: E1722, E1727, E1733."""
        self._handle.prefill(_ids(ids))

    def logits(self, ids: Sequence[int]) -> Any:
        """Feed tokens as :meth:`prefill` does; the logits after each, float32 ``[len(ids), vocabulary]``."""
        return self._handle.logits(_ids(ids))

    def rewind(self, count: int) -> None:
        """Take the last ``count`` tokens back. Raises EtirError (E1726)."""
        self._handle.rewind(count)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokens and cache to a file. Raises EtirError (E1725)."""
        self._handle.save(os.fspath(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Read them back; the session is as it was when anything is wrong.

        Raises EtirError (E1725) for a file of another program or a damaged one.
        """
        self._handle.restore(os.fspath(path))

    def generate(
        self,
        ids: Sequence[int],
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        on_logits: Callable[[Any], None] | None = None,
        *,
        grammar: Literal["json"] | None = None,
    ) -> Generation:
        """An answer to a prompt. Nothing runs before the first token is asked for.

        Args:
            ids: the whole prompt; the longest prefix that the cache holds is not fed again.
            sampling: how tokens are chosen; by default the most likely one.
            max_tokens: how many at most; by default as many as the context takes.
            stop: texts that end the answer and are not part of it.
            on_logits: called before each token with the logits float32 ``[vocabulary]``, which it may change: minus
                infinity forbids a token. The array is valid during the call only.
            grammar: ``"json"``: the answer is one JSON object.

        Raises EtirError: E1722 for a prompt that is longer than the context, E1724, E1727; the iterator also E1723,
        E1728, and E1729 when the session was used for something else.
        """
        chosen = sampling or Sampling()
        if max_tokens is not None and max_tokens < 0:
            raise E1724.error(f"max_tokens is {max_tokens}; it has to be 0 or more")
        settings = _settings(chosen)
        for text in stop:
            # Halves of surrogate pairs, as from a command line that is not UTF-8: no answer has them.
            if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
                raise E1724.error(f"{text!r} is no stop string: it is not Unicode text")
        most = -1 if max_tokens is None else max_tokens
        handle = self._handle.generate(_ids(ids), *settings, most, list(stop), grammar == "json")
        self._last = Generation(handle, on_logits)
        return self._last

    @property
    def statistics(self) -> Statistics:
        """Of the last answer."""
        return Statistics() if self._last is None else self._last.statistics


def _settings(sampling: Sampling) -> tuple[Any, ...]:
    """The fields, where they fit the numbers of C++."""
    for name in ("top_k", "repetition_window"):
        if not -(2**31) <= getattr(sampling, name) < 2**31:
            raise E1724.error(f"{name} is {getattr(sampling, name)}")
    *rest, seed = astuple(sampling)
    return (*rest, seed % 2**64)


def _ids(ids: Sequence[int]) -> list[int]:
    """As a list; what no 32-bit number holds is no token and is refused where tokens are checked."""
    return [id if -1 < (id := int(each)) < 2**31 else -1 for each in ids]


class LanguageModel:
    """A model file with its tokenizer and its chat template. Sessions of it share the weights, which are mapped."""

    def __init__(self, handle: _native.LanguageModel, path: Path, chat: ChatDescription):
        self._handle = handle
        self._tokenizer = handle.tokenizer
        self.path = path
        self.chat = chat
        self.context: int
        """Tokens that a conversation may have."""
        self.piece: int
        """Tokens that are fed at once, at most."""
        self.vocabulary_size: int
        """Logits of a position."""
        self.every_position: bool
        """Whether a call gives the logits of each of its tokens, not of the last one only."""
        self.context, self.piece, self.vocabulary_size, self.every_position, ids = handle.contract
        self.eos_ids: tuple[int, ...] = tuple(ids)
        """Tokens that end an answer."""

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
        chat: str | os.PathLike[str] | ChatDescription | None = None,
        threads: int | None = None,
        *,
        isa: str | None = None,
        native_code: Literal["refuse", "trusted"] = "refuse",
    ) -> LanguageModel:
        """Load ``model.pte``, and by default ``model.tokenizer.json`` and ``model.chat.json`` beside it.

        Args:
            path: a file of the contract of ExecuTorch's text runner.
            tokenizer: another file, of any kind that :meth:`Tokenizer.load` reads.
            chat: another description.
            threads: how many a run may use; by default as many as the process may run on.
            isa: instruction set of the kernels, as ``etir.runtime.load`` takes it.
            native_code: whether machine code of the file is run.

        Raises EtirError: E1701 to E1703, E1713, E1721, E1731, E1733.
        """
        path = Path(path)
        if chat is None and (beside := path.with_suffix(".chat.json")).is_file():
            chat = beside
        if not isinstance(chat, ChatDescription):
            chat = ChatDescription() if chat is None else ChatDescription.load(chat)
        if tokenizer is None and (beside := path.with_suffix(".tokenizer.json")).is_file():
            tokenizer = beside
        text = None
        if tokenizer is not None:
            text = tokenizer.source if isinstance(tokenizer, Tokenizer) else read_tokenizer(Path(tokenizer))
        count = len(os.sched_getaffinity(0)) if threads is None else threads
        if count < 1:
            raise E1733.error(f"threads is {threads}; a run needs at least 1")
        handle = native().LanguageModel(
            os.fspath(path), text, list(chat.eos_ids), count, isa or "", native_code == "trusted"
        )
        return cls(handle, path, chat)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises EtirError (E1701) when there is none."""
        if self._tokenizer is None:
            beside = self.path.with_suffix(".tokenizer.json")
            raise E1701.error(f"there is no '{beside}'", help="pass a tokenizer: --tokenizer, or tokenizer=")
        return Tokenizer(self._tokenizer)

    def session(self) -> Session:
        """A conversation with an empty cache. Raises EtirError (E1733)."""
        return Session(self._handle.session())

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        """The prompt of a conversation: messages with ``role`` and ``content``.

        Raises EtirError: E1711 for a template that fails, E1712 without one.
        """
        if self.chat.chat_template is None:
            raise E1712.error(f"'{self.path}' has no chat template")
        return render(self.chat, messages, add_generation_prompt=add_generation_prompt)

    def memory(self) -> dict[str, int]:
        """Bytes: ``file``, which is mapped and shared, and ``session``, of each session (0 before there is one)."""
        file, session = self._handle.memory
        return {"file": file, "session": session}

    @property
    def isa(self) -> str:
        """The instruction set of the kernels in use."""
        return self._handle.isa

    def __repr__(self) -> str:
        name = self.chat.name or self.path.name
        return f"<etir.llm.LanguageModel {name}: context {self.context}, vocabulary {self.vocabulary_size}>"
