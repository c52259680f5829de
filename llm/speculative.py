"""Speculative decoding: guess some tokens cheaply, check them all in one call of the model, keep those that are right.

::

    session, draft = model.session(), PromptLookup()
    for token in Speculation(model, session, draft).generate(ids, Sampling(temperature=0.7)):
        print(token.text, end="")

A call for several tokens reads the weights once, and reading them is what decoding waits for. The answer is the same as
without: greedily the same tokens (up to ties within rounding, as products of several rows may round differently), and
when sampling the same distribution, by the rejection rule of Leviathan, Kalman and Matias, "Fast Inference from
Transformers via Speculative Decoding" (2023): a token that was drafted with probability q and has probability p is kept
with probability min(1, p / q), and the first that is not is drawn from what p has more than q, max(0, p - q).

Two drafts: :class:`PromptLookup` repeats what followed the last words earlier in the text, which costs nothing and pays
where answers quote (summaries, code that is changed, JSON); :class:`DraftModel` is a smaller model of the same
vocabulary. The checked program has to give the logits of every position (``et-llm compile --all-logits``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from etir.llm.errors import E1722, E1723, E1728, E1770, E1771
from etir.llm.prefix import common
from etir.llm.session import LanguageModel, Sampling, Session, Token

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Probabilities = NDArray[np.float64]


AHEAD = 8
"""Tokens that are guessed at once, at most, unless it is said."""


@dataclass
class Counts:
    """How drafting went: the mean tokens of a call are ``generated / calls``."""

    calls: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0


@dataclass(frozen=True)
class Guess:
    """Drafted tokens; ``distributions`` has the probabilities f64[V] that each was drawn from, None for certainty."""

    tokens: list[int]
    distributions: list[Probabilities] | None = None


class Draft(Protocol):
    """What guesses how a text goes on."""

    def guess(self, history: Sequence[int], answer: Sequence[int], count: int) -> Guess:
        """Up to ``count`` tokens after ``history``, whose end ``answer`` is."""
        ...


class PromptLookup:
    """Guesses what followed the last time that the text had its last ``longest`` to ``shortest`` tokens."""

    def __init__(self, longest: int = 4, shortest: int = 2):
        self._sizes = range(longest, shortest - 1, -1)

    def guess(self, history: Sequence[int], answer: Sequence[int], count: int) -> Guess:
        """The latest occurrence of the longest ending that there is."""
        import numpy as np

        tokens = np.asarray(history, np.int64)
        for size in self._sizes:
            # A window of every place but the last, which is the ending itself.
            if len(tokens) <= size:
                continue
            places = np.lib.stride_tricks.sliding_window_view(tokens[:-1], size)
            found = np.flatnonzero((places == tokens[-size:]).all(axis=1))
            if len(found):
                after = int(found[-1]) + size
                return Guess(tokens[after : after + count].tolist())
        return Guess([])


class DraftModel:
    """Guesses with a smaller model of the same vocabulary, sampled as the answer is. ``session`` is one of ``model``,
    whose cache may hold any text; by default a new one.
    """

    def __init__(self, model: LanguageModel, sampling: Sampling, session: Session | None = None):
        import numpy as np

        self._session = model.session() if session is None else session
        self._sampling = sampling
        self._random = np.random.default_rng((sampling.seed % 2**64, 1))
        self._size = sampled_size(model)
        self.context = model.context
        self.vocabulary_size = model.vocabulary_size

    def guess(self, history: Sequence[int], answer: Sequence[int], count: int) -> Guess:
        """A token at a time."""
        tokens: list[int] = []
        rows: list[Probabilities] = []
        said = list(answer)
        keep(self._session, history[:-1])
        held = len(self._session.tokens)
        count = min(count, self.context - len(history))
        if count < 1:
            return Guess([])
        self._session.prefill(history[held:-1])
        fed = [history[-1]]
        for _ in range(count):
            row = _numbers(self._session.logits(fed), 1, self._size, self._session)[-1]
            p = distribution(row, self._sampling, said)
            fed = [_drawn(p, self._random)]
            tokens += fed
            said += fed
            rows.append(p)
        return Guess(tokens, rows)


class Speculation:
    """Answers of one session, with a draft. ``counts`` says how it went.

    Raises E1770 for a program that gives the last position's logits, E1771 for a draft of another vocabulary.
    """

    def __init__(self, model: LanguageModel, session: Session, draft: Draft, *, ahead: int = AHEAD):
        if not model.every_position:
            raise E1770.error(f"'{model.path}' gives the logits of the last position only")
        size = getattr(draft, "vocabulary_size", model.vocabulary_size)
        if size != model.vocabulary_size:
            raise E1771.error(f"the draft has {size} tokens, and the model {model.vocabulary_size}")
        self.counts = Counts()
        self._model = model
        self._session = session
        self._draft = draft
        self._size = sampled_size(model)
        self._ahead = ahead

    def generate(
        self,
        ids: Sequence[int],
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Token]:
        """What ``Session.generate`` yields. Raises E1722 for a prompt that is longer than the context, E1723 and E1728
        for logits that no token can be chosen of.
        """
        import numpy as np

        context = self._model.context
        if not 0 < len(ids) <= context:
            raise E1722.error(f"the prompt has {len(ids)} tokens, and the context {context}")
        chosen = sampling or Sampling()
        random = np.random.default_rng((chosen.seed % 2**64, 0))
        text = _Text(self._model.tokenizer.stream(), stop)
        history, answer = list(ids), list[int]()
        keep(self._session, history[:-1])
        # Nobody reads the logits inside of a prompt: of 512 tokens of SmolLM2 they would be 100 MB.
        self._session.prefill(history[len(self._session.tokens) : -1])
        while True:
            held = len(self._session.tokens)
            room = min(self._ahead, context - len(history), _left(max_tokens, answer) - 1)
            guess = self._draft.guess(history, answer, room) if room > 0 else Guess([])
            found = self._session.logits([*history[held:], *guess.tokens])
            rows = _numbers(found, len(guess.tokens) + 1, self._size, self._session)
            self.counts.calls += 1
            self.counts.drafted += len(guess.tokens)
            fresh = _checked(rows, guess, chosen, answer, random)
            self.counts.accepted += len(fresh) - 1
            self._session.rewind(len(guess.tokens) - (len(fresh) - 1))
            for id in fresh:
                full = len(history) >= context
                history.append(id)
                answer.append(id)
                self.counts.generated += 1
                token = self._token(id, text, full=full, enough=_left(max_tokens, answer) == 0)
                yield token
                if token.finish is not None:
                    # The session holds what was said but the last token, as after Session.generate.
                    self._session.rewind(max(len(self._session.tokens) - len(history) + 1, 0))
                    return

    def _token(self, id: int, text: _Text, *, full: bool, enough: bool) -> Token:
        if id in self._model.eos_ids:
            return Token(id, text.end(), "stop")
        said = text.push(id)
        if text.found:
            return Token(id, said, "stop_string")
        if enough or full:
            return Token(id, said + text.end(), "length" if enough else "context")
        return Token(id, said)


def _left(most: int | None, answer: Sequence[int]) -> int:
    return 2**31 if most is None else most - len(answer)


def _checked(
    rows: NDArray[np.float32], guess: Guess, sampling: Sampling, answer: Sequence[int], random: np.random.Generator
) -> list[int]:
    """The drafted tokens that are kept, and one more: what comes after them."""
    import numpy as np

    fresh: list[int] = []
    for i, token in enumerate(guess.tokens):
        p = distribution(rows[i], sampling, [*answer, *fresh])
        if guess.distributions is None:
            q = np.zeros_like(p)
            q[token] = 1.0
        else:
            q = guess.distributions[i]
        if random.random() * q[token] < p[token]:
            fresh.append(token)
            continue
        rest = np.maximum(p - q, 0.0)
        return [*fresh, _drawn(rest / rest.sum(), random)]
    return [*fresh, _drawn(distribution(rows[-1], sampling, [*answer, *fresh]), random)]


def _numbers(logits: NDArray[np.float32], count: int, size: int, session: Session) -> NDArray[np.float32]:
    """The last rows of the logits of a call, of the tokens that are sampled from. Raises E1723 where the runner's
    sampler does: for what is no number or infinite, and E1728 where no token is possible.
    """
    import numpy as np

    rows = logits[-count:, :size]
    most = rows.max(axis=1)  # NaN where there is one.
    for row in np.flatnonzero(~np.isfinite(most)):
        at = f"position {len(session.tokens) - count + int(row) + 1}"
        if most[row] == -np.inf:
            raise E1728.error(f"no token is possible here at {at}")
        raise E1723.error(f"a logit is {'infinite' if most[row] == np.inf else 'not a number'} at {at}")
    return rows


def distribution(logits: NDArray[np.float32], sampling: Sampling, answer: Sequence[int]) -> Probabilities:
    """The probabilities f64[V] that the runner's sampler draws from: penalty, top-k, top-p, min-p in its order.

    The same as ``Sampler::choose`` of ``runtime/llm/sampler.cc``, ties to the smaller id included.
    """
    import numpy as np

    scaled = np.array(logits, np.float32)
    if sampling.repetition_penalty != 1 and sampling.repetition_window > 0 and len(answer):
        window = np.unique(np.asarray(answer[-sampling.repetition_window :]))
        penalty = np.float32(sampling.repetition_penalty)
        scaled[window] = np.where(scaled[window] > 0, scaled[window] / penalty, scaled[window] * penalty)
    found = np.zeros(len(scaled))
    if sampling.temperature == 0 or sampling.top_k == 1:
        found[int(scaled.argmax())] = 1.0
        return found
    order = np.argsort(-scaled, kind="stable")
    if sampling.top_k > 0:
        order = order[: sampling.top_k]
    weights = np.exp((scaled[order].astype(np.float64) - float(scaled[order[0]])) / sampling.temperature)
    if sampling.top_p < 1:
        before = np.cumsum(weights) - weights
        kept = before < sampling.top_p * weights.sum()
        order, weights = order[kept], weights[kept]
    kept = weights >= sampling.min_p
    found[order[kept]] = weights[kept] / weights[kept].sum()
    return found


def _drawn(p: Probabilities, random: np.random.Generator) -> int:
    """A token; the only one that is possible needs no number."""
    import numpy as np

    possible = np.flatnonzero(p)
    return int(possible[0]) if len(possible) == 1 else int(random.choice(len(p), p=p))


def keep(session: Session, ids: Sequence[int]) -> None:
    """Rewind a session to the longest prefix of ``ids`` that it holds."""
    held = session.tokens
    same = common(held, ids)
    if same < len(held):
        session.rewind(len(held) - same)


def sampled_size(model: LanguageModel) -> int:
    """How many logits are sampled from: a model may have more than there are tokens."""
    return min(model.vocabulary_size, model.tokenizer.vocabulary_size)


class _Text:
    """The answer's text: whole characters, and nothing of what may become a stop string."""

    def __init__(self, stream: Any, stop: Sequence[str]):
        self.found = False
        self._stream = stream
        self._stop = [each for each in stop if each]
        self._held = ""

    def push(self, id: int) -> str:
        """What a token adds; up to the stop string that it completes."""
        self._held += self._stream.push(id)
        places = [place for each in self._stop if (place := self._held.find(each)) >= 0]
        if places:
            self.found = True
            return self._held[: min(places)]
        begun = (n for each in self._stop for n in range(1, len(each)) if self._held.endswith(each[:n]))
        cut = len(self._held) - max(begun, default=0)
        said, self._held = self._held[:cut], self._held[cut:]
        return said

    def end(self) -> str:
        """What was held back, when nothing more comes."""
        said, self._held = self._held + self._stream.flush(), ""
        return said
