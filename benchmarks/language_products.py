"""The products of a language model: what a core does with weights of 4 and 8 bits, for one token and for a prompt.

    python benchmarks/language_products.py                            a table: SmolLM2's layers, and its head
    python benchmarks/language_products.py --blocks 8 --rows 1 128    fewer blocks of layers, other numbers of rows

A program has every linear layer of a token, each with weights of its own, which together are more than caches hold.
Each line has the time, the bytes of weights that are read in a second and their share of what the memory gives at the
same time, and multiply-adds in a second. The clock is processor time of one thread; functions are called in turns.
torch's dynamic int8 (one scale a row, FBGEMM) and float32 are beside it on the same shapes. Whole models beside other
engines are `language_models.py`.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from in_turns import least_in_turns
from machine_limit import processor
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers quantized_decomposed

import etir
from etir.runtime import load

WIDTH, HIDDEN, KEYS, VOCABULARY = 576, 1536, 192, 49152
"""SmolLM2-135M."""
BLOCK = (
    (WIDTH, WIDTH),
    (KEYS, WIDTH),
    (KEYS, WIDTH),
    (WIDTH, WIDTH),
    (HIDDEN, WIDTH),
    (HIDDEN, WIDTH),
    (WIDTH, HIDDEN),
)
"""Rows and columns of the weights of one of its 30 blocks."""
GROUP = 32

MEMORY_BYTES = 512 << 20
"""What is read to know the speed of the memory: far more than any cache."""

_READ = """
typedef long long vec __attribute__((vector_size(32)));
long long read_all(const vec *from, long count) {
  vec a = {0}, b = {0}, c = {0}, d = {0};
  for (long i = 0; i + 4 <= count; i += 4) { a += from[i]; b += from[i + 1]; c += from[i + 2]; d += from[i + 3]; }
  a += b + c + d;
  return a[0] + a[1] + a[2] + a[3];
}
"""


def reader() -> Callable[[], Any]:
    """Reads :data:`MEMORY_BYTES` in 256-bit loads. Raises CalledProcessError without a C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "read.c", Path(folder) / "read.so"
        source.write_text(_READ, encoding="utf-8")
        subprocess.run(["cc", "-O2", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        function = ctypes.CDLL(str(library)).read_all
    memory = torch.ones(MEMORY_BYTES // 8 + 8, dtype=torch.int64)
    start = ctypes.c_void_p(memory.data_ptr() + -memory.data_ptr() % 32)

    def call() -> int:
        return function(start, ctypes.c_long(memory.nbytes // 32 - 2))

    return call


class Layers(nn.Module):
    """Linear layers that share an input of each width; their weights are random integers with scales in groups."""

    def __init__(self, shapes: Sequence[tuple[int, int]], bits: int, dynamic: bool) -> None:
        super().__init__()
        self.bits, self.dynamic, self.count = bits, dynamic, len(shapes)
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self.bounds = (low, high)
        for i, (rows, columns) in enumerate(shapes):
            self.register_buffer(f"weight{i}", torch.randint(low, high + 1, (rows, columns), dtype=torch.int8))
            scales = (torch.rand(rows, columns // GROUP) * 0.01 + 0.001).half().float()
            self.register_buffer(f"scales{i}", scales)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The results of all layers for ``[rows, columns]`` of each width."""
        ops, found = torch.ops.quantized_decomposed, []
        for i in range(self.count):
            weight, scales = getattr(self, f"weight{i}"), getattr(self, f"scales{i}")
            x = next(x for x in inputs if x.shape[1] == weight.shape[1])
            if self.dynamic:
                scale, point = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
                x = ops.quantize_per_token(x, scale, point, -128, 127, torch.int8)
                x = ops.dequantize_per_token(x, scale, point, -128, 127, torch.int8, torch.float32)
            whole = ops.dequantize_per_channel_group(
                weight, scales, None, *self.bounds, torch.int8, GROUP, torch.float32
            )
            found.append(nn.functional.linear(x, whole))
        return found

    @property
    def numbers(self) -> int:
        """Weights in all."""
        return sum(getattr(self, f"weight{i}").numel() for i in range(self.count))

    @property
    def stored(self) -> int:
        """Bytes of numbers and of scales of 16 bits."""
        return self.numbers * self.bits // 8 + self.numbers // GROUP * 2


def compiled(layers: Layers, widths: Sequence[int]) -> Any:
    """The layers on etir's runtime, one thread, for 1 to 1,024 rows."""
    rows = torch.export.Dim("rows", max=1024)
    inputs = tuple(torch.randn(4, width) for width in widths)
    exported = torch.export.export(layers, inputs, dynamic_shapes=(tuple({0: rows} for _ in widths),))
    return load(etir.compile(exported, target="etir"), threads=1)


def torch_layers(shapes: Sequence[tuple[int, int]], dynamic: bool) -> Callable[..., Any]:
    """torch's own layers: int8 with inputs quantized when they run, or float32."""
    layers = nn.ModuleList(nn.Linear(columns, rows, bias=False) for rows, columns in shapes).eval()
    if dynamic:
        layers = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, torch.qint8)
    widths = [columns for _, columns in shapes]

    def call(*inputs: torch.Tensor) -> None:
        by_width = {x.shape[1]: x for x in inputs}
        with torch.no_grad():
            for layer, width in zip(layers, widths, strict=True):
                layer(by_width[width])

    return call


def measure(blocks: int, rows: Sequence[int], seconds: float) -> list[list[str]]:
    """The lines of the table."""
    memory = reader()
    lines: list[list[str]] = []
    body = list(BLOCK) * blocks
    for title, shapes, forms in (
        (f"{blocks} blocks", body, ((4, True), (4, False), (8, True), (8, False))),
        ("head", [(VOCABULARY, WIDTH)], ((8, True), (8, False), (4, True))),
    ):
        widths = sorted({columns for _, columns in shapes})
        made = {
            f"int{bits}, {'int8' if dynamic else 'float32'} input": Layers(shapes, bits, dynamic)
            for bits, dynamic in forms
        }
        programs = {name: compiled(layers, widths) for name, layers in made.items()}
        peers = {"torch int8": torch_layers(shapes, True), "torch float32": torch_layers(shapes, False)}
        numbers = sum(a * b for a, b in shapes)
        sizes = {name: layers.stored for name, layers in made.items()} | {
            "torch int8": numbers,
            "torch float32": 4 * numbers,
        }
        for count in rows:
            inputs = tuple(torch.randn(count, width) for width in widths)
            calls: dict[str, Callable[[], Any]] = {"memory": memory}
            calls |= {name: partial(program.forward, *inputs) for name, program in programs.items()}
            calls |= {name: partial(call, *inputs) for name, call in peers.items()}
            least = least_in_turns(calls, seconds)
            limit = MEMORY_BYTES / least["memory"].seconds
            for name, size in sizes.items():
                taken = least[name].seconds
                speed = size / taken
                lines.append(
                    [title, str(count), name, f"{taken * 1e3:.2f}", f"{speed / 1e9:.1f}", f"{speed / limit:.0%}"]
                    + [f"{numbers * count / taken / 1e9:.0f}", f"{limit / 1e9:.1f}"]
                )
                print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Products of a language model with weights of 4 and 8 bits.")
    parser.add_argument("--blocks", type=int, default=30, help="blocks of layers (30)")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 128, 1024], help="rows of the input (1 128 1024)")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each function (3)")
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{processor()}, one thread\n")
    lines = measure(given.blocks, given.rows, given.seconds)
    titles = ["layers", "rows", "weights", "ms", "GB/s", "of memory", "GMAC/s", "memory GB/s"]
    print("\n".join("| " + " | ".join(line) + " |" for line in [titles, ["---"] * len(titles), *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
