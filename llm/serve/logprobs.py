"""Logarithms of probabilities of chosen tokens and of those that were likeliest, of the logits before sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etir.llm.serve.engine import Logits


@dataclass(frozen=True)
class Logprob:
    """A token, the natural logarithm of its probability, and the likeliest tokens with theirs, best first."""

    id: int
    value: float
    top: tuple[tuple[int, float], ...] = ()


class Recorder:
    """Sees the logits of each step (``on_logits``), before what changes them, and is then asked for the token's."""

    def __init__(self, top: int):
        self._top = top
        self._rows: list[Logits] = []

    def see(self, logits: Logits) -> None:
        """Keep a step's logits f32[V] as logarithms of probabilities."""
        import numpy as np

        row = logits.reshape(-1).astype(np.float64)
        row -= row.max()
        row -= np.log(np.exp(row).sum())
        self._rows.append(row.astype(np.float32))

    def of(self, id: int) -> Logprob | None:
        """The token that was chosen of the oldest step that nobody asked for yet."""
        import numpy as np

        if not self._rows:
            return None
        row = self._rows.pop(0)
        best = np.argpartition(-row, min(self._top, len(row) - 1))[: self._top]
        best = best[np.argsort(-row[best], kind="stable")]
        return Logprob(id, float(row[id]), tuple((int(i), float(row[i])) for i in best))
