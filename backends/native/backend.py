"""The backend ``native``: what it declares to the passes of delegation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Dialect

from etir.backends.api.interface import Artifact, Backend, Outlined, PartitionSummary, PreservedOp
from etir.backends.api.patterns import Row, operator_of

if TYPE_CHECKING:
    from etir.backends.native.blob import NativeBlob
    from etir.interpret.evaluator import Evaluator

VERSION = 1
WORTH = 8
"""Operators that are worth a delegate without a product among them."""


@dataclass(frozen=True)
class NativeOptions:
    """``cc`` is the compiler (zig, clang, gcc or a path; empty takes the first that is there), ``cpus`` the processors
    that code is made for (empty: all of the host's family).
    """

    cc: str = ""
    cpus: tuple[str, ...] = ()


class NativeBackend(Backend):
    """Fused machine code for float32."""

    name = "native"
    runtime_id = "EtirNativeBackend"
    version = str(VERSION)
    Options = NativeOptions
    dialect_name = "native"
    contiguous_boundary = True

    def rows(self, options: NativeOptions) -> Sequence[Row]:
        """Operators of the templates, and views between them."""
        from etir.backends.native.rows import claimed

        return claimed()

    def preserved_ops(self, options: NativeOptions) -> Sequence[PreservedOp]:
        """Products, which decomposition would rewrite."""
        from etir.backends.native.rows import PRODUCTS

        return [PreservedOp(name) for name in PRODUCTS]

    def decline(self, partition: PartitionSummary, options: NativeOptions) -> str | None:
        """Without a product, a few operators are done as well by the kernels."""
        from etir.backends.native.rows import BETWEEN, PRODUCTS

        names = [operator_of(op) for op in partition.ops]
        if any(name in PRODUCTS for name in names) or sum(name not in BETWEEN for name in names) >= WORTH:
            return None
        return f"no product and fewer than {WORTH} operators, which the kernels do as well"

    def dialect(self) -> Dialect | None:
        """Groups of operators."""
        from etir.backends.native.dialect import NATIVE

        return NATIVE

    def dialects(self) -> tuple[Dialect, ...]:
        """``native`` and ``tile``."""
        from etir.backends.native.dialect import NATIVE
        from etir.backends.native.tile_dialect import TILE

        return (NATIVE, TILE)

    def legalize(self, outlined: Outlined, options: NativeOptions) -> None:
        """Pass ``native-group``."""
        from etir.backends.native.passes.native_group import group_operators

        group_operators(outlined.func)

    def preprocess(self, outlined: Outlined, options: NativeOptions) -> Artifact:
        """Code for every processor. Where none can be made, the blob has the program for the kernels alone, and a
        warning says why; with ``fallback="refuse"`` that is an error. An unknown processor is one always (E1160).
        """
        from etir.backends.api.fallback import left_to_kernels
        from etir.backends.native.compile import compile_function, without_code
        from etir.backends.native.cpu import cpu
        from etir.diagnostics import EtirError

        for name in options.cpus:
            cpu(name)
        try:
            return compile_function(outlined, options.cpus, options.cc)
        except EtirError as error:
            left_to_kernels(outlined.ctx, outlined.func, error)
            return without_code(outlined)

    def kernels(self, blob: bytes | memoryview) -> tuple[str, ...]:
        """The operators of the fallback."""
        from etir.backends.native.blob import read_blob
        from etir.backends.reference.backend import BACKEND as REFERENCE

        return REFERENCE.kernels(read_blob(blob).fallback)

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        """The images by processor, size and digest, and the program of the fallback."""
        from etir.backends.native.blob import read_blob
        from etir.backends.reference.backend import BACKEND as REFERENCE

        found = read_blob(blob)
        lines = [f"// version {VERSION}, arena of {found.arena_bytes} bytes"]
        lines += [f"// {v.cpu}: {len(v.image.code)} bytes, sha256 {v.digest.hex()}" for v in found.variants]
        return "\n".join(lines) + "\n" + REFERENCE.disassemble(found.fallback, _constants(found, named_data))

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Interpret the program of the fallback."""
        from etir.backends.native.blob import read_blob
        from etir.backends.reference.backend import BACKEND as REFERENCE

        found = read_blob(blob)
        return REFERENCE.executable(found.fallback, _constants(found, named_data), evaluator)


def _constants(found: NativeBlob, named_data: Mapping[str, bytes | memoryview]) -> dict[str, bytes]:
    """The weights of the fallback, unpacked. Raises E1108 for a blob whose named data is missing."""
    from etir.backends.errors import E1108
    from etir.backends.native.packing import unpacked

    constants: dict[str, bytes] = {}
    for constant in found.constants:
        key = found.weights[constant.weight][0] if constant.weight < len(found.weights) else ""
        if key not in named_data:
            raise E1108.error(f"weight {constant.weight} of '{constant.name}' is not among the program's named data")
        constants[constant.name] = unpacked(constant, named_data[key])
    return constants


BACKEND = NativeBackend()
