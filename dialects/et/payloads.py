"""What the delegates of a program bring along, beside its methods: payloads, bytes that they look up by name, and files
that a client's build compiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, SymbolNameConstraint, UnitAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.traits import SymbolOpInterface

from etir.dialects.et.weights import BlobAttr
from etir.dialects.literals import int_attr

BESIDE = "beside"
"""Attribute of ``et.delegate``: the weights and states that it finds by name in the files beside the program."""


@irdl_op_definition
class DelegateOp(IRDLOperation):
    """A delegate's payload: ``et.delegate @lowered_0 "XnnpackBackend" = #et.blob<...> {specs = [...]}``.

    ``specs`` are the compile options as ``[key, bytes in hexadecimal]`` pairs; ``inline`` keeps the payload inside the
    program instead of in a segment of its own.
    """

    name = "et.delegate"
    sym_name = prop_def(SymbolNameConstraint())
    backend = prop_def(StringAttr)
    value = prop_def(BlobAttr)
    specs = opt_prop_def(ArrayAttr)
    inline = opt_prop_def(UnitAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name $backend `=` qualified($value) (`specs` $specs^)? (`inline` $inline^)? attr-dict"

    def __init__(
        self,
        name: str,
        backend: str,
        value: BlobAttr,
        specs: Sequence[tuple[str, bytes]] = (),
        *,
        inline: bool = False,
    ):
        pairs = [ArrayAttr([StringAttr(key), StringAttr(data.hex())]) for key, data in specs]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "backend": StringAttr(backend),
                "value": value,
                "specs": ArrayAttr(pairs) if pairs else None,
                "inline": UnitAttr() if inline else None,
            }
        )

    @property
    def compile_specs(self) -> tuple[tuple[str, bytes], ...]:
        """The compile options, in order."""
        pairs = () if self.specs is None else self.specs.data
        return tuple((p.data[0].data, bytes.fromhex(p.data[1].data)) for p in pairs)  # type: ignore[attr-defined]


@irdl_op_definition
class NamedDataOp(IRDLOperation):
    """Bytes that delegates look up by name: ``et.named_data "key" = #et.blob<...>``."""

    name = "et.named_data"
    key = prop_def(StringAttr)
    value = prop_def(BlobAttr)
    alignment = opt_prop_def(IntegerAttr)
    assembly_format = "$key `=` qualified($value) (`align` $alignment^)? attr-dict"

    def __init__(self, key: str, value: BlobAttr, alignment: int | None = None):
        super().__init__(
            properties={
                "key": StringAttr(key),
                "value": value,
                "alignment": None if alignment is None else int_attr(alignment),
            }
        )


@irdl_op_definition
class BuildFileOp(IRDLOperation):
    """A file that a client's build compiles, beside the program: ``et.build_file "f.c" = #et.blob<...>``."""

    name = "et.build_file"
    key = prop_def(StringAttr)
    value = prop_def(BlobAttr)
    assembly_format = "$key `=` qualified($value) attr-dict"

    def __init__(self, key: str, value: BlobAttr):
        super().__init__(properties={"key": StringAttr(key), "value": value})
