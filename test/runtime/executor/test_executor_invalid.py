"""Files that break one rule each: the check that fails, and its numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from etir.emit.pte import model
from etir.emit.pte.model import AllocationDetails, Bool, FreeCall, Int, IntList, JumpFalseCall, MoveCall

from etir_testing.runtime.executor import ExecutorError, Program, build_executor
from etir_testing.runtime.programs import BOUND, Builder


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor("prim", "copy")


def base() -> Builder:
    """x and its copy y (values 0 and 1), None (2), Int 3 (3), a constant (4), a tensor with initial data (5)."""
    b = Builder()
    x, y = b.input(b.tensor(2, 3, dynamism=BOUND)), b.tensor(2, 3, dynamism=BOUND)
    b.clone(x, y)
    b.int(3)
    b.tensor(2, constant=struct.pack("<2f", 1, 2))
    b.tensor(2, initial=struct.pack("<2f", 1, 2))
    b.outputs.append(y)
    return b


def tensor(**fields: Any) -> Callable[[Builder], None]:
    def change(b: Builder) -> None:
        b.values[0] = replace(b.values[0], **fields)

    return change


def value(index: int, new: Any) -> Callable[[Builder], None]:
    def change(b: Builder) -> None:
        b.values[index] = new

    return change


def instruction(new: Any) -> Callable[[Builder], None]:
    return lambda b: b.instructions.append(new)


RULES: dict[str, tuple[str, Callable[[Builder], Any], tuple[int, int] | None]] = {
    "storage offset": ("TensorLayout", tensor(storage_offset=4), (0, 4)),
    "layout": ("TensorLayout", tensor(layout=1), (0, 1)),
    "rank": ("TensorRank", tensor(sizes=(1,) * 17, dim_order=tuple(range(17))), (0, 17)),
    "short dim order": ("TensorDimOrder", tensor(dim_order=(0,)), (0, -1)),
    "repeated dim": ("TensorDimOrder", tensor(dim_order=(1, 1)), (0, -1)),
    "dim out of range": ("TensorDimOrder", tensor(dim_order=(0, 2)), (0, -1)),
    "negative size": ("TensorSize", tensor(sizes=(2, -3)), (0, -3)),
    "too large": ("TensorTooLarge", tensor(sizes=(2**31 - 1,) * 3, dim_order=(0, 1, 2)), (0, -1)),
    "too large, and empty": ("TensorTooLarge", tensor(sizes=(0, *(2**31 - 1,) * 3), dim_order=(0, 1, 2, 3)), (0, -1)),
    "memory id 0": ("TensorMemoryId", tensor(allocation_info=AllocationDetails(0, 0)), (0, 0)),
    "memory id": ("TensorMemoryId", tensor(allocation_info=AllocationDetails(2, 0)), (0, 2)),
    "planned end": ("TensorPlannedBounds", tensor(allocation_info=AllocationDetails(1, 64)), (0, 64)),
    "planned far": ("TensorPlannedBounds", tensor(allocation_info=AllocationDetails(1, 2**63)), (0, -(2**63))),
    "planned alignment": ("TensorPlannedAlignment", tensor(allocation_info=AllocationDetails(1, 2)), (0, 2)),
    "constant index": ("TensorConstantIndex", tensor(allocation_info=None, data_buffer_idx=2), (0, 2)),
    "constant end": ("TensorConstantBounds", tensor(allocation_info=None, data_buffer_idx=1), (0, 24)),
    "initial index": ("TensorMutableIndex", tensor(data_buffer_idx=2), (0, 2)),
    "initial end": ("TensorMutableBounds", tensor(data_buffer_idx=1), (0, 24)),
    "external without a name": (
        "TensorExternalName",
        tensor(extra_tensor_info=model.ExtraTensorInfo(location=model.TensorDataLocation.EXTERNAL)),
        (0, -1),
    ),
    "list index": ("ListIndex", value(2, IntList((3, 6))), (2, 6)),
    "negative list index": ("ListIndex", value(2, model.TensorList((-1,))), (2, -1)),
    "list of other kinds": ("ListItemKind", value(2, IntList((3, 0))), (2, 0)),
    "tensor list with an int": ("ListItemKind", value(2, model.OptionalTensorList((-1, 3))), (2, 3)),
    "input": ("InputIndex", lambda b: b.inputs.append(6), (1, 6)),
    "output": ("OutputIndex", lambda b: b.outputs.append(-1), (1, -1)),
    "operator": ("OpIndex", instruction(model.KernelCall(1, (0,))), (1, 1)),
    "negative operator": ("OpIndex", instruction(model.KernelCall(-1, (0,))), (-1, 1)),
    "argument": ("ArgumentIndex", instruction(model.KernelCall(0, (0, 2, 6, 1))), (2, 6)),
    "delegate": ("DelegateIndex", instruction(model.DelegateCall(0, (0,))), (0, 0)),
    "move": ("ArgumentIndex", instruction(MoveCall(0, 6)), (1, 6)),
    "move between kinds": ("MoveKind", instruction(MoveCall(3, 0)), (3, 0)),
    "jump": ("JumpDestination", lambda b: b.instructions.append(JumpFalseCall(b.false(), 3)), (3, 2)),
    "jump back": ("JumpDestination", lambda b: b.instructions.append(JumpFalseCall(b.false(), -1)), (-1, 2)),
    "jump on an int": ("JumpCondition", instruction(JumpFalseCall(3, 0)), (3, 2)),
    "free of an int": ("FreeKind", instruction(FreeCall(3)), (3, 2)),
    "buffer size": ("PlannedBufferSize", lambda b: b.sizes.append(-8), (2, -8)),
}


@pytest.mark.parametrize("rule", RULES)
def test_broken_rules(library: Any, rule: str) -> None:
    check, change, numbers = RULES[rule]
    b = base()
    change(b)
    with pytest.raises(ExecutorError) as caught:
        Program(library, b.pte(check=False))
    assert caught.value.check == check, caught.value
    assert numbers is None or (caught.value.a, caught.value.b) == numbers
    assert caught.value.method == 0
    in_code = check in ("OpIndex", "ArgumentIndex", "DelegateIndex", "MoveKind", "FreeKind") or check.startswith("Jump")
    assert caught.value.instruction == (1 if in_code else -1)


def test_the_base_is_right(library: Any) -> None:
    assert Program(library, base().pte()).names == ["forward"]


def test_headers(library: Any) -> None:
    good = base().pte()

    def failure(data: bytes) -> ExecutorError:
        with pytest.raises(ExecutorError) as caught:
            Program(library, data)
        return caught.value

    def patched(offset: int, kind: str, number: int) -> bytes:
        data = bytearray(good)
        struct.pack_into(kind, data, offset, number)
        return bytes(data)

    error = failure(b"")
    assert (error.check, error.a, error.b) == ("FileTooSmall", 0, 8)
    assert failure(patched(4, "<I", 0)).check == "FileIdentifier"
    error = failure(patched(12, "<I", 23))
    assert (error.check, error.a, error.b) == ("FileHeader", 23, 24)
    error = failure(patched(16, "<Q", len(good) + 1))
    assert (error.check, error.a, error.b) == ("FileTruncated", len(good) + 1, len(good))
    assert failure(patched(24, "<Q", 2**63)).check == "FileSegments"
    assert failure(patched(32, "<Q", 2**64 - 1)).check == "FileSegments"
    assert failure(patched(0, "<I", 2**32 - 4)).check == "FlatOffset"
    for size in range(0, len(good), 5):
        assert failure(good[:size]).check in (
            "FileTooSmall", "FileTruncated", "FileSegments", "FlatOffset", "FlatTable", "FileIdentifier"
        )  # fmt: skip


def test_shared_tables_do_not_take_forever(library: Any) -> None:
    # A list of lists of the same tables: ever so many references in a small file.
    b = Builder()
    numbers = b.value(Int(1))
    b.value(Bool(True))
    for _ in range(3000):
        b.value(IntList((numbers,) * 3000))
    with pytest.raises(ExecutorError) as caught:
        Program(library, b.pte(check=False))
    assert caught.value.check == "FlatTooComplex"
