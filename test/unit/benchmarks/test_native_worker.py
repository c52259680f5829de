"""What a worker counts and says, on layers whose numbers can be said by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from native_worker import bytes_of, eager_error, flops_of, reason
from peers.model import Model
from torch import nn

from etir_testing.models.zoo_entry import Built


def model(module: nn.Module, *inputs: torch.Tensor) -> Model:
    return Model(lambda: Built(copy.deepcopy(module).eval(), inputs))


def test_products_count_two_for_a_multiply_add() -> None:
    assert flops_of(model(nn.Linear(8, 5), torch.randn(3, 8))) == 2 * 3 * 8 * 5


def test_a_depthwise_convolution_has_one_channel_for_each_output() -> None:
    layer = nn.Conv2d(16, 16, 3, padding=1, groups=16)
    assert flops_of(model(layer, torch.randn(1, 16, 10, 12))) == 2 * 16 * 10 * 12 * 9


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x, need_weights=False)[0]


def test_attention_counts_as_its_products() -> None:
    """Also where eager has one operator for a whole layer: an encoder layer in evaluation without gradients."""
    tokens, width, hidden = 7, 16, 32
    products = 2 * tokens * width * 4 * width + 2 * 2 * tokens * tokens * width
    assert flops_of(model(Attention(), torch.randn(1, tokens, width))) == products
    layer = nn.TransformerEncoderLayer(width, 4, hidden, batch_first=True)
    assert flops_of(model(layer, torch.randn(1, tokens, width))) == products + 2 * 2 * tokens * width * hidden
    assert torch.backends.mha.get_fastpath_enabled()


def test_recurrent_layers_count_as_their_products() -> None:
    found = flops_of(model(nn.LSTM(4, 8, batch_first=True), torch.randn(1, 5, 4)))
    assert found == 2 * 5 * (4 + 8) * 4 * 8


def test_of_a_table_only_what_is_looked_up_moves() -> None:
    module = nn.Sequential(nn.Embedding(1000, 8), nn.Linear(8, 2, bias=False))
    inputs = torch.zeros(1, 3, dtype=torch.int64)
    assert bytes_of(model(module, inputs)) == 3 * 8 + 4 * (3 * 8 + 2 * 8 + 3 * 2)


def test_eager_is_compared_with_float64() -> None:
    error = eager_error(model(nn.Linear(64, 64), torch.randn(4, 64)))
    assert error is not None
    assert 0 < error < 1e-5


def test_a_reason_is_the_first_cause_in_one_line() -> None:
    with pytest.raises(ValueError) as raised:
        try:
            raise KeyError("\x1b[96mwhat | failed\x1b[0m\nmore")
        except KeyError as error:
            raise ValueError("somewhere") from error
    found = reason(raised.value)
    assert found.startswith("KeyError: ")
    assert "\x1b" not in found
    assert "\n" not in found
    assert " | " not in found
    assert len(reason(RuntimeError("x" * 500))) == 160
