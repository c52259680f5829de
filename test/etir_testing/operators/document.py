"""The page of the documentation that says for each operator of torch what becomes of a program that calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from etir_testing import TESTS
from etir_testing.operators.table import Row

PAGE: Path = TESTS.parent / "docs" / "reference" / "torch_operators.md"

# Other pages come first in the search: this one has nearly every word.
_HEAD = """---
search:
  boost: 0.1
---

# Every operator of torch

<!-- Written by `python test/operator_table.py --write`; a test compares it with the table. -->

Each functional and in-place overload of `aten` and `prims` that torch {version} has, called by itself in a program:
whether `torch.export` takes the call, whether the program compiles for target `etir`, runs there and agrees with eager,
and whether it links against the kernels of the stock runtime. The calls are in
`test/etir_testing/operators/operators.json`; `python test/operator_table.py` runs them.

{count} overloads, {ok} of them run and agree; {stock} of these link for the stock runtime as well.

| reason why one does not | overloads | what it means |
| --- | --- | --- |
"""


def page(table: Mapping[str, Row], meanings: Mapping[str, str], version: str) -> str:
    """The page as markdown."""
    good = {name: row for name, row in table.items() if not row.reason}
    stock = sum(not row.stock for row in good.values())
    lines = [_HEAD.format(version=version, count=len(table), ok=len(good), stock=stock)]
    counts = Counter(row.reason for row in table.values() if row.reason)
    lines += [
        f"| {reason} | {counts[reason]} | {meaning} |\n" for reason, meaning in meanings.items() if counts[reason]
    ]
    lines.append("\n| operator | `etir` | stock |\n| --- | --- | --- |\n")
    for name, row in table.items():
        stock_text = "" if row.reason else "yes" if not row.stock else row.stock
        lines.append(f"| `{name}` | {row.reason or 'yes'} | {stock_text} |\n")
    return "".join(lines)
