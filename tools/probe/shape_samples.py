"""Further samples for shapes and ranks: broadcasting, vectors and scalars, reductions over several dimensions."""

from __future__ import annotations

import itertools

from etir.emit.formats.scalar_type import ScalarType
from etir.tools.probe.sample import Sample, T, index, shape_sample

_X = T((2, 3, 2, 3))
_SPARSE = T((2, 3, 2, 3), "sparse")
_POOL = ((2, 2), (1, 1), (0, 0))
_BROADCAST = (T((3, 1, 1)), T((3,)), T((1, 3, 1, 1)), T(()), T((1, 1, 1, 1)), T((1,)))
_COMPLEX = tuple(T(shape, dtype=ScalarType.COMPLEXFLOAT) for shape in ((2, 3), (3,), (1, 3), (2, 1), ()))
_CONV3D = (T((2, 2, 3, 2, 2)), T((2, 2, 1, 1, 2)), None, (1,) * 3, (0,) * 3, (1,) * 3, False, (0,) * 3, 1)

SHAPE_SAMPLES: dict[str, tuple[Sample, ...]] = {
    **{
        f"aten::{n}.out": (
            *(shape_sample(_X, b, 1) for b in _BROADCAST),
            *(shape_sample(a, b, 1) for a, b in itertools.product(_COMPLEX, _COMPLEX)),
        )
        for n in ("add", "sub")
    },
    **{
        f"aten::{n}.out": (
            *(shape_sample(_X, b) for b in _BROADCAST),
            *(shape_sample(a, b) for a, b in itertools.product(_COMPLEX, _COMPLEX)),
        )
        for n in ("mul", "div")
    },
    **{f"aten::{n}.out": tuple(shape_sample(_X, b) for b in _BROADCAST) for n in ("maximum", "floor_divide")},
    **{f"aten::{n}.Tensor_out": tuple(shape_sample(_X, b) for b in _BROADCAST) for n in ("eq", "le", "remainder")},
    **{
        f"aten::{n}.out": (shape_sample(T(())), shape_sample(T((4,))), shape_sample(T((2, 1, 2, 1, 2))))
        for n in ("exp", "abs", "sigmoid")
    },
    "aten::where.self_out": tuple(shape_sample(T(b.shape, "mask"), _X, T(())) for b in _BROADCAST),
    "aten::_to_copy.out": (shape_sample(T(()), False, None), shape_sample(T((2, 1, 2, 1, 2)), False, None)),
    "aten::convolution.out": (
        shape_sample(*_CONV3D),
        shape_sample(T((2, 4, 2, 3)), T((4, 1, 1, 2)), T((4,)), (1, 1), (0, 0), (1, 1), False, (0, 0), 4),
        shape_sample(T((2, 4, 2, 3)), T((4, 2, 1, 2)), T((4,)), (1, 1), (0, 0), (1, 1), True, (0, 0), 2),
        shape_sample(T((2, 3, 4)), T((3, 2, 2)), T((2,)), (2,), (1,), (1,), True, (1,), 1),
    ),
    "aten::avg_pool2d.out": (
        shape_sample(T((3, 2, 3)), *_POOL, False, True, None),
        shape_sample(_X, (2, 2), (), (0, 0), True, False, None),
    ),
    "aten::max_pool2d_with_indices.out": (shape_sample(T((3, 2, 3)), *_POOL, (1, 1), False),),
    "aten::_adaptive_avg_pool2d.out": (shape_sample(T((3, 2, 3)), (1, 2)),),
    "aten::_native_batch_norm_legit_no_training.out": tuple(
        shape_sample(T(shape), T((4,)), T((4,)), T((4,)), T((4,)), 0.1, 1e-5)
        for shape in ((2, 4), (2, 4, 3), (2, 4, 1, 2, 2))
    ),
    "aten::native_group_norm.out": (
        shape_sample(T((2, 4, 3)), T((4,)), T((4,)), 2, 4, 3, 2, 1e-5),
        shape_sample(T((2, 4)), T((4,)), T((4,)), 2, 4, 1, 2, 1e-5),
        shape_sample(T((2, 4, 1, 2, 2)), T((4,)), T((4,)), 2, 4, 4, 2, 1e-5),
    ),
    "aten::native_layer_norm.out": (
        shape_sample(T((4,)), (4,), T((4,)), T((4,)), 1e-5),
        shape_sample(T((2, 3, 4)), (3, 4), T((3, 4)), T((3, 4)), 1e-5),
        shape_sample(T((2, 3, 2, 4)), (4,), T((4,)), None, 1e-5),
    ),
    "aten::linear.out": tuple(shape_sample(T(shape), T((4, 3)), T((4,))) for shape in ((3,), (2, 2, 3), (2, 1, 2, 3))),
    "aten::addmm.out": tuple(
        shape_sample(T(shape), T((2, 3)), T((3, 4)), 1, 1) for shape in ((), (1,), (2, 1), (1, 4))
    ),
    "aten::embedding.out": tuple(
        shape_sample(T((3, 4)), T(s, "index3"), -1, False, False) for s in ((), (2,), (2, 1, 3))
    ),
    "aten::mean.out": (
        shape_sample(_X, (2, 3), True, None),
        shape_sample(_X, (-1, -2), False, None),
        shape_sample(_X, None, False, None),
        shape_sample(T((2, 3, 2)), (-1,), True, None),
    ),
    "aten::sum.IntList_out": (
        shape_sample(_X, (2, 3), True, None),
        shape_sample(_X, (-1, -2), False, None),
        shape_sample(_X, None, False, None),
        shape_sample(_X, (), False, None),
        shape_sample(T((2, 3, 2)), (-1,), True, None),
    ),
    "aten::amax.out": (
        shape_sample(_X, (2, 3), True),
        shape_sample(_X, (), False),
        shape_sample(T((2, 3, 2)), (-1,), True),
    ),
    "aten::any.dims_out": (shape_sample(_SPARSE, None, False), shape_sample(_SPARSE, (2, 3), False)),
    "aten::var.correction_out": (shape_sample(_X, None, 1, False), shape_sample(_X, (2, 3), 0, True)),
    "aten::_softmax.out": (
        shape_sample(T((4,)), 0, False),
        shape_sample(T((2, 3, 4)), -1, False),
        shape_sample(T(()), 0, False),
    ),
    "aten::_log_softmax.out": (shape_sample(T((4,)), 0, False), shape_sample(T((2, 3, 4)), -1, False)),
    "aten::argmax.out": (shape_sample(T((4,)), 0, False), shape_sample(T((4,)), None, False)),
    "aten::topk.values": (shape_sample(T((4,)), 2, -1, True, True), shape_sample(T((2, 4)), 2, -1, True, True)),
    "aten::cat.out": (
        shape_sample((T((2,)), T((3,))), 0),
        shape_sample((_X, T((0,))), 1),
        shape_sample((T((2, 1, 2, 1, 2)),) * 2, 4),
    ),
    "aten::stack.out": (shape_sample((T(()), T(())), 0),),
    "aten::cumsum.out": (shape_sample(T((4,)), 0, None),),
    "aten::permute_copy.out": (shape_sample(T((2, 1, 3, 1, 2)), (4, 0, 3, 1, 2)), shape_sample(T((2, 3)), (1, 0))),
    "aten::t_copy.out": (shape_sample(T((4,))),),
    "aten::expand_copy.out": (
        shape_sample(T((3, 1)), (2, 3, 4), False),
        shape_sample(T((2, 1)), (-1, 4), False),
        shape_sample(T(()), (3,), False),
    ),
    "aten::repeat.out": (shape_sample(T((3, 1)), (2, 1, 2)),),
    "aten::select_copy.int_out": (shape_sample(T((4,)), 0, -1),),
    "aten::slice_copy.Tensor_out": (shape_sample(T((4,)), 0, -2, 9223372036854775807, 1),),
    "aten::gather.out": (
        shape_sample(T((2, 3)), 1, T((2, 2), "index3"), False),
        shape_sample(T((4,)), 0, T((2,), "index3"), False),
    ),
    "aten::index_select.out": (shape_sample(T((4,)), 0, T((2,), "index3")),),
    "aten::scatter.src_out": (shape_sample(T((2, 3)), 1, T((2, 2), "index2"), T((2, 3))),),
    "aten::pixel_shuffle.out": (shape_sample(T((4, 2, 3)), 2), shape_sample(T((1, 2, 4, 2, 3)), 2)),
    "aten::upsample_bilinear2d.vec_out": (shape_sample(_X, (4, 6), True, None),),
    "aten::glu.out": (shape_sample(T((2, 4)), -1),),
    "aten::tril.out": (shape_sample(T((3, 3)), 0), shape_sample(T((2, 3, 3)), -1)),
    "aten::full.out": (shape_sample((), 1.0), shape_sample((2, 1, 2, 1, 2), 1.0)),
    "aten::clamp.Tensor_out": (shape_sample(_X, T(()), T(())),),
    "aten::copy_": tuple(shape_sample(_X, b, False) for b in _BROADCAST),
    "aten::copy.out": tuple(shape_sample(_X, b, False) for b in _BROADCAST),
    "aten::index_put_": (shape_sample(T((4,)), (index((2,), 3),), T((2,)), False),),
    "aten::constant_pad_nd.out": (shape_sample(T((4,)), (1, 1), 0.0), shape_sample(T((2, 3)), (1, 0, 0, 1), 0.0)),
    "aten::_cdist_forward.out": (shape_sample(T((2, 2, 3)), T((2, 4, 3)), 2.0, None),),
    "aten::masked_fill.Scalar_out": (
        shape_sample(_X, T((1, 1, 2, 3), "mask"), 0.0),
        shape_sample(_X, T((), "mask"), 0.0),
    ),
    "aten::bmm.out": (shape_sample(T((1, 1, 3)), T((1, 3, 1))),),
}
