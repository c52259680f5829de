"""What native code is measured beside: one file for each engine, one row in :data:`PEERS` for each way to run a model.

A peer is a function from a :class:`Model` to a :class:`Prepared` call. All get the same inputs, one thread, float32
arithmetic and their own defaults otherwise; none is kept from instructions that the machine has. A peer that cannot run
a model raises, and what it raises is the reason that the table names.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from peers.model import Model, Prepared


@dataclass(frozen=True)
class Peer:
    """One way to run a model. ``packages`` are distributions that it needs, ``modules`` what they are imported as;
    ``own`` ones are etir's and never the best peer.
    """

    name: str
    title: str
    module: str
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    own: bool = False

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [
            package
            for package, module in zip(self.packages, self.modules, strict=True)
            if importlib.util.find_spec(module) is None
        ]

    def prepare(self, model: Model) -> Prepared:
        """The model, ready to be called."""
        prepare: Callable[[Model], Prepared] = getattr(importlib.import_module(f"peers.{self.module}"), self.name)
        return prepare(model)

    def versions(self) -> dict[str, str]:
        """The versions of its packages that are installed."""
        found: dict[str, str] = {}
        for package in self.packages:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
        return found


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("native", "native", "own", (), (), own=True),
        Peer("kernels", "etir's kernels", "own", (), (), own=True),
        Peer(
            "onnxruntime",
            "ONNX Runtime",
            "onnx",
            ("onnxruntime", "onnx", "onnxscript"),
            ("onnxruntime", "onnx", "onnxscript"),
        ),
        Peer("openvino", "OpenVINO", "onnx", ("openvino",), ("openvino",)),
        Peer("xnnpack", "ExecuTorch + XNNPACK", "xnnpack", ("executorch",), ("executorch",)),
        Peer("eager", "torch eager", "pytorch", ("torch",), ("torch",)),
        Peer("compiled", "torch.compile", "pytorch", ("torch",), ("torch",)),
    )
}
"""Every peer, in the order of the tables."""

OTHERS = tuple(name for name, peer in PEERS.items() if not peer.own)
"""The peers that are not etir's: the best of them is what native code is compared with."""
