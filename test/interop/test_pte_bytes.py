"""Files of the stock exporter: they read the same as with the stock tools, and run the same after being rewritten."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

pytest.importorskip("executorch", reason="compares with the stock ExecuTorch package")

import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer as load
from executorch.runtime import Runtime, Verification

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd import read_ptd, write_ptd
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.pte import read_pte, write_pte
from etir.emit.pte.model import Double, Program, Tensor

from etir_testing.interop.stock_samples import SAMPLES, Sample, stock_sample

NAMES = list(SAMPLES)


@pytest.fixture(scope="session")
def samples() -> Callable[[str], Sample]:
    """Samples by name, each exported once."""

    return cache(stock_sample)


def test_samples_cover_the_format(samples: Callable[[str], Sample]) -> None:
    programs = [read_pte(samples(name).pte) for name in NAMES]
    plans = [plan for program in programs for plan in program.execution_plan]
    kinds = {type(value).__name__ for plan in plans for value in plan.values}
    instructions = {type(i).__name__ for plan in plans for chain in plan.chains for i in chain.instructions}
    # Nothing in the stock pipeline makes double lists, bool lists or free instructions out of these modules.
    literals = {"Null", "Int", "Bool", "Double", "String", "IntList"}
    assert kinds == literals | {"Tensor", "TensorList", "OptionalTensorList"}
    assert instructions == {"KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall"}
    assert any(program.mutable_data for program in programs)
    assert any(program.named_data for program in programs)
    assert any(delegate.inline for plan in plans for delegate in plan.delegates)
    assert any(not delegate.inline for plan in plans for delegate in plan.delegates)
    assert any(chain.stacktrace for plan in plans for chain in plan.chains)
    assert any(isinstance(v, Tensor) and v.is_external for plan in plans for v in plan.values)


# Decoding


def compare(mine: Any, stock: Any, path: str) -> None:
    """Compare a part of the model, field by field, with the stock dataclass of the same name."""
    if isinstance(stock, list) or (stock is None and isinstance(mine, tuple)):
        assert len(mine) == len(stock or []), path
        for index, pair in enumerate(zip(mine, stock or [], strict=True)):
            compare(*pair, f"{path}[{index}]")
    elif type(stock).__name__ in ("EValue", "Instruction"):
        compare(mine, stock.val if hasattr(stock, "val") else stock.instr_args, path)
    elif isinstance(mine, Double):
        expected = float(stock.double_val)
        assert mine.double_val == expected or (math.isnan(mine.double_val) and math.isnan(expected)), path
    elif dataclasses.is_dataclass(mine) and type(mine).__name__ == "CompileSpec":
        assert (mine.key, bytes(mine.value)) == (stock.key, bytes(stock.value)), path
    elif dataclasses.is_dataclass(mine):
        assert type(mine).__name__ == type(stock).__name__, path
        for field in dataclasses.fields(mine):
            if field.name not in ("data", "inline"):
                compare(getattr(mine, field.name), getattr(stock, field.name), f"{path}.{field.name}")
    else:
        assert type(mine) is type(stock) or int(mine) == int(stock), path
        assert mine == stock, path


def compare_data(data: Any, stock: bytes) -> None:
    """The stock tools do not know where a constant ends, and return its padding, too."""
    assert bytes(data) == stock[: len(data)]
    assert not any(stock[len(data) :])


@pytest.mark.parametrize("rewritten", [False, True], ids=["stock", "rewritten"])
@pytest.mark.parametrize("name", NAMES)
def test_reads_like_the_stock_deserializer(samples: Callable[[str], Sample], name: str, rewritten: bool) -> None:
    data = samples(name).pte
    mine = read_pte(data)
    stock = deserialize_pte_binary(write_pte(mine) if rewritten else data)
    assert mine.version == stock.program.version
    compare(mine.execution_plan, stock.program.execution_plan, "execution_plan")
    assert len(mine.constants) == max(1, len(stock.program.constant_buffer))
    for buffer, expected in zip(mine.constants[1:], stock.program.constant_buffer[1:], strict=True):
        compare_data(buffer, bytes(expected.storage))
    assert len(mine.mutable_data) == len(stock.mutable_data or [])
    for buffer, expected in zip(mine.mutable_data, stock.mutable_data or [], strict=True):
        compare_data(buffer, bytes(expected.storage))
    named = stock.named_data.pte_data if stock.named_data is not None else {}
    assert list(mine.named_data) == list(named)
    for key, entry in named.items():
        assert bytes(mine.named_data[key].data) == bytes(stock.named_data.buffers[entry.buffer_index])
    delegates = [
        pair
        for my_plan, plan in zip(mine.execution_plan, stock.program.execution_plan, strict=True)
        for pair in zip(my_plan.delegates, plan.delegates, strict=True)
    ]
    for my_delegate, delegate in delegates:
        blob = stock.program.backend_delegate_data[delegate.processed.index].data
        assert bytes(my_delegate.data) == bytes(blob)


@pytest.mark.parametrize("name", NAMES)
def test_rewriting_keeps_the_program_and_its_segments(samples: Callable[[str], Sample], name: str) -> None:
    data = samples(name).pte
    program = read_pte(data)
    rewritten = write_pte(program)
    assert read_pte(rewritten) == program
    assert write_pte(read_pte(rewritten)) == rewritten
    assert len(rewritten) <= len(data)
    base, new_base = (int.from_bytes(d[24:32], "little") if d[8:12] == b"eh00" else len(d) for d in (data, rewritten))
    assert data[base:] == rewritten[new_base:]


# Running


def flatten(outputs: Any) -> list[Any]:
    return [item.clone() if isinstance(item, torch.Tensor) else item for item in outputs]


def run(pte: bytes, sample: Sample, ptd: bytes | None) -> list[list[Any]]:
    module = load(pte, data_map_buffer=ptd) if ptd is not None else load(pte)
    return [flatten(module.run_method(method, args)) for method, args in sample.calls]


def assert_same_runs(sample: Sample, pte: bytes, ptd: bytes | None) -> None:
    expected = run(sample.pte, sample, sample.ptd)
    actual = run(pte, sample, ptd)
    assert len(actual) == len(expected)
    for mine, stock in zip(actual, expected, strict=True):
        assert len(mine) == len(stock)
        for a, b in zip(mine, stock, strict=True):
            if isinstance(b, torch.Tensor):
                assert torch.equal(a, b)
            else:
                assert a == b


@pytest.mark.parametrize("name", NAMES)
def test_rewritten_program_runs_the_same(samples: Callable[[str], Sample], name: str) -> None:
    sample = samples(name)
    assert_same_runs(sample, write_pte(read_pte(sample.pte)), sample.ptd)


@pytest.mark.parametrize("name", NAMES)
def test_rewritten_program_passes_the_stock_verifier(samples: Callable[[str], Sample], name: str) -> None:
    sample = samples(name)
    if sample.ptd is not None:
        pytest.skip("the methods cannot be loaded without the data file; run above")
    data = write_pte(read_pte(sample.pte))
    program = Runtime.get().load_program(data, verification=Verification.InternalConsistency)
    expected = {plan.name for plan in read_pte(sample.pte).execution_plan}
    assert program.method_names == expected
    assert all(program.load_method(name) is not None for name in sorted(expected))


@pytest.mark.parametrize("alignment", [16, 4096])
def test_other_alignments_run_the_same(samples: Callable[[str], Sample], alignment: int) -> None:
    for name in ("mlp", "xnnpack", "xnnpack_inline", "mutable_initialized"):
        sample = samples(name)
        program = read_pte(sample.pte)
        data = write_pte(
            program, segment_alignment=alignment, constant_alignment=alignment, delegate_alignment=alignment
        )
        assert read_pte(data) == program
        assert_same_runs(sample, data, None)


def test_moving_a_delegate_blob_into_the_flatbuffer_runs_the_same(samples: Callable[[str], Sample]) -> None:
    sample = samples("xnnpack")
    program = read_pte(sample.pte)
    (plan,) = program.execution_plan
    inline = tuple(dataclasses.replace(delegate, inline=True) for delegate in plan.delegates)
    program = dataclasses.replace(program, execution_plan=(dataclasses.replace(plan, delegates=inline),))
    assert_same_runs(sample, write_pte(program), None)


# Data files


def test_ptd_reads_like_the_stock_deserializer(samples: Callable[[str], Sample]) -> None:
    ptd = samples("external").ptd
    assert ptd is not None
    mine = read_ptd(ptd)
    for data in (ptd, write_ptd(mine)):
        stock = FlatTensorSerializer().deserialize(data)
        assert list(stock.named_data) == list(mine.named_data)
        for key, entry in stock.named_data.items():
            named = mine.named_data[key]
            assert bytes(stock.buffers[entry.buffer_index]) == bytes(named.data)
            layout, expected = named.tensor_layout, entry.tensor_layout
            assert layout is not None and expected is not None
            assert layout.scalar_type == expected.scalar_type
            assert list(layout.sizes) == list(expected.sizes)
            assert list(layout.dim_order) == list(expected.dim_order)


def test_rewritten_ptd_runs_the_same(samples: Callable[[str], Sample]) -> None:
    sample = samples("external")
    assert sample.ptd is not None
    flat_tensor = read_ptd(sample.ptd)
    rewritten = write_ptd(flat_tensor)
    assert read_ptd(rewritten) == flat_tensor
    assert write_ptd(read_ptd(rewritten)) == rewritten
    assert_same_runs(sample, sample.pte, rewritten)
    assert_same_runs(sample, write_pte(read_pte(sample.pte)), write_ptd(flat_tensor, segment_alignment=16))


def test_constants_moved_into_a_ptd_are_found_there(samples: Callable[[str], Sample]) -> None:
    """A data file made from scratch, with values of our own, is what the runtime computes with."""
    sample = samples("external")
    assert sample.ptd is not None
    zeros = {
        key: NamedTensor(bytes(len(named.data)), named.tensor_layout)
        for key, named in read_ptd(sample.ptd).named_data.items()
    }
    extra = NamedTensor(b"\1\2\3\4", TensorLayout(ScalarType.BYTE, (4,), (0,)))
    data = write_ptd(FlatTensor({"unused": extra, **zeros}))
    pte = write_pte(read_pte(sample.pte))
    module = load(pte, data_map_buffer=data)  # which does not keep the bytes
    (output,) = module.run_method("forward", sample.calls[0][1])
    assert torch.equal(output, torch.zeros(2, 4))


# Damage


def read_or_reject(read: Callable[[bytes], Any], data: bytes, original: Any) -> bool:
    """Whether damaged ``data`` is rejected; anything else than a program or an ``EtirError`` fails the test."""
    try:
        result = read(data)
    except EtirError as error:
        assert all(d.help and d.message for d in error.diagnostics)
        assert len(str(error)) < 100_000
        return True
    assert isinstance(result, type(original))
    return False


def damage(data: bytes, random_: random.Random, tables: int) -> bytes:
    """``data`` with one to four bytes of its first ``tables`` bytes changed, or cut short."""
    if random_.random() < 0.1:
        return data[: random_.randrange(len(data))]
    damaged = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        position = random_.randrange(tables)
        damaged[position] = random_.choice(
            (random_.randrange(256), 0, 255, damaged[position] ^ 1 << random_.randrange(8))
        )
    return bytes(damaged)


@pytest.mark.parametrize("name", ["several", "map", "cond", "methods", "xnnpack_inline", "stacktrace", "shared_state"])
@pytest.mark.parametrize("rewritten", [False, True], ids=["stock", "rewritten"])
def test_damaged_programs_are_read_or_rejected(samples: Callable[[str], Sample], name: str, rewritten: bool) -> None:
    data = samples(name).pte
    program: Program = read_pte(data)
    if rewritten:
        data = write_pte(program)
    random_ = random.Random(name)
    rejected = sum(read_or_reject(read_pte, damage(data, random_, len(data)), program) for _ in range(600))
    assert rejected > 60


def test_damaged_data_files_are_read_or_rejected(samples: Callable[[str], Sample]) -> None:
    data = samples("external").ptd
    assert data is not None
    flat_tensor = read_ptd(data)
    random_ = random.Random(0)
    rejected = sum(read_or_reject(read_ptd, damage(data, random_, 640), flat_tensor) for _ in range(1500))
    assert rejected > 300
