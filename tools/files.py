"""Modules and weights as files, for the tools that translate between formats.

Text has its weights beside it: ``model.mlir`` and ``model.safetensors``. Reading takes that file when it exists and
none is named; writing makes it when the module has any bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute

from etir.dialects.context import EtContext
from etir.dialects.dtypes import ui8
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.weights import Blob, BlobAttr, WeightFile, write_weight_file
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.tools.common import Console, read_text, write_output
from etir.tools.errors import E0903


def weights_path(path: str) -> Path:
    """The weights file that belongs to a text file."""
    return Path(path).with_suffix(".safetensors")


def read_module(path: str, weights: list[str], ctx: EtContext, console: Console) -> ModuleOp:
    """Read and verify a module with its weights. Raises the errors of parsing, weights and verification."""
    name, text = read_text(path, console)
    files = weights
    if not files and path != "-" and weights_path(path).is_file():
        files = [str(weights_path(path))]
    module = parse_module(text, ctx, name=name, weights=[WeightFile(file) for file in files])
    verify_module(module)
    return module


def write_module(module: ModuleOp, path: str, weights: str | None, *, locations: bool) -> None:
    """Write a module as text, and the bytes it refers to as a weights file when there are any.

    Standard output gets the text alone unless ``weights`` names a file. Raises error E0903.
    """
    target = Path(weights) if weights is not None else None if path == "-" else weights_path(path)
    payloads = list(_payloads(module))
    if target is not None and payloads:
        try:
            write_weight_file(target, payloads)
        except OSError as error:
            raise E0903.error(f"cannot write '{target}': {error.strerror or error}") from None
    write_output(path, print_module(module, locations=locations))


def _payloads(module: ModuleOp) -> Iterator[tuple[str, TensorType[Attribute], Blob]]:
    """Name, type and bytes of every payload; what is no tensor (a delegate's bytes) is one of ``ui8``."""
    for index, op in enumerate(module.body.block.ops):
        for attribute in op.properties.values():
            if not isinstance(attribute, BlobAttr) or not attribute.data.has_data:
                continue
            symbol = op.properties.get("sym_name") or op.properties.get("key")
            name = symbol.data if isinstance(symbol, StringAttr) else f"{op.name}.{index}"
            type = op.properties.get("type")
            if not isinstance(type, TensorType):
                type = tensor_type(ui8, (attribute.data.size,))
            yield name, type, attribute.data
