"""ONNX Runtime and OpenVINO, which read ONNX; OpenVINO also reads exported programs, and the faster of the two counts.

OpenVINO computes in bfloat16 by default where a processor can: it is told to keep to float32, as all others do.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from peers.model import Model, Prepared, fastest


def _onnx(model: Model) -> Any:
    """The model as an ONNX ``ModelProto``, by torch's exporter."""
    program = torch.onnx.export(model.export(), dynamo=True, verbose=False)
    assert program is not None
    return program.model_proto


def onnxruntime(model: Model) -> Prepared:
    """One thread that never spins, all optimizations, inputs and outputs bound once."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(
        _onnx(model).SerializeToString(), sess_options=options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    kept = [ort.OrtValue.ortvalue_from_numpy(value.contiguous().numpy()) for value in model.inputs]
    for described, value in zip(session.get_inputs(), kept, strict=True):
        binding.bind_ortvalue_input(described.name, value)
    for described in session.get_outputs()[: len(model.expected)]:
        binding.bind_output(described.name, "cpu")

    def outputs() -> list[torch.Tensor]:
        session.run_with_iobinding(binding)
        return [torch.from_numpy(value.numpy()) for value in binding.get_outputs()]

    return Prepared(lambda: session.run_with_iobinding(binding), outputs, keep=kept)


def openvino(model: Model) -> Prepared:
    """One thread, one stream, float32, optimized for latency; inputs are not copied."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }

    def prepared(converted: Any) -> Prepared:
        compiled = core.compile_model(converted, "CPU", settings)
        request = compiled.create_infer_request()
        values = [value.contiguous().numpy() for value in model.inputs]
        kept = [ov.Tensor(value, shared_memory=True) for value in values]
        for number, value in enumerate(kept):
            request.set_input_tensor(number, value)
        count = len(model.expected)

        def outputs() -> list[torch.Tensor]:
            request.infer()
            return [torch.from_numpy(request.get_output_tensor(i).data.copy()) for i in range(count)]

        return Prepared(request.infer, outputs, keep=(kept, values))

    def from_onnx() -> Prepared:
        return prepared(core.read_model(io.BytesIO(_onnx(model).SerializeToString())))

    def from_export() -> Prepared:
        return prepared(ov.convert_model(model.export()))

    return fastest({"torch.export": from_export, "ONNX": from_onnx})
