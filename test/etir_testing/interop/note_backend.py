"""A backend of ExecuTorch's that notes what it is given, and its partitioner."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult


class NoteBackend(BackendDetails):
    """A backend that writes down what it is given."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[CompileSpec]) -> PreprocessResult:
        mode = next(bytes(spec.value) for spec in compile_specs if spec.key == "mode")
        if mode == b"fail":
            raise KeyError("no form of relu")
        calls = [str(n.target._op) for n in edge_program.graph.nodes if n.op == "call_function"]
        kinds = [spec.kind.name for spec in edge_program.graph_signature.input_specs]
        store = NamedDataStore()
        for key, tensor in edge_program.state_dict.items():
            store.add_named_data(key, tensor.detach().numpy().tobytes(), 32)
        store.add_named_data(f"notes{len(kinds)}", b"more", external_tag="_".join(kinds))
        return PreprocessResult(" ".join(calls).encode(), data_store_output=store.get_named_data_store_output())


class NotePartitioner(Partitioner):
    """Takes linear layers and hardswish, the latter whole where it is of a matrix. Every one has a tag of its own."""

    def __init__(self, mode: str = "write", fail: bool = False, tags: int = 1) -> None:
        super().__init__()
        self.mode, self.fail, self.tags = mode, fail, tags

    def ops_to_not_decompose(self, ep: Any) -> Any:
        # The stock pipeline asks about every node, outputs too.
        return [torch.ops.aten.hardswish.default], lambda node: getattr(node.meta.get("val"), "ndim", 0) == 2

    def partition(self, exported_program: Any) -> PartitionResult:
        if self.fail:
            raise RuntimeError("cannot\npartition")
        specs: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and any(name in str(node.target) for name in ("linear", "hardswish")):
                tag = f"t{len(specs)}"
                node.meta["delegation_tag"] = tag
                value = f"{self.mode}{len(specs) if self.tags > 1 else ''}".encode()
                specs[tag] = DelegationSpec("NoteBackend", [CompileSpec("mode", value)])
        return PartitionResult(exported_program, specs)
