"""Backends that find their partitions by code of their own: what becomes of what they propose."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from etir.backends.api import registry
from etir.backends.api.interface import Artifact, Backend, Outlined, Proposal
from etir.backends.api.patterns import Row
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.extensions import registry_changed
from etir.passes.delegation.graph import BlockGraph, Value
from etir.passes.delegation.report import DelegationReport
from etir.passes.infra.base import methods
from etir.passes.infra.manager import run_pipeline


def _report(ctx: EtContext) -> DelegationReport:
    """What `partition` reported."""
    report = ctx.attachments.get(DelegationReport)
    assert report is not None
    return report


@dataclass(frozen=True)
class ProposingOptions:
    """``groups`` are lists of operators, by position in the block, like ``0-1``; ``found`` is what it chooses, for each
    group one of ``each`` when they are given.
    """

    groups: tuple[str, ...] = ()
    found: str = ""
    each: tuple[str, ...] = ()


class Proposing(Backend):
    """Proposes what its options say."""

    name = "proposing"
    runtime_id = "ProposingBackend"
    version = "1"
    Options = ProposingOptions

    def rows(self, options: Any) -> Sequence[Row]:
        return ()

    def runtime_id_of(self, options: ProposingOptions) -> str:
        return options.found or self.runtime_id

    def propose(self, module: ModuleOp, block: Block, options: ProposingOptions) -> Proposal:
        ops: list[Operation] = [op for op in block.ops if op.name.startswith("edge.")]
        groups = tuple(tuple(ops[int(i)] for i in group.split("-")) for group in options.groups)
        taken = {op: None for group in groups for op in group}
        left = {op: "not wanted" for op in ops if op not in taken}
        own = tuple(ProposingOptions(options.groups, found) for found in options.each)
        return Proposal(groups, ProposingOptions(options.groups, "Chosen"), left, own)

    def preprocess(self, outlined: Outlined, options: Any) -> Artifact:
        return Artifact(b"blob")


BACKEND = Proposing()


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.BUILT_IN, "proposing", f"{__name__}:BACKEND")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    registry_changed()
    yield
    registry_changed()


TEXT = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.neg.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.cos.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.add.Tensor(%2, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}
"""


def partitions(pipeline: str, text: str = TEXT) -> tuple[list[str], EtContext, str]:
    """The partition of each operator, empty for none."""
    ctx, module = EtContext(), parse_module(text)
    run_pipeline(ctx, module, pipeline)
    printed = print_module(module)
    found: list[str] = []
    for line in printed.splitlines():
        if " = edge." in line:
            place = re.search(r'backend.partition = "([^"]*)"', line)
            found.append("" if place is None else place.group(1))
    return found, ctx, printed


def test_as_proposed() -> None:
    """Two neighbors that could be one partition stay two; the options that the backend chose are in the text."""
    found, ctx, text = partitions('partition{backend="proposing{groups=0,1-2}"},verify-partitions')
    assert found == ["proposing:0", "proposing:1", "proposing:1", ""]
    assert 'backend.delegates = ["proposing{groups=0,1-2 found=Chosen}"]' in text
    (report,) = _report(ctx).backends
    assert report.runtime_id == "Chosen"
    assert [(left.op, left.reason) for left in report.rejected] == [("aten.add.Tensor", "not wanted")]
    assert [p.name for p in report.partitions] == ["forward_proposing_0", "forward_proposing_1"]


def test_outlined_under_the_chosen_options() -> None:
    """The call names the backend that was chosen."""
    _, _, text = partitions('partition{backend="proposing{groups=1-2}"},outline-delegates')
    assert 'on "Chosen"' in text and 'backend.delegate = "proposing{groups=1-2 found=Chosen}"' in text


def test_options_of_their_own() -> None:
    """Partitions that are lowered in different ways stay apart, also where they are cut; the text and the report say
    which is which, and outlining follows the text.
    """
    each = 'partition{backend="proposing{groups=0,1-3,2 each=A,B,A}"}'
    found, ctx, text = partitions(f"{each},verify-partitions")
    # The second is not convex beside the third: its operations go where they can, in partitions of its own.
    assert found == ["proposing:0", "proposing:2", "proposing:1", "proposing:3"]
    assert 'backend.delegates = ["proposing{groups=0,1-3,2 found=A}"]' in text
    own = "proposing{groups=0,1-3,2 found=B}"
    assert f'backend.options = {{"proposing:2" = "{own}", "proposing:3" = "{own}"}}' in text
    (report,) = _report(ctx).backends
    runtimes = {p.name.removeprefix("forward_proposing_"): p.runtime_id for p in report.partitions}
    assert (report.runtime_id, runtimes) == ("A", {"0": "A", "1": "A", "2": "B", "3": "B"})
    assert "  forward_proposing_2 on B: 1 operators" in str(_report(ctx))
    _, _, outlined = partitions("outline-delegates", text)
    assert [outlined.count(f'on "{name}"') for name in "AB"] == [2, 2] and "backend.options" not in outlined
    with pytest.raises(EtirError, match="'proposing:2' has the options of another backend, 'reference'") as caught:
        partitions("outline-delegates", text.replace(f'"proposing:2" = "{own}"', '"proposing:2" = "reference"'))
    assert caught.value.ids == ("E1109",)


@pytest.mark.parametrize(
    ("pipeline", "wanted"),
    [
        # exp and cos without neg between them: not convex, so two partitions.
        ("proposing{groups=0-2}", ["proposing:0", "", "proposing:1", ""]),
        # Each needs the other to run first: one of them is cut, and the parts find places.
        ("proposing{groups=0-2,1-3}", ["proposing:0", "proposing:0", "proposing:0", "proposing:0"]),
    ],
)
def test_what_cannot_run_in_one_piece_is_cut(pipeline: str, wanted: list[str]) -> None:
    """What comes of it is valid, and as large as can be."""
    found, _, _ = partitions(f'partition{{backend="{pipeline}"}},verify-partitions')
    assert found == wanted


def test_behind_another_backend() -> None:
    """What a backend of higher preference has is taken out, and the rest is cut where it has to be."""
    found, _, _ = partitions(
        'partition{backend="reference{only=aten.neg.default}","proposing{groups=0-1-2-3}"},verify-partitions'
    )
    assert found == ["proposing:1", "reference:0", "proposing:2", "proposing:2"]


def test_excluded_and_too_small() -> None:
    """The options of the pass hold for proposals as well."""
    found, ctx, _ = partitions('partition{backend="proposing{groups=0-1,2}" exclude=aten.neg.default}')
    assert found == ["proposing:0", "", "proposing:1", ""]
    assert ("aten.neg.default", "excluded by option") in [(x.op, x.reason) for x in _report(ctx).backends[0].rejected]
    found, ctx, _ = partitions('partition{backend="proposing{groups=0-1,2}" min-ops=2}')
    assert found == ["proposing:0", "proposing:0", "", ""]


def test_unknown_partitioner_says_what_there_is() -> None:
    """Names of bridged backends are checked without importing executorch."""
    with pytest.raises(EtirError, match="known: executorch:xnnpack, executorch:vulkan") as caught:
        partitions('partition{backend="executorch:nobody"}')
    assert caught.value.ids == ("E1101",)


NESTED = """
func.func @forward(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %e = edge.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = control.cond %p : tensor<i1> -> (tensor<4xf32>) {
    %a = edge.aten.neg.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
    %b = edge.aten.abs.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %b : tensor<4xf32>
  } else {
    control.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""


def test_what_regions_make_themselves_crosses_no_boundary() -> None:
    (method,) = methods(parse_module(NESTED))
    graph = BlockGraph.of(method.body.block, {})
    assert graph.preds == [[], [0]]
    x, p = Value(-1, (0, 1), 16, False), Value(-1, (1,), 1, False)
    assert graph.values == [x, p, Value(0, (1,), 16, False), Value(1, (), 16, True)]
