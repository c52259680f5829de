"""The ATen schema table: every overload that torch's dispatcher knows, read from a checked-in text file.

``schemas.txt`` has one line per overload: flags, a tab, the schema string. Lines are parsed on first use, so that
loading the table costs a few milliseconds and an operator that is never used costs nothing. torch is not needed;
``python -m etir.dialects.aten.generate`` writes the file again from an installed torch, and a test fails when the two
differ.

Flags: ``c`` core ATen, ``v`` a ``*_copy`` form of a view, ``r`` the result is random, ``i`` composite (implicit
autograd: torch always decomposes it), ``p`` pointwise, ``-`` none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

from etir.dialects.schema import OpSchema, SchemaKind, parse_schema

_TABLES = (Path(__file__).parent / "schemas.txt", Path(__file__).parent.parent / "edge" / "schemas.txt")


class SchemaTable:
    """Schemas by IR name (``aten.add.Tensor``), parsed on demand."""

    def __init__(self, lines: dict[str, tuple[str, str]]):
        self._lines = lines
        self._parsed: dict[str, OpSchema] = {}

    def __contains__(self, op_name: str) -> bool:
        return op_name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, op_name: str) -> OpSchema | None:
        """The schema of ``namespace.name.overload``, or None."""
        schema = self._parsed.get(op_name)
        if schema is None:
            line = self._lines.get(op_name)
            if line is None:
                return None
            schema = self._parsed[op_name] = parse_schema(line[1])
        return schema

    def flags(self, op_name: str) -> str:
        """The flag letters of an overload; empty for one that is not in the table."""
        line = self._lines.get(op_name)
        return "" if line is None else line[0]

    @cached_property
    def packets(self) -> dict[str, list[str]]:
        """The IR names of all overloads of every operator, ``aten.add``, in table order."""
        packets: dict[str, list[str]] = {}
        for op_name in self._lines:
            packets.setdefault(op_name.rsplit(".", 1)[0], []).append(op_name)
        return packets

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """The first parts of the names: ``aten``, ``dim_order_ops``."""
        return tuple(dict.fromkeys(op_name.split(".", 1)[0] for op_name in self._lines))

    def overloads(self, packet: str) -> list[str]:
        """The IR names of all overloads of ``aten.add``, in table order."""
        return self.packets.get(packet, [])

    def text(self, op_name: str) -> str:
        """The schema of an overload of the table as text; nothing is parsed. Raises ``KeyError`` for an unknown one."""
        return self._lines[op_name][1]

    def by_flag(self, flag: str) -> list[str]:
        """The IR names of all overloads with ``flag``, in table order."""
        return [name for name, (flags, _) in self._lines.items() if flag in flags]


def _op_name(schema_text: str) -> str:
    qualified = schema_text[: schema_text.index("(")]
    namespace, _, rest = qualified.partition("::")
    return f"{namespace}.{rest}" if "." in rest else f"{namespace}.{rest}.default"


@cache
def load_table() -> SchemaTable:
    """The table of ATen and of the namespaces that the edge level adds (``dim_order_ops``, ...)."""
    lines: dict[str, tuple[str, str]] = {}
    for path in _TABLES:
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                continue
            flags, text = line.split("\t", 1)
            lines[_op_name(text)] = ("" if flags == "-" else flags, text)
    return SchemaTable(lines)


@cache
def out_variant(op_name: str) -> OpSchema | None:
    """The out variant of a functional overload: same name, and the same signature apart from returns and outs.

    The rule is ExecuTorch's (torchgen's grouping of native functions). Arguments that create tensors (``dtype``,
    ``layout``, ``device``, ``pin_memory``) may be missing in the out variant, which has the tensor itself instead.
    """
    table = load_table()
    schema = table.get(op_name)
    if schema is None or schema.kind is not SchemaKind.FUNCTIONAL:
        return None
    return find_out_variant(schema, [s for n in table.overloads(op_name.rsplit(".", 1)[0]) if (s := table.get(n))])


_TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory")


def find_out_variant(schema: OpSchema, candidates: list[OpSchema]) -> OpSchema | None:
    """The out variant of ``schema`` among ``candidates`` (the overloads of the same name), or None."""
    outs = [c for c in candidates if c.kind is SchemaKind.OUT]
    wanted = schema.signature_without_outs()
    for candidate in outs:
        if candidate.signature_without_outs() == wanted:
            return candidate
    relaxed = tuple(a for a in wanted if a[0] not in _TENSOR_OPTIONS)
    for candidate in outs:
        if candidate.signature_without_outs() == relaxed:
            return candidate
    return None
