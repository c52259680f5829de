"""How fast programs on int8 are, and how far from float32, beside ONNX Runtime, OpenVINO (NNCF) and stock XNNPACK.

    python benchmarks/quantization_speed.py [--models resnet18,vit-static] [--seconds 2] [--json out.json]

The models and recipes are those of `quantization_flow.py`. Every engine has one thread and is called in turns with all
others (`in_turns.py`); a cell is the least processor time of a call in ms and, in brackets, the dB from float32 on
inputs that calibration has not seen (of nets with random weights that says little: MobileNetV2's outputs are nearly
constant). ``etir, float32`` is etir's own runtime without quantization, ``etir, float32, native`` its machine code,
which ``etir, native`` has for what a recipe leaves in float32, and so has ``etir, reduced``, whose weights are from -63
to 63. OpenVINO has no dynamic recipe: there its static one stands, with NNCF's preset for transformers, which smooths.
Engines that are not installed are left out, and said to be:
the extra ``bench`` and ``pip install nncf``.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from in_turns import least_in_turns
from quantization_flow import MODELS, etir_file, stock_file
from quantization_peers import NotOffered, onnx_model, openvino_model
from quantization_tasks import Task

import etir
import etir.runtime
from etir.quantization.report import sqnr


@dataclass(frozen=True)
class Engine:
    """A loaded program: ``call`` computes the outputs of one sample, the first of them as an array."""

    call: Callable[[tuple[torch.Tensor, ...]], np.ndarray]
    keep: object = None


def _own(data: bytes) -> Engine:
    method = etir.runtime.load(data, native="trusted")["forward"]
    return Engine(lambda sample: np.asarray(method(*sample)[0]))


def _on_stock(data: bytes) -> Engine:
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    portable_lib._unsafe_reset_threadpool(1)
    program = Runtime.get().load_program(data)
    method = program.load_method("forward")
    assert method is not None
    return Engine(lambda sample: torch.as_tensor(method.execute(sample)[0]).numpy(), keep=(program, data))


def _float32(task: Task, recipe: str) -> Engine:
    return _own(etir.compile(torch.export.export(task.module, task.tests[0]), target="etir").buffer)


def _native(task: Task, recipe: str) -> Engine:
    program = etir.compile(torch.export.export(task.module, task.tests[0]), target="etir", delegates=["native"])
    method = etir.runtime.load(program)["forward"]
    return Engine(lambda sample: np.asarray(method(*sample)[0]))


def _kernels(task: Task, recipe: str) -> Engine:
    return _own(etir_file(task.module, task.calibration, recipe, target="etir"))


def _kernels_native(task: Task, recipe: str) -> Engine:
    return _own(etir_file(task.module, task.calibration, recipe, target="etir", delegates=["native"]))


def _reduced(task: Task, recipe: str) -> Engine:
    options = {"target": "etir", "delegates": ["native"], "reduce_range": True}
    return _own(etir_file(task.module, task.calibration, recipe, **options))


def _xnnpack(task: Task, recipe: str) -> Engine:
    return _on_stock(etir_file(task.module, task.calibration, recipe, delegates=["xnnpack"]))


def _stock(task: Task, recipe: str) -> Engine:
    return _on_stock(stock_file(task.module, task.calibration, recipe))


def _onnxruntime(task: Task, recipe: str) -> Engine:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with tempfile.TemporaryDirectory() as folder:
        path = onnx_model(task, recipe, Path(folder))
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def call(sample: tuple[torch.Tensor, ...]) -> np.ndarray:
        return np.asarray(session.run(None, dict(zip(task.names, (v.numpy() for v in sample), strict=True)))[0])

    return Engine(call)


def _openvino(task: Task, recipe: str) -> Engine:
    import openvino

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    is_dynamic = recipe == "dynamic-int8"
    model = openvino_model(task, "static-int8" if is_dynamic else recipe, transformer=is_dynamic)
    compiled = openvino.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def call(sample: tuple[torch.Tensor, ...]) -> np.ndarray:
        request.infer([v.numpy() for v in sample])
        return request.get_output_tensor(0).data

    return Engine(call)


ENGINES: dict[str, Callable[[Task, str], Engine]] = {
    "etir, float32": _float32,
    "etir, float32, native": _native,
    "etir": _kernels,
    "etir, native": _kernels_native,
    "etir, reduced": _reduced,
    "etir, XNNPACK": _xnnpack,
    "stock, XNNPACK": _stock,
    "ONNX Runtime": _onnxruntime,
    "OpenVINO": _openvino,
}


def measure(name: str, engines: list[str], seconds: float) -> dict[str, dict[str, float]]:
    """ms and dB of one model by engine."""
    make, recipe = MODELS[name]
    module, seen, unseen = make()
    names = tuple(f"x{i}" for i in range(len(unseen[0])))
    task = Task(name, name, module, seen, unseen, lambda outputs: 0.0, (recipe,), names)
    wanted = task.wanted()
    ready: dict[str, Engine] = {}
    for engine in engines:
        try:
            with redirect_stdout(io.StringIO()):
                ready[engine] = ENGINES[engine](task, recipe)
        except NotOffered:
            print(f"{name}: {engine} has no {recipe}", file=sys.stderr)
        except Exception as error:  # A peer may raise anything.
            print(f"{name}: {engine}: {type(error).__name__}: {error}", file=sys.stderr)
    found = {e: {"dB": round(sqnr(wanted, _outputs(ready[e], task)), 1)} for e in ready}
    times = least_in_turns({e: lambda e=e: ready[e].call(unseen[0]) for e in ready}, seconds)
    for engine, least in times.items():
        found[engine]["ms"] = round(least.seconds * 1e3, 3)
    print(name, recipe, found, file=sys.stderr, flush=True)
    return found


def _outputs(engine: Engine, task: Task) -> np.ndarray:
    return np.concatenate([np.array(engine.call(sample)) for sample in task.tests])


def table(rows: dict[str, dict[str, dict[str, Any]]], engines: list[str]) -> str:
    """Markdown; the last column is the fastest of etir's int8 paths, but for the less exact one of a reduced range,
    over the fastest of others.
    """
    lines = [["model", "recipe", *engines, "etir / best other"]]
    lines.append(["---"] * len(lines[0]))
    for name, found in rows.items():
        cells = [f"{found[e]['ms']:.2f} ({found[e]['dB']})" if e in found else "–" for e in engines]
        ours = [found[e]["ms"] for e in ("etir", "etir, native", "etir, XNNPACK") if e in found]
        others = [found[e]["ms"] for e in found if not e.startswith("etir")]
        lines.append([name, MODELS[name][1], *cells, f"{min(ours) / min(others):.2f}" if ours and others else "–"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls of each engine (default: 2)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with torch.no_grad():
        rows = {name: measure(name, arguments.engines, arguments.seconds) for name in arguments.models.split(",")}
    print(table(rows, arguments.engines))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
