"""The type of an XNNPACK value: ``!xnn.tensor<1x224x224x3xfp32>``.

The dims stand in the order in which the elements lie in memory, so a channels-last image has its channels last: layout
is never implied. Quantized types say how stored integers stand for numbers:

* ``!xnn.tensor<1x64xqint8, scale = 0.0125, zero_point = -3>``: one scale;
* ``!xnn.tensor<64x3x3x3xqcint8, channel = 0>``: one scale for each index of a dim, in the ``xnn.constant``;
* ``!xnn.tensor<64x256xqbint4, channel = 0, block = 32>``: one for each block of a channel, likewise;
* ``!xnn.tensor<1x7x256xqdint8, nonbatch = 1>``: chosen at run time, shared by the last ``nonbatch`` dims.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.ir import Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from etir.backends.xnnpack.datatypes import BY_NAME, Datatype
from etir.backends.xnnpack.schema import MAX_DIMS
from etir.dialects.literals import format_float


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a type says; parameters that its datatype does not have are None."""

    datatype: Datatype
    dims: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None
    channel: int | None = None
    block: int | None = None
    nonbatch: int | None = None

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.datatype.nbytes(self.count, self.dims[-1] if self.dims else 1)

    @property
    def scale_count(self) -> int:
        """Number of scales that a constant of this type comes with."""
        if self.channel is None:
            return 0
        return self.count // self.block if self.block is not None else self.dims[self.channel]


_PARAMETERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "tensor": ("scale", "zero_point"),
    "channel": ("channel",),
    "block": ("channel", "block"),
    "token": ("nonbatch",),
}
"""The parameters of a type by the quantization of its datatype, in the order of text."""

_BODY = re.compile(r"\s*((?:\d+x)*)(\w+)\s*((?:,\s*\w+\s*=\s*[^,]+)*)\s*")


@lru_cache(maxsize=4096)
def _parse(body: str) -> TensorInfo:
    match = _BODY.fullmatch(body)
    if match is None:
        raise ValueError("expected dims and a datatype, as in 1x8x8x3xfp32")
    datatype = BY_NAME.get(match[2])
    if datatype is None:
        raise ValueError(f"unknown datatype '{match[2]}'; there are {', '.join(BY_NAME)}")
    given: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in match[3].split(","))):
        key, _, text = part.partition("=")
        given[key.strip()] = text.strip()
    wanted = _PARAMETERS[datatype.quantization]
    if set(given) != set(wanted):
        raise ValueError(f"{datatype.name} takes the parameters {list(wanted)}, not {list(given)}")
    numbers = {key: float(text) if key == "scale" else int(text) for key, text in given.items()}
    dims = tuple(int(d) for d in match[1].split("x")[:-1])
    info = TensorInfo(datatype, dims, **numbers)  # type: ignore[arg-type]  # each key has its own type
    if (problem := info_error(info)) is not None:
        raise ValueError(problem)
    return info


def info_error(info: TensorInfo) -> str | None:
    """Why the parts of a type do not fit together, or None."""
    if len(info.dims) > MAX_DIMS:
        return f"{len(info.dims)} dims, a value has at most {MAX_DIMS}"
    if info.scale is not None and not 0 < info.scale < float("inf"):
        return f"the scale {info.scale} is not positive and finite"
    if info.channel is not None and not 0 <= info.channel < len(info.dims):
        return f"channel {info.channel} is not a dim of {list(info.dims)}"
    if info.block is not None and (info.block <= 0 or not info.dims or info.dims[-1] % info.block):
        return f"blocks of {info.block} do not divide the last dim of {list(info.dims)}"
    if info.nonbatch is not None and not 0 < info.nonbatch <= len(info.dims):
        return f"{info.nonbatch} dims of {list(info.dims)} cannot share a scale"
    return None


@irdl_attr_definition
class XnnTensorType(Data[TensorInfo], TypeAttribute):
    """The type of a value of an XNNPACK graph."""

    name = "xnn.tensor"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TensorInfo:
        position = parser.pos
        body = parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage]
        try:
            return _parse(body)
        except ValueError as error:
            problem = str(error)
        parser.raise_error(f"bad XNNPACK type: {problem}", position)

    def print_parameter(self, printer: Printer) -> None:
        info = self.data
        printer.print_string("<" + "".join(f"{d}x" for d in info.dims) + info.datatype.name)
        for key in _PARAMETERS[info.datatype.quantization]:
            value: int | float = getattr(info, key)
            printer.print_string(f", {key} = {format_float(value) if isinstance(value, float) else value}")
        printer.print_string(">")


@lru_cache(maxsize=4096)
def xnn_type(info: TensorInfo) -> XnnTensorType:
    """The type with these parts, shared."""
    return XnnTensorType(info)
