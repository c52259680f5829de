"""Recurrent networks: LSTM, GRU and the plain ones, over whole sequences and for one step.

Parameters come layer by layer, forward before backward: ``w_ih``, ``w_hh``, then ``b_ih`` and ``b_hh`` when there are
biases, then ``w_hr`` for an LSTM whose hidden state is projected. Gate order is torch's: i, f, g, o and r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from etir.interpret.numpy_ops.activation import native_dropout
from etir.interpret.numpy_ops.dtype import Array, compute_dtype, to
from etir.interpret.numpy_ops.elementwise import sigmoid
from etir.interpret.numpy_ops.registry import op


class Cell(NamedTuple):
    """The parameters of one direction of one layer."""

    w_ih: Array
    w_hh: Array
    b_ih: Array | None = None
    b_hh: Array | None = None
    w_hr: Array | None = None

    def gates(self, x: Array, h: Array) -> tuple[Array, Array]:
        """What the input and the hidden state add to the gates; the two are kept apart for the GRU."""
        from_input, from_state = x @ self.w_ih.T, h @ self.w_hh.T
        if self.b_ih is not None and self.b_hh is not None:
            return from_input + self.b_ih, from_state + self.b_hh
        return from_input, from_state


State = tuple[Array, ...]
Step = Callable[[Array, State, Cell], State]
"""One time step: input (N, features) and states (N, hidden) to new states, the first of which is the output."""


def lstm_step(x: Array, state: State, cell: Cell) -> State:
    """A step of an LSTM: (h, c) to (h, c)."""
    i, f, g, o = np.split(sum(cell.gates(x, state[0])), 4, -1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h if cell.w_hr is None else h @ cell.w_hr.T, c


def gru_step(x: Array, state: State, cell: Cell) -> State:
    """A step of a GRU; the reset gate applies after the hidden state's product."""
    from_input, from_state = (np.split(g, 3, -1) for g in cell.gates(x, state[0]))
    r, z = (sigmoid(from_input[0] + from_state[0]), sigmoid(from_input[1] + from_state[1]))
    n = np.tanh(from_input[2] + r * from_state[2])
    return (n + z * (state[0] - n),)


def tanh_step(x: Array, state: State, cell: Cell) -> State:
    """A step of a plain recurrent network with tanh."""
    return (np.tanh(sum(cell.gates(x, state[0]))),)


def relu_step(x: Array, state: State, cell: Cell) -> State:
    """A step of a plain recurrent network with relu."""
    return (np.maximum(sum(cell.gates(x, state[0])), 0),)


def _cells(params: Sequence[Array], has_biases: bool, projected: bool, count: int) -> list[Cell]:
    size = 2 + 2 * has_biases + projected
    if len(params) != size * count:
        raise ValueError(f"{len(params)} parameters for {count} cells of {size}")
    groups = [list(params[i * size : (i + 1) * size]) for i in range(count)]
    if projected and not has_biases:
        groups = [[g[0], g[1], None, None, g[2]] for g in groups]
    return [Cell(*group) for group in groups]


def _run(
    step: Step,
    input: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    """Output (L, N, directions * hidden) and the last states (layers * directions, N, hidden)."""
    dtype = compute_dtype(input.dtype)
    unbatched = input.ndim == 2
    x = to(input[:, None] if unbatched else np.swapaxes(input, 0, 1) if batch_first else input, dtype)
    initial = [to(s[:, None] if unbatched else s, dtype) for s in states]
    directions = 2 if bidirectional else 1
    projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
    cells = _cells([to(p, dtype) for p in params], has_biases, projected, num_layers * directions)
    finals: list[State] = []
    for layer in range(num_layers):
        outputs: list[Array] = []
        for direction in range(directions):
            which = layer * directions + direction
            state: State = tuple(s[which] for s in initial)
            sequence = x[::-1] if direction else x
            results = np.empty((*x.shape[:2], state[0].shape[-1]), dtype)
            for time, features in enumerate(sequence):
                state = step(features, state, cells[which])
                results[time] = state[0]
            outputs.append(results[::-1] if direction else results)
            finals.append(state)
        x = np.concatenate(outputs, -1)
        if train and dropout and layer + 1 < num_layers:
            x = native_dropout(x, dropout, True)[0]
    last = [np.stack(s) for s in zip(*finals, strict=True)]
    if unbatched:
        return tuple(to(r, input.dtype) for r in (x[:, 0], *(s[:, 0] for s in last)))
    return tuple(to(r, input.dtype) for r in (np.swapaxes(x, 0, 1) if batch_first else x, *last))


@op("aten.lstm.input")
def lstm(
    input: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    return _run(lstm_step, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def _register_one_state() -> None:
    for name, step in (("gru", gru_step), ("rnn_tanh", tanh_step), ("rnn_relu", relu_step)):
        op(f"aten.{name}.input")(_sequence(step))
        op(f"aten.{name}_cell.default")(_single(step))


def _sequence(step: Step) -> Callable[..., tuple[Array, ...]]:
    def apply(
        input: Array,
        hx: Array,
        params: Sequence[Array],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Array, ...]:
        return _run(step, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    return apply


def _single(step: Step) -> Callable[..., Array]:
    def apply(
        input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
    ) -> Array:
        return _one_step(step, input, (hx,), Cell(w_ih, w_hh, b_ih, b_hh))[0]

    return apply


def _one_step(step: Step, input: Array, states: State, cell: Cell) -> State:
    dtype = compute_dtype(input.dtype)
    wide = Cell(*(None if p is None else to(p, dtype) for p in cell))  # type: ignore[arg-type]
    return tuple(to(s, input.dtype) for s in step(to(input, dtype), tuple(to(s, dtype) for s in states), wide))


_register_one_state()


@op("aten.lstm_cell.default")
def lstm_cell(
    input: Array, hx: Sequence[Array], w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
) -> tuple[Array, ...]:
    return _one_step(lstm_step, input, tuple(hx), Cell(w_ih, w_hh, b_ih, b_hh))
