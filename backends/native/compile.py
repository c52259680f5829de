"""From a function of groups to a blob: code for each processor, packed weights, and the fallback."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast, overload

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, TensorType, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from etir.backends.api.interface import Artifact, NamedBlob, Outlined
from etir.backends.api.memory import PlansOnly
from etir.backends.native.blob import IS_BOUND, Constant, NativeBlob, Variant, bound, said, write_blob
from etir.backends.native.cc import Compiler, Objects, compiler, shared_objects
from etir.backends.native.chain import Link, plan_chain
from etir.backends.native.cpu import Cpu, cpu, family_of_host, known, of_family
from etir.backends.native.dims import dims
from etir.backends.native.errors import E1170, E1174
from etir.backends.native.frame import Around, Frame
from etir.backends.native.groups import delay_products, hoist_products, ungroup
from etir.backends.native.image import Image, flat_image
from etir.backends.native.lowering import constant_name, lower_function, type_of
from etir.backends.native.made import take_made
from etir.backends.native.need import bound_of
from etir.backends.native.over import is_over, pairs_of, write_over
from etir.backends.native.packing import groups_of, packed
from etir.backends.native.passes.tile_attention import fuse_attention
from etir.backends.native.passes.tile_columns import split_columns
from etir.backends.native.passes.tile_few_rows import read_as_it_lies
from etir.backends.native.passes.tile_forward import forward_copies
from etir.backends.native.passes.tile_fuse import fuse_maps
from etir.backends.native.passes.tile_inside import write_inside
from etir.backends.native.passes.tile_order import order_steps
from etir.backends.native.passes.tile_pieces import copy_pieces
from etir.backends.native.passes.tile_rows import fuse_rows
from etir.backends.native.passes.tile_scale import fold_scales
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.passes.tile_sink import sink_fills
from etir.backends.native.passes.verify_native import verify_groups
from etir.backends.native.passes.verify_tile import Proven, verify_function
from etir.backends.native.placing import with_places
from etir.backends.native.print_c import ENTRY, CSource, print_c, weights_of
from etir.backends.native.sizes import Undecided
from etir.backends.native.spelled_out import spell_out
from etir.backends.native.tile import TemplateOp, WeightOp, is_flags, shape_of
from etir.backends.native.told import needs_of
from etir.backends.native.tune import Tuner, tuner
from etir.backends.native.workspace import Planned, plan_both, plan_where, plan_workspace
from etir.backends.reference.lowered import LoweredFunction
from etir.diagnostics import EtirError
from etir.dialects.copying import copy_of
from etir.dialects.et import program
from etir.dialects.et.program import ConstantOp, GetWeightOp, dense_bytes
from etir.dialects.et.workspace import APART, memory_digest, memory_specs
from etir.dialects.text import source_location
from etir.dialects.walking import ops_of

if TYPE_CHECKING:
    import numpy as np

REWRITES: list[Callable[[FuncOp], None]] = [
    forward_copies,
    fold_scales,
    read_as_it_lies,
    fuse_maps,
    fuse_attention,
]
"""Rewrites of ``tile``, each a pass of its own, in their order."""
ALIGNMENT = 64
OBJECT_BYTES = 256
"""What the runtime half takes for itself, besides three pointers for each argument and weight."""


def argument_bytes(shapes: Sequence[Sequence[int]], weights: int, pointer: int = 8) -> int:
    """What the runtime half takes for arguments and weights: pointers, and dims that are known at run time only."""
    sizes = sum(bool(n & IS_BOUND) for shape in shapes for n in shape)
    return 3 * pointer * (len(shapes) + weights) + (8 * sizes + 8 if sizes else 0)


def processors(names: Sequence[str]) -> list[Cpu]:
    """Those for which code is loaded, by name (none: all of the host's family). Raises E1160, and E1170 for others."""
    chosen = [cpu(name) for name in names] if names else list(of_family(family_of_host()))
    if linked := [c.name for c in chosen if c.linked]:
        loaded = ", ".join(name for name in known() if not cpu(name).linked)
        raise E1170.error(f"code for {linked[0]} cannot be loaded from a file; it can be for {loaded}")
    return chosen


def compile_function(
    outlined: Outlined,
    cpus: Sequence[str],
    cc: str,
    tune: str = "",
    frame: Frame | None = None,
    made: Objects | None = None,
) -> Artifact:
    """The blob of an outlined function, for each of ``cpus`` (empty: all of the host's family).

    ``tune`` is ``host``, or a file of schedules (``tune.py``). ``frame`` has the calls of the module's delegates; those
    before this one have been planned. ``made`` has what has been compiled of them, and gets what is compiled here.
    """
    chosen = processors(cpus)
    using = compiler(cc)
    made = {} if made is None else made
    measured = tuner(tune, using)
    verify_groups(outlined.func)
    with decided(outlined.func):
        return _compiled(outlined, chosen, using, measured, frame or Frame(outlined.module), made)


def plan_together(functions: Sequence[tuple[Outlined, Sequence[str]]], frame: Frame) -> None:
    """Plan the delegates of a block as one where that needs less memory than one after another, for the processors
    with these names. What cannot be lowered is said when code is made.
    """
    known = {outlined.name: (outlined, cpus) for outlined, cpus in functions}
    for names in frame.blocks(list(known)):
        if len(names) < 2:
            continue
        links: list[Link] = []
        planned: list[Planned] = []
        try:
            for name in names:
                outlined, cpus = known[name]
                verify_groups(outlined.func)
                link = Link(name, *code_and_kernels(outlined, processors(cpus)[0], frame))
                links.append(link)
                planned.append(_planned(outlined, link.func, link.kernels, frame))
                if (workspace := planned[-1].workspace) is not None:
                    frame.keep(name, workspace)
            room = _room(known[names[0]][0], frame)
            together = plan_chain(links, frame, planned, room)
            if together is not None and room is not None and (least := max(found.bytes for found in together)) > room:
                # Beside what outputs take from when they are written, another order of the kernels may need less.
                others = [replace(link, kernels=kernels_of(known[link.name][0])) for link in links]
                if (found := plan_chain(others, frame, planned, room, least)) is not None:
                    links, together = others, found
            together = together or planned
        except (EtirError, Undecided):
            continue
        for link, found in zip(links, together, strict=True):
            frame.planned[link.name] = (link.func, link.kernels, found)


def _room(outlined: Outlined, frame: Frame) -> int | None:
    """The bytes that the method which calls a delegate is to need at most, as it would without delegates."""
    plans = outlined.ctx.attachments.get(PlansOnly)
    method = frame.method_of(outlined.name)
    return None if plans is None or method is None else plans.room.get(method)


@contextmanager
def decided(func: FuncOp) -> Iterator[None]:
    """Raises E1174 where something would have to decide by a size that is known at run time only."""
    try:
        yield
    except Undecided as error:
        raise E1174.error(f"code would decide by a size: {error}", source_location(func.location)) from error


def _compiled(
    outlined: Outlined,
    chosen: Sequence[Cpu],
    using: Compiler,
    measured: Tuner | None,
    frame: Frame,
    made: Objects,
) -> Artifact:
    planned_before = frame.planned.pop(outlined.name, None)
    if planned_before is not None:
        func, kernels, planned = planned_before
    else:
        func, kernels = code_and_kernels(outlined, chosen[0], frame)
        planned = _planned(outlined, func, kernels, frame)
    arena = planned.arena
    plans = outlined.ctx.attachments.get(PlansOnly)
    if plans is not None and not plans.makes_code(planned.bytes):
        if plans.most is None:
            plans.needs[outlined.name] = needs_of(outlined.func, func, kernels, planned, frame)
        return _artifact(outlined, func, kernels, planned, (), frame, is_final=plans.most is not None)
    shapes = readable_shapes(outlined)
    sources: list[CSource] = []
    scheduled, proven = copy_of(func), Proven()
    given = [(op, op.schedule) for op in scheduled.walk() if isinstance(op, TemplateOp)]
    for target in chosen:
        for op, schedule in given:
            op.schedule = schedule
        if measured is not None:
            measured.apply(scheduled, target)
        choose_schedules(scheduled, target)
        share_kernels(scheduled, target)
        verify_function(scheduled, target, shapes, arena, proven)
        sources.append(print_c(scheduled, target, table=True))
    if measured is not None:
        measured.save()
    objects = shared_objects([source.text for source in sources], chosen, using, made)
    images = [with_places(flat_image(elf, ENTRY), source.places) for elf, source in zip(objects, sources, strict=True)]
    return _artifact(outlined, func, kernels, planned, [*zip(chosen, images, strict=True)], frame)


def _planned(outlined: Outlined, func: FuncOp, kernels: LoweredFunction, frame: Frame) -> Planned:
    """The plan of code and kernels, where those of delegates before this one leave it; with a workspace in any case
    where the program would need more than without delegates, although none of them does.
    """
    free, inputs = free_places(outlined, frame), len(outlined.func.body.block.args)
    plans = outlined.ctx.attachments.get(PlansOnly)
    planner = partial(plan_both, is_repeated=True) if frame.is_repeated(outlined.name) else plan_both
    if plans is not None and plans.less > 0:
        planner = plan_workspace
    return plan_where(free, inputs, frame.most, lambda around: planner(func, kernels, around))


def _artifact(
    outlined: Outlined,
    func: FuncOp,
    kernels: LoweredFunction,
    planned: Planned,
    images: Sequence[tuple[Cpu, Image]],
    frame: Frame,
    *,
    is_final: bool = True,
) -> Artifact:
    """The blob of a planned function with its images; the frame keeps where its outputs are. What is not final is made
    for the memory that it would need alone, and has no weights.
    """
    arena = planned.arena
    weights, named, constants = _weights(outlined, weights_of(func)) if is_final else ((), {}, ())
    fallback = kernels.artifact()
    inputs = len(outlined.func.body.block.args)
    arguments = tuple(said(shape_of(arg), is_flags(arg.type)) for arg in func.body.block.args)
    sizes = [size for _, size in weights]
    variants = [Variant(c.name, bound(image, inputs, arguments, arena, sizes)) for c, image in images]
    workspace = planned.workspace
    if workspace is not None:
        frame.keep(outlined.name, workspace)
    size = 0 if workspace is None else workspace.size
    over = [pair for pair in pairs_of(outlined.func) if is_over(func, pair) and kernels.is_over(pair)]
    specs = memory_specs(workspace, over)
    memory = memory_digest(specs)
    blob = NativeBlob(inputs, arguments, arena, weights, constants, tuple(variants), fallback.blob, size, memory)
    return Artifact(
        write_blob(blob),
        named_data=named,
        specs=specs,
        method_memory=fallback.method_memory + OBJECT_BYTES + argument_bytes(arguments, len(weights)),
        method_memory_32=fallback.method_memory_32 + OBJECT_BYTES + argument_bytes(arguments, len(weights), 4),
        temp_memory=fallback.temp_memory,
    )


def free_places(outlined: Outlined, frame: Frame) -> Around:
    """Where the inputs and outputs of an outlined function may be."""
    return frame.around(outlined.name, len(outlined.func.body.block.args), len(outlined.result.arguments))


def without_code(outlined: Outlined) -> Artifact:
    """The blob of a function that has no code: its program for the kernels, and the weights as they are."""
    weights, named, constants = _weights(outlined, ())
    kernels = kernels_of(outlined)
    kernels.plan()
    fallback = kernels.artifact()
    arguments = outlined.func.body.block.args
    shapes = tuple(said(dims(value), is_flags(type_of(value))) for value in (*arguments, *outlined.result.arguments))
    blob = NativeBlob(len(arguments), shapes, 0, weights, constants, (), fallback.blob)
    return Artifact(
        write_blob(blob),
        named_data=named,
        method_memory=fallback.method_memory + OBJECT_BYTES + argument_bytes(shapes, len(weights)),
        method_memory_32=fallback.method_memory_32 + OBJECT_BYTES + argument_bytes(shapes, len(weights), 4),
        temp_memory=fallback.temp_memory,
    )


def code_and_kernels(outlined: Outlined, target: Cpu, frame: Frame) -> tuple[FuncOp, LoweredFunction]:
    """The ``tile`` level of an outlined function and its program for the kernels, neither of them planned."""
    made = take_made(outlined, target)
    func = None if made is None else made.func
    func = tile_function(outlined.func, target) if func is None else func
    if made is not None:
        return func, made.kernels
    return func, kernels_of(outlined, [APART if place == APART else None for place in free_places(outlined, frame)])


def tile_function(outlined: FuncOp, target: Cpu) -> FuncOp:
    """The ``tile`` level of an outlined function, without places and schedules."""
    return rewritten_function(lowered_function(outlined, target), outlined, target)


def lowered_function(outlined: FuncOp, target: Cpu) -> FuncOp:
    """The function of ``tile`` that an outlined one becomes at first."""
    func = lower_function(outlined, target).body.block.first_op
    assert isinstance(func, FuncOp)
    return func


def rewritten_function(func: FuncOp, outlined: FuncOp, target: Cpu) -> FuncOp:
    """A function of ``tile`` after all rewrites, in place."""
    for rewrite in REWRITES:
        rewrite(func)
    split_columns(func)
    fuse_rows(func, target)
    sink_fills(func)
    write_inside(func)
    copy_pieces(func)
    pairs = pairs_of(outlined)
    write_over(func, pairs)
    order_steps(func, pairs)
    return func


def weight_arrays(outlined: Outlined, read: Sequence[WeightOp]) -> list[np.ndarray]:
    """The packed floats of the weights that code reads; truth values are 0 and 1, and integers floats."""
    import numpy as np

    shapes = weight_shapes(outlined)
    constants = numbered_constants(outlined)
    kinds = {i1: np.bool_, i64: np.int64}
    plain = _others_of(outlined)
    found: list[np.ndarray] = []
    for op in read:
        constant = constants.get(op.symbol.data)
        if constant is not None:
            shape = cast("TensorType[Attribute]", constant.result.type).get_shape()
            data = dense_bytes(constant.value)
        else:
            shape, data = shapes[op.symbol.data], outlined.weight(op.symbol.data).data
        elements = np.frombuffer(data, kinds.get(plain.get(op.symbol.data), np.float32))
        found.append(packed(op, elements.astype(np.float32, copy=False).reshape(shape)))
    return found


def _others_of(outlined: Outlined) -> dict[str, Attribute]:
    """The weights and constants that are truth values or integers, which are floats for code: their elements' types by
    the names that ``tile`` has for them.
    """
    read = [op for op in ops_of(outlined.func.body.block) if isinstance(op, GetWeightOp)]
    named = [(op.symbol.root_reference.data, op.result.type) for op in read]
    named += [(name, op.result.type) for name, op in numbered_constants(outlined).items()]
    types = {name: cast("TensorType[Attribute]", type).element_type for name, type in named}
    return {name: type for name, type in types.items() if type in (i1, i64)}


def weight_shapes(outlined: Outlined) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights that an outlined function reads, by symbol."""
    return {
        op.symbol.root_reference.data: cast("TensorType[Attribute]", op.result.type).get_shape()
        for op in outlined.func.body.block.ops
        if isinstance(op, GetWeightOp)
    }


def numbered_constants(outlined: Outlined) -> dict[str, ConstantOp]:
    """The constants of an outlined function under the names that ``tile`` has for them."""
    constants = [op for op in ops_of(outlined.func.body.block) if isinstance(op, ConstantOp)]
    return {constant_name(i): op for i, op in enumerate(constants)}


def readable_shapes(outlined: Outlined) -> dict[str, tuple[int, ...]]:
    """The shapes of weights and constants, by the names that ``tile`` has for them."""
    constants = numbered_constants(outlined).items()
    shapes = {name: cast("TensorType[Attribute]", op.result.type).get_shape() for name, op in constants}
    return {**weight_shapes(outlined), **shapes}


def _weights(
    outlined: Outlined, read: Sequence[WeightOp]
) -> tuple[tuple[tuple[str, int], ...], dict[str, NamedBlob], tuple[Constant, ...]]:
    """Keys and bytes of the weights that code reads, their data, and where the fallback finds each weight."""
    import numpy as np

    rows: list[tuple[str, int]] = []
    named: dict[str, NamedBlob] = {}
    found: dict[str, Constant] = {}
    shapes, numbered, others = weight_shapes(outlined), numbered_constants(outlined), _others_of(outlined)

    def add(data: bytes | memoryview) -> int:
        key = "native." + hashlib.sha256(data).hexdigest()[:32]
        named[key] = NamedBlob(data, ALIGNMENT)
        rows.append((key, len(data)))
        return len(rows) - 1

    for op, array in zip(read, weight_arrays(outlined, read), strict=True):
        symbol = op.symbol.data
        number = add(array.view(np.uint8).data)
        if symbol in numbered or symbol in others:
            continue  # the kernels have constants in their program, and truth values and integers as they are
        if op.panel is None:
            groups = shape_of(op.result)[0] if op.spread is not None else 0
            found[symbol] = Constant(symbol, number, groups=groups, spread=op.spread is not None)
        elif symbol not in found:
            *_, k, panel = shape_of(op.result)
            n = shapes[symbol][0] if op.transposed is not None else shapes[symbol][1]
            window: tuple[int, ...] = ()
            if op.winograd is not None:
                found[symbol] = Constant(symbol, number, panel, k, n, True, winograd=op.winograd.value.data)
                continue
            if len(shape_of(op.result)) > 3:
                window = ((1, *shapes[symbol][2:])[-2:]) + (groups_of(op),)
                n = n // groups_of(op) if op.transposed is not None else n
            is_spread = op.spread is not None
            found[symbol] = Constant(symbol, number, panel, k, n, op.transposed is not None, *window, spread=is_spread)
    for symbol in shapes:
        if symbol not in found:
            found[symbol] = Constant(symbol, add(outlined.weight(symbol).data))
    return tuple(rows), named, tuple(found[symbol] for symbol in sorted(found))


def kernels_of(outlined: Outlined, around: Around | None = None) -> LoweredFunction:
    """The function on the kernels, as the reference delegate has it, its weights left to the delegate around it.

    ``around`` says which inputs and outputs are not in its workspace; all may be by default.
    """
    pairs = pairs_of(outlined.func)

    def lowered(func: Outlined) -> tuple[int, LoweredFunction]:
        made = LoweredFunction(func, within=True, over=pairs, around=around)
        return bound_of(made.problem_within(around)[0]), made

    bytes, best = lowered(for_kernels(outlined))
    other = for_kernels(outlined, is_early=True)
    if other is not None and (found := lowered(other))[0] < bytes:
        return found[1]
    return best


@overload
def for_kernels(outlined: Outlined) -> Outlined: ...
@overload
def for_kernels(outlined: Outlined, *, is_early: bool) -> Outlined | None: ...
def for_kernels(outlined: Outlined, *, is_early: bool = False) -> Outlined | None:
    """A copy of the function and its module in edge operators, whose weights are left to the delegate around it.

    ``is_early`` asks for products as early as they can be, where others are before what is added to them; None where
    there are none.
    """
    # A program may have hundreds of delegates, and each of them is lowered: what it does not name is not copied.
    named = {
        reference.root_reference.data
        for op in outlined.func.walk()
        for reference in (*op.properties.values(), *op.attributes.values())
        if isinstance(reference, SymbolRefAttr)
    }
    module = ModuleOp([copy_of(op) for op in ops_of(outlined.module.body.block) if _is_read(op, named)])
    func = copy_of(outlined.func)
    ungroup(func)
    if not is_early:
        delay_products(func)
    elif not hoist_products(func):
        return None
    spell_out(func)
    module.body.block.add_op(func)
    symbols = {}
    for op in module.body.block.ops:
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr):
            symbols[name.data] = op
    for op in func.body.block.ops:
        if isinstance(op, GetWeightOp):
            # By symbol, since that is what the blob's table of constants has; a module's name for it may differ.
            weight = symbols[op.symbol.root_reference.data]
            weight.attributes |= {"external": StringAttr("native"), "fqn": op.symbol.root_reference}
    return Outlined(outlined.ctx, module, func, symbols)


def _is_read(op: Operation, named: AbstractSet[str]) -> bool:
    """Whether a function that names these symbols reads an operation of its module; dims have no place that does."""
    if isinstance(op, FuncOp):
        return False
    return not isinstance(op, program.WeightOp | program.StateOp) or op.sym_name.data in named
