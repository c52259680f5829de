"""Operator schemas: the text ``aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`` as data.

One parser serves the checked-in ATen table, the schemas of custom libraries that a module carries with it, and the
out variants that kernels implement. It is torch-free on purpose: the tools that read text must not import torch.
The grammar is that of torch's own schema strings (``SymInt`` spelled out, alias annotations ``(a!)``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeAlias


class Kind(Enum):
    """The base type of a schema argument."""

    TENSOR = "Tensor"
    INT = "int"
    SYMINT = "SymInt"
    FLOAT = "float"
    BOOL = "bool"
    SYMBOOL = "SymBool"
    SCALAR = "Scalar"
    STR = "str"
    DTYPE = "ScalarType"
    LAYOUT = "Layout"
    DEVICE = "Device"
    MEMORY_FORMAT = "MemoryFormat"
    GENERATOR = "Generator"
    OTHER = "other"


_KINDS = {k.value: k for k in Kind} | {
    "DeviceIndex": Kind.INT,
    "Dimname": Kind.OTHER,
    "Storage": Kind.OTHER,
    "Stream": Kind.OTHER,
    "QScheme": Kind.INT,
    "SymFloat": Kind.FLOAT,
    "number": Kind.SCALAR,
    "complex": Kind.SCALAR,
    "str": Kind.STR,
}

SYMBOLIC_KINDS = frozenset({Kind.SYMINT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.SYMBOOL, Kind.SCALAR})
"""Kinds whose value may be computed at run time, and is then an SSA operand instead of a property."""


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT = _NoDefault.NO_DEFAULT
"""Marks an argument without a default; ``None`` is a default of its own."""

DefaultValue: TypeAlias = int | float | bool | str | None | tuple[int | float | bool, ...] | _NoDefault


@dataclass(frozen=True)
class Argument:
    """One argument or return of a schema.

    ``is_list`` with ``size`` 2 is ``int[2]``; ``optional`` is the outer question mark, ``elements_optional`` the inner
    one of ``Tensor?[]``. ``alias`` is the alias set (``a`` in ``Tensor(a!)``), ``is_write`` its exclamation mark.
    """

    name: str
    kind: Kind
    type_text: str
    is_list: bool = False
    size: int | None = None
    optional: bool = False
    elements_optional: bool = False
    default: DefaultValue = NO_DEFAULT
    kwarg_only: bool = False
    alias: str | None = None
    is_write: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether the argument is a tensor or a list of tensors."""
        return self.kind is Kind.TENSOR

    @property
    def is_tensor_list(self) -> bool:
        """Whether the argument is ``Tensor[]`` or ``Tensor?[]``."""
        return self.is_list and self.kind is Kind.TENSOR

    @property
    def has_default(self) -> bool:
        """Whether a call may leave the argument out."""
        return self.default is not NO_DEFAULT

    @property
    def may_be_symbolic(self) -> bool:
        """Whether a runtime value (an SSA operand) may stand for the argument or for an element of it."""
        return self.kind in SYMBOLIC_KINDS


class SchemaKind(Enum):
    """What a schema does with its arguments."""

    FUNCTIONAL = "functional"
    INPLACE = "inplace"
    OUT = "out"
    MUTABLE = "mutable"


@dataclass(frozen=True)
class OpSchema:
    """The signature of one operator overload.

    ``overload`` is the empty string for the default overload, as in ``.pte`` files; :attr:`op_name` spells it
    ``default`` as ``torch.export`` does.
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    text: str = field(compare=False, default="")

    @cached_property
    def op_name(self) -> str:
        """``aten.add.Tensor``, ``aten.relu.default``: the name of the IR operation."""
        return f"{self.namespace}.{self.name}.{self.overload or 'default'}"

    @cached_property
    def qualified_name(self) -> str:
        """``aten::add.Tensor``, ``aten::relu``: the name in schemas and in ``.pte`` files."""
        return f"{self.namespace}::{self.name}" + (f".{self.overload}" if self.overload else "")

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each argument by name."""
        return {a.name: i for i, a in enumerate(self.arguments)}

    @cached_property
    def out_arguments(self) -> tuple[Argument, ...]:
        """The keyword-only written tensors of an out variant."""
        if self.kind is not SchemaKind.OUT:
            return ()
        return tuple(a for a in self.arguments if a.is_write and a.kwarg_only)

    @cached_property
    def kind(self) -> SchemaKind:
        """Functional, in-place (``add_``), out variant, or mutating otherwise."""
        written = [a for a in self.arguments if a.is_write]
        if not written:
            return SchemaKind.FUNCTIONAL
        if all(a.kwarg_only and a.is_tensor for a in written):
            return SchemaKind.OUT
        if self.name.endswith("_") and not self.name.endswith("__") and len(written) == 1:
            return SchemaKind.INPLACE
        return SchemaKind.MUTABLE

    @cached_property
    def is_view(self) -> bool:
        """Whether a result aliases an argument without writing it, as ``aten.view`` does."""
        return any(r.alias is not None and not r.is_write for r in self.returns)

    def signature_without_outs(self) -> tuple[tuple[str, str, DefaultValue], ...]:
        """What a functional overload and its out variant have in common: name, type and default of each argument."""
        return tuple((a.name, a.type_text, a.default) for a in self.arguments if not (a.is_write and a.kwarg_only))

    def __str__(self) -> str:
        return self.text


class SchemaError(ValueError):
    """The text is not a schema; the message names the part that was not understood."""


_HEAD = re.compile(r"\s*([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\s*\(")
_TYPE = re.compile(
    r"\s*(?P<base>[A-Za-z_]\w*)(?P<alias>\((?P<set>[^)]*)\))?(?P<suffix>(?:\?|\[\d*\])*)(?P<alias2>\((?P<set2>[^)]*)\))?"
)


def _split(text: str) -> list[str]:
    """Split on the commas that are not inside brackets or quotes."""
    parts: list[str] = []
    depth, start, quote = 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            if c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    tail = text[start:]
    if tail.strip():
        parts.append(tail)
    return [p.strip() for p in parts]


_NAMED_DEFAULTS: dict[str, DefaultValue] = {
    "None": None,
    "True": True,
    "False": False,
    "[]": (),
    "contiguous_format": "contiguous",
    "preserve_format": "preserve",
    "channels_last": "channels_last",
    "strided": "strided",
    "long": "i64",
    "inf": float("inf"),
    "Mean": 1,
}


def _parse_default(text: str, kind: Kind) -> DefaultValue:
    text = text.strip()
    if text in _NAMED_DEFAULTS:
        return _NAMED_DEFAULTS[text]
    if text.startswith("["):
        items = [_parse_default(p, kind) for p in _split(text[1:-1])]
        return tuple(i for i in items if isinstance(i, (int, float, bool)))
    if text[:1] in "\"'":
        return text[1:-1]
    try:
        value: int | float = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            raise SchemaError(f"default value '{text}' is not understood") from None
    return float(value) if kind is Kind.FLOAT else value


def _parse_argument(text: str, kwarg_only: bool, *, is_return: bool = False) -> Argument:
    match = _TYPE.match(text)
    if match is None:
        raise SchemaError(f"argument '{text}' has no type")
    base, suffix = match["base"], match["suffix"]
    kind = _KINDS.get(base, Kind.OTHER)
    alias_text = match["set"] if match["set"] is not None else match["set2"]
    is_list = "[" in suffix
    bracket = re.search(r"\[(\d*)\]", suffix)
    size = int(bracket[1]) if bracket and bracket[1] else None
    optional = suffix.endswith("?")
    elements_optional = is_list and suffix.startswith("?")
    rest = text[match.end() :].strip()
    name, _, default_text = rest.partition("=")
    name = name.strip()
    default: DefaultValue = NO_DEFAULT
    if default_text:
        default = _parse_default(default_text, kind)
        if is_list and isinstance(default, (int, float)) and not isinstance(default, bool) and size is not None:
            default = (default,) * size
    if not name and not is_return:
        raise SchemaError(f"argument '{text}' has no name")
    alias = None if alias_text is None else alias_text.split("->")[0].replace("!", "").strip()
    return Argument(
        name=name,
        kind=kind,
        type_text=base + suffix,
        is_list=is_list,
        size=size,
        optional=optional,
        elements_optional=elements_optional,
        default=default,
        kwarg_only=kwarg_only,
        alias=alias,
        is_write=alias_text is not None and "!" in alias_text,
    )


def parse_schema(text: str) -> OpSchema:
    """Parse one schema string.

    Raises :class:`SchemaError` when the text is not a schema.
    """
    head = _HEAD.match(text)
    if head is None:
        raise SchemaError(f"'{text}' does not start with 'namespace::name(' or 'namespace::name.overload('")
    depth, end = 1, head.end()
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    arrow = text[end:].strip()
    if depth or not arrow.startswith("->"):
        raise SchemaError(f"'{text}' has no '-> returns' after its argument list")
    arguments: list[Argument] = []
    kwarg_only = False
    for part in _split(text[head.end() : end - 1]):
        if part == "*":
            kwarg_only = True
        else:
            arguments.append(_parse_argument(part, kwarg_only))
    returns_text = arrow[2:].strip()
    if returns_text.startswith("("):
        returns_text = returns_text[1:-1]
    returns = tuple(_parse_argument(part, False, is_return=True) for part in _split(returns_text))
    overload = head[3] or ""
    return OpSchema(
        head[1], head[2], "" if overload == "default" else overload, tuple(arguments), returns, text.strip()
    )
