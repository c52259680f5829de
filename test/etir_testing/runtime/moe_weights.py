"""Expert weights in the packed format of torchao's "universal" linear kernels, and a mixture of experts with them.

The format is described in runtime/kernels/llm/packed_weights.h; torchao's own packer is built for Arm alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

HEADER = (6712, 1)
"""The magic number, and the type of the format."""


def quantize(weight: torch.Tensor, group_size: int, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers of ``bits`` bits, [n, k], and their scales, [n, k / group_size], symmetric around zero."""
    groups = weight.reshape(weight.shape[0], -1, group_size)
    limit = 2 ** (bits - 1)
    scales = groups.abs().amax(-1).clamp(min=1e-6) / (limit - 0.5)
    values = (groups / scales[..., None]).round().clamp(-limit, limit - 1)
    return values.to(torch.int8).reshape(weight.shape), scales.float()


def pack(values: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    """A blob, uint8, of what ``quantize`` gives."""
    n, k = values.shape
    groups = scales.shape[1]
    rows = -(-n // 8) * 8
    padded = np.zeros((rows, k), np.int8)
    padded[:n] = values.numpy()
    padded_scales = np.zeros((rows, groups), np.float32)
    padded_scales[:n] = scales.numpy()
    # Panel, row, group, chunk of 16, half of the chunk, place in it: the halves of all rows of a panel lie together.
    order = padded.reshape(rows // 8, 8, groups, k // groups // 16, 2, 8).transpose(0, 2, 3, 4, 1, 5)
    stream = np.ascontiguousarray(order).reshape(rows // 8, groups, -1)
    data = stream.view(np.uint8)
    if bits == 4:
        pairs = (stream + 8).astype(np.uint8).reshape(rows // 8, groups, -1, 2, 16)
        data = (pairs[..., 0, :] | pairs[..., 1, :] << 4).reshape(rows // 8, groups, -1)
    columns = (rows // 8, 8, groups)
    sums = padded.reshape(rows, groups, -1).sum(-1, dtype=np.int32).reshape(columns).transpose(0, 2, 1)
    factors = padded_scales.reshape(columns).transpose(0, 2, 1)
    parts = [data, np.ascontiguousarray(factors).view(np.uint8), np.ascontiguousarray(sums).view(np.uint8)]
    header = np.array([*HEADER, bits, 0, 0, 8, 16, 2, *[0] * 8], np.int32).view(np.uint8)
    return torch.from_numpy(np.concatenate([header, np.concatenate(parts, -1).reshape(-1)]))


class Experts:
    """A mixture of experts with random weights: the operator's arguments but the tokens, and its result in double.

    Attributes:
        arguments: everything after ``x`` in the operator's schema.
    """

    def __init__(
        self, dim: int = 32, hidden: int = 64, experts: int = 4, active: int = 2, group_size: int = 32, bits: int = 4,
        score: str = "sigmoid", bias: bool = True, route_scale: float = 2.5, seed: int = 0,
    ):  # fmt: skip
        random = torch.Generator().manual_seed(seed)
        self.gate = torch.randn(experts, dim, generator=random)
        self.bias = torch.randn(experts, generator=random) if bias else torch.empty(0)
        self.active, self.score, self.route_scale = active, score, route_scale
        self.weights: list[torch.Tensor] = []
        packed: list[torch.Tensor] = []
        for shape in ((experts, 2 * hidden, dim), (experts, dim, hidden)):
            blobs, dense = [], []
            for weight in torch.randn(shape, generator=random) / shape[2] ** 0.5:
                values, scales = quantize(weight, group_size, bits)
                blobs.append(pack(values, scales, bits))
                dense.append(values.double() * scales.double().repeat_interleave(group_size, 1))
            packed.append(torch.stack(blobs))
            self.weights.append(torch.stack(dense))
        self.arguments: list[Any] = [
            self.gate, self.bias, *packed, active, experts, hidden, dim, group_size, bits, score, route_scale,
        ]  # fmt: skip

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The result for ``x`` [tokens, dim], computed in double, as Float."""
        scores = x.double() @ self.gate.double().T
        if self.score == "sigmoid":
            scores = scores.sigmoid()
            chosen = (scores + self.bias.double() if self.bias.numel() else scores).topk(self.active).indices
            gathered = scores.gather(1, chosen)
            shares = gathered * self.route_scale / gathered.sum(1, keepdim=True)
        else:
            top = scores.topk(self.active)
            chosen, shares = top.indices, top.values.softmax(1)
        out = torch.zeros(x.shape, dtype=torch.float64)
        for token in range(x.shape[0]):
            for expert, share in zip(chosen[token].tolist(), shares[token], strict=True):
                up, gate = (self.weights[0][expert] @ x[token].double()).chunk(2)
                out[token] += share * (self.weights[1][expert] @ (torch.nn.functional.silu(up) * gate))
        return out.float()
