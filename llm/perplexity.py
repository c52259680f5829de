"""Perplexity of a program on a text, on etir's runtime or the stock one, beside the checkpoint in float32.

What is measured is the file itself on the runtime that will run it, not the model that it was made from: that is where
a wrong scale, a wrong position or a wrong kernel shows. Windows overlap as in transformers' guide to perplexity: each
has up to ``window`` tokens, of which only those are scored that the last one did not hold, so that every token but the
first is scored once, with at least ``window - stride`` tokens before it where the text has them.

With a reference, both score the same positions, and their distributions are compared at each: the mean Kullback-Leibler
divergence says what was lost even where the text's own tokens hide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from etir.llm.errors import E1723, E1760, E1762, E1764

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

PIECE = 64
"""Positions whose logits are held at once."""


class Scorer(Protocol):
    """What gives logits. ``calls`` is how often the program ran."""

    vocabulary_size: int
    calls: int

    def begin(self) -> None:
        """Forget what was fed."""
        ...

    def feed(self, ids: Sequence[int]) -> None:
        """Tokens after those that were fed, whose logits nobody needs."""
        ...

    def rows(self, ids: Sequence[int]) -> Rows:
        """Tokens after those that were fed, and the logits after each, f32[len(ids), vocabulary_size]."""
        ...


@dataclass(frozen=True)
class Window:
    """Tokens ``begin`` to ``end`` are fed; those from ``scored`` on are scored."""

    begin: int
    scored: int
    end: int


def windows(count: int, window: int, stride: int) -> Iterator[Window]:
    """The windows over ``count`` tokens; every token but the first is scored once."""
    scored = 1
    for begin in range(0, count, stride):
        end = min(begin + window, count)
        if end > scored:
            yield Window(begin, scored, end)
        scored = max(scored, end)
        if end == count:
            return


@dataclass
class Result:
    """Sums over the scored tokens, in nats."""

    tokens: int = 0
    nats: float = 0.0
    squares: float = 0.0
    right: int = 0

    @property
    def mean(self) -> float:
        """Negative log-likelihood of a token, in nats."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Infinity where it is too large for a number."""
        try:
            return math.exp(self.mean)
        except OverflowError:
            return math.inf

    @property
    def error(self) -> float:
        """The standard error of the perplexity, if tokens were independent of each other."""
        if self.tokens < 2:
            return math.inf
        variance = max(self.squares / self.tokens - self.mean**2, 0.0) * self.tokens / (self.tokens - 1)
        return self.perplexity * math.sqrt(variance / self.tokens)

    @property
    def accuracy(self) -> float:
        """Part of the tokens that were the likeliest."""
        return self.right / self.tokens


@dataclass
class Report:
    """The program's result, and beside a reference that one's and what lies between them."""

    program: Result = field(default_factory=Result)
    reference: Result | None = None
    divergence: float = 0.0
    """Mean Kullback-Leibler divergence of the program from the reference, in nats for each token."""
    agreement: float = 0.0
    """Part of the positions whose likeliest token is the same."""
    calls: int = 0


def measure(
    program: Scorer,
    ids: Sequence[int],
    window: int,
    stride: int | None = None,
    *,
    reference: Scorer | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Score the tokens of a text. ``stride`` is half a window by default; ``progress`` hears of scored tokens.

    Raises E1760 for a text of fewer than two tokens, E1762 for a window or a stride that does not fit, E1764 for a
    reference of another vocabulary, E1723 for logits that are no numbers.
    """
    step = stride or max(window // 2, 1)
    if len(ids) < 2:
        raise E1760.error(f"the text has {len(ids)} tokens")
    if window < 2 or not 1 <= step < window:
        raise E1762.error(f"a window of {window} tokens and a stride of {step}", help=_STRIDE)
    if reference is not None and reference.vocabulary_size != program.vocabulary_size:
        sizes = f"{program.vocabulary_size} logits, and the reference {reference.vocabulary_size}"
        raise E1764.error(f"the program has {sizes}")
    report = Report(reference=Result() if reference is not None else None)
    scorers = [program] if reference is None else [program, reference]
    for each in windows(len(ids), window, step):
        for scorer in scorers:
            scorer.begin()
            # The token before the first that is scored is fed with the rows: its logits score that one.
            if each.scored - 1 > each.begin:
                scorer.feed(ids[each.begin : each.scored - 1])
        for at in range(each.scored, each.end, PIECE):
            end = min(at + PIECE, each.end)
            rows = [_logarithms(scorer.rows(ids[at - 1 : end - 1]), at) for scorer in scorers]
            _add(report, rows, ids[at:end])
        if progress is not None:
            progress(each.end, len(ids))
    report.divergence /= report.program.tokens
    report.agreement /= report.program.tokens
    report.calls = program.calls
    return report


_STRIDE = "windows have at least 2 tokens, and a stride is shorter than one, or a token had none before it"


def _logarithms(rows: Rows, at: int) -> NDArray[np.float64]:
    """Logits as logarithms of probabilities."""
    import numpy as np

    wide = rows.astype(np.float64)
    # Minus infinity is a token that cannot come; anything else that is not finite is wrong.
    if np.isnan(wide).any() or (wide == np.inf).any() or (wide.max(axis=1) == -np.inf).any():
        raise E1723.error(f"the logits for token {at} or one of the next {len(rows)} are no numbers")
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


def _add(report: Report, rows: list[NDArray[np.float64]], targets: Sequence[int]) -> None:
    import numpy as np

    chosen = np.asarray(targets)
    results = [report.program] if report.reference is None else [report.program, report.reference]
    for result, row in zip(results, rows, strict=True):
        nats = -row[np.arange(len(chosen)), chosen]
        result.tokens += len(chosen)
        result.nats += float(nats.sum())
        result.squares += float((nats**2).sum())
        result.right += int((row.argmax(axis=1) == chosen).sum())
    if len(rows) == 2:
        mine, theirs = rows
        with np.errstate(invalid="ignore"):
            terms = np.exp(theirs) * (theirs - mine)
        report.divergence += float(np.where(theirs == -np.inf, 0.0, terms).sum())
        report.agreement += int((mine.argmax(axis=1) == theirs.argmax(axis=1)).sum())


class SessionScorer:
    """The program on etir's runtime."""

    def __init__(self, session: Any, vocabulary_size: int, *, all_positions: bool, piece: int):
        self.vocabulary_size = vocabulary_size
        self.calls = 0
        self._session = session
        self._all = all_positions
        self._piece = max(piece, 1)

    def begin(self) -> None:
        self._session.rewind(len(self._session.tokens))

    def feed(self, ids: Sequence[int]) -> None:
        self.calls += -(-len(ids) // self._piece)
        self._session.prefill(ids)

    def rows(self, ids: Sequence[int]) -> Rows:
        self.calls += -(-len(ids) // self._piece) if self._all else len(ids)
        return self._session.logits(ids)
