"""ExecuTorch with XNNPACK, as its wheel has them: the stock lowering, the stock runtime, a thread pool of one."""

from __future__ import annotations

import torch

from peers.model import Model, Prepared


def xnnpack(model: Model) -> Prepared:
    """The stock pipeline with ``XnnpackPartitioner`` and default options."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    portable_lib._unsafe_reset_threadpool(1)
    edge = to_edge_transform_and_lower(model.export(), partitioner=[XnnpackPartitioner()])
    data = edge.to_executorch().buffer
    program = Runtime.get().load_program(data)
    method = program.load_method("forward")
    if method is None:
        raise RuntimeError("the stock runtime does not load the method")
    inputs = tuple(model.inputs)

    def outputs() -> list[torch.Tensor]:
        return [torch.as_tensor(value).clone() for value in method.execute(inputs)]

    return Prepared(lambda: method.execute(inputs), outputs, keep=(program, data))
