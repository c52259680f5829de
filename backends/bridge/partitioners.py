"""Partitioners by name, and what they say. Importing this module imports executorch when a partitioner is asked for."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from etir.backends.errors import E1101, E1107, E1110, E1112
from etir.extensions import registry_changed

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torch.export import ExportedProgram

PREFIX = "executorch:"
"""What the names of bridged backends start with."""

KNOWN: dict[str, str] = {
    "xnnpack": "executorch.backends.xnnpack.partition.xnnpack_partitioner.XnnpackPartitioner",
    "vulkan": "executorch.backends.vulkan.partitioner.vulkan_partitioner.VulkanPartitioner",
    "coreml": "executorch.backends.apple.coreml.partition.CoreMLPartitioner",
    "openvino": "executorch.backends.openvino.partitioner.OpenvinoPartitioner",
    "mlx": "executorch.backends.mlx.partitioner.MLXPartitioner",
    "ethos-u": "executorch.backends.arm.ethosu.EthosUPartitioner",
    "qualcomm": "executorch.backends.qualcomm.partition.qnn_partitioner.QnnPartitioner",
}
"""Short names of partitioners that come with the ``executorch`` package. Some need a vendor's package besides."""

_REGISTERED: dict[str, Partitioner] = {}


@dataclass(frozen=True)
class Spec:
    """What a partitioner hands its partitions to: a backend, as the runtime calls it, with its compile specs."""

    backend: str
    specs: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Tagged:
    """What a partitioner said of a program: the tag of each node by name, and the backend of each tag."""

    tags: dict[str, str]
    specs: dict[str, Spec]


def register(partitioner: Partitioner, name: str = "") -> str:
    """See :func:`etir.backends.bridge.from_partitioner`."""
    _check(partitioner, type(partitioner).__name__)
    name = name or type(partitioner).__name__
    _REGISTERED[name] = partitioner
    registry_changed()
    return PREFIX + name


def check_name(name: str) -> None:
    """Raise E1101 for a name that is neither registered nor known nor a class's path."""
    if name in _REGISTERED or name in KNOWN or "." in name:
        return
    known = ", ".join(PREFIX + known for known in (*KNOWN, *_REGISTERED))
    raise E1101.error(f"there is no partitioner '{PREFIX}{name}'; known: {known}, and {PREFIX}package.module.Class")


def find_partitioner(name: str, arguments: Sequence[str] = ()) -> Partitioner:
    """The partitioner called ``name``, made with ``arguments`` (``name=literal``).

    Raises E1101 for an unknown one, E1107 for arguments that it does not take, E1110 when it cannot be imported.
    """
    check_name(name)
    if name in _REGISTERED:
        if arguments:
            raise E1107.error(f"partitioner '{name}' was given as an object: it takes no arguments any more")
        return _REGISTERED[name]
    return _make(name, tuple(arguments))


@cache
def _make(name: str, arguments: tuple[str, ...]) -> Partitioner:
    path = KNOWN.get(name, name)
    module, _, attribute = path.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        raise E1110.error(
            f"partitioner '{PREFIX}{name}' ({path}) cannot be imported: {error}",
            help="install executorch, and the packages of the backend that it asks for",
        ) from error
    keywords = dict(_keyword(name, text) for text in arguments)
    # The class is other people's code: whatever it raises says that these arguments do not do.
    made = _foreign(lambda: found(**keywords), f"partitioner '{PREFIX}{name}' cannot be made", E1107)
    _check(made, path)
    return made


def _keyword(name: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    try:
        if not equals or not key.isidentifier():
            raise ValueError
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise E1107.error(f"argument '{text}' of partitioner '{name}' is not of the form name=literal") from None


def _check(partitioner: object, what: str) -> None:
    if not callable(getattr(partitioner, "partition", None)) or not hasattr(partitioner, "ops_to_not_decompose"):
        raise E1101.error(f"'{what}' is no partitioner of executorch")


def _foreign(function: Callable[[], Any], what: str, error_id: Any = E1112) -> Any:
    """Call code of a backend: other people's, without a contract of what it raises. That becomes one error of ours."""
    try:
        with warnings.catch_warnings():
            # Copying a program, as backends do, makes torch warn of its own code.
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            return function()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise error_id.error(f"{what}: {type(error).__name__}: {lines[0]}") from error


def not_decomposed(
    partitioner: Partitioner, name: str, program: ExportedProgram
) -> tuple[frozenset[str], Callable[[Any], bool] | None]:
    """The operators (by overload name) that a partitioner wants preserved, and its filter for nodes."""
    ops, keep = _foreign(
        lambda: partitioner.ops_to_not_decompose(program), f"'{PREFIX}{name}' fails to say what it wants preserved"
    )
    return frozenset(str(op) for op in ops), keep


def ask(partitioner: Partitioner, name: str, program: ExportedProgram) -> Tagged:
    """Let a partitioner tag an edge program. Raises E1112 when it fails."""
    result = _foreign(lambda: partitioner.partition(program), f"'{PREFIX}{name}' fails to partition the program")
    tags: dict[str, str] = {}
    for node in result.tagged_exported_program.graph.nodes:
        tag = node.meta.pop("delegation_tag", None)
        if tag is not None and node.op == "call_function":
            tags[node.name] = tag
    specs: dict[str, Spec] = {}
    for tag, spec in result.partition_tags.items():
        specs[tag] = Spec(spec.backend_id, tuple((s.key, bytes(s.value)) for s in spec.compile_specs))
    missing = next((tag for tag in tags.values() if tag not in specs), None)
    if missing is not None:
        raise E1112.error(f"'{PREFIX}{name}' uses tag '{missing}' and does not say which backend it is for")
    return Tagged(tags, specs)


def transformed(partitioner: Partitioner, name: str, program: ExportedProgram) -> ExportedProgram:
    """What a partitioner makes of an ATen program before it is decomposed. Raises E1112 when it fails."""
    transform = getattr(partitioner, "transform_for_pre_decomposition", None)
    if transform is None:
        return program
    return _foreign(lambda: transform(program), f"'{PREFIX}{name}' fails to transform the program")


@dataclass(frozen=True)
class Preprocessed:
    """What a backend made of an edge program: the blob, and its named data as ExecuTorch stores them."""

    blob: bytes
    named_data: Any


def preprocess(spec: Spec, program: ExportedProgram) -> Preprocessed:
    """What a backend makes of an edge program. Raises E1112 when it fails, E1110 for no backend."""
    return preprocess_together([("", spec, program)])[0]


def preprocess_together(asked: Sequence[tuple[str, Spec, ExportedProgram]]) -> list[Preprocessed]:
    """What backends make of edge programs, each with its method's name: those of one backend in one call, so that it
    can let them share data. Raises E1112 when one fails, E1110 for no backend.
    """
    from executorch.exir.backend.backend_details import BackendDetails
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    known: dict[str, Any] = {cls.__name__: cls for cls in BackendDetails.__subclasses__()}
    groups: dict[str, dict[str, list[int]]] = {}
    for index, (method, spec, _) in enumerate(asked):
        groups.setdefault(spec.backend, {}).setdefault(method, []).append(index)
    found: dict[int, Preprocessed] = {}
    for name, by_method in groups.items():
        backend = known.get(name)
        if backend is None:
            raise E1110.error(f"no backend '{name}' of executorch is imported")

        def run(backend: Any = backend, by_method: dict[str, list[int]] = by_method) -> Any:
            specs = {
                m: [[CompileSpec(k, v) for k, v in asked[i][1].specs] for i in rows] for m, rows in by_method.items()
            }
            # Backends change what they are given.
            programs = {
                m: [
                    backend.copy_exported_program_for_preprocess(asked[i][2], s)
                    for i, s in zip(rows, specs[m], strict=True)
                ]
                for m, rows in by_method.items()
            }
            return backend.preprocess_multimethod(programs, specs)

        results = _foreign(run, f"backend '{name}' fails to preprocess")
        for method, rows in by_method.items():
            for index, result in zip(rows, results[method], strict=True):
                found[index] = Preprocessed(bytes(result.processed_bytes), result.data_store_output)
    return [found[index] for index in range(len(asked))]
