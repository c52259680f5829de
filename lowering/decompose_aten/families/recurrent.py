"""LSTM, GRU and simple recurrent layers, unrolled over the steps of a sequence.

What does not depend on the state is done for the whole sequence at once: one ``linear`` gives the input's share of all
gates of all steps. A step then is one ``linear`` of the state, and the gates are computed together as far as their
functions allow. Biases that are only added together are added once, outside of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.text import source_location
from etir.lowering.build.builder import Builder, Operator, dims
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.errors import E0421, E0422

State = tuple[SSAValue, ...]
"""What one step hands to the next: the hidden state [batch, hidden], for an LSTM also the cell state."""


@dataclass(frozen=True)
class Weights:
    """The parameters of one direction of one layer; ``projection`` makes an LSTM's hidden state smaller."""

    input: SSAValue
    hidden: SSAValue
    input_bias: SSAValue | None = None
    hidden_bias: SSAValue | None = None
    projection: SSAValue | None = None


Step = Callable[[Builder, Weights, SSAValue, State], State]
"""One step from the input's share of the gates [batch, gates] and the state."""


def _linear(b: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
    return b(aten.linear.default, x, weight, bias)


def _merged_bias(b: Builder, weights: Weights) -> SSAValue | None:
    """The sum of both biases."""
    if weights.input_bias is None or weights.hidden_bias is None:
        return weights.input_bias
    return b.add(weights.input_bias, weights.hidden_bias)


# --- cells ------------------------------------------------------------------------------------------------------------


def _lstm_step(b: Builder, weights: Weights, share: SSAValue, state: State) -> State:
    """Gates input, forget, cell, output: ``c = f * c + i * tanh(g)``, ``h = o * tanh(c)`` (Hochreiter, Gers)."""
    hidden, cell = state
    gates = b.add(share, _linear(b, hidden, weights.hidden, None))
    width = b.size(cell, 1)
    opened = b.sigmoid(gates)
    parts = b.results(aten.split_with_sizes.default, opened, [width] * 4, 1)
    candidate = b.tanh(b.slice(gates, 1, width * 2, width * 3))
    cell = b.add(b.mul(parts[1], cell), b.mul(parts[0], candidate))
    hidden = b.mul(parts[3], b.tanh(cell))
    if weights.projection is not None:
        hidden = _linear(b, hidden, weights.projection, None)
    return hidden, cell


def _gru_step(b: Builder, weights: Weights, share: SSAValue, state: State) -> State:
    """Gates reset, update, new: ``n = tanh(x_n + r * h_n)``, ``h = n + z * (h - n)`` (Cho et al., 2014)."""
    (hidden,) = state
    width = b.size(hidden, 1)
    own = _linear(b, hidden, weights.hidden, weights.hidden_bias)
    share_gates, share_new = b.results(aten.split_with_sizes.default, share, [width * 2, width], 1)
    own_gates, own_new = b.results(aten.split_with_sizes.default, own, [width * 2, width], 1)
    gates = b.sigmoid(b.add(share_gates, own_gates))
    reset, update = b.results(aten.split_with_sizes.default, gates, [width] * 2, 1)
    new = b.tanh(b.add(share_new, b.mul(reset, own_new)))
    return (b.add(new, b.mul(update, b.sub(hidden, new))),)


def _simple_step(activation: Operator) -> Step:
    def step(b: Builder, weights: Weights, share: SSAValue, state: State) -> State:
        """``h = activation(x + h @ w^T)`` (Elman, 1990)."""
        return (b(activation, b.add(share, _linear(b, state[0], weights.hidden, None))),)

    return step


# --- layers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layers:
    """The arguments that all sequence operators share."""

    has_biases: bool
    count: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _weights(parameters: Sequence[SSAValue], layers: Layers, has_projection: bool) -> list[Weights]:
    """The parameters of each direction of each layer, in order."""
    size = 2 + 2 * layers.has_biases + has_projection
    groups = [parameters[i : i + size] for i in range(0, len(parameters), size)]
    found: list[Weights] = []
    for group in groups:
        biases = group[2:4] if layers.has_biases else [None, None]
        found.append(Weights(group[0], group[1], biases[0], biases[1], group[-1] if has_projection else None))
    return found


def _run(
    b: Builder,
    x: SSAValue,
    initial: Sequence[SSAValue],
    weights: Sequence[Weights],
    layers: Layers,
    step: Step,
    merge_biases: bool,
) -> list[SSAValue]:
    """All layers over [time, batch, features] (or batch first): the outputs, then the last states, stacked."""
    root = b.rewriter.root
    if layers.train and layers.dropout:
        raise E0421.error(f"{root.name} drops out between layers", source_location(root.location))
    time = 1 if layers.batch_first else 0
    length = dims(x)[time]
    if not isinstance(length, int):
        raise E0422.error(f"{root.name} runs over {length} steps", source_location(root.location))
    directions = 2 if layers.bidirectional else 1
    lasts: list[State] = []
    for layer in range(layers.count):
        outputs: list[SSAValue] = []
        for direction in range(directions):
            number = layer * directions + direction
            own = weights[number]
            bias = _merged_bias(b, own) if merge_biases else own.input_bias
            shares = _linear(b, x, own.input, bias)
            state: State = tuple(b.select(stacked, 0, number) for stacked in initial)
            steps: list[SSAValue] = []
            for t in range(length) if direction == 0 else reversed(range(length)):
                state = step(b, own, b.select(shares, time, t), state)
                steps.append(state[0])
            outputs.append(_stacked(b, steps if direction == 0 else steps[::-1], time))
            lasts.append(state)
        x = b.cat(outputs, 2)
    return [x, *(_stacked(b, list(parts), 0) for parts in zip(*lasts, strict=True))]


def _stacked(b: Builder, parts: Sequence[SSAValue], position: int) -> SSAValue:
    """[batch, features] each, joined along a new dim: new dims of size 1 are views."""
    return b.cat([b.unsqueeze(part, position) for part in parts], position)


@decomposition(aten.lstm.input)
def lstm(
    b: Builder, x: SSAValue, initial: Sequence[SSAValue], parameters: Sequence[SSAValue], *settings: bool
) -> list[SSAValue]:
    """All steps of all layers; outputs, last hidden and cell states"""
    layers = Layers(*settings)  # type: ignore[arg-type]
    has_projection = dims(initial[0])[2] != dims(initial[1])[2]
    return _run(b, x, initial, _weights(parameters, layers, has_projection), layers, _lstm_step, True)


@decomposition(aten.gru.input)
def gru(b: Builder, x: SSAValue, initial: SSAValue, parameters: Sequence[SSAValue], *settings: bool) -> list[SSAValue]:
    """All steps of all layers; outputs, last hidden states"""
    layers = Layers(*settings)  # type: ignore[arg-type]
    return _run(b, x, [initial], _weights(parameters, layers, False), layers, _gru_step, False)


@decomposition(aten.rnn_tanh.input, aten.rnn_relu.input)
def simple_rnn(
    b: Builder, x: SSAValue, initial: SSAValue, parameters: Sequence[SSAValue], *settings: bool
) -> list[SSAValue]:
    """All steps of all layers; outputs, last hidden states"""
    layers = Layers(*settings)  # type: ignore[arg-type]
    step = _simple_step(aten.tanh.default if "tanh" in b.rewriter.root.name else aten.relu.default)
    return _run(b, x, [initial], _weights(parameters, layers, False), layers, step, True)


@decomposition(aten.lstm_cell.default)
def lstm_cell(
    b: Builder,
    x: SSAValue,
    state: Sequence[SSAValue],
    w: SSAValue,
    h: SSAValue,
    wb: SSAValue | None,
    hb: SSAValue | None,
) -> Sequence[SSAValue]:
    """One step"""
    weights = Weights(w, h, wb, hb)
    return _lstm_step(b, weights, _linear(b, x, w, _merged_bias(b, weights)), tuple(state))


@decomposition(aten.gru_cell.default)
def gru_cell(
    b: Builder, x: SSAValue, state: SSAValue, w: SSAValue, h: SSAValue, wb: SSAValue | None, hb: SSAValue | None
) -> SSAValue:
    """One step"""
    return _gru_step(b, Weights(w, h, wb, hb), _linear(b, x, w, wb), (state,))[0]


@decomposition(aten.rnn_tanh_cell.default, aten.rnn_relu_cell.default)
def simple_cell(
    b: Builder, x: SSAValue, state: SSAValue, w: SSAValue, h: SSAValue, wb: SSAValue | None, hb: SSAValue | None
) -> SSAValue:
    """One step"""
    weights = Weights(w, h, wb, hb)
    step = _simple_step(aten.tanh.default if "tanh" in b.rewriter.root.name else aten.relu.default)
    return step(b, weights, _linear(b, x, w, _merged_bias(b, weights)), (state,))[0]
