"""One or more sample calls for every operator: the shapes and literals that a probe runs it with.

A sample lists the arguments of the schema in order, without the results; what the results look like follows from
running PyTorch's own operator, or from ``outs`` where PyTorch has none. Samples with rank 4 data are preferred, since
the same sample then shows which dim orders a kernel takes. Several samples of an operator differ in what can change
its dtype behaviour: the kind of a Python number, a requested result type, an absent optional tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from etir.emit.scalar_type import ScalarType

Fill = Literal["data", "signed", "unit", "sparse", "small", "mask", "index2", "index3", "zero"]


@dataclass(frozen=True)
class T:
    """A tensor argument. ``fill`` names its contents and what dtype it has unless the probe says otherwise.

    ``data`` counts 1 to 4, ``signed`` -2 to 2 in halves, ``small`` 1 to 3, ``unit`` alternates 0 and 1,
    ``sparse`` is 1 in one of 8 places: Float. ``mask`` alternates 1 and 0: Bool.
    ``indexN`` counts 0 to N-1: Long. ``zero`` is zeros: Float. ``dtype`` and ``dim_order`` replace the usual ones.
    ``exclude`` lists types with which the argument means something that the other shapes do not fit.
    """

    shape: tuple[int, ...]
    fill: Fill = "data"
    dtype: ScalarType | None = None
    dim_order: tuple[int, ...] | None = None
    exclude: tuple[ScalarType, ...] = ()

    @property
    def base(self) -> ScalarType:
        """The dtype when nothing else is asked for."""
        if self.dtype is not None:
            return self.dtype
        if self.fill == "mask":
            return ScalarType.BOOL
        if self.fill.startswith("index"):
            return ScalarType.LONG
        return ScalarType.FLOAT


Literal_ = bool | int | float | str | None | tuple[int, ...] | tuple[float, ...]
Argument = T | tuple[T | None, ...] | Literal_ | ScalarType


@dataclass(frozen=True)
class Sample:
    """``args`` in schema order without results; ``outs`` gives the results' shapes where PyTorch does not tell them.

    ``dynamic`` marks results whose shape depends on data; of a ``shape_only`` sample the dtypes stay as they are.
    """

    args: tuple[Argument, ...]
    outs: tuple[T | tuple[T, ...], ...] | None = None
    dynamic: bool = False
    shape_only: bool = False


def _s(*args: Argument, outs: tuple[T | tuple[T, ...], ...] | None = None, dynamic: bool = False) -> Sample:
    return Sample(args, outs, dynamic)


def _shape(*args: Argument) -> Sample:
    """A sample for the sake of its shapes: only the usual dtypes are tried."""
    return Sample(args, shape_only=True)


_X = T((2, 3, 2, 3))
_Y = T((2, 3, 2, 3))
_SMALL = T((2, 3, 2, 3), "small")
_SIGNED = T((2, 3, 2, 3), "signed")
_UNIT = T((2, 3, 2, 3), "unit")
_MASK = T((2, 3, 2, 3), "mask")
_LONG, _INT, _FLOAT, _BOOL = ScalarType.LONG, ScalarType.INT, ScalarType.FLOAT, ScalarType.BOOL
_CL = (0, 2, 3, 1)
_X_CL = T((2, 3, 2, 3), dim_order=_CL)
_MASKS = (ScalarType.BYTE, ScalarType.BOOL)


def _index(shape: tuple[int, ...], limit: Literal[2, 3]) -> T:
    """Positions below ``limit``; a Byte or Bool tensor in its place would be a mask."""
    return T(shape, "index2" if limit == 2 else "index3", exclude=_MASKS)


def _index_mask(size: int) -> T:
    return T((size,), "mask", exclude=(ScalarType.INT, ScalarType.LONG))



_UNARY = (
    "isinf isnan reciprocal rsqrt sqrt log log10 log1p log2 alias_copy detach_copy lift_fresh_copy _conj_physical"
).split()
_UNARY_SIGNED = (
    "abs ceil floor round trunc neg sign relu exp expm1 erf cos cosh sin sinh tan tanh sigmoid asinh atan"
).split()
_UNARY_UNIT = "acos acosh asin atanh logit".split()
_SPARSE = T((2, 3, 2, 3), "sparse")
_INT_X = T((2, 3, 2, 3), dtype=ScalarType.INT)
_INT_Y = T((2, 3, 2, 3), "small", ScalarType.INT)
_BITWISE = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
_BINARY = (
    "atan2.out div.out eq.Tensor_out ne.Tensor_out lt.Tensor_out le.Tensor_out gt.Tensor_out ge.Tensor_out "
    "floor_divide.out fmod.Tensor_out remainder.Tensor_out maximum.out minimum.out mul.out"
).split()
_SCALAR = (
    "eq.Scalar_out ne.Scalar_out lt.Scalar_out le.Scalar_out gt.Scalar_out ge.Scalar_out div.Scalar_out "
    "fmod.Scalar_out remainder.Scalar_out mul.Scalar_out"
).split()
_SCALAR_ALPHA = "add.Scalar_out sub.Scalar_out rsub.Scalar_out".split()
_NORM = (T((2, 4, 2, 3)), T((4,)), T((4,)))
_POOL = ((2, 2), (1, 1), (0, 0))

SAMPLES: dict[str, tuple[Sample, ...]] = {
    **{f"aten::{n}.out": (_s(_X),) for n in _UNARY},
    **{f"aten::{n}.out": (_s(_SIGNED),) for n in _UNARY_SIGNED},
    "aten::logical_not.out": (_s(_UNIT),),
    "aten::nonzero.out": (_s(_UNIT, dynamic=True),),
    **{f"aten::{n}.out": (_s(_UNIT, *([None] if n == "logit" else [])),) for n in _UNARY_UNIT},
    **{f"aten::{n}": (_s(_X, _Y),) for n in _BINARY},
    **{f"aten::logical_{n}.out": (_s(_UNIT, _MASK),) for n in ("and", "or", "xor")},
    "aten::pow.Tensor_Tensor_out": (_s(_X, _SMALL),),
    "aten::bitwise_not.out": (_s(_INT_X),),
    **{f"aten::{n}.Tensor_out": (_s(_INT_X, _INT_Y),) for n in _BITWISE},
    **{f"aten::{n}.{'Tensor_' * n.endswith('shift')}Scalar_out": (_s(_INT_X, 2), _s(_INT_X, True)) for n in _BITWISE},
    **{f"aten::{n}": (_s(_X, 2), _s(_X, 2.5), _s(_X, True)) for n in _SCALAR},
    **{f"aten::{n}": (_s(_X, 2, 1), _s(_X, 2.5, 1), _s(_X, 2, 2.5)) for n in _SCALAR_ALPHA},
    "aten::add.out": (_s(_X, _Y, 1), _s(_X, _Y, 2.5)),
    "aten::sub.out": (_s(_X, _Y, 1), _s(_X, _Y, 2.5)),
    "aten::div.out_mode": (_s(_X, _Y, None), _s(_X, _Y, "trunc"), _s(_X, _Y, "floor")),
    "aten::div.Scalar_mode_out": tuple(_s(_X, v, m) for m in (None, "trunc", "floor") for v in (2, 2.5, True)),
    "aten::pow.Tensor_Scalar_out": (_s(_SMALL, 2), _s(_SMALL, 2.5), _s(_SMALL, True)),
    "aten::pow.Scalar_out": (_s(2, _SMALL), _s(2.5, _SMALL), _s(True, _SMALL)),
    "aten::_adaptive_avg_pool2d.out": (_s(_X, (1, 2)),),
    "aten::_cdist_forward.out": (_s(T((2, 3)), T((4, 3)), 2.0, None),),
    "aten::_pdist_forward.out": (_s(T((4, 3)), 2.0),),
    "aten::_log_softmax.out": (_s(_X, 1, False), _s(_X, 3, False)),
    "aten::_softmax.out": (_s(_X, 1, False), _s(_X, 3, False)),
    "aten::_native_batch_norm_legit.no_stats_out": (_s(*_NORM, True, 0.1, 1e-5), _s(_NORM[0], None, None, True, 0.1, 1e-5)),
    "aten::_native_batch_norm_legit.out": (
        _s(*_NORM, T((4,)), T((4,)), False, 0.1, 1e-5),
        _s(_NORM[0], None, None, T((4,)), T((4,)), False, 0.1, 1e-5),
    ),
    "aten::_native_batch_norm_legit_no_training.out": (
        _s(*_NORM, T((4,)), T((4,)), 0.1, 1e-5),
        _s(_NORM[0], None, None, T((4,)), T((4,)), 0.1, 1e-5),
    ),
    "aten::native_layer_norm.out": (
        _s(T((2, 3, 4)), (4,), T((4,)), T((4,)), 1e-5),
        _s(T((2, 3, 4)), (4,), None, None, 1e-5),
        _s(T((2, 3, 2, 4)), (4,), None, None, 1e-5),
    ),
    "aten::native_group_norm.out": (
        _s(*_NORM, 2, 4, 6, 2, 1e-5),
        _s(_NORM[0], None, None, 2, 4, 6, 2, 1e-5),
    ),
    "aten::_to_copy.out": (_s(_X, False, None),),
    "aten::_upsample_bilinear2d_aa.out": (_s(_X, (4, 6), False, None, None),),
    "aten::upsample_bilinear2d.vec_out": (_s(_X, (4, 6), False, None), _s(_X, None, False, (2.0, 2.0))),
    "aten::upsample_nearest2d.vec_out": (_s(_X, (4, 6), None), _s(_X, None, (2.0, 2.0))),
    "aten::addmm.out": (_s(T((4,)), T((2, 3)), T((3, 4)), 1, 1), _s(T((2, 4)), T((2, 3)), T((3, 4)), 2, 2.5)),
    "aten::mm.out": (_s(T((2, 3)), T((3, 4))),),
    "aten::bmm.out": (_s(T((2, 2, 3)), T((2, 3, 4))),),
    "aten::linear.out": (_s(T((2, 3)), T((4, 3)), T((4,))), _s(T((2, 3)), T((4, 3)), None)),
    "aten::amax.out": (_s(_X, (1,), False), _s(_X, (3,), True)),
    "aten::amin.out": (_s(_X, (1,), False), _s(_X, (3,), True)),
    "aten::any.all_out": (_s(_UNIT),),
    "aten::any.dims_out": (_s(_SPARSE, (1,), False), _s(_SPARSE, (3,), True)),
    "aten::any.out": (_s(_SPARSE, 1, False), _s(_SPARSE, 3, True)),
    "aten::arange.out": (_s(4), _s(4.0)),
    "aten::arange.start_out": (_s(0, 4, 1), _s(0.0, 4.0, 1.0)),
    "aten::argmax.out": (_s(_X, 1, False), _s(_X, None, False), _s(_X, 3, True)),
    "aten::argmin.out": (_s(_X, 1, False), _s(_X, None, False), _s(_X, 3, True)),
    "aten::as_strided_copy.out": (_s(_X, (2, 3), (3, 1), 0),),
    "aten::avg_pool2d.out": (_s(_X, *_POOL, False, True, None),),
    "aten::max_pool2d_with_indices.out": (_s(_X, *_POOL, (1, 1), False),),
    "aten::max_pool2d_with_indices_backward.grad_input": (
        _s(T((2, 3, 1, 2)), _X, *_POOL, (1, 1), False, T((2, 3, 1, 2), "zero", _LONG)),
    ),
    "aten::cat.out": (_s((_X, _Y), 1), _s((T((2, 3)), T((2, 3))), 0)),
    "aten::stack.out": (_s((T((2, 3, 2)), T((2, 3, 2))), 0),),
    "aten::clamp.out": (
        _s(_X, 2, 3),
        _s(_X, 2.0, 3.0),
        _s(_X, None, 3),
        _s(_X, 2, None),
        _s(_X, False, True),
        _s(_X, 2, 3.0),
    ),
    "aten::clamp.Tensor_out": (_s(_X, _SMALL, None), _s(_X, _SMALL, _Y), _s(_X, None, _SMALL)),
    "aten::clone.out": (_s(_X, None), _s(_X, 0)),
    "aten::constant_pad_nd.out": (_s(_X, (1, 1), 2), _s(_X, (1, 1), 2.5), _s(_X, (1, 1), True)),
    "aten::convolution.out": (
        _s(_X, T((2, 3, 1, 2)), T((2,)), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        _s(_X, T((2, 3, 1, 2)), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        _s(_X, T((3, 2, 1, 2)), T((2,)), (1, 1), (0, 0), (1, 1), True, (0, 0), 1),
        _s(T((2, 3, 4)), T((2, 3, 2)), T((2,)), (1,), (0,), (1,), False, (0,), 1),
    ),
    "aten::convolution_backward.out": (
        _s(
            *(T((2, 2, 2, 2)), _X, T((2, 3, 1, 2)), (2,)),
            *((1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, True)),
        ),
    ),
    "aten::copy.out": (_s(_X, _Y, False),),
    "aten::copy_": (_s(_X, _Y, False),),
    "aten::cumsum.out": (_s(_X, 1, None), _s(_X, 1, _LONG), _s(_X, 1, _FLOAT)),
    "aten::diagonal_copy.out": (_s(_X, 0, 0, 1),),
    "dim_order_ops::_clone_dim_order.out": (
        _s(_X, False, None, outs=(_X,)),
        _s(_X, False, (0, 1, 2, 3), outs=(_X,)),
        _s(_X, False, _CL, outs=(_X_CL,)),
    ),
    "dim_order_ops::_empty_dim_order.out": (
        _s((2, 3, 2, 3), None, outs=(_X,)),
        _s((2, 3, 2, 3), (0, 1, 2, 3), outs=(_X,)),
        _s((2, 3, 2, 3), _CL, outs=(_X_CL,)),
    ),
    "dim_order_ops::_to_dim_order_copy.out": (
        _s(_X, False, None, outs=(_X,)),
        _s(_X, False, (0, 1, 2, 3), outs=(_X,)),
        _s(_X, False, _CL, outs=(_X_CL,)),
    ),
    "et_copy::_d2h_copy.out": (_s(_X, outs=(_X,)),),
    "et_copy::_h2d_copy.out": (_s(_X, outs=(_X,)),),
    "aten::elu.out": (_s(_SIGNED, 1, 1, 1), _s(_SIGNED, 1.5, 1.5, 1.5)),
    "aten::embedding.out": (_s(T((3, 4)), T((2, 3), "index3"), -1, False, False),),
    "aten::empty.out": (_s((2, 3, 2, 3), None),),
    "aten::expand_copy.out": (_s(T((2, 3, 1, 3)), (2, 3, 2, 3), False),),
    "aten::fill.Scalar_out": (_s(_X, 2), _s(_X, 2.5), _s(_X, True)),
    "aten::fill.Tensor_out": (_s(_X, T(())),),
    "aten::flip.out": (_s(_X, (1,)),),
    "aten::full.out": (_s((2, 3), 2), _s((2, 3), 2.5), _s((2, 3), True)),
    "aten::full_like.out": (_s(_X, 2, None), _s(_X, 2.5, None), _s(_X, True, None), _s(_X, 2, 0)),
    "aten::scalar_tensor.out": (_s(2), _s(2.5), _s(True)),
    "aten::ones.out": (_s((2, 3)),),
    "aten::zeros.out": (_s((2, 3)),),
    "aten::rand.out": (_s((2, 3)),),
    "aten::randn.out": (_s((2, 3)),),
    "aten::gather.out": (_s(_X, 1, T((2, 2, 2, 3), "index3"), False),),
    "aten::gelu.out": (_s(_SIGNED, "none"), _s(_SIGNED, "tanh")),
    "aten::glu.out": (_s(T((2, 4, 2, 3)), 1),),
    "aten::grid_sampler_2d.out": (_s(_X, T((2, 2, 2, 2), "unit"), 0, 0, False),),
    "aten::hardtanh.out": (_s(_X, 2, 3), _s(_X, 2.0, 3.0)),
    "aten::leaky_relu.out": (_s(_SIGNED, 0.01), _s(_SIGNED, 2)),
    "aten::index.Tensor_out": (
        _s(_X, (None, _index((2,), 3))),
        _s(_X, (_index((2,), 2), _index((2,), 3))),
        _s(_X, (None, _index_mask(3))),
        _s(T((2, 3, 2)), (_index((2, 2), 2),)),
        _shape(_X, (_index((2,), 2), None, _index((2,), 2))),
        _shape(_X, (T((2, 3), "mask"),)),
    ),
    "aten::index_put.out": (
        _s(_X, (_index((1,), 2),), T((1, 3, 2, 3)), False),
        _s(_X, (_index((1,), 2),), T((1, 3, 2, 3)), True),
        _s(_X, (_index_mask(2),), T((1, 3, 2, 3)), False),
        _shape(_X, (_index((2,), 2), _index((2,), 3)), T((2, 2, 3)), False),
        _shape(_X, (None, _index((2,), 3)), T((2, 2, 2, 3)), False),
        _shape(_X, (None, None, _index((2,), 2)), T((2, 3, 2, 3)), False),
    ),
    "aten::index_put_": (
        _s(_X, (_index((1,), 2),), T((1, 3, 2, 3)), False),
        _s(_X, (_index((1,), 2),), T((1, 3, 2, 3)), True),
        _s(_X, (_index_mask(2),), T((1, 3, 2, 3)), False),
        _shape(_X, (_index((2,), 2), _index((2,), 3)), T((2, 2, 3)), False),
        _shape(_X, (None, _index((2,), 3)), T((2, 2, 2, 3)), False),
        _shape(_X, (None, None, _index((2,), 2)), T((2, 3, 2, 3)), False),
    ),
    "aten::index_select.out": (_s(_X, 1, T((2,), "index3")),),
    "aten::masked_fill.Scalar_out": (_s(_X, _MASK, 2), _s(_X, _MASK, 2.5), _s(_X, _MASK, True)),
    "aten::masked_scatter.out": (_s(_X, _MASK, _Y),),
    "aten::masked_select.out": (_s(_X, _MASK, dynamic=True),),
    "aten::max.dim_max": (_s(_X, 1, False), _s(_X, 3, True)),
    "aten::min.dim_min": (_s(_X, 1, False), _s(_X, 3, True)),
    "aten::max.unary_out": (_s(_X),),
    "aten::min.unary_out": (_s(_X),),
    "aten::mean.dtype_out": (_s(_X, None), _s(_X, _FLOAT)),
    "aten::mean.out": (_s(_X, (1,), False, None), _s(_X, (3,), True, None), _s(_X, (1,), False, _FLOAT)),
    "aten::sum.IntList_out": (
        _s(_X, (1,), False, None),
        _s(_X, (3,), True, None),
        _s(_X, (1,), False, _LONG),
        _s(_X, (1,), False, _FLOAT),
    ),
    "aten::prod.int_out": (_s(_SMALL, 1, False, None), _s(_SMALL, 1, False, _LONG), _s(_SMALL, 1, False, _FLOAT)),
    "aten::prod.out": (_s(T((2, 2)), None), _s(T((2, 2)), _LONG), _s(T((2, 2)), _FLOAT)),
    "aten::var.correction_out": (_s(_X, (1,), None, False), _s(_X, (1,), 1, True), _s(_X, (1,), 1.0, True)),
    "aten::var.out": (_s(_X, (1,), True, False),),
    "aten::var_mean.correction_out": (_s(_X, (1,), None, False), _s(_X, (1,), 1, True)),
    "aten::narrow_copy.out": (_s(_X, 1, 1, 2),),
    "aten::native_dropout.out": (_s(_X, 0.0, True), _s(_X, 0.0, False)),
    "aten::permute_copy.out": (_s(_X, (1, 0, 3, 2)),),
    "aten::t_copy.out": (_s(T((2, 3))),),
    "aten::transpose_copy.int_out": (_s(_X, 1, 2),),
    "aten::pixel_shuffle.out": (_s(T((2, 4, 2, 3)), 2),),
    "aten::pixel_unshuffle.out": (_s(T((2, 3, 2, 4)), 2),),
    **{
        f"aten::{mode}_pad{rank}d.out": (_s(T((2, 3, 2, 3)[: rank + 2] if rank < 3 else (2, 3, 2, 3, 2)), (1,) * (2 * rank)),)
        for mode in ("reflection", "replication")
        for rank in (1, 2, 3)
    },
    "aten::repeat.out": (_s(_X, (1, 2, 1, 1)),),
    "aten::repeat_interleave.Tensor_out": (_s(T((3,), "small", _LONG), None), _s(T((3,), "small", _LONG), 6)),
    "aten::roll.out": (_s(_X, (1,), (1,)), _s(_X, (2,), ())),
    "aten::scatter.src_out": (_s(_X, 1, T((2, 2, 2, 3), "index2"), _Y),),
    "aten::scatter.value_out": tuple(_s(_X, 1, T((2, 2, 2, 3), "index2"), v) for v in (2, 2.5, True)),
    "aten::scatter_add.out": (_s(_X, 1, T((2, 2, 2, 3), "index2"), _Y),),
    "aten::select_copy.int_out": (_s(_X, 1, 1),),
    "aten::select_scatter.out": (_s(_X, T((2, 2, 3)), 1, 1),),
    "aten::slice_copy.Tensor_out": (_s(_X, 1, 1, 3, 1), _s(_X, 1, None, None, 2)),
    "aten::slice_scatter.out": (_s(_X, T((2, 2, 2, 3)), 1, 1, 3, 1),),
    "aten::split_copy.Tensor_out": (_s(_X, 1, 0, outs=((T((1, 3, 2, 3)), T((1, 3, 2, 3))),)),),
    "aten::split_with_sizes_copy.out": (_s(_X, (1, 2), 1, outs=((T((2, 1, 2, 3)), T((2, 2, 2, 3))),)),),
    "aten::unbind_copy.int_out": (_s(_X, 0, outs=((T((3, 2, 3)), T((3, 2, 3))),)),),
    "aten::squeeze_copy.dim_out": (_s(T((2, 1, 2, 3)), 1),),
    "aten::squeeze_copy.dims_out": (_s(T((2, 1, 2, 3)), (1,)),),
    "aten::unsqueeze_copy.out": (_s(T((2, 3, 2)), 1),),
    "aten::topk.values": (_s(T((2, 3, 2, 4)), 2, -1, True, True), _s(_X, 2, 1, False, True)),
    "aten::tril.out": (_s(_X, 0),),
    "aten::unfold_copy.out": (_s(_X, 1, 2, 1),),
    "aten::view_as_real_copy.out": (_s(T((2, 3, 2), "data", ScalarType.COMPLEXFLOAT)),),
    "aten::view_copy.out": (_s(_X, (6, 6)), _s(_X, (2, 3, 6, -1)), _s(T((6, 6)), (2, 3, 2, 3))),
    "aten::where.self_out": (_s(_MASK, _X, _Y),),
    "aten::_fft_r2c.out": (_s(T((2, 4)), (1,), 0, True),),
    "aten::_fft_c2r.out": (_s(T((2, 3), "data", ScalarType.COMPLEXFLOAT), (1,), 0, 4),),
}

_BROADCAST = (T((3, 1, 1)), T((3,)), T((1, 3, 1, 1)), T(()), T((1, 1, 1, 1)), T((1,)))
_CONV3D = (T((2, 2, 3, 2, 2)), T((2, 2, 1, 1, 2)), None, (1,) * 3, (0,) * 3, (1,) * 3, False, (0,) * 3, 1)

SHAPE_SAMPLES: dict[str, tuple[Sample, ...]] = {
    **{f"aten::{n}.out": tuple(_shape(_X, b, 1) for b in _BROADCAST) for n in ("add", "sub")},
    **{f"aten::{n}.out": tuple(_shape(_X, b) for b in _BROADCAST) for n in ("mul", "div", "maximum", "floor_divide")},
    **{f"aten::{n}.Tensor_out": tuple(_shape(_X, b) for b in _BROADCAST) for n in ("eq", "le", "remainder")},
    **{f"aten::{n}.out": (_shape(T(())), _shape(T((4,))), _shape(T((2, 1, 2, 1, 2)))) for n in ("exp", "abs", "sigmoid")},
    "aten::where.self_out": tuple(_shape(T(b.shape, "mask"), _X, T(())) for b in _BROADCAST),
    "aten::_to_copy.out": (_shape(T(()), False, None), _shape(T((2, 1, 2, 1, 2)), False, None)),
    "aten::convolution.out": (
        _shape(*_CONV3D),
        _shape(T((2, 4, 2, 3)), T((4, 1, 1, 2)), T((4,)), (1, 1), (0, 0), (1, 1), False, (0, 0), 4),
        _shape(T((2, 4, 2, 3)), T((4, 2, 1, 2)), T((4,)), (1, 1), (0, 0), (1, 1), True, (0, 0), 2),
        _shape(T((2, 3, 4)), T((3, 2, 2)), T((2,)), (2,), (1,), (1,), True, (1,), 1),
    ),
    "aten::avg_pool2d.out": (_shape(T((3, 2, 3)), *_POOL, False, True, None), _shape(_X, (2, 2), (), (0, 0), True, False, None)),
    "aten::max_pool2d_with_indices.out": (_shape(T((3, 2, 3)), *_POOL, (1, 1), False),),
    "aten::_adaptive_avg_pool2d.out": (_shape(T((3, 2, 3)), (1, 2)),),
    "aten::_native_batch_norm_legit_no_training.out": tuple(
        _shape(T(shape), T((4,)), T((4,)), T((4,)), T((4,)), 0.1, 1e-5) for shape in ((2, 4), (2, 4, 3), (2, 4, 1, 2, 2))
    ),
    "aten::native_group_norm.out": (
        _shape(T((2, 4, 3)), T((4,)), T((4,)), 2, 4, 3, 2, 1e-5),
        _shape(T((2, 4)), T((4,)), T((4,)), 2, 4, 1, 2, 1e-5),
        _shape(T((2, 4, 1, 2, 2)), T((4,)), T((4,)), 2, 4, 4, 2, 1e-5),
    ),
    "aten::native_layer_norm.out": (
        _shape(T((4,)), (4,), T((4,)), T((4,)), 1e-5),
        _shape(T((2, 3, 4)), (3, 4), T((3, 4)), T((3, 4)), 1e-5),
        _shape(T((2, 3, 2, 4)), (4,), T((4,)), None, 1e-5),
    ),
    "aten::linear.out": tuple(_shape(T(shape), T((4, 3)), T((4,))) for shape in ((3,), (2, 2, 3), (2, 1, 2, 3))),
    "aten::addmm.out": tuple(_shape(T(shape), T((2, 3)), T((3, 4)), 1, 1) for shape in ((), (1,), (2, 1), (1, 4))),
    "aten::embedding.out": tuple(_shape(T((3, 4)), T(s, "index3"), -1, False, False) for s in ((), (2,), (2, 1, 3))),
    "aten::mean.out": (
        _shape(_X, (2, 3), True, None),
        _shape(_X, (-1, -2), False, None),
        _shape(_X, None, False, None),
        _shape(T((2, 3, 2)), (-1,), True, None),
    ),
    "aten::sum.IntList_out": (
        _shape(_X, (2, 3), True, None),
        _shape(_X, (-1, -2), False, None),
        _shape(_X, None, False, None),
        _shape(_X, (), False, None),
        _shape(T((2, 3, 2)), (-1,), True, None),
    ),
    "aten::amax.out": (_shape(_X, (2, 3), True), _shape(_X, (), False), _shape(T((2, 3, 2)), (-1,), True)),
    "aten::any.dims_out": (_shape(_SPARSE, None, False), _shape(_SPARSE, (2, 3), False)),
    "aten::var.correction_out": (_shape(_X, None, 1, False), _shape(_X, (2, 3), 0, True)),
    "aten::_softmax.out": (_shape(T((4,)), 0, False), _shape(T((2, 3, 4)), -1, False), _shape(T(()), 0, False)),
    "aten::_log_softmax.out": (_shape(T((4,)), 0, False), _shape(T((2, 3, 4)), -1, False)),
    "aten::argmax.out": (_shape(T((4,)), 0, False), _shape(T((4,)), None, False)),
    "aten::topk.values": (_shape(T((4,)), 2, -1, True, True), _shape(T((2, 4)), 2, -1, True, True)),
    "aten::cat.out": (_shape((T((2,)), T((3,))), 0), _shape((_X, T((0,))), 1), _shape((T((2, 1, 2, 1, 2)),) * 2, 4)),
    "aten::stack.out": (_shape((T(()), T(())), 0),),
    "aten::cumsum.out": (_shape(T((4,)), 0, None),),
    "aten::permute_copy.out": (_shape(T((2, 1, 3, 1, 2)), (4, 0, 3, 1, 2)), _shape(T((2, 3)), (1, 0))),
    "aten::t_copy.out": (_shape(T((4,))),),
    "aten::expand_copy.out": (_shape(T((3, 1)), (2, 3, 4), False), _shape(T((2, 1)), (-1, 4), False), _shape(T(()), (3,), False)),
    "aten::repeat.out": (_shape(T((3, 1)), (2, 1, 2)),),
    "aten::select_copy.int_out": (_shape(T((4,)), 0, -1),),
    "aten::slice_copy.Tensor_out": (_shape(T((4,)), 0, -2, 9223372036854775807, 1),),
    "aten::gather.out": (_shape(T((2, 3)), 1, T((2, 2), "index3"), False), _shape(T((4,)), 0, T((2,), "index3"), False)),
    "aten::index_select.out": (_shape(T((4,)), 0, T((2,), "index3")),),
    "aten::scatter.src_out": (_shape(T((2, 3)), 1, T((2, 2), "index2"), T((2, 3))),),
    "aten::pixel_shuffle.out": (_shape(T((4, 2, 3)), 2), _shape(T((1, 2, 4, 2, 3)), 2)),
    "aten::upsample_bilinear2d.vec_out": (_shape(_X, (4, 6), True, None),),
    "aten::glu.out": (_shape(T((2, 4)), -1),),
    "aten::tril.out": (_shape(T((3, 3)), 0), _shape(T((2, 3, 3)), -1)),
    "aten::full.out": (_shape((), 1.0), _shape((2, 1, 2, 1, 2), 1.0)),
    "aten::clamp.Tensor_out": (_shape(_X, T(()), T(())),),
    "aten::copy_": tuple(_shape(_X, b, False) for b in _BROADCAST),
    "aten::copy.out": tuple(_shape(_X, b, False) for b in _BROADCAST),
    "aten::index_put_": (_shape(T((4,)), (_index((2,), 3),), T((2,)), False),),
    "aten::constant_pad_nd.out": (_shape(T((4,)), (1, 1), 0.0), _shape(T((2, 3)), (1, 0, 0, 1), 0.0)),
    "aten::_cdist_forward.out": (_shape(T((2, 2, 3)), T((2, 4, 3)), 2.0, None),),
    "aten::masked_fill.Scalar_out": (_shape(_X, T((1, 1, 2, 3), "mask"), 0.0), _shape(_X, T((), "mask"), 0.0)),
    "aten::bmm.out": (_shape(T((1, 1, 3)), T((1, 3, 1))),),
}
"""Further samples for shapes and ranks: broadcasting, vectors and scalars, reductions over several dimensions."""
