"""Reads a ``.pte`` file that nobody vouches for.

Whatever the bytes are, reading either gives a program that follows all rules of :mod:`etir.emit.pte.validate` or
raises ``EtirError`` with the byte offset of what is wrong. Bounds, alignment and overlap are the business of
:class:`~etir.emit.flatbuffer.view.View`; the schema has no recursion, so neither has the reader.

Data is not copied: constants, delegate blobs and named data are views into the buffer that was read, which has to
stay as it is for as long as the program is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TypeVar

from etir.diagnostics import raise_if_errors
from etir.emit.errors import E0808, E0809, E0810
from etir.emit.flatbuffer.schema import TableSchema
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import SCALAR_TYPES
from etir.emit.pte import model, schema
from etir.emit.pte.container import read_container
from etir.emit.pte.store import DataReader
from etir.emit.pte.validate import Path, validate_program

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")

_DYNAMISMS = {int(e): e for e in model.TensorShapeDynamism}
_LOCATIONS = {int(e): e for e in model.TensorDataLocation}
_DEVICES = {int(e): e for e in model.DeviceType}

_PLAN_PARTS = {"values": 2, "inputs": 3, "outputs": 4, "operators": 6, "delegates": 7}
"""Slot of a method's vectors."""


def read_pte(data: Buffer, name: str = "<pte>") -> model.Program:
    """The program in ``data``; ``name`` is the file name for messages.

    Reads files with and without an extended header (also the short one of early versions), and constants and delegate
    blobs inside the FlatBuffer. Raises ``EtirError`` with ids E0801 to E0839.
    """
    buffer = memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")
    container = read_container(buffer, name)
    view = View(buffer, container.tables_size, name)
    root = view.root(schema.IDENTIFIER, "an ExecuTorch program (.pte)")
    row = view.row(root, schema.PROGRAM)
    version, plans_vector = row[0], view.required(row, schema.PROGRAM, 1, root)
    store = DataReader(view, buffer, container, row)
    reader = _PlanReader(view, store)
    positions = view.tables(plans_vector, "execution_plan")
    plans = tuple([reader.plan(position) for position in positions])
    program = store.program(version, plans)

    def position_of(path: Path) -> int | None:
        return reader.position_of(positions, path)

    raise_if_errors(validate_program(program, file=name, position_of=position_of))
    return program


class _PlanReader:
    """Decodes the methods of one file."""

    def __init__(self, view: View, store: DataReader):
        self.view = view
        self.store = store
        self.value_readers: dict[int, tuple[TableSchema, Callable[[int], model.EValue]]] = {
            1: (schema.NULL, self.null_value),
            2: (schema.INT, self.int_value),
            3: (schema.BOOL, self.bool_value),
            4: (schema.DOUBLE, self.double_value),
            5: (schema.TENSOR, self.tensor_value),
            6: (schema.STRING, self.string_value),
            7: (schema.INT_LIST, self.int_list_value),
            8: (schema.DOUBLE_LIST, self.double_list_value),
            9: (schema.BOOL_LIST, self.bool_list_value),
            10: (schema.TENSOR_LIST, self.tensor_list_value),
            11: (schema.OPTIONAL_TENSOR_LIST, self.optional_tensor_list_value),
        }
        self.instruction_readers: dict[int, Callable[[int], model.Instruction]] = {
            1: self.kernel_call,
            2: self.delegate_call,
            3: self.move_call,
            4: self.jump_false_call,
            5: self.free_call,
        }

    def position_of(self, plans: Sequence[int], path: Path) -> int | None:
        """Byte position of a part of a method that has been decoded."""
        plan = plans[int(path[0])]
        if len(path) == 1:
            return plan
        row = self.view.row(plan, schema.EXECUTION_PLAN)
        part, index = path[1], int(path[-1])
        if part in ("inputs", "outputs"):
            return row[_PLAN_PARTS[str(part)]] + 4 + 4 * index
        if part == "instructions":
            chain = self.element(row[5], int(path[2]))
            return self.element(self.view.row(chain, schema.CHAIN)[2], index)
        return self.element(row[_PLAN_PARTS[str(part)]], index)

    def element(self, vector: int, index: int) -> int:
        """Position of a table of a vector that has been decoded."""
        position = vector + 4 + 4 * index
        return position + struct.unpack_from("<I", self.view.buffer, position)[0]

    # Pieces

    def enum(self, members: dict[int, E], value: int, position: int, what: str) -> E:
        found = members.get(value)
        if found is None:
            expected = ", ".join(f"{number} {member.name}" for number, member in members.items())
            self.view.fail(E0809, position, f"{what} is {value}, expected one of {expected}")
        return found

    def flag(self, value: int, position: int, what: str) -> bool:
        if value > 1:
            self.view.fail(E0809, position, f"{what} is {value}, expected 0 or 1")
        return value == 1

    def slot(self, row: list[int], table: TableSchema, index: int, position: int) -> int:
        return row[index] or self.view.required(row, table, index, position)

    def list_of(self, vector: int, what: str, decode: Callable[[int], T]) -> tuple[T, ...]:
        once = self.view.once
        return tuple([once(what, position, decode) for position in self.view.tables(vector, what)])

    def only_items(self, position: int, table: TableSchema, code: str) -> tuple[int, ...]:
        row = self.view.row(position, table)
        return self.view.scalars(self.slot(row, table, 0, position), code, table.name)

    # Methods

    def plan(self, position: int) -> model.ExecutionPlan:
        view = self.view
        row = view.row(position, schema.EXECUTION_PLAN)
        for index in (0, 2, 3, 4, 5, 7, 8):
            self.slot(row, schema.EXECUTION_PLAN, index, position)
        name, container, values, inputs, outputs, chains, operators, delegates, sizes, devices = row
        plan = model.ExecutionPlan(
            name=view.string(name, "name"),
            container_meta_type=self.container(container) if container else None,
            values=self.list_of(values, "values", self.value),
            inputs=view.scalars(inputs, "i", "inputs"),
            outputs=view.scalars(outputs, "i", "outputs"),
            chains=tuple([self.chain(p) for p in view.tables(chains, "chains")]),
            operators=self.list_of(operators, "operators", self.operator),
            delegates=self.list_of(delegates, "delegates", self.delegate),
            non_const_buffer_sizes=view.scalars(sizes, "q", "non_const_buffer_sizes"),
            non_const_buffer_device=self.list_of(devices, "non_const_buffer_device", self.device),
        )
        view.charge(8 * (len(plan.inputs) + len(plan.outputs) + len(plan.non_const_buffer_sizes)), position)
        return plan

    def container(self, position: int) -> model.ContainerMetadata:
        inputs, outputs = self.view.row(position, schema.CONTAINER_METADATA)
        return model.ContainerMetadata(
            self.view.string(inputs, "encoded_inp_str"), self.view.string(outputs, "encoded_out_str")
        )

    def device(self, position: int) -> model.NonConstBufferDevice:
        buffer, kind, index = self.view.row(position, schema.NON_CONST_BUFFER_DEVICE)
        return model.NonConstBufferDevice(buffer, self.enum(_DEVICES, kind, position, "device_type"), index)

    def operator(self, position: int) -> model.Operator:
        row = self.view.row(position, schema.OPERATOR)
        name = self.view.string(self.slot(row, schema.OPERATOR, 0, position), "name")
        return model.Operator(name, self.view.string(row[1], "overload"))

    def delegate(self, position: int) -> model.BackendDelegate:
        row = self.view.row(position, schema.BACKEND_DELEGATE)
        name = self.view.string(self.slot(row, schema.BACKEND_DELEGATE, 0, position), "id")
        data, inline = self.store.delegate_data(self.slot(row, schema.BACKEND_DELEGATE, 1, position))
        specs: tuple[model.CompileSpec, ...] = ()
        if row[2]:
            specs = self.view.once("specs", row[2], lambda p: self.list_of(p, "compile_specs", self.compile_spec))
        return model.BackendDelegate(name, data, specs, inline)

    def compile_spec(self, position: int) -> model.CompileSpec:
        key, value = self.view.row(position, schema.COMPILE_SPEC)
        return model.CompileSpec(self.view.string(key, "key"), self.view.blob(value, "value"))

    # Values

    def value(self, position: int) -> model.EValue:
        tag, target = self.view.row(position, schema.EVALUE)
        known = self.value_readers.get(tag)
        if known is None:
            self.view.fail(E0808, position, f"value kind {tag} is not between 1 and {len(self.value_readers)}")
        if not target:
            self.view.fail(E0810, position, f"this EValue of kind {known[0].name} has no value")
        return self.view.once(tag, target, known[1])

    def null_value(self, position: int) -> model.Null:
        self.view.row(position, schema.NULL)
        return model.Null()

    def int_value(self, position: int) -> model.Int:
        return model.Int(self.view.row(position, schema.INT)[0])

    def bool_value(self, position: int) -> model.Bool:
        return model.Bool(self.flag(self.view.row(position, schema.BOOL)[0], position, "Bool.bool_val"))

    def double_value(self, position: int) -> model.Double:
        (bits,) = self.view.row(position, schema.DOUBLE)
        return model.Double(struct.unpack("<d", struct.pack("<Q", bits))[0])

    def string_value(self, position: int) -> model.String:
        row = self.view.row(position, schema.STRING)
        return model.String(self.view.string(self.slot(row, schema.STRING, 0, position), "string_val"))

    def int_list_value(self, position: int) -> model.IntList:
        return model.IntList(self.only_items(position, schema.INT_LIST, "q"))

    def double_list_value(self, position: int) -> model.DoubleList:
        return model.DoubleList(self.only_items(position, schema.DOUBLE_LIST, "d"))

    def bool_list_value(self, position: int) -> model.BoolList:
        items = self.view.row(position, schema.BOOL_LIST)
        return model.BoolList(self.view.once("bools", self.slot(items, schema.BOOL_LIST, 0, position), self.bools))

    def bools(self, vector: int) -> tuple[bool, ...]:
        items = self.view.scalars(vector, "B", "BoolList")
        return tuple([self.flag(item, vector + 4 + i, "BoolList element") for i, item in enumerate(items)])

    def tensor_list_value(self, position: int) -> model.TensorList:
        return model.TensorList(self.only_items(position, schema.TENSOR_LIST, "i"))

    def optional_tensor_list_value(self, position: int) -> model.OptionalTensorList:
        return model.OptionalTensorList(self.only_items(position, schema.OPTIONAL_TENSOR_LIST, "i"))

    def tensor_value(self, position: int) -> model.Tensor:
        view = self.view
        row = view.row(position, schema.TENSOR)
        scalar_type, storage_offset, sizes, dim_order, grad, index, place, layout, dynamism, extra = row
        return model.Tensor(
            self.enum(SCALAR_TYPES, scalar_type, position, "scalar_type"),
            view.scalars(sizes or self.slot(row, schema.TENSOR, 2, position), "i", "sizes"),
            view.scalars(dim_order or self.slot(row, schema.TENSOR, 3, position), "B", "dim_order"),
            self.allocation(place) if place else None,
            index,
            self.enum(_DYNAMISMS, dynamism, position, "shape_dynamism"),
            self.flag(grad, position, "requires_grad"),
            storage_offset,
            layout,
            self.extra(extra) if extra else None,
        )

    def allocation(self, position: int) -> model.AllocationDetails:
        memory_id, low, high = self.view.row(position, schema.ALLOCATION_DETAILS)
        return model.AllocationDetails(memory_id, high << 32 | low)

    def extra(self, position: int) -> model.ExtraTensorInfo:
        index, name, location, device, device_index = self.view.row(position, schema.EXTRA_TENSOR_INFO)
        return model.ExtraTensorInfo(
            index,
            self.view.string(name, "fully_qualified_name") if name else None,
            self.enum(_LOCATIONS, location, position, "location"),
            self.enum(_DEVICES, device, position, "device_type"),
            device_index,
        )

    # Instructions

    def chain(self, position: int) -> model.Chain:
        view = self.view
        row = view.row(position, schema.CHAIN)
        inputs, outputs = (view.scalars(row[slot], "i", schema.CHAIN.slots[slot]) for slot in (0, 1))
        view.charge(8 * (len(inputs) + len(outputs)), position)
        instructions = self.slot(row, schema.CHAIN, 2, position)
        return model.Chain(
            self.list_of(instructions, "instructions", self.instruction),
            inputs,
            outputs,
            self.list_of(row[3], "stacktrace", self.frame_list) if row[3] else None,
        )

    def instruction(self, position: int) -> model.Instruction:
        tag, target = self.view.row(position, schema.INSTRUCTION)
        read = self.instruction_readers.get(tag)
        if read is None:
            message = f"instruction kind {tag} is not between 1 and {len(self.instruction_readers)}"
            self.view.fail(E0808, position, message)
        if not target:
            self.view.fail(E0810, position, "this instruction has no arguments")
        return read(target)

    def kernel_call(self, position: int) -> model.KernelCall:
        row = self.view.row(position, schema.KERNEL_CALL)
        args = self.view.scalars(self.slot(row, schema.KERNEL_CALL, 1, position), "i", "args")
        return model.KernelCall(row[0], args)

    def delegate_call(self, position: int) -> model.DelegateCall:
        row = self.view.row(position, schema.DELEGATE_CALL)
        args = self.view.scalars(self.slot(row, schema.DELEGATE_CALL, 1, position), "i", "args")
        return model.DelegateCall(row[0], args)

    def move_call(self, position: int) -> model.MoveCall:
        return model.MoveCall(*self.view.row(position, schema.MOVE_CALL))

    def jump_false_call(self, position: int) -> model.JumpFalseCall:
        return model.JumpFalseCall(*self.view.row(position, schema.JUMP_FALSE_CALL))

    def free_call(self, position: int) -> model.FreeCall:
        return model.FreeCall(*self.view.row(position, schema.FREE_CALL))

    def frame_list(self, position: int) -> model.FrameList:
        (vector,) = self.view.row(position, schema.FRAME_LIST)
        if not vector:
            return model.FrameList(())
        return model.FrameList(self.view.once("items", vector, lambda p: self.list_of(p, "frames", self.frame)))

    def frame(self, position: int) -> model.Frame:
        filename, line, name, context = self.view.row(position, schema.FRAME)
        string = self.view.string
        return model.Frame(string(filename, "filename"), line, string(name, "name"), string(context, "context"))
