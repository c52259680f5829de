"""What a compilation is asked to do: one frozen, checked value for everything that decides which passes run.

:class:`CompileOptions` is what ``etir.compile`` takes as ``options=`` or as keywords, what ``et-compile`` makes of its
command line, and what :func:`etir.pipeline.pipeline` makes passes of. Fields hold one form of each option; the shorter
ones that people write (a single name for several, a mapping for patterns by file) are brought into it when an object is
made, and what has no sense is refused there, so that nothing after it has to ask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, TypedDict, Union, cast, get_args, get_origin, get_type_hints

from etir.errors import E0914
from etir.passes.errors import E0503
from etir.passes.infra.pipeline import options_from_values, type_text
from etir.targets.errors import E0606

Fallback = Literal["allow", "refuse"]


@dataclass(frozen=True)
class ExternalFile:
    """A ``.ptd`` file by its tag, and the shell patterns of the names that it holds: all when there are none."""

    tag: str
    match: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartitionOptions:
    """How work is divided among delegates: options of passes `partition` and, the last one, `outline-delegates`."""

    exclude: tuple[str, ...] = ()
    """Operators that stay on the target's kernels: ``aten.add.Tensor``."""
    min_ops: int = 1
    """A partition of fewer operators is left to the next backend."""
    leave: tuple[str, ...] = ()
    """Partitions that are left to the next backend, by their names in the report: ``forward_native_0``; operators by
    their backend and their number in the method: ``forward_native:17``."""
    cut: tuple[str, ...] = ()
    """Operators before which a partition ends and another one begins, by their backend and their number in the method:
    ``forward_native:17``. What the second one reads need not be there while the first one runs."""
    split: bool = False
    """Make a partition of its own of every part that is not connected to the rest."""
    own_state: bool = False
    """Let a delegate own the mutable buffers that only its partition reads and writes."""
    share_state: bool | None = None
    """With ``own_state``, also those that several methods use in equal partitions; None: when methods share state."""
    what_if: bool = False
    """Report what every operator that is not taken costs."""
    shared_constants: Literal["own", "pass"] = "own"
    """Whether constants that several delegates read are a copy in each of them, or passed to them as inputs."""


@dataclass(frozen=True)
class CompileOptions:
    """Everything that decides what a program is compiled to.

    Wherever a field holds names, a single one may be given; ``delegates`` also as ``("xnnpack", {"fp16": True})``,
    ``partition`` as a mapping of its options, files of weights as ``"weights"`` for all of them or as
    ``{"lora": "*.lora_*", "base": "*"}``, where the first pattern that fits decides.

    Raises error E0914 for what is no value of its option, E0503 for options of ``partition``.
    """

    target: str = "executorch"
    """Whose kernels the program must link against."""
    delegates: tuple[str, ...] = ()
    """Backends in order of preference, with their options: ``xnnpack{fp16=true}``."""
    fallback: Fallback = "allow"
    """Whether what no delegate claims runs on the target's kernels, or is an error."""
    partition: PartitionOptions = PartitionOptions()
    """How work is divided among the delegates."""
    link_backends: tuple[str, ...] = ()
    """Backends, as the file names them, that are linked into the runtime besides those of the target."""
    link_libraries: tuple[str, ...] = ()
    """Kernel libraries of the target that are linked besides those that it always has: ``custom_ops``."""
    plan_inputs: bool = True
    """Whether the program's own memory holds the inputs, or the caller's."""
    plan_outputs: bool = True
    """Whether the program's own memory holds the outputs, or the caller's."""
    unbounded: Literal["refuse", "allocate"] = "refuse"
    """What becomes of a tensor whose dims have no upper bound, or bounds that no memory holds: an error, or memory from
    the client's allocator at run time, for targets whose runtime has that."""
    prefer: Literal["size", "speed"] = "size"
    """Whether weights of integers that neither a kernel nor a delegate computes on stay integers in the file, and are
    multiplied out in each run, or are numbers in floating point there, four times as large or more."""
    share_state: bool = False
    """Let methods share mutable buffers of one name."""
    external_weights: tuple[ExternalFile, ...] = ()
    """The ``.ptd`` files beside the program that hold weights."""
    external_state: tuple[ExternalFile, ...] = ()
    """The ``.ptd`` files beside the program that hold the initial bytes of state."""
    optimizer: str | None = None
    """Let a joint graph of forward and backward update its parameters itself: ``sgd{lr=0.1 momentum=0.9}``, ``adam``,
    ``adamw``, with the options of passes `sgd-step`, `adam-step`, `adamw-step`."""
    state_methods: bool | tuple[str, ...] = False
    """Add methods by which the state is read and written from outside: all of it, or names that fit the patterns.
    Methods then share their state."""
    debug_info: bool = False
    """Write source lines into the file."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            match field.name:
                case "delegates":
                    value = _delegates(value)
                case "partition":
                    value = _partition(value)
                case "external_weights" | "external_state":
                    value = _files(field.name, value)
                case _:
                    value = checked(field.name, value, hints[field.name])
            object.__setattr__(self, field.name, value)

    @property
    def shares_state(self) -> bool:
        """Whether methods share their mutable buffers."""
        return self.share_state or self.state_methods is not False

    def resolved(self) -> CompileOptions:
        """The same with every delegate named once, in its canonical text.

        Raises E0601 for a target, E0606 for an option that the target's runtime cannot serve, and E1101, E1107 and
        E1110 for delegates that cannot be used.
        """
        from etir.backends.api.registry import parse_delegate
        from etir.targets.manifest import load

        manifest = load(self.target)
        if self.unbounded == "allocate" and "dynamic_memory" not in manifest.features:
            raise E0606.error(
                f"{manifest.name} {manifest.version} allocates no tensors at run time: unbounded='allocate' is for "
                "target 'etir'"
            )
        return replace(self, delegates=tuple(dict.fromkeys(parse_delegate(text).text for text in self.delegates)))


class CompileKeywords(TypedDict, total=False):
    """The fields of :class:`CompileOptions` as keywords, in all the forms that they may be given."""

    target: str
    delegates: str | Sequence[str | tuple[str, Mapping[str, object]]]
    fallback: Fallback
    partition: PartitionOptions | Mapping[str, object] | None
    link_backends: str | Sequence[str]
    link_libraries: str | Sequence[str]
    plan_inputs: bool
    plan_outputs: bool
    unbounded: Literal["refuse", "allocate"]
    prefer: Literal["size", "speed"]
    share_state: bool
    external_weights: str | Mapping[str, str | Sequence[str]] | Sequence[ExternalFile] | None
    external_state: str | Mapping[str, str | Sequence[str]] | Sequence[ExternalFile] | None
    optimizer: str | None
    state_methods: bool | str | Sequence[str]
    debug_info: bool


def compile_options(
    options: CompileOptions | None, keywords: Mapping[str, Any], others: Sequence[str] = ()
) -> CompileOptions:
    """``options`` with what ``keywords`` change; ``others`` are further keywords to name when one is unknown.

    Raises error E0914 for a keyword that is no option, with the nearest one, and what :class:`CompileOptions` does.
    """
    known = [field.name for field in dataclasses.fields(CompileOptions)]
    for name in keywords:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, [*known, *others], 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join([*known, *others])}"
            raise E0914.error(f"there is no option '{name}'; {hint}")
    if options is not None and not isinstance(options, CompileOptions):
        raise E0914.error(f"options is a {type(options).__name__}, not CompileOptions")
    return replace(options or CompileOptions(), **keywords)


# --- the forms of each option ----------------------------------------------------------------------------------------


def _wrong(name: str, wanted: str, value: object) -> Exception:
    return E0914.error(f"option '{name}' takes {wanted}, not {value!r}")


def checked(name: str, value: object, hint: Any) -> object:
    """The value of a plain option: a flag, a number, one of several words, a text, or texts.

    Raises E0914 for a value of another kind.
    """
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if bool in parts and isinstance(value, bool):
        return value
    if type(None) in parts and value is None:
        return value
    for part in parts:
        choices = get_args(part)
        if part is str and isinstance(value, str):
            return value
        kind = {int: Integral, float: Real}.get(part)
        if kind is not None and isinstance(value, kind) and not isinstance(value, bool):
            return value
        if choices and Ellipsis not in choices and value in choices:
            return value
        if Ellipsis in choices and (names := _names(value)) is not None:
            return names
    raise _wrong(name, type_text(hint), value)


def _names(value: object) -> tuple[str, ...] | None:
    """One name or several as a tuple; None for anything else."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in cast("Sequence[object]", value)):
        return tuple(cast("Sequence[str]", value))
    return None


def _delegates(value: object) -> tuple[str, ...]:
    from etir.backends.api.registry import delegate_text

    if isinstance(value, str):
        return (value,)
    found: list[str] = []
    for item in cast("Sequence[object]", value) if isinstance(value, Sequence) else [value]:
        match item:
            case str():
                found.append(item)
            case (str(name), Mapping() as options):
                found.append(delegate_text(name, cast("Mapping[str, object]", options)))
            case _:
                raise _wrong("delegates", "names of backends, or pairs of a name and options", value)
    return tuple(found)


def _partition(value: object) -> PartitionOptions:
    if isinstance(value, PartitionOptions):
        return value
    if value is None or isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value or {})
        return options_from_values(PartitionOptions, "pass 'partition'", given, E0503)
    raise _wrong("partition", "a mapping of options", value)


def _files(name: str, value: object) -> tuple[ExternalFile, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (ExternalFile(value),)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        found = [(tag, _names(match)) for tag, match in items]
        if all(isinstance(tag, str) and match is not None for tag, match in found):
            return tuple(ExternalFile(cast("str", tag), match or ()) for tag, match in found)
    elif isinstance(value, Sequence) and all(isinstance(f, ExternalFile) for f in cast("Sequence[object]", value)):
        return tuple(cast("Sequence[ExternalFile]", value))
    raise _wrong(name, "the name of a file, or patterns of names by file", value)
