"""The figures of native code and its peers, as data and as tables of Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from peers import OTHERS, PEERS

EXACT = 1e-5
"""How far native code may be from eager, over the largest magnitude of an output."""
THREADS = 1.1
"""A peer whose processor time is over this many times the time on the wall uses more than one thread."""


@dataclass
class PeerFigures:
    """One peer on one model: a gap with its reason, or times of a call in seconds.

    ``error`` is the largest difference from eager over the largest magnitude; ``prepare_seconds`` are processor seconds
    from the exported program to the first call.
    """

    gap: str | None = None
    seconds: float | None = None
    wall: float | None = None
    error: float | None = None
    prepare_seconds: float | None = None
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Figures:
    """One model. ``flops`` and ``moved`` are operations and the least bytes of a call, ``limits`` what the machine did
    beside it: floating-point operations (``multiply-adds``), bytes from ``memory`` and from ``cache`` in a second.
    """

    name: str
    flops: float = 0.0
    moved: float = 0.0
    eager_error: float | None = None
    limits: dict[str, float] = field(default_factory=dict)
    peers: dict[str, PeerFigures] = field(default_factory=dict)
    failure: str | None = None

    def seconds(self, peer: str) -> float | None:
        """The time of ``peer``; None for a gap."""
        found = self.peers.get(peer)
        return None if found is None or found.gap is not None else found.seconds

    @property
    def best(self) -> str | None:
        """The fastest of the others."""
        times = [(time, name) for name in OTHERS if (time := self.seconds(name)) is not None]
        return min(times)[1] if times else None

    def ratio(self, peer: str) -> float | None:
        """The time of ``peer`` over that of the fastest of the others."""
        best, own = self.best, self.seconds(peer)
        least = None if best is None else self.seconds(best)
        return None if own is None or least is None else own / least

    @property
    def rate(self) -> float | None:
        """Floating-point operations in a second of native code."""
        own = self.seconds("native")
        return None if own is None else self.flops / own

    @property
    def share(self) -> float | None:
        """Native code's part of the multiply-add limit."""
        limit = self.limits.get("multiply-adds")
        return None if self.rate is None or limit is None else self.rate / limit

    @property
    def intensity(self) -> float | None:
        """Operations for each byte that has to move."""
        return self.flops / self.moved if self.flops and self.moved else None


def of_json(row: dict[str, Any]) -> Figures:
    """Figures that ``dataclasses.asdict`` made data of."""
    peers = {name: PeerFigures(**found) for name, found in row["peers"].items()}
    return Figures(**{**row, "peers": peers})


def time_text(seconds: float | None) -> str:
    """Milliseconds with three digits that count, and the decimal point where it is."""
    if seconds is None:
        return "–"
    ms = seconds * 1e3
    digits = 3 if ms < 1 else 2 if ms < 10 else 1 if ms < 100 else 0
    return f"{ms:,.{digits}f}"


def _cell(value: float | None, form: str, scale: float = 1.0) -> str:
    return "–" if value is None else format(value * scale, form)


def mean(rows: Sequence[Figures], peer: str = "native") -> float | None:
    """The geometric mean of a peer's ratios."""
    logs = [math.log(ratio) for row in rows if (ratio := row.ratio(peer)) is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def time_table(rows: Sequence[Figures]) -> str:
    """Milliseconds of all peers, the best of the others in bold, and native code's ratio to it."""
    head = ["model", "GFLOP", *(f"{peer.title}, ms" for peer in PEERS.values()), "ratio", "GFLOP/s", "of the limit"]
    lines: list[list[str]] = []
    for row in rows:
        times = {name: time_text(row.seconds(name)) for name in PEERS}
        if row.best is not None:
            times[row.best] = f"**{times[row.best]}**"
        ratio = _cell(row.ratio("native"), ".2f")
        rate = [_cell(row.rate, ".1f", 1e-9), _cell(row.share, ".0%")]
        lines.append([row.name, f"{row.flops / 1e9:.3g}", *times.values(), ratio, *rate])
    means = [_cell(mean(rows, name), ".2f") for name in PEERS]
    lines.append(["ratio to the best, geometric mean", "", *means, _cell(mean(rows), ".2f"), "", ""])
    return _table(head, lines)


def error_table(rows: Sequence[Figures]) -> str:
    """Differences from eager, and what native code costs ahead of time: processor seconds beyond those of kernels."""
    named = [name for name in PEERS if name != "eager"]
    head = [
        "model",
        *(PEERS[name].title for name in named),
        "eager beside float64",
        "compile, s",
        "more than kernels, s",
    ]
    lines: list[list[str]] = []
    for row in rows:
        found = {name: row.peers.get(name, PeerFigures()) for name in PEERS}
        errors = [_cell(found[name].error, ".0e") for name in named]
        native, kernels = found["native"].prepare_seconds, found["kernels"].prepare_seconds
        more = None if native is None or kernels is None else native - kernels
        lines.append([row.name, *errors, _cell(row.eager_error, ".0e"), _cell(native, ".1f"), _cell(more, ".1f")])
    return _table(head, lines)


def remarks(rows: Sequence[Figures]) -> list[str]:
    """Gaps with their reasons, and figures that do not mean what they seem to."""
    found: list[str] = []
    for row in rows:
        if row.failure is not None:
            found.append(f"{row.name}: {row.failure}")
        for name, figures in row.peers.items():
            title = PEERS[name].title
            if figures.gap is not None:
                found.append(f"{row.name}, {title}: {figures.gap}")
            elif figures.seconds and figures.wall and figures.seconds > THREADS * figures.wall:
                found.append(f"{row.name}, {title}: more than one thread ({figures.seconds / figures.wall:.1f})")
        error = row.peers.get("native", PeerFigures()).error
        if error is not None and error > max(EXACT, 2 * (row.eager_error or 0.0)):
            found.append(f"{row.name}: native differs from eager by {error:.1e}")
    return found


def limits_text(rows: Sequence[Figures]) -> str:
    """What the machine did, the most of all models."""
    most = {key: max((row.limits.get(key, 0.0) for row in rows), default=0.0) for key in ("multiply-adds", "memory")}
    least = min((row.limits["multiply-adds"] for row in rows if row.limits), default=0.0)
    return (
        f"multiply-add limit {least / 1e9:.0f} to {most['multiply-adds'] / 1e9:.0f} GFLOP/s, "
        f"{most['memory'] / 1e9:.0f} GB/s from memory"
    )
