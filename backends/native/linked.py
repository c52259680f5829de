"""Code that a client's build links: C of functions and weights, and a table by which the runtime finds them.

A microcontroller has no memory that code can be copied to and run from, and its model lies in flash already. So the
file has a digest in the place of code, and what it stands for is part of the firmware, with its contract
(:mod:`etir.backends.native.blob`): the runtime calls it for no file whose tables say other sizes::

    forward_native_0.c     a function; its name has the digest
    etir_native_weights.c  the packed weights of all functions, each content once
    etir_native.cc, .h     etir::kLinkedNative, for NativeCode::linked
    etir_native_call.h     how functions are called
    vec.h                  vectors

Weights are arrays of the C and nowhere else: the ``.pte`` file has none, and no program for kernels either, which would
need them, so that what is loaded without the linked function is an error (check NativeMissing).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from etir.backends.api.interface import Artifact, LinkedSizes, Outlined
from etir.backends.native.blob import NativeBlob, Variant, contract, said, write_blob
from etir.backends.native.cc import compiler, object_file
from etir.backends.native.compile import (
    OBJECT_BYTES,
    argument_bytes,
    decided,
    free_places,
    readable_shapes,
    tile_function,
    weight_arrays,
)
from etir.backends.native.cpu import Cpu, cpu, known
from etir.backends.native.errors import E1161, E1170
from etir.backends.native.frame import Frame
from etir.backends.native.image import Image, object_bytes
from etir.backends.native.kernels.template import float_text
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.verify_native import verify_groups
from etir.backends.native.passes.verify_tile import verify_function
from etir.backends.native.print_c import call_text, header, print_c, weights_of
from etir.backends.native.tile import is_flags, shape_of
from etir.backends.native.workspace import plan_code, plan_where
from etir.diagnostics import EtirError
from etir.dialects.et.workspace import memory_digest, memory_specs

ENTRY = "etir_native_entry"
WEIGHTS = "etir_native_weights.c"


@dataclass(frozen=True)
class _Function:
    """A function before what it shares with others is known: its own file, its digest, contract and
    entry, weights by name.
    """

    name: str
    text: str
    digest: bytes
    contract: bytes
    entry: str
    weights: dict[str, np.ndarray]
    artifact: Artifact


def link_functions(functions: Sequence[tuple[Outlined, Sequence[str], str]]) -> list[Artifact]:
    """What is linked of a program: functions with their processors and compiler, in order.

    Every artifact has the file of its function, which equal ones share; all have those that the functions share. Raises
    E1170 unless one processor is named for all of them.
    """
    if not functions:
        return []
    frame = Frame(functions[0][0].module)
    found: dict[int, _Function] = {}
    for index in frame.in_order([outlined.name for outlined, _, _ in functions]):
        outlined, cpus, cc = functions[index]
        found[index] = _function(outlined, _processor(cpus), cc, frame)
    made = [found[index] for index in range(len(functions))]
    if len({function.artifact.linked.processor for function in made if function.artifact.linked is not None}) > 1:
        raise E1170.error("functions of one program are for several processors")
    weights: dict[str, np.ndarray] = {}
    for function in made:
        weights |= function.weights
    shared = {
        WEIGHTS: _weights_text(weights),
        "etir_native.h": _TABLE_HEADER,
        "etir_native.cc": _table_text(made),
        "etir_native_call.h": f"#pragma once\n{call_text()}",
        "vec.h": header(),
    }
    files = {name: text.encode() for name, text in shared.items()}
    first = {function.digest: function for function in reversed(made)}
    return [
        Artifact(
            function.artifact.blob,
            specs=function.artifact.specs,
            method_memory=function.artifact.method_memory,
            method_memory_32=function.artifact.method_memory_32,
            files={f"{first[function.digest].name}.c": first[function.digest].text.encode(), **files},
            linked=function.artifact.linked,
        )
        for function in made
    ]


def _processor(names: Sequence[str]) -> Cpu:
    if len(names) != 1:
        given = f"{len(names)} processors are named" if names else "no processor is named"
        raise E1170.error(f"{given}, and a build is for one; known are {', '.join(known())}")
    return cpu(names[0])


def _function(outlined: Outlined, target: Cpu, cc: str, frame: Frame) -> _Function:
    verify_groups(outlined.func)
    with decided(outlined.func):
        func = tile_function(outlined.func, target)
        inputs = len(outlined.func.body.block.args)
        planned = plan_where(free_places(outlined, frame), inputs, frame.most, lambda around: plan_code(func, around))
        arena = planned.arena
        choose_schedules(func, target)
        verify_function(func, target, readable_shapes(outlined), arena)
        arrays = weight_arrays(outlined, weights_of(func))
        names = [f"etir_weight_{hashlib.sha256(array.tobytes()).hexdigest()[:16]}" for array in arrays]
        source = print_c(func, target, ENTRY, names)
    shapes = tuple(said(shape_of(arg), is_flags(arg.type)) for arg in func.body.block.args)
    tables = contract(0, inputs, shapes, arena, ())
    digest = digest_of(tables, source.text)
    entry = f"etir_native_{digest.hex()[:16]}"
    body = source.text.removeprefix(source.prologue).replace(ENTRY, entry)
    includes = f'#define ETIR_VW {target.vector}\n#include "vec.h"\n#include "etir_native_call.h"\n'
    weights = dict(zip(names, arrays, strict=True))
    code, made_by = _code_bytes(source.text, target, cc)
    sizes = LinkedSizes(target.name, code, sum(array.nbytes for array in weights.values()), arena, made_by)
    variant = Variant(target.name, Image(b"", 0), digest)
    workspace = planned.workspace
    if workspace is not None:
        frame.keep(outlined.name, workspace)
    specs = memory_specs(workspace)
    size = 0 if workspace is None else workspace.size
    blob = NativeBlob(inputs, shapes, arena, (), (), (variant,), b"", size, memory_digest(specs))
    artifact = Artifact(
        write_blob(blob),
        specs=specs,
        method_memory=OBJECT_BYTES + argument_bytes(shapes, 0),
        method_memory_32=OBJECT_BYTES + argument_bytes(shapes, 0, 4),
        linked=sizes,
    )
    about = f"// @{outlined.name} for {target.name}. Written by etir; digest {digest.hex()}.\n"
    return _Function(outlined.name, about + includes + body, digest, tables, entry, weights, artifact)


def digest_of(tables: bytes, text: str) -> bytes:
    """What a file asks for a function by: the digest of its contract and its C."""
    return hashlib.sha256(tables + text.encode()).digest()


_TABLE_HEADER = """\
// What a client gives to its methods: options.native.linked = etir::kLinkedNative. Written by etir.
//
// A build with several programs compiles each etir_native.cc with a name of its own: -DETIR_NATIVE_TABLE=kSpotter.
#pragma once

#include "executor/native_code.h"

#ifndef ETIR_NATIVE_TABLE
#define ETIR_NATIVE_TABLE kLinkedNative
#endif

namespace etir {
extern const Span<const LinkedNative> ETIR_NATIVE_TABLE;
}  // namespace etir
"""


def _table_text(functions: Sequence[_Function]) -> str:
    entries = {function.entry: function for function in functions}
    lines = [
        "// Functions of a program by their digests. Written by etir.",
        '#include "etir_native.h"',
        "",
        'extern "C" {',
    ]
    lines += [f"int32_t {entry}(const etir::NativeCall* call);" for entry in entries]
    lines += ["}", "", "namespace etir {", "static constexpr LinkedNative kRows[] = {"]
    for entry, function in entries.items():
        digests = [", ".join(f"0x{byte:02x}" for byte in digest) for digest in (function.digest, function.contract)]
        lines.append("    {" + "".join(f"{{{{{digest}}}}}, " for digest in digests) + f"{entry}}},")
    lines += [
        "};",
        f"const Span<const LinkedNative> ETIR_NATIVE_TABLE = {{kRows, {len(entries)}}};",
        "}  // namespace etir",
    ]
    return "\n".join(lines) + "\n"


def _weights_text(weights: dict[str, np.ndarray]) -> str:
    lines = [
        "// Packed weights. Written by etir. ETIR_WEIGHT may say where they lie:",
        '// __attribute__((section(".model"), aligned(16))).',
        "#ifndef ETIR_WEIGHT",
        "#define ETIR_WEIGHT __attribute__((aligned(16)))",
        "#endif",
    ]
    for name, array in weights.items():
        lines += [f"extern const float {name}[{array.size}];", f"ETIR_WEIGHT const float {name}[{array.size}] = {{"]
        numbers = [_literal(value) for value in array.tolist()]
        lines += [", ".join(numbers[i : i + 12]) + "," for i in range(0, len(numbers), 12)]
        lines.append("};")
    return "\n".join(lines) + "\n"


def _literal(value: float) -> str:
    """A literal of exactly this float: nine digits tell all of them apart."""
    if value - value != 0:
        return float_text(value)
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _code_bytes(text: str, target: Cpu, cc: str) -> tuple[int | None, str]:
    """Bytes of the compiled function and who compiled it; None where nothing compiles for the processor."""
    try:
        using = compiler(cc or ("gcc" if target.linked else ""))
        made = object_file(text, target, using)
    except EtirError as error:
        if cc or E1161.id not in error.ids:
            raise
        return None, ""
    return object_bytes(made), using.described(target)
