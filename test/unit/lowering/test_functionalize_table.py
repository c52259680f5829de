"""Every in-place operator and every view operator of torch's own table, against eager.

In-place operators come from ``op_db``: each one changes an input, a buffer, an intermediate and a view. Views are a
table here: through each one an input, a buffer and an intermediate are changed. Several operators make one program, as
exporting is what takes time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from etir_testing.lowering.changes import Case, run_all
from etir_testing.opinfo.op_samples import entries

# --- views ------------------------------------------------------------------------------------------------------------

X = torch.arange(24.0).reshape(2, 3, 4) - 9
VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "alias": torch.ops.aten.alias.default,
    "detach": lambda x: x.detach(),
    "as_strided": lambda x: x.as_strided((3, 2), (4, 2), 1),
    "atleast_1d": torch.atleast_1d,
    "atleast_2d": torch.atleast_2d,
    "atleast_3d": torch.atleast_3d,
    "atleast_2d_of_row": lambda x: torch.atleast_2d(x[0, 1]),
    "atleast_3d_of_matrix": lambda x: torch.atleast_3d(x[1]),
    "atleast_3d_of_list": lambda x: torch.atleast_3d([x[0], x[1, 2]])[1],
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x.new_zeros(4))[0],
    "broadcast_to": lambda x: x.broadcast_to(2, 3, 4),
    "chunk": lambda x: x.chunk(2, 2)[1],
    "contiguous": lambda x: x.contiguous(),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "dropout_in_inference": lambda x: nn.functional.dropout(x, 0.5, False),
    "dsplit": lambda x: x.dsplit(2)[0],
    "ellipsis": lambda x: x[..., 1],
    "einsum": lambda x: torch.einsum("abc->cab", x),
    "einsum_of_the_same_dims": lambda x: torch.einsum("a...", x),
    "einsum_of_a_diagonal": lambda x: torch.einsum("iij->ji", x[:, :2]),
    "einsum_of_a_diagonal_of_three": lambda x: torch.einsum("iii->i", x[:, :2, :2]),
    "einsum_with_a_sum": lambda x: torch.einsum("abc->ca", x),
    "einsum_of_two": lambda x: torch.einsum("abc,b->cab", x, x.new_ones(3)),
    "expand": lambda x: x.expand(1, 2, 3, 4),
    "expand_as": lambda x: x.expand_as(x),
    "flatten": lambda x: x.flatten(1),
    "hsplit": lambda x: x.hsplit(3)[2],
    "linalg_diagonal": lambda x: torch.linalg.diagonal(x),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[1, 1, :1], indexing="ij")[0],
    "meshgrid_xy": lambda x: torch.meshgrid(x[0, 0, :1], x[1, 1], indexing="xy")[1],
    "moveaxis": lambda x: x.moveaxis(0, 2),
    "movedim": lambda x: x.movedim((0, 1), (2, 0)),
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "narrow": lambda x: x.narrow(1, 1, 2),
    "narrow_from_end": lambda x: x.narrow(1, -2, 2),
    "newaxis": lambda x: x[:, None, 1],
    "numpy_T": lambda x: x[0].T,
    "permute": lambda x: x.permute(2, 0, 1),
    "positive": lambda x: x.positive(),
    "ravel": lambda x: x.ravel(),
    "real": torch.real,
    "reshape": lambda x: x.reshape(6, 4),
    "reshape_as": lambda x: x.reshape_as(x.new_empty(3, 8)),
    "resolve_conj": lambda x: x.resolve_conj(),
    "resolve_neg": lambda x: x.resolve_neg(),
    "select": lambda x: x.select(2, -1),
    "slice": lambda x: x[:, 1:, ::2],
    "slice_of_slice": lambda x: x[:, 1:][:, 1:, 1:3],
    "split": lambda x: x.split(3, 2)[1],
    "split_with_sizes": lambda x: x.split([1, 3], 2)[1],
    "squeeze": lambda x: x[:1].squeeze(),
    "squeeze_dim": lambda x: x[:, :1].squeeze(1),
    "squeeze_dims": lambda x: x[:1, :1].squeeze((0, 1)),
    "sum_to_size": lambda x: x.sum_to_size(2, 3, 4),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "swapdims": lambda x: x.swapdims(1, 2),
    "t": lambda x: x[0].t(),
    "tensor_split": lambda x: x.tensor_split([1, 2], 1)[2],
    "tensor_split_sections": lambda x: x.tensor_split(2, 1)[1],
    "to": lambda x: x.to(torch.float32),
    "transpose": lambda x: x.transpose(0, -1),
    "type_as": lambda x: x.type_as(x),
    "unbind": lambda x: x.unbind(1)[2],
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "unfold_single_window": lambda x: x.unfold(0, 2, 1),
    "unfold_dim_0": lambda x: x.unfold(0, 1, 1),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2, 2)[1],
    "unsafe_split": lambda x: x.unsafe_split(3, 2)[1],
    "unsafe_split_with_sizes": lambda x: x.unsafe_split_with_sizes([1, 3], 2)[0],
    "unsqueeze": lambda x: x.unsqueeze(-2),
    "view": lambda x: x.view(2, -1, 2),
    "view_as": lambda x: x.view_as(x.new_empty(6, 4)),
    "view_dtype": lambda x: x.view(torch.int32),
    "vsplit": lambda x: x.vsplit(2)[1],
}


def _view_case(name: str) -> Case:
    def change(x: Tensor) -> None:
        VIEWS[name](x).mul_(3)

    return Case(name, X, change)


def test_changes_through_views() -> None:
    """A change of a view is one of the tensor, whichever it is."""
    wrong = run_all([_view_case(name) for name in VIEWS], rows=False)
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())


# --- in-place operators -----------------------------------------------------------------------------------------------

REFUSED: dict[str, str] = {
    **dict.fromkeys(("as_strided", "t", "transpose", "unsqueeze"), "changes the sizes of"),
    "resize_as_": "export: ",
}
"""Entries that torch does not export, or that give the caller's tensor another shape, which no runtime can."""

PART = 1 if os.environ.get("ETIR_ALL_IN_PLACE") else 8
"""Every how many-th entry is run."""


def _in_place_case(name: str) -> Case | None:
    """The first sample that the operator takes in place, without chance."""
    entry = entries()[name]
    function = entry.get_inplace()
    if function is None:
        return None
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        for sample in entry.sample_inputs("cpu", dtype, requires_grad=False):
            start = sample.input
            if not isinstance(start, Tensor) or start.is_sparse or not 0 < start.numel() <= 500:
                continue
            if sample.kwargs.get("training"):
                continue
            args, kwargs = sample.args, sample.kwargs
            ran: list[Tensor] = []
            try:
                for _ in range(2):
                    torch.manual_seed(len(ran))
                    ran.append(start.clone())
                    function(ran[-1], *args, **kwargs)
                    function(torch.stack([start, start])[1], *args, **kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue
            if ran[0].shape != start.shape or not torch.equal(torch.nan_to_num(ran[0]), torch.nan_to_num(ran[1])):
                continue
            return Case(name, start.detach().clone(), lambda x, f=function, a=args, k=kwargs: f(x, *a, **k))
    return None


def test_in_place_operators() -> None:
    """Every entry with an in-place variant: all with ``ETIR_ALL_IN_PLACE=1`` in the environment, otherwise a part."""
    torch.manual_seed(0)
    names = [name for name in entries() if entries()[name].get_inplace() is not None]
    assert len(names) > 150
    cases = [case for name in names[::PART] if (case := _in_place_case(name)) is not None]
    assert len(cases) > 150 // PART
    wrong = run_all(cases, rows=True)
    failed = {name: why for name, why in wrong.items() if name not in REFUSED or REFUSED[name] not in why}
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())
    run_names = {case.name for case in cases}
    assert [name for name in REFUSED if name in run_names and name not in wrong] == []
