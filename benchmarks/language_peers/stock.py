"""ExecuTorch's own runtime and XNNPACK, as its wheel has them, on a file of its own export (``export_stock.py``) or of
``et-llm compile --target executorch --delegate xnnpack``.

``forward`` is called by the contract of its text runner: the tokens, and their positions or the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import executorch.extension.llm.custom_ops.custom_ops
import executorch.kernels.quantized  # noqa: F401  those of tables of tokens
import torch
from executorch.extension.pybindings import portable_lib
from worker import Engine, in_calls, serve


class Stock:
    def __init__(self, path: str, threads: int) -> None:
        portable_lib._unsafe_reset_threadpool(threads)
        self._module = portable_lib._load_for_executorch(path)
        meta = self._module.method_meta("forward")
        self._one_position = tuple(meta.input_tensor_meta(1).sizes()) == (1,)
        # Its exporter bounds the tokens of a call below what it says they may be.
        self._piece = int(meta.input_tensor_meta(0).sizes()[1])
        self._at = 0
        exporter = "its own export" if self._one_position else "a file of `et-llm compile`"
        self.name = f"ExecuTorch {version('executorch')} with XNNPACK, {exporter}"

    def _begin(self) -> None:
        self._at = 0

    def _feed(self, ids: Sequence[int]) -> torch.Tensor:
        logits: Any = None
        for first in range(0, len(ids), self._piece):
            piece = ids[first : first + self._piece]
            places = [self._at] if self._one_position else range(self._at, self._at + len(piece))
            (logits,) = self._module.run_method("forward", (torch.tensor([piece]), torch.tensor([*places])))
            self._at += len(piece)
        return logits

    def following(self, prompt: Sequence[int]) -> int:
        self._begin()
        logits = self._feed(prompt)
        return int(logits.reshape(-1, logits.shape[-1])[-1].argmax())

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        return in_calls(self._begin, self._feed, prompt, tokens)


def make(path: str, threads: int) -> Engine:
    torch.set_num_threads(1)  # it makes tensors of ids only
    return Stock(path, threads)


if __name__ == "__main__":
    serve(make)
