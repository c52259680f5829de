"""Sessions that draft: speculative decoding with the interface of a session, for the tools and the server.

::

    drafting = Drafting(model)                      # prompt lookup; Drafting(model, small) takes another model
    session = drafting.session()
    for token in session.generate(ids, Sampling()):
        print(token.text, end="")

:class:`SpeculativeSession` has the methods of :class:`~etir.llm.session.Session`. Its answers are those of
:class:`~etir.llm.speculative.Speculation`; one with a grammar or with a look at the logits is made a token at a time,
as both decide about each token before the next one is computed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from etir.llm.errors import E1729, E1770, E1771
from etir.llm.prefix import common
from etir.llm.sampling import Sampling
from etir.llm.session import Generation, LanguageModel, Session, Statistics, Token
from etir.llm.speculative import AHEAD, Counts, Draft, DraftModel, PromptLookup, Speculation


@dataclass(frozen=True)
class Drafting:
    """A model whose answers are drafted: by a smaller model, or by what the text has already.

    Raises EtirError: E1770 for a file that gives the last position's logits only, E1771 for a draft of another
    vocabulary.
    """

    model: LanguageModel
    draft: LanguageModel | None = None
    """None: prompt lookup."""
    ahead: int = AHEAD

    def __post_init__(self) -> None:
        if not self.model.every_position:
            raise E1770.error(f"'{self.model.path}' gives the logits of the last position only")
        if self.draft is not None and self.draft.vocabulary_size != self.model.vocabulary_size:
            sizes = f"the draft has {self.draft.vocabulary_size} tokens, and the model {self.model.vocabulary_size}"
            raise E1771.error(sizes)

    def session(self) -> SpeculativeSession:
        """A conversation with an empty cache, and one of the draft."""
        return SpeculativeSession(self)


class SpeculativeGeneration(Iterator["Token"]):
    """An answer, token by token, as :class:`~etir.llm.session.Generation` is; ``counts`` says how its drafts did."""

    def __init__(self, tokens: Iterator[Token], counts: Counts, statistics: Statistics, current: Callable[[], bool]):
        self.counts = counts
        self.statistics = statistics
        self._tokens = tokens
        self._current = current

    def __iter__(self) -> SpeculativeGeneration:
        return self

    def __next__(self) -> Token:
        """Raises EtirError: E1723, E1729, E1733."""
        if not self._current():
            raise E1729.error("the session has been used for something else since this answer began")
        began = time.perf_counter()
        token = next(self._tokens)
        taken = time.perf_counter() - began
        known = self.statistics
        if known.generated_tokens == 0:
            self.statistics = replace(known, generated_tokens=1, prefill_seconds=taken, first_token_seconds=taken)
        else:
            count, seconds = known.generated_tokens + 1, known.decode_seconds + taken
            self.statistics = replace(known, generated_tokens=count, decode_seconds=seconds)
        return token

    def close(self) -> None:
        """End the answer here."""
        self._tokens = iter(())

    def text(self) -> str:
        """The rest of the answer at once."""
        return "".join(token.text for token in self)


class SpeculativeSession:
    """A conversation whose answers are drafted. One thread at a time may use it."""

    def __init__(self, drafting: Drafting):
        self._drafting = drafting
        self._session = drafting.model.session()
        self._draft_session = None if drafting.draft is None else drafting.draft.session()
        self._last: Generation | SpeculativeGeneration | None = None
        self._uses = 0

    @property
    def tokens(self) -> list[int]:
        """What the cache holds."""
        return self._session.tokens

    def prefill(self, ids: Sequence[int]) -> None:
        """As ``Session.prefill``."""
        self._session_for_use().prefill(ids)

    def rewind(self, count: int) -> None:
        """As ``Session.rewind``."""
        self._session_for_use().rewind(count)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As ``Session.save``; the draft's cache is not kept, which costs its prompt once more."""
        self._session.save(path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """As ``Session.restore``."""
        self._session_for_use().restore(path)

    def generate(
        self,
        ids: Sequence[int],
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        on_logits: Callable[[Any], None] | None = None,
        *,
        grammar: Literal["json"] | None = None,
    ) -> Generation | SpeculativeGeneration:
        """As ``Session.generate``, in fewer calls of the model; with ``on_logits`` or ``grammar`` without drafts."""
        session = self._session_for_use()
        # What is wrong with the arguments is the same with drafts as without, and is said here and not later.
        plain = session.generate(ids, sampling, max_tokens, stop, on_logits, grammar=grammar)
        if on_logits is not None or grammar is not None or max_tokens == 0:
            self._last = plain
            return plain
        drafting, chosen, used = self._drafting, sampling or Sampling(), self._uses
        speculation = Speculation(drafting.model, session, self._draft(chosen), ahead=drafting.ahead)
        held = common(session.tokens, ids[:-1])
        self._last = SpeculativeGeneration(
            speculation.generate(ids, chosen, max_tokens, stop),
            speculation.counts,
            Statistics(prompt_tokens=len(ids), reused_tokens=held),
            lambda: self._uses == used,
        )
        return self._last

    @property
    def statistics(self) -> Statistics:
        """Of the last answer."""
        return Statistics() if self._last is None else self._last.statistics

    @property
    def counts(self) -> Counts | None:
        """Of the last answer's drafts; None when it had none."""
        return self._last.counts if isinstance(self._last, SpeculativeGeneration) else None

    def _draft(self, sampling: Sampling) -> Draft:
        if self._drafting.draft is None:
            return PromptLookup()
        return DraftModel(self._drafting.draft, sampling, self._draft_session)

    def _session_for_use(self) -> Session:
        """The session, which ends the answer that is being made."""
        self._uses += 1
        return self._session
