"""How etir and others quantize a task: functions from a task and a scheme to the outputs for its tests.

A peer that has no such scheme raises :class:`NotOffered`; what else it raises is its own failure, and stands in the
table. All get the same calibration data and their own defaults otherwise.
"""

from __future__ import annotations

import copy
import io
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quantization_tasks import Task, exported


class NotOffered(Exception):
    """The peer has nothing of the kind."""


def etir(task: Task, scheme: str, **keywords: Any) -> np.ndarray:
    """``etir.quantize``, run by the interpreter."""
    import etir as compiler

    delegates = ["xnnpack"] if scheme in ("static-int8", "dynamic-int8", "8da4w") else []
    found = compiler.quantize(exported(task), scheme, calibration=task.calibration, delegates=delegates, **keywords)
    return _interpreted(found.module, task)


def _interpreted(module: Any, task: Task) -> np.ndarray:
    from etir.interpret.interpreter import Interpreter

    interpreter = Interpreter(module)
    return np.concatenate([np.asarray(interpreter.run(list(sample))[0]) for sample in task.tests])


def etir_tuned(task: Task, scheme: str) -> np.ndarray:
    """With rounding by GPTQ and corrected biases. Tables have 8 bits: nothing after them makes up for their errors."""
    import etir as compiler

    if scheme == "dynamic-int8":
        raise NotOffered
    has_tables = any(isinstance(module, torch.nn.Embedding) for module in task.module.modules())
    if scheme != "weight-int4" or not has_tables:
        return etir(task, scheme, rounding="gptq", correct_bias=True)
    first = compiler.quantize(
        exported(task),
        scheme,
        calibration=task.calibration,
        skip=["aten.embedding.default"],
        rounding="gptq",
        correct_bias=True,
    )
    return _interpreted(compiler.quantize(first.module, "weight-int8").module, task)


def torchao(task: Task, scheme: str) -> np.ndarray:
    """PT2E with the quantizer for XNNPACK, or ``quantize_``."""
    from torchao.quantization import (
        Int8DynamicActivationIntxWeightConfig,
        IntxWeightOnlyConfig,
        PerAxis,
        PerGroup,
        quantize_,
    )

    if scheme == "static-int8":
        module: Any = _pt2e(task)
    else:
        bits = torch.int4 if scheme in ("8da4w", "weight-int4") else torch.int8
        granularity = PerGroup(32) if bits == torch.int4 else PerAxis(0)
        dynamic = scheme in ("dynamic-int8", "8da4w")
        if not any(isinstance(m, torch.nn.Linear) for m in task.module.modules()):
            raise NotOffered
        module = copy.deepcopy(task.module)
        if dynamic:
            config: Any = Int8DynamicActivationIntxWeightConfig(weight_dtype=bits, weight_granularity=granularity)
        else:
            config = IntxWeightOnlyConfig(weight_dtype=bits, granularity=granularity)
        quantize_(module, config)
    with torch.no_grad():
        return np.concatenate([module(*sample).numpy() for sample in task.tests])


def _pt2e(task: Task) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    with torch.no_grad():
        prepared = prepare_pt2e(exported(task).module(), quantizer)
        for sample in task.calibration:
            prepared(*sample)
        return convert_pt2e(prepared)


def onnx_model(task: Task, scheme: str, folder: Path) -> Path:
    """The file that ONNX Runtime's tools write: QDQ by channel, or dynamic."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(task.calibration)

        def get_next(self) -> Any:
            sample = next(self.left, None)
            return None if sample is None else dict(zip(task.names, (v.numpy() for v in sample), strict=True))

    if scheme not in ("static-int8", "dynamic-int8"):
        raise NotOffered
    first, ready, last = (str(folder / name) for name in ("float.onnx", "ready.onnx", "int8.onnx"))
    torch.onnx.export(task.module, task.tests[0], first, input_names=list(task.names), dynamo=True, verbose=False)
    quant_pre_process(first, ready)
    if scheme == "static-int8":
        types: dict[str, Any] = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(ready, last, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, **types)
    else:
        quantize_dynamic(ready, last, per_channel=True, weight_type=QuantType.QInt8)
    return Path(last)


def onnxruntime(task: Task, scheme: str) -> np.ndarray:
    """QDQ by channel, or dynamic."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        path = onnx_model(task, scheme, Path(folder))
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        feeds = [dict(zip(task.names, (v.numpy() for v in sample), strict=True)) for sample in task.tests]
        return np.concatenate([np.asarray(session.run(None, feed)[0]) for feed in feeds])


def openvino_model(task: Task, scheme: str, *, transformer: bool = False) -> Any:
    """OpenVINO's model after NNCF: with fast bias correction, and smoothed if it is told that this is a
    ``transformer``; or with compressed weights.
    """
    import nncf as peer
    import openvino

    logging.getLogger("nncf").setLevel(logging.ERROR)
    model = openvino.convert_model(task.module, example_input=task.tests[0])
    data = peer.Dataset([tuple(v.numpy() for v in sample) for sample in task.calibration])
    if scheme == "static-int8":
        kind = peer.ModelType.TRANSFORMER if transformer else None
        return peer.quantize(model, data, subset_size=len(task.calibration), model_type=kind)
    if scheme == "weight-int8":
        return peer.compress_weights(model, mode=peer.CompressWeightsMode.INT8_SYM)
    if scheme == "weight-int4":
        mode = peer.CompressWeightsMode.INT4_SYM
        return peer.compress_weights(
            model, mode=mode, group_size=32, ratio=1.0, all_layers=True, dataset=data, gptq=True
        )
    raise NotOffered


def nncf(task: Task, scheme: str) -> np.ndarray:
    """What OpenVINO computes after NNCF."""
    import openvino

    compiled = openvino.compile_model(openvino_model(task, scheme), "CPU")
    return np.concatenate([compiled([v.numpy() for v in sample])[0] for sample in task.tests])


PEERS: dict[str, Callable[[Task, str], np.ndarray]] = {
    "etir": etir,
    "etir, tuned": etir_tuned,
    "torchao": torchao,
    "ONNX Runtime": onnxruntime,
    "NNCF": nncf,
}


def quietly(peer: Callable[[Task, str], np.ndarray], task: Task, scheme: str) -> np.ndarray:
    """What a peer finds, without what it prints."""
    from contextlib import redirect_stderr, redirect_stdout

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return peer(task, scheme)
