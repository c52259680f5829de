"""What is checked of one stock file: both runtimes agree on it, and it comes back from its text.

Files on floats agree within 1e-4. Where a file has integers, each of its integer operators agrees within one step
(``xnnpack_nodes``); its outputs, in which such steps add up, are no further apart than ExecuTorch's own ones are from
the model before it was quantized.

Where files on floats are further apart, the model in float64 says which runtime is how far from what it stands for: a
deep network that divides by what is nearly zero makes of the last bits of a sum more than the tolerance.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FORM_NAMES = ("portable", "fp32", "int8", "dynamic-int8", "int4-groups", "int4-channels")
"""The keys of ``stock_lowering.FORMS``, without the imports of that module."""

FLOAT_TOLERANCE = 1e-4
"""Largest difference over the largest magnitude of an output, of files without integers."""

STEPS = 1.0 + 1e-3
"""Largest difference of an integer operator, in steps of its result's scale; which is a rounded float."""


@dataclass
class Found:
    """What is known about one file. ``stage`` is how far the work got; ``error`` what was in the way there.

    ``difference`` is the largest relative one between both runtimes over all calls; ``nodes`` and ``integer_nodes``
    count the operators in XNNPACK delegates, ``steps`` is by how many steps one of the latter is apart at most, alone.
    ``noise`` is the largest relative difference of the stock runtime from eager, ``seconds`` those of all calls: stock,
    etir. ``exact`` are the largest relative differences of both from the model in float64, of files on floats whose
    difference is above the tolerance.
    """

    name: str
    form: str
    stage: str
    error: str | None = None
    difference: float | None = None
    nodes: int = 0
    integer_nodes: int = 0
    steps: float = 0.0
    seconds: tuple[float, float] | list[float] = (0.0, 0.0)
    noise: float | None = None
    exact: tuple[float, float] | list[float] | None = None

    def failed(self) -> bool:
        """Whether etir is at fault."""
        if self.stage in ("stock pipeline", "stock runtime", "stock outputs"):
            return False
        if self.stage != "done" or self.difference is None or self.noise is None:
            return True
        allowed = max(FLOAT_TOLERANCE, self.noise if self.integer_nodes else 0.0)
        return not (self.difference <= allowed and self.steps <= STEPS)

    def shown(self) -> str:
        """A cell of the table."""
        return f"{self.difference:.1e}{' !' if self.failed() else ''}" if self.stage == "done" else self.stage

    def sentence(self) -> str:
        """One line."""
        if self.error is not None:
            return f"{self.stage}: {self.error}"
        exact = "" if self.exact is None else f"from float64 {self.exact[0]:.1e} stock, {self.exact[1]:.1e} etir, "
        return (
            f"{'FAILED, ' if self.failed() else ''}difference {self.difference:.1e} (stock from eager "
            f"{self.noise:.1e}), {exact}{self.nodes} nodes, {self.integer_nodes} on integers, {self.steps:.2f} steps, "
            f"{self.seconds[0]:.3f} s stock, {self.seconds[1]:.3f} s etir"
        )


def examine(entry: Any, forms: Sequence[str], files: Path | None) -> Iterator[Found]:
    """What is found out about forms of an entry of the zoo."""
    import torch

    torch.set_num_threads(1)
    for form in forms:
        found = Found(entry.name, form, "stock pipeline")
        try:
            _examine(entry, form, files, found)
        except Exception as error:  # whatever is in the way is what is reported
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).strip().splitlines() or [""]
            found.error = f"{type(error).__name__}: {text[0][:300]} [{Path(place.filename).name}:{place.lineno}]"
        yield found


def _file(entry: Any, form: str, files: Path | None) -> bytes:
    from etir_testing.interop.stock_lowering import stock_form

    path = files / f"{entry.name}.{form}.pte" if files is not None else None
    if path is not None and path.exists():
        return path.read_bytes()
    data = stock_form(form, entry.build())
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return data


def from_exact(built: Any, *outputs: Sequence[Sequence[Any]]) -> list[float]:
    """The largest relative difference of each of ``outputs``, tensors by call, from the model in float64.

    Changes ``built``: its module has parameters of float64 afterwards.
    """
    import torch
    from torch.utils import _pytree as pytree

    from etir_testing.models.registry import relative_difference
    from etir_testing.models.zoo_worker import _tensors

    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    module = built.module.double()
    with torch.no_grad():
        calls = [pytree.tree_map(wide, call) for call in (built.inputs, *built.more)]
        exact = [_tensors(pytree.tree_leaves(module(*call))) for call in calls]
    found: list[float] = []
    for of_one in outputs:
        as_wide = [[wide(tensor) for tensor in call] for call in of_one]
        found.append(max(relative_difference(a, b) for a, b in zip(as_wide, exact, strict=True)))
    return found


def _examine(entry: Any, form: str, files: Path | None, found: Found) -> None:
    import time

    import torch
    from torch.utils import _pytree as pytree

    from etir.tools import et_translate

    from etir_testing.interop.xnnpack_nodes import integer_nodes, steps_apart
    from etir_testing.interop.xnnpack_runs import facts_of
    from etir_testing.models.registry import relative_difference
    from etir_testing.models.zoo_worker import _dense, _own_method, _tensors, _wheel_method

    data = _file(entry, form, files)
    built = entry.build()
    flat = [[_dense(leaf) for leaf in pytree.tree_leaves(call)] for call in (built.inputs, *built.more)]

    def outputs(run: Any) -> list[list[Any]]:
        return [_tensors(run(copy.deepcopy(call))) for call in flat]

    found.stage = "stock runtime"
    run = _wheel_method(data)
    start = time.perf_counter()
    expected = outputs(run)
    middle = time.perf_counter()
    found.stage = "stock outputs"
    if not all(t.isfinite().all() for call in expected for t in call):
        raise ValueError("outputs are not finite")
    found.stage = "read"
    facts = facts_of(data)
    found.nodes = sum(len(graph.nodes) for graph in facts.graphs)
    found.stage = "etir's runtime"
    run = _own_method(data)
    begin = time.perf_counter()
    own = outputs(run)
    found.seconds = (round(middle - start, 4), round(time.perf_counter() - begin, 4))
    found.difference = max(relative_difference(a, b) for a, b in zip(own, expected, strict=True))
    with torch.no_grad():
        module = entry.build().module
        eager = [_tensors(pytree.tree_leaves(module(*copy.deepcopy(call)))) for call in (built.inputs, *built.more)]
    found.noise = max(relative_difference(a, b) for a, b in zip(expected, eager, strict=True))
    found.stage = "integer operators"
    found.integer_nodes = sum(len(integer_nodes(graph)) for graph in facts.graphs)
    if found.difference > FLOAT_TOLERANCE and not found.integer_nodes:
        found.stage = "the model in float64"
        found.exact = from_exact(entry.build(), expected, own)
    found.steps = max((steps for graph in facts.graphs for _, steps in steps_apart(graph)), default=0.0)
    found.stage = "text"
    with TemporaryDirectory() as folder, redirect_stderr(StringIO()) as said:
        pte, text, again = (str(Path(folder) / name) for name in ("stock.pte", "stock.mlir", "again.pte"))
        Path(pte).write_bytes(data)
        if et_translate.main(["--pte-to-mlir", pte, "-o", text]):
            raise ValueError(f"--pte-to-mlir: {said.getvalue()}")
        found.stage = "file from text"
        if et_translate.main(["--mlir-to-pte", text, "-o", again]):
            raise ValueError(f"--mlir-to-pte: {said.getvalue()}")
        rewritten = Path(again).read_bytes()
    found.stage = "outputs of the file from text"
    for a, b in zip(outputs(_own_method(rewritten)), own, strict=True):
        if not all(torch.equal(x, y) for x, y in zip(a, b, strict=True)):
            raise ValueError("they differ from those of the file")
    for a, b in zip(outputs(_wheel_method(rewritten)), expected, strict=True):
        if relative_difference(a, b) > 0:
            raise ValueError("they differ from those of the file on the stock runtime")
    found.stage = "done"
