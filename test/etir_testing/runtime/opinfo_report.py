"""What became of torch's samples on the kernels: the numbers of each kernel, and the report of all."""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass, field

from etir_testing import TESTS
from etir_testing.runtime.opinfo_calls import EXCLUDED, rows


@dataclass
class Tally:
    """What became of the calls of one kernel; counters are by dtypes, and ``excluded`` by reason.

    ``nearer`` are those that passed by how near they are to what eager gives in double, and ``farthest`` says by dtype
    how many times as far as eager's the farthest of these is.
    """

    passed: collections.Counter[str] = field(default_factory=collections.Counter)
    failed: collections.Counter[str] = field(default_factory=collections.Counter)
    not_claimed: collections.Counter[str] = field(default_factory=collections.Counter)
    excluded: collections.Counter[str] = field(default_factory=collections.Counter)
    nearer: int = 0
    farthest: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the numbers of another part of the samples."""
        self.passed += other.passed
        self.failed += other.failed
        self.not_claimed += other.not_claimed
        self.excluded += other.excluded
        self.nearer += other.nearer
        for dtype, times in other.farthest.items():
            self.farthest[dtype] = max(times, self.farthest.get(dtype, 0.0))
        self.failures = (self.failures + other.failures)[:40]


def report(total: dict[str, Tally], verbose: bool, whole: bool) -> bool:
    """Print what failed, what was left out, and the closing lines. Whether kernels without samples have no test."""
    untested = False
    for name, tally in sorted(total.items()):
        if tally.failed or verbose:
            print(f"{name}: {sum(tally.passed.values())} passed {dict(sorted(tally.passed.items()))}")
        if tally.failed:
            print(f"    {sum(tally.failed.values())} failed {dict(sorted(tally.failed.items()))}")
        for failure in tally.failures[: 20 if verbose else 3]:
            print(f"    {failure}")
    for name, tally in sorted(total.items()):
        if tally.not_claimed:
            print(f"not claimed: {name}: {dict(sorted(tally.not_claimed.items()))}")
    excluded = sum((t.excluded for t in total.values()), collections.Counter[str]())
    for reason, count in sorted(excluded.items()):
        of = [name for name, tally in sorted(total.items()) if reason in tally.excluded]
        print(f"left out: {count} calls: {EXCLUDED[reason]}: {' '.join(of)}")
    if whole:
        tests = {path: path.read_text(encoding="utf-8") for path in sorted((TESTS / "runtime").glob("*/test_*.py"))}
        silent = [name for name in rows() if not any((total[name].passed, total[name].failed) if name in total else ())]
        for name in silent:
            files = [path.name for path, text in tests.items() if _is_named(name, text)]
            untested = untested or not files
            print(f"no sample: {name}: {', '.join(files) if files else 'NO TEST'}")
        print(f"{len(rows()) - len(silent)} of {len(rows())} kernels have samples")
    passed, failed, refused = (
        sum(sum(part.values()) for part in parts)
        for parts in zip(*((t.passed, t.failed, t.not_claimed) for t in total.values()), strict=True)
    )
    print(f"{passed} passed, {failed} failed, {sum(excluded.values())} left out, {refused} not claimed")
    nearer = sum(tally.nearer for tally in total.values())
    print(f"{nearer} of these are outside of the tolerance, and as near as FACTORS ask to what eager gives in double:")
    for dtype in sorted({dtype for tally in total.values() for dtype in tally.farthest}):
        times, kernel = max((tally.farthest.get(dtype, 0.0), name) for name, tally in total.items())
        over = sum(tally.farthest.get(dtype, 0.0) > 1 for tally in total.values())
        print(f"    {dtype}: {over} kernels farther than eager, at most {times:.2f} times ({kernel})")
    return untested


def _is_named(kernel: str, text: str) -> bool:
    """Whether a test names a kernel: in one string, its operator and its overload apart, or with parts put in."""
    name = kernel.split("::")[1]
    operator, _, overload = name.partition(".")
    if re.search(rf"[\"':]{re.escape(name)}[\"']", text):
        return True
    if re.search(rf"[\"':]{re.escape(operator)}[\"']", text) and f".{overload}" in text:
        return True
    for literal in dict.fromkeys(re.findall(r"f\"(?:\w+::)?([\w{}.]*\{[\w{}.]*)\"", text)):
        pattern = [re.sub(r"\{\w*\}", r"\\w+", part) for part in literal.split(".", 1)]
        if len(re.sub(r"\\w\+|_", "", pattern[0])) < 4 or not re.fullmatch(pattern[0], operator):
            continue
        if len(pattern) == 1 or re.fullmatch(pattern[1], overload):
            return True
    return False
