"""One or more sample calls for every operator: the shapes and literals that a probe runs it with.

A sample lists the arguments of the schema in order, without the results; what the results look like follows from
running PyTorch's own operator, or from ``outs`` where PyTorch has none. Samples with rank 4 data are preferred, since
the same sample then shows which dim orders a kernel takes. Several samples of an operator differ in what can change
its dtype behavior: the kind of a Python scalar, a requested result type, an absent optional tensor.
"""

from __future__ import annotations

from etir.emit.formats.scalar_type import ScalarType
from etir.tools.probe.sample import Sample, T, index, index_mask, sample, shape_sample


def _names(text: str) -> list[str]:
    return text.split()


_X = T((2, 3, 2, 3))
_Y = T((2, 3, 2, 3))
_SMALL = T((2, 3, 2, 3), "small")
_SIGNED = T((2, 3, 2, 3), "signed")
_UNIT = T((2, 3, 2, 3), "unit")
_MASK = T((2, 3, 2, 3), "mask")
_LONG, _INT, _FLOAT, _BOOL = ScalarType.LONG, ScalarType.INT, ScalarType.FLOAT, ScalarType.BOOL
_CL = (0, 2, 3, 1)
_X_CL = T((2, 3, 2, 3), dim_order=_CL)
_UNARY = _names("isinf isnan reciprocal rsqrt sqrt log log10 log1p log2 alias_copy detach_copy lift_fresh_copy")
_UNARY_SIGNED = _names(
    "abs ceil floor round trunc neg sign relu exp expm1 erf cos cosh sin sinh tan tanh sigmoid asinh atan"
)
_UNARY_UNIT = _names("acos acosh asin atanh logit")
_SPARSE = T((2, 3, 2, 3), "sparse")
_INT_X = T((2, 3, 2, 3), dtype=ScalarType.INT)
_INT_Y = T((2, 3, 2, 3), "small", ScalarType.INT)
_BITWISE = _names("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift")
_BINARY = _names(
    "atan2.out div.out eq.Tensor_out ne.Tensor_out lt.Tensor_out le.Tensor_out gt.Tensor_out ge.Tensor_out "
    "floor_divide.out fmod.Tensor_out remainder.Tensor_out maximum.out minimum.out mul.out"
)
_SCALAR = _names(
    "eq.Scalar_out ne.Scalar_out lt.Scalar_out le.Scalar_out gt.Scalar_out ge.Scalar_out div.Scalar_out "
    "fmod.Scalar_out remainder.Scalar_out mul.Scalar_out"
)
_SCALAR_ALPHA = ["add.Scalar_out", "sub.Scalar_out", "rsub.Scalar_out"]
_NORM = (T((2, 4, 2, 3)), T((4,)), T((4,)))
_POOL = ((2, 2), (1, 1), (0, 0))

SAMPLES: dict[str, tuple[Sample, ...]] = {
    **{f"aten::{n}.out": (sample(_X),) for n in _UNARY},
    **{f"aten::{n}.out": (sample(_SIGNED),) for n in _UNARY_SIGNED},
    "aten::_conj_physical.out": (sample(T((2, 3, 2, 3), dtype=ScalarType.COMPLEXFLOAT)),),
    "aten::logical_not.out": (sample(_UNIT),),
    "aten::nonzero.out": (sample(_UNIT, dynamic=True),),
    **{f"aten::{n}.out": (sample(_UNIT, *([None] if n == "logit" else [])),) for n in _UNARY_UNIT},
    **{f"aten::{n}": (sample(_X, _Y),) for n in _BINARY},
    **{f"aten::logical_{n}.out": (sample(_UNIT, _MASK),) for n in ("and", "or", "xor")},
    "aten::pow.Tensor_Tensor_out": (sample(_X, _SMALL),),
    "aten::bitwise_not.out": (sample(_INT_X),),
    **{f"aten::{n}.Tensor_out": (sample(_INT_X, _INT_Y),) for n in _BITWISE},
    **{
        f"aten::{n}.{'Tensor_' * n.endswith('shift')}Scalar_out": (sample(_INT_X, 2), sample(_INT_X, True))
        for n in _BITWISE
    },
    **{f"aten::{n}": (sample(_X, 2), sample(_X, 2.5), sample(_X, True)) for n in _SCALAR},
    **{f"aten::{n}": (sample(_X, 2, 1), sample(_X, 2.5, 1), sample(_X, 2, 2.5)) for n in _SCALAR_ALPHA},
    "aten::add.out": (sample(_X, _Y, 1), sample(_X, _Y, 2.5)),
    "aten::sub.out": (sample(_X, _Y, 1), sample(_X, _Y, 2.5)),
    "aten::div.out_mode": (sample(_X, _Y, None), sample(_X, _Y, "trunc"), sample(_X, _Y, "floor")),
    "aten::div.Scalar_mode_out": tuple(sample(_X, v, m) for m in (None, "trunc", "floor") for v in (2, 2.5, True)),
    "aten::pow.Tensor_Scalar_out": (sample(_SMALL, 2), sample(_SMALL, 2.5), sample(_SMALL, True)),
    "aten::pow.Scalar_out": (sample(2, _SMALL), sample(2.5, _SMALL), sample(True, _SMALL)),
    "aten::_adaptive_avg_pool2d.out": (sample(_X, (1, 2)),),
    "aten::_cdist_forward.out": (sample(T((2, 3)), T((4, 3)), 2.0, None),),
    "aten::_pdist_forward.out": (sample(T((4, 3)), 2.0),),
    "aten::_log_softmax.out": (sample(_X, 1, False), sample(_X, 3, False)),
    "aten::_softmax.out": (sample(_X, 1, False), sample(_X, 3, False)),
    "aten::_native_batch_norm_legit.no_stats_out": (
        sample(*_NORM, True, 0.1, 1e-5),
        sample(_NORM[0], None, None, True, 0.1, 1e-5),
    ),
    "aten::_native_batch_norm_legit.out": (
        sample(*_NORM, T((4,)), T((4,)), False, 0.1, 1e-5),
        sample(_NORM[0], None, None, T((4,)), T((4,)), False, 0.1, 1e-5),
    ),
    "aten::_native_batch_norm_legit_no_training.out": (
        sample(*_NORM, T((4,)), T((4,)), 0.1, 1e-5),
        sample(_NORM[0], None, None, T((4,)), T((4,)), 0.1, 1e-5),
    ),
    "aten::native_layer_norm.out": (
        sample(T((2, 3, 4)), (4,), T((4,)), T((4,)), 1e-5),
        sample(T((2, 3, 4)), (4,), None, None, 1e-5),
        sample(T((2, 3, 2, 4)), (4,), None, None, 1e-5),
    ),
    "aten::native_group_norm.out": (
        sample(*_NORM, 2, 4, 6, 2, 1e-5),
        sample(_NORM[0], None, None, 2, 4, 6, 2, 1e-5),
    ),
    "aten::_to_copy.out": (sample(_X, False, None),),
    "aten::_upsample_bilinear2d_aa.out": (sample(_X, (4, 6), False, None, None),),
    "aten::upsample_bilinear2d.vec_out": (sample(_X, (4, 6), False, None), sample(_X, None, False, (2.0, 2.0))),
    "aten::upsample_nearest2d.vec_out": (sample(_X, (4, 6), None), sample(_X, None, (2.0, 2.0))),
    "aten::addmm.out": (sample(T((4,)), T((2, 3)), T((3, 4)), 1, 1), sample(T((2, 4)), T((2, 3)), T((3, 4)), 2, 2.5)),
    "aten::mm.out": (sample(T((2, 3)), T((3, 4))),),
    "aten::bmm.out": (sample(T((2, 2, 3)), T((2, 3, 4))),),
    "aten::linear.out": (sample(T((2, 3)), T((4, 3)), T((4,))), sample(T((2, 3)), T((4, 3)), None)),
    "aten::amax.out": (sample(_X, (1,), False), sample(_X, (3,), True)),
    "aten::amin.out": (sample(_X, (1,), False), sample(_X, (3,), True)),
    "aten::any.all_out": (sample(_UNIT),),
    "aten::any.dims_out": (sample(_SPARSE, (1,), False), sample(_SPARSE, (3,), True)),
    "aten::any.out": (sample(_SPARSE, 1, False), sample(_SPARSE, 3, True)),
    "aten::arange.out": (sample(4), sample(4.0)),
    "aten::arange.start_out": (sample(0, 4, 1), sample(0.0, 4.0, 1.0)),
    "aten::argmax.out": (sample(_X, 1, False), sample(_X, None, False), sample(_X, 3, True)),
    "aten::argmin.out": (sample(_X, 1, False), sample(_X, None, False), sample(_X, 3, True)),
    "aten::as_strided_copy.out": (sample(_X, (2, 3), (3, 1), 0),),
    "aten::avg_pool2d.out": (sample(_X, *_POOL, False, True, None),),
    "aten::max_pool2d_with_indices.out": (sample(_X, *_POOL, (1, 1), False),),
    "aten::max_pool2d_with_indices_backward.grad_input": (
        sample(T((2, 3, 1, 2)), _X, *_POOL, (1, 1), False, T((2, 3, 1, 2), "zero", _LONG)),
    ),
    "aten::cat.out": (sample((_X, _Y), 1), sample((T((2, 3)), T((2, 3))), 0)),
    "aten::stack.out": (sample((T((2, 3, 2)), T((2, 3, 2))), 0),),
    "aten::clamp.out": (
        sample(_X, 2, 3),
        sample(_X, 2.0, 3.0),
        sample(_X, None, 3),
        sample(_X, 2, None),
        sample(_X, False, True),
        sample(_X, 2, 3.0),
    ),
    "aten::clamp.Tensor_out": (sample(_X, _SMALL, None), sample(_X, _SMALL, _Y), sample(_X, None, _SMALL)),
    "aten::clone.out": (sample(_X, None), sample(_X, 0)),
    "aten::constant_pad_nd.out": (sample(_X, (1, 1), 2), sample(_X, (1, 1), 2.5), sample(_X, (1, 1), True)),
    "aten::convolution.out": (
        sample(_X, T((2, 3, 1, 2)), T((2,)), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        sample(_X, T((2, 3, 1, 2)), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        sample(_X, T((3, 2, 1, 2)), T((2,)), (1, 1), (0, 0), (1, 1), True, (0, 0), 1),
        sample(T((2, 3, 4)), T((2, 3, 2)), T((2,)), (1,), (0,), (1,), False, (0,), 1),
    ),
    "aten::convolution_backward.out": (
        sample(
            *(T((2, 2, 2, 2)), _X, T((2, 3, 1, 2)), (2,)),
            *((1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, True)),
        ),
    ),
    "aten::copy.out": (sample(_X, _Y, False),),
    "aten::copy_": (sample(_X, _Y, False),),
    "aten::cumsum.out": (sample(_X, 1, None), sample(_X, 1, _LONG), sample(_X, 1, _FLOAT)),
    "aten::diagonal_copy.out": (sample(_X, 0, 0, 1),),
    "dim_order_ops::_clone_dim_order.out": (
        sample(_X, False, None, outs=(_X,)),
        sample(_X, False, (0, 1, 2, 3), outs=(_X,)),
        sample(_X, False, _CL, outs=(_X_CL,)),
    ),
    "dim_order_ops::_empty_dim_order.out": (
        sample((2, 3, 2, 3), None, outs=(_X,)),
        sample((2, 3, 2, 3), (0, 1, 2, 3), outs=(_X,)),
        sample((2, 3, 2, 3), _CL, outs=(_X_CL,)),
    ),
    "dim_order_ops::_to_dim_order_copy.out": (
        sample(_X, False, None, outs=(_X,)),
        sample(_X, False, (0, 1, 2, 3), outs=(_X,)),
        sample(_X, False, _CL, outs=(_X_CL,)),
    ),
    "et_copy::_d2h_copy.out": (sample(_X, outs=(_X,)),),
    "et_copy::_h2d_copy.out": (sample(_X, outs=(_X,)),),
    "aten::elu.out": (sample(_SIGNED, 1, 1, 1), sample(_SIGNED, 1.5, 1.5, 1.5)),
    "aten::embedding.out": (sample(T((3, 4)), T((2, 3), "index3"), -1, False, False),),
    "aten::empty.out": (sample((2, 3, 2, 3), None),),
    "aten::expand_copy.out": (sample(T((2, 3, 1, 3)), (2, 3, 2, 3), False),),
    "aten::fill.Scalar_out": (sample(_X, 2), sample(_X, 2.5), sample(_X, True)),
    "aten::fill.Tensor_out": (sample(_X, T(())),),
    "aten::flip.out": (sample(_X, (1,)),),
    "aten::full.out": (sample((2, 3), 2), sample((2, 3), 2.5), sample((2, 3), True)),
    "aten::full_like.out": (sample(_X, 2, None), sample(_X, 2.5, None), sample(_X, True, None), sample(_X, 2, 0)),
    "aten::scalar_tensor.out": (sample(2), sample(2.5), sample(True)),
    "aten::ones.out": (sample((2, 3)),),
    "aten::zeros.out": (sample((2, 3)),),
    "aten::rand.out": (sample((2, 3)),),
    "aten::randn.out": (sample((2, 3)),),
    "aten::gather.out": (sample(_X, 1, T((2, 2, 2, 3), "index3"), False),),
    "aten::gelu.out": (sample(_SIGNED, "none"), sample(_SIGNED, "tanh")),
    "aten::glu.out": (sample(T((2, 4, 2, 3)), 1),),
    "aten::grid_sampler_2d.out": (sample(_X, T((2, 2, 2, 2), "unit"), 0, 0, False),),
    "aten::hardtanh.out": (sample(_X, 2, 3), sample(_X, 2.0, 3.0)),
    "aten::leaky_relu.out": (sample(_SIGNED, 0.01), sample(_SIGNED, 2)),
    "aten::index.Tensor_out": (
        sample(_X, (None, index((2,), 3))),
        sample(_X, (index((2,), 2), index((2,), 3))),
        sample(_X, (None, index_mask(3))),
        sample(T((2, 3, 2)), (index((2, 2), 2),)),
        shape_sample(_X, (index((2,), 2), None, index((2,), 2))),
        shape_sample(_X, (T((2, 3), "mask"),)),
    ),
    "aten::index_put.out": (
        sample(_X, (index((1,), 2),), T((1, 3, 2, 3)), False),
        sample(_X, (index((1,), 2),), T((1, 3, 2, 3)), True),
        sample(_X, (index_mask(2),), T((1, 3, 2, 3)), False),
        shape_sample(_X, (index((2,), 2), index((2,), 3)), T((2, 2, 3)), False),
        shape_sample(_X, (None, index((2,), 3)), T((2, 2, 2, 3)), False),
        shape_sample(_X, (None, None, index((2,), 2)), T((2, 3, 2, 3)), False),
    ),
    "aten::index_put_": (
        sample(_X, (index((1,), 2),), T((1, 3, 2, 3)), False),
        sample(_X, (index((1,), 2),), T((1, 3, 2, 3)), True),
        sample(_X, (index_mask(2),), T((1, 3, 2, 3)), False),
        shape_sample(_X, (index((2,), 2), index((2,), 3)), T((2, 2, 3)), False),
        shape_sample(_X, (None, index((2,), 3)), T((2, 2, 2, 3)), False),
        shape_sample(_X, (None, None, index((2,), 2)), T((2, 3, 2, 3)), False),
    ),
    "aten::index_select.out": (sample(_X, 1, T((2,), "index3")),),
    "aten::masked_fill.Scalar_out": (sample(_X, _MASK, 2), sample(_X, _MASK, 2.5), sample(_X, _MASK, True)),
    "aten::masked_scatter.out": (sample(_X, _MASK, _Y),),
    "aten::masked_select.out": (sample(_X, _MASK, dynamic=True),),
    "aten::max.dim_max": (sample(_X, 1, False), sample(_X, 3, True)),
    "aten::min.dim_min": (sample(_X, 1, False), sample(_X, 3, True)),
    "aten::max.unary_out": (sample(_X),),
    "aten::min.unary_out": (sample(_X),),
    "aten::mean.dtype_out": (sample(_X, None), sample(_X, _FLOAT)),
    "aten::mean.out": (sample(_X, (1,), False, None), sample(_X, (3,), True, None), sample(_X, (1,), False, _FLOAT)),
    "aten::sum.IntList_out": (
        sample(_X, (1,), False, None),
        sample(_X, (3,), True, None),
        sample(_X, (1,), False, _LONG),
        sample(_X, (1,), False, _FLOAT),
    ),
    "aten::prod.int_out": (
        sample(_SMALL, 1, False, None),
        sample(_SMALL, 1, False, _LONG),
        sample(_SMALL, 1, False, _FLOAT),
    ),
    "aten::prod.out": (sample(T((2, 2)), None), sample(T((2, 2)), _LONG), sample(T((2, 2)), _FLOAT)),
    "aten::var.correction_out": (sample(_X, (1,), None, False), sample(_X, (1,), 1, True), sample(_X, (1,), 1.0, True)),
    "aten::var.out": (sample(_X, (1,), True, False),),
    "aten::var_mean.correction_out": (sample(_X, (1,), None, False), sample(_X, (1,), 1, True)),
    "aten::narrow_copy.out": (sample(_X, 1, 1, 2),),
    "aten::native_dropout.out": (sample(_X, 0.0, True), sample(_X, 0.0, False)),
    "aten::permute_copy.out": (sample(_X, (1, 0, 3, 2)),),
    "aten::t_copy.out": (sample(T((2, 3))),),
    "aten::transpose_copy.int_out": (sample(_X, 1, 2),),
    "aten::pixel_shuffle.out": (sample(T((2, 4, 2, 3)), 2),),
    "aten::pixel_unshuffle.out": (sample(T((2, 3, 2, 4)), 2),),
    **{
        f"aten::{mode}_pad{rank}d.out": (
            sample(T((2, 3, 2, 3)[: rank + 2] if rank < 3 else (2, 3, 2, 3, 2)), (1,) * (2 * rank)),
        )
        for mode in ("reflection", "replication")
        for rank in (1, 2, 3)
    },
    "aten::repeat.out": (sample(_X, (1, 2, 1, 1)),),
    "aten::repeat_interleave.Tensor_out": (sample(T((3,), "small", _LONG), None), sample(T((3,), "small", _LONG), 6)),
    "aten::roll.out": (sample(_X, (1,), (1,)), sample(_X, (2,), ())),
    "aten::scatter.src_out": (sample(_X, 1, T((2, 2, 2, 3), "index2"), _Y),),
    "aten::scatter.value_out": tuple(sample(_X, 1, T((2, 2, 2, 3), "index2"), v) for v in (2, 2.5, True)),
    "aten::scatter_add.out": (sample(_X, 1, T((2, 2, 2, 3), "index2"), _Y),),
    "aten::select_copy.int_out": (sample(_X, 1, 1),),
    "aten::select_scatter.out": (sample(_X, T((2, 2, 3)), 1, 1),),
    "aten::slice_copy.Tensor_out": (sample(_X, 1, 1, 3, 1), sample(_X, 1, None, None, 2)),
    "aten::slice_scatter.out": (sample(_X, T((2, 2, 2, 3)), 1, 1, 3, 1),),
    "aten::split_copy.Tensor_out": (sample(_X, 1, 0, outs=((T((1, 3, 2, 3)), T((1, 3, 2, 3))),)),),
    "aten::split_with_sizes_copy.out": (sample(_X, (1, 2), 1, outs=((T((2, 1, 2, 3)), T((2, 2, 2, 3))),)),),
    "aten::unbind_copy.int_out": (sample(_X, 0, outs=((T((3, 2, 3)), T((3, 2, 3))),)),),
    "aten::squeeze_copy.dim_out": (sample(T((2, 1, 2, 3)), 1),),
    "aten::squeeze_copy.dims_out": (sample(T((2, 1, 2, 3)), (1,)),),
    "aten::unsqueeze_copy.out": (sample(T((2, 3, 2)), 1),),
    "aten::topk.values": (sample(T((2, 3, 2, 4)), 2, -1, True, True), sample(_X, 2, 1, False, True)),
    "aten::tril.out": (sample(_X, 0),),
    "aten::unfold_copy.out": (sample(_X, 1, 2, 1),),
    "aten::view_as_real_copy.out": (sample(T((2, 3, 2), "data", ScalarType.COMPLEXFLOAT)),),
    "aten::view_copy.out": (sample(_X, (6, 6)), sample(_X, (2, 3, 6, -1)), sample(T((6, 6)), (2, 3, 2, 3))),
    "aten::where.self_out": (sample(_MASK, _X, _Y),),
    "aten::_fft_r2c.out": (sample(T((2, 4)), (1,), 0, True, outs=(T((2, 3), dtype=ScalarType.COMPLEXFLOAT),)),),
    "aten::_fft_c2r.out": (sample(T((2, 3), "data", ScalarType.COMPLEXFLOAT), (1,), 0, 4),),
}
