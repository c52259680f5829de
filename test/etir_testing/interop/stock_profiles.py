"""Runs of the stock runtime that write a profile, and what its own reader says of one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from etir.emit.etdump.model import (
    Block,
    DebugEvent,
    ETDump,
    Event,
    ProfileEvent,
    TensorValue,
    Value,
    ValueKind,
)
from etir.emit.formats.scalar_type import ScalarType


def stock_profile(
    program: bytes,
    inputs: Sequence[Any],
    folder: Path,
    *,
    method: str = "forward",
    runs: int = 1,
    values: bool = True,
) -> tuple[bytes, bytes]:
    """The ETDump and the buffer of values of ``runs`` runs on the stock runtime."""
    from executorch.extension.pybindings import portable_lib

    size = 1 << 16 if values else 0
    loaded = portable_lib._load_for_executorch_from_buffer(program, enable_etdump=True, debug_buffer_size=size)
    for _ in range(runs):
        loaded.run_method(method, list(inputs))
    dump, buffer = folder / "stock.etdp", folder / "stock.bin"
    loaded.write_etdump_result_to_file(str(dump), str(buffer) if values else None)
    return dump.read_bytes(), buffer.read_bytes() if values else b""


def stock_reading(data: bytes) -> ETDump:
    """What the stock package reads, through ``flatc`` and its own classes, in etir's."""
    found = deserialize_from_etdump_flatcc(data)
    blocks = [
        Block(
            run.name,
            tuple([_event(event) for event in run.events or []]),
            run.bundled_input_index,
            tuple([allocator.name for allocator in run.allocators or []]),
        )
        for run in found.run_data
    ]
    return ETDump(tuple(blocks), found.version)


def _event(event: Any) -> Event:
    if (profile := event.profile_event) is not None:
        metadata = profile.delegate_debug_metadata
        return ProfileEvent(
            profile.name,
            profile.chain_index,
            profile.instruction_id,
            profile.start_time,
            profile.end_time,
            _id(profile),
            None if metadata is None else bytes(metadata),
        )
    debug = event.debug_event
    chain = debug.chain_index - (1 << 64) if debug.chain_index >> 63 else debug.chain_index
    return DebugEvent(chain, debug.instruction_id, _value(debug.debug_entry), _id(debug), debug.name)


def _id(event: Any) -> int | str | None:
    return event.delegate_debug_id_str if event.delegate_debug_id_int == -1 else event.delegate_debug_id_int


def _value(value: Any) -> Value:
    names = {"Null": "NULL", "TensorList": "TENSOR_LIST"}
    kind = ValueKind[names.get(value.val, value.val.upper())]
    output = None if value.output is None else value.output.bool_val
    match kind:
        case ValueKind.TENSOR:
            return Value(kind, _tensor(value.tensor), output)
        case ValueKind.TENSOR_LIST:
            return Value(kind, tuple([_tensor(tensor) for tensor in value.tensor_list.tensors]), output)
        case ValueKind.INT:
            return Value(kind, value.int_value.int_val, output)
        case ValueKind.BOOL:
            return Value(kind, value.bool_value.bool_val, output)
        case ValueKind.DOUBLE:
            return Value(kind, value.double_value.double_val, output)
        case ValueKind.FLOAT:
            return Value(kind, struct.unpack("<f", struct.pack("<f", value.float_value.float_val))[0], output)
        case _:
            return Value(kind, None, output)


def _tensor(tensor: Any) -> TensorValue:
    offset = 0 if tensor.offset is None else tensor.offset
    return TensorValue(ScalarType(int(tensor.scalar_type)), tuple(tensor.sizes), tuple(tensor.strides), offset)
