"""The backend ``native``: what it declares to the passes of delegation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Dialect, Operation

from etir.backends.api.interface import (
    Artifact,
    Backend,
    InsideLowering,
    Outlined,
    PartitionSummary,
    PayloadArguments,
    PreservedOp,
)
from etir.backends.api.patterns import Row, operator_of
from etir.dialects.et.program import ConstantOp, GetWeightOp

if TYPE_CHECKING:
    from etir.backends.native.blob import NativeBlob
    from etir.backends.native.cc import Objects
    from etir.backends.native.frame import Frame
    from etir.interpret.evaluator import Evaluator

VERSION = 1
WORTH = 8
"""Operators that are worth a delegate without a product among them."""


@dataclass(frozen=True)
class NativeOptions:
    """``cc`` is the compiler (zig, clang, gcc or a path; empty takes the first that is there), ``cpus`` the processors
    that code is made for (empty: all of the host's family). ``linked`` makes C of code and weights for the one
    processor that is named, which a client's build links (``et-compile --native-c``); the file then has neither.
    ``tune`` measures schedules: ``host``, or a file that keeps them. ``arena`` says whether a program may need more
    memory than without the delegate (``free``), or what would need more is left to the kernels (``kernels``), or that
    where it is little of the work (``auto``; linked code has all of it then).
    """

    cc: str = ""
    cpus: tuple[str, ...] = ()
    linked: bool = False
    tune: str = ""
    arena: Literal["auto", "kernels", "free"] = "auto"


class NativeBackend(Backend):
    """Fused machine code for float32."""

    name = "native"
    runtime_id = "EtirNativeBackend"
    version = str(VERSION)
    Options = NativeOptions
    dialect_name = "native"
    leaves_integers = True
    contiguous_boundary = True
    more_memory, bounded_memory = "native{arena=free}", "native{arena=kernels}"
    sizes_inside = True

    def rows(self, options: NativeOptions) -> Sequence[Row]:
        """Operators of the templates, and views between them."""
        from etir.backends.native.rows import claimed

        return claimed()

    def preserved_ops(self, options: NativeOptions) -> Sequence[PreservedOp]:
        """Products, which decomposition would rewrite, functions that the kernels compute in one piece, and what would
        be several operators of which some are none of code's.
        """
        from etir.backends.native.operators import CURVES, PRODUCTS, SAFE_SOFTMAX

        return [PreservedOp(name) for name in (*PRODUCTS, *CURVES, SAFE_SOFTMAX)]

    def decline(self, partition: PartitionSummary, options: NativeOptions) -> str | None:
        """Without a product, a few operators are done as well by the kernels."""
        from etir.backends.native.operators import BETWEEN, PRODUCTS

        names = [operator_of(op) for op in partition.ops]
        if any(name in PRODUCTS for name in names) or sum(name not in BETWEEN for name in names) >= WORTH:
            return None
        return f"no product and fewer than {WORTH} operators, which the kernels do as well"

    def repeats(self, op: Operation) -> bool:
        """Views of all elements, and masks: truth values, and numbers that are made of those."""
        from etir.backends.native.operators import MASKS, QUANTIFIERS, is_view
        from etir.backends.native.truth import CAST, CONNECTIVES

        if operator_of(op) in (*MASKS, *CONNECTIVES, *QUANTIFIERS, CAST):
            return all(isinstance(v.owner, (GetWeightOp, ConstantOp)) or _is_bool(v.type) for v in op.operands)
        return is_view(op)

    def keeps_memory(self, options: NativeOptions) -> Literal["no", "mostly", "always"]:
        """Unless ``arena=free`` says otherwise, or code is linked and ``arena=kernels`` does not ask for it."""
        if options.arena == "kernels":
            return "always"
        return "mostly" if options.arena == "auto" and not options.linked else "no"

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
        """Pass ``native-group``, and what code does without to save memory. Linked code has all of it: its weights are
        in flash, and parts of images are code, which is there, too.
        """
        from etir.backends.native.batch_norm import spell_out_batch_norms
        from etir.backends.native.embedded import embed_constants
        from etir.backends.native.frame import Frame
        from etir.backends.native.joined import add_joined, join_once
        from etir.backends.native.over import set_pairs
        from etir.backends.native.passes.native_group import group_operators
        from etir.backends.native.savings import choose_savings
        from etir.backends.native.statistics import split_statistics

        spell_out_batch_norms(outlined.func, outlined.symbols)
        embed_constants(outlined.func, outlined.symbols)
        split_statistics(outlined.func)
        add_joined(outlined.func)
        join_once(outlined.func)
        group_operators(outlined.func)
        if not options.linked:
            set_pairs(outlined.func, Frame(outlined.module))
            choose_savings(outlined, options.cpus)

    def preprocess(self, outlined: Outlined, options: NativeOptions) -> Artifact:
        """Code for every processor; C of what a client's build links.

        Where no code can be made, the blob has the program for the kernels alone, and a warning says why; with
        ``fallback="refuse"`` that is an error. What is wrong with C that a build links is always one, as are processors
        that are not known (E1160) or load no code (E1170), and schedules that cannot be read or kept (E1172).
        """
        return self.preprocess_all([("", outlined, options)])[0]

    def preprocess_all(self, functions: Sequence[tuple[str, Outlined, NativeOptions]]) -> list[Artifact]:
        """As :meth:`preprocess`; what is linked of a program is registered in one file."""
        from etir.backends.native.compile import plan_together
        from etir.backends.native.frame import Frame
        from etir.backends.native.linked import link_functions

        linked = link_functions([(o, options.cpus, options.cc) for _, o, options in functions if options.linked])
        if not functions:
            return []
        frame = Frame(functions[0][1].module)
        if not any(options.linked for _, _, options in functions):
            plan_together([(outlined, options.cpus) for _, outlined, options in functions], frame)
        loaded: dict[int, Artifact] = {}
        made: Objects = {}
        for index in frame.in_order([outlined.name for _, outlined, _ in functions]):
            _, outlined, options = functions[index]
            if not options.linked:
                loaded[index] = self._loaded(outlined, options, frame, made)
        return [loaded[i] if i in loaded else linked.pop(0) for i in range(len(functions))]

    def _loaded(self, outlined: Outlined, options: NativeOptions, frame: Frame, made: Objects) -> Artifact:
        """A blob with code, or without."""
        from etir.backends.api.fallback import left_to_kernels
        from etir.backends.native.compile import compile_function, processors, without_code
        from etir.backends.native.errors import E1172
        from etir.diagnostics import EtirError

        if options.cpus:
            processors(options.cpus)
        try:
            return compile_function(outlined, options.cpus, options.cc, options.tune, frame, made)
        except EtirError as error:
            if E1172.id in error.ids:
                raise
            left_to_kernels(outlined.ctx, outlined.func, error)
            return without_code(outlined)

    def inside(self, outlined: Outlined, options: NativeOptions) -> Sequence[InsideLowering]:
        """The rewrites of ``tile``, and those of the program for the kernels, by which the interpreter runs a blob."""
        from etir.backends.native.stages import inside

        return inside(outlined, options.cpus)

    def event_nodes(self, func: FuncOp, options: NativeOptions) -> list[list[Operation]]:
        """What each step of the code computes."""
        from etir.backends.native.steps import nodes_of_steps

        return nodes_of_steps(func, options.cpus) or super().event_nodes(func, options)

    def kernels(self, blob: bytes | memoryview) -> tuple[str, ...]:
        """The operators of the fallback."""
        from etir.backends.native.blob import read_blob
        from etir.backends.reference.backend import BACKEND as REFERENCE

        fallback = read_blob(blob).fallback
        return REFERENCE.kernels(fallback) if fallback else ()

    def arguments(self, blob: bytes | memoryview) -> PayloadArguments:
        """What the header says. The digest is that of the specs that places were planned for."""
        from etir.backends.native.blob import read_arguments

        return read_arguments(blob)

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        """The images by processor, size and digest, and the program of the fallback."""
        from etir.backends.native.blob import read_blob
        from etir.backends.reference.backend import BACKEND as REFERENCE

        found = read_blob(blob)
        lines = [f"// version {VERSION}, arena of {found.arena_bytes} bytes"]
        lines += [
            f"// {v.cpu}: {'linked' if v.linked else f'{len(v.image.code)} bytes'}, sha256 {v.digest.hex()}"
            for v in found.variants
        ]
        text = "\n".join(lines) + "\n"
        if not found.fallback:
            return text
        return text + REFERENCE.disassemble(found.fallback, _constants(found, named_data))

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Interpret the program of the fallback. Raises E1173 where there is none, beside linked code."""
        from etir.backends.native.blob import read_blob
        from etir.backends.native.errors import E1173
        from etir.backends.reference.backend import BACKEND as REFERENCE

        found = read_blob(blob)
        if not found.fallback:
            raise E1173.error("the delegate is C that a build links: the file has no program for its kernels")
        return REFERENCE.executable(found.fallback, _constants(found, named_data), evaluator)

    def lowered_function(
        self, func: FuncOp, weight: Callable[[str], Any], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        """Run a function of ``tile`` with the NumPy meanings of its micro-kernels."""
        import numpy as np
        from xdsl.dialects.builtin import f32

        from etir.backends.native.functions import OUTPUTS, outputs_of
        from etir.backends.native.interpreted import run_function
        from etir.backends.native.tile import is_flags

        if OUTPUTS not in func.attributes:
            return None

        def array(tensor: Any, dtype: Any = np.float32) -> np.ndarray:
            return np.frombuffer(evaluator.to_bytes(tensor), dtype).reshape(tuple(tensor.shape))

        def floats(tensor: Any) -> np.ndarray:
            kinds = {1: np.bool_, 8: np.int64}  # truth values, and numbers of elements
            size = len(evaluator.to_bytes(tensor)) // max(1, math.prod(tensor.shape))
            return array(tensor, kinds.get(size, np.float32)).astype(np.float32)

        def run(arguments: Sequence[Any]) -> list[Any]:
            inputs = func.body.block.args[: len(func.body.block.args) - outputs_of(func)]
            dtypes = [np.bool_ if is_flags(given.type) else np.float32 for given in inputs]
            given = [array(a, dtype) for a, dtype in zip(arguments, dtypes, strict=False)]
            made = run_function(func, given, lambda name: floats(weight(name)))
            return [
                evaluator.from_bytes(m.tobytes(), TensorType(i1 if m.dtype == bool else f32, m.shape)) for m in made
            ]

        return run


def _is_bool(type: Attribute) -> bool:
    return isinstance(type, TensorType) and type.element_type == i1


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
