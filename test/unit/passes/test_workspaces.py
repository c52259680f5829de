"""Workspaces of delegates: what is in them where the delegate has planned it, and what is not."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.workspace import Workspace, workspace_of
from etir.dialects.text import parse_module
from etir.passes.infra.manager import run_pipeline

SPEC = Workspace(4096, (1024, None), (0,))
KEPT = Workspace(4096, (None, None), (0,), kept=((2048, 1024),))


def module(body: str, spec: Workspace = SPEC) -> ModuleOp:
    """A method whose delegate works in ``%w``."""
    key, value = spec.spec()
    return parse_module(
        f"""
et.delegate @part "SomeBackend" = #et.blob<"sha256:{"0" * 64}", 0> specs [["{key}", "{value.hex()}"]]
et.method @forward {{
  %x = et.buffer : tensor<256xf32>
  %z = et.buffer : tensor<256xf32>
  %y = et.buffer : tensor<512xf32>
  %w = et.buffer : tensor<{spec.size}xui8>
{body}
}}
""",
    )


CALL = """
  et.inputs %x, %z
  et.delegate_call @part(%x, %z, %y, %w)
  et.return %y
"""


def planned(body: str, spec: Workspace = SPEC) -> tuple[ModuleOp, dict[str, int], int]:
    """The module with its plan, where its buffers are, and the bytes of its memory."""
    made = module(body, spec)
    run_pipeline(EtContext(), made, "plan-memory,verify-plan")
    (method,) = (op for op in made.body.block.ops if isinstance(op, MethodOp))
    buffers = [op for op in method.body.blocks[0].ops if isinstance(op, BufferOp)]
    return made, {str(op.result.name_hint): op.place[1] for op in buffers if op.place is not None}, method.pool_sizes[1]


def test_arguments_are_where_the_delegate_expects_them() -> None:
    """An input that has been read, and an output that is not there yet, over one another as well."""
    _, places, size = planned(CALL)
    assert size == 4096 + 1024
    assert places["x"] == places["w"] + 1024 and places["y"] == places["w"]
    assert not places["w"] <= places["z"] < places["w"] + 4096


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(CALL.replace("et.return %y", "et.return %y, %x"), id="the input is needed afterwards"),
        pytest.param(CALL.replace("(%x, %z,", "(%x, %x,"), id="the input is there twice"),
        pytest.param(
            CALL.replace("  et.delegate_call", '  et.call "aten::neg.out"(%z, %y) -> %y\n  et.delegate_call', 1),
            id="something is in the output before",
        ),
    ],
)
def test_arguments_that_stay_apart(body: str) -> None:
    _, places, _ = planned(body)
    named, size = ("y", 2048) if "neg" in body else ("x", 1024)
    assert not places["w"] - size < places[named] < places["w"] + 4096


def test_the_verifier_knows_the_place() -> None:
    """One granule away from where the delegate expects it, an input would be overwritten."""
    made, places, _ = planned(CALL)
    (x,) = (op for op in made.walk() if isinstance(op, BufferOp) and op.result.name_hint == "x")
    x.place = (1, places["x"] + 16)
    with pytest.raises(EtirError) as refused:
        run_pipeline(EtContext(), made, "verify-plan")
    assert set(refused.value.ids) == {"E0714"}


def test_places_outside_are_none() -> None:
    _, places, size = planned(CALL, Workspace(1536, (1024, None), (0,)))
    assert size == 1536 + 2048 + 1024 + 1024
    assert not places["w"] <= places["x"] < places["w"] + 1536


@pytest.mark.parametrize("workspace", [SPEC, Workspace(0, (), ()), Workspace(64, (None,), (None, 16)), KEPT])
def test_specs(workspace: Workspace) -> None:
    assert workspace_of([("other", b""), workspace.spec()]) == workspace


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"bytes= inputs=0 outputs=0",
        b"bytes=64 inputs=0,, outputs=0",
        b"bytes=64 inputs=--1 outputs=0",
        b"bytes=64 inputs= outputs= kept=",
        b"bytes=64 inputs= outputs= kept=8",
        b"\xff",
    ],
)
def test_specs_that_nobody_can_read(text: bytes) -> None:
    """A file that says something else has no workspace, and nothing may overlap."""
    assert workspace_of([("workspace", text)]) is None


LIVES_ON = """
  et.inputs %x, %z
  et.delegate_call @part(%z, %x, %y, %w)
  et.return %y, %x
"""


def test_what_lives_on_lies_where_it_is_left_alone() -> None:
    """An input that is needed afterwards is in the part that the delegate keeps, whatever argument it is."""
    _, places, size = planned(LIVES_ON, KEPT)
    assert places["x"] == places["w"] + 2048 and places["y"] == places["w"]
    assert size == 4096 + 1024
    _, places, size = planned(LIVES_ON, Workspace(4096, (None, None), (0,)))
    assert size == 4096 + 2 * 1024


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(((2048, 512),), id="a part that is too small"),
        pytest.param(((3584, 1024),), id="a part that ends outside"),
    ],
)
def test_parts_in_which_nothing_fits(kept: tuple[tuple[int, int], ...]) -> None:
    _, places, size = planned(LIVES_ON, Workspace(4096, (None, None), (0,), kept))
    assert size == 4096 + 2 * 1024
    assert not places["w"] - 1024 < places["x"] < places["w"] + 4096


def test_the_verifier_knows_the_part() -> None:
    """A byte beside the part that is left alone belongs to the delegate."""
    made, places, _ = planned(LIVES_ON, KEPT)
    (x,) = (op for op in made.walk() if isinstance(op, BufferOp) and op.result.name_hint == "x")
    for moved in (-16, 16):
        x.place = (1, places["x"] + moved)
        with pytest.raises(EtirError) as refused:
            run_pipeline(EtContext(), made, "verify-plan")
        assert set(refused.value.ids) == {"E0714"}


def test_a_part_is_for_one_tensor() -> None:
    """Of two that live on, one is in the part."""
    both = LIVES_ON.replace("et.return %y, %x", "et.return %y, %x, %z")
    _, places, size = planned(both, KEPT)
    assert size == 4096 + 1024
    assert sum(places[name] == places["w"] + 2048 for name in "xz") == 1


LOOP = """
  %p = et.buffer : tensor<i1>
  et.inputs %x, %z, %p
  et.next ^bb1
^bb1:
  et.delegate_call @part(%x, %z, %y, %w)
  et.call "aten::sum.IntList_out"(%y, none, false, none, %z) -> %z
  et.jump_false %p, ^bb1, ^bb2
^bb2:
  et.return %z
"""


def test_nothing_waits_in_a_workspace_for_the_next_run_of_a_loop() -> None:
    """The spec says which arguments are outputs: these, and the workspace, begin anew with each call."""
    _, places, size = planned(LOOP, Workspace(4096, (None, None), (0,)))
    assert places["y"] == places["w"] and size == 4096 + 2 * 1024 + 16


BRANCHES = """
  %p = et.buffer : tensor<i1>
  %v = et.buffer : tensor<4096xui8>
  et.inputs %x, %z, %p
  et.jump_false %p, ^bb2, ^bb1
^bb1:
  et.delegate_call @part(%x, %z, %y, %w)
  et.jump ^bb3
^bb2:
  et.delegate_call @part(%x, %z, %y, %v)
  et.next ^bb3
^bb3:
  et.return %y
"""


def test_both_branches_have_a_result_in_their_workspaces() -> None:
    _, places, size = planned(BRANCHES)
    assert places["v"] == places["w"] == places["y"] == places["x"] - 1024
    assert size <= 4096 + 1024 + 16
