# RUN: python %s 2>&1 | filecheck %s
# ruff: noqa: E501 (messages stand here as they are printed)
"""Programs that cannot compile, and what a user reads: what is wrong, where, and what to change."""

import torch
from programs_support import show
from torch import nn
from torch.export import Dim

X = torch.ones(2, 3)


class Plain(nn.Module):
    """What compiles, unless the options are wrong."""

    def forward(self, x):
        return x.sin().cumsum(0)


@torch.library.custom_op("errors::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator without an out variant."""
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


# CHECK-LABEL: === MissingBound
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0416]: dim 'rows', which is dim 0 of input 'x', has no upper bound: the size 'rows' of %x in method 'forward' cannot be planned
# CHECK-NEXT: return x * 2 + 1
# CHECK-NEXT: note: in pass 'to-out-variant'
# CHECK-NEXT: help: export with rows = torch.export.Dim("rows", max=1024) in dynamic_shapes={"x": {0: rows}}
class MissingBound(nn.Module):
    def forward(self, x):
        return x * 2 + 1

    example = (X,)
    export = {"dynamic_shapes": ({0: Dim("rows", min=1)},)}


# CHECK-LABEL: === SizeFromItem
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0416]: dim 'u0' has no upper bound: the size 'u0' of %zeros in method 'forward' cannot be planned
# CHECK-NEXT: return torch.zeros(size) + 1
# CHECK-NEXT: note: in pass 'to-out-variant'
# CHECK-NEXT: help: the size comes from data; in the model, where it is first known and before it is used, say how large it gets: torch._check(size <= 1024)
class SizeFromItem(nn.Module):
    def forward(self, x, n):
        size = n.item()
        torch._check(size >= 1)
        return torch.zeros(size) + 1

    example = (X, torch.tensor(3))


# CHECK-LABEL: === TwoMissingBounds
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0416]: dim 'rows', which is dim 0 of input 'x', has no upper bound: the size 'rows' of %x in method 'forward' cannot be planned
# CHECK-NEXT: return x.relu(), y.sum(0)
# CHECK-NEXT: note: in pass 'to-out-variant'
# CHECK-NEXT: help: export with rows = torch.export.Dim("rows", max=1024) in dynamic_shapes={"x": {0: rows}}
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0416]: dim 'columns', which is dim 1 of input 'y', has no upper bound: the size 'columns' of %y in method 'forward' cannot be planned
# CHECK-NEXT: return x.relu(), y.sum(0)
# CHECK-NEXT: note: in pass 'to-out-variant'
# CHECK-NEXT: help: export with columns = torch.export.Dim("columns", max=1024) in dynamic_shapes={"y": {1: columns}}
class TwoMissingBounds(nn.Module):
    def forward(self, x, y):
        return x.relu(), y.sum(0)

    example = (X, torch.ones(4, 5))
    export = {"dynamic_shapes": ({0: Dim("rows", min=1)}, {1: Dim("columns", min=1)})}


# CHECK-LABEL: === KernelElsewhere
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0410]: 'aten.lgamma.default' is not core ATen
# CHECK-NEXT: return torch.lgamma(x)
# CHECK-NEXT: note: in pass 'verify-core-aten'
# CHECK-NEXT: help: target 'etir' has a kernel for it; or rewrite the model without it
class KernelElsewhere(nn.Module):
    def forward(self, x):
        return torch.lgamma(x)

    example = (X,)


# CHECK-LABEL: === NoDecomposition
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0410]: 'aten.poisson.default' is not core ATen
# CHECK-NEXT: return torch.poisson(x)
# CHECK-NEXT: note: in pass 'verify-core-aten'
# CHECK-NEXT: help: rewrite the model without it, decompose it before export, or keep it (keep=...) if the target has a kernel
class NoDecomposition(nn.Module):
    def forward(self, x):
        return torch.poisson(x)

    example = (X,)


# CHECK-LABEL: === CustomWithoutOut
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0415]: 'edge.errors.twice.default': there is no out variant
# CHECK-NEXT: return twice(x) + 1
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: register errors::twice.out with the same arguments and 'Tensor(a!) out', or decompose the operator
class CustomWithoutOut(nn.Module):
    def forward(self, x):
        return twice(x) + 1

    example = (X,)


# CHECK-LABEL: === DtypeWithoutKernel
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0604]: 'edge.dim_order_ops._to_dim_order_copy.default': kernel 'dim_order_ops::_to_dim_order_copy.out' of executorch 1.5.1: unsupported dtypes: 'out' is FLOAT8E4M3FNUZ, must be one of BYTE, CHAR, SHORT, INT, LONG, FLOAT, DOUBLE, HALF, BOOL, BFLOAT16
# CHECK-NEXT: return x.to(torch.float8_e4m3fnuz)
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: Insert the cast or copy that the message suggests, or decompose the operator.
class DtypeWithoutKernel(nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fnuz)

    example = (X,)


# CHECK-LABEL: === ComplexLeft
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0604]: 'edge.aten.acos.default': kernel 'aten::acos.out' of executorch 1.5.1: unsupported dtypes: 'self' is COMPLEXFLOAT, must be one of BYTE, CHAR, SHORT, INT, LONG, FLOAT, DOUBLE, HALF, BOOL, BFLOAT16; 'out' is COMPLEXFLOAT, must be one of FLOAT, DOUBLE, HALF, BFLOAT16
# CHECK-NEXT: return torch.fft.fft(x).acos()
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: target 'etir' has a kernel that takes the call; or decompose the operator
class ComplexLeft(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).acos()

    example = (X,)


# CHECK-LABEL: === SeveralProblems
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0410]: 'aten.poisson.default' is not core ATen
# CHECK-NEXT: values = torch.poisson(x)
# CHECK-NEXT: note: in pass 'verify-core-aten'
# CHECK-NEXT: help: rewrite the model without it, decompose it before export, or keep it (keep=...) if the target has a kernel
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0415]: 'edge.errors.twice.default': there is no out variant
# CHECK-NEXT: other = twice(x)
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: register errors::twice.out with the same arguments and 'Tensor(a!) out', or decompose the operator
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0604]: 'edge.dim_order_ops._to_dim_order_copy.default': kernel 'dim_order_ops::_to_dim_order_copy.out' of executorch 1.5.1: unsupported dtypes: 'out' is FLOAT8E4M3FNUZ, must be one of BYTE, CHAR, SHORT, INT, LONG, FLOAT, DOUBLE, HALF, BOOL, BFLOAT16
# CHECK-NEXT: wide = y.to(torch.float8_e4m3fnuz)
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: Insert the cast or copy that the message suggests, or decompose the operator.
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0416]: dim 'rows', which is dim 0 of input 'y', has no upper bound: the size 'rows' of %y in method 'forward' cannot be planned
# CHECK-NEXT: wide = y.to(torch.float8_e4m3fnuz)
# CHECK-NEXT: note: in pass 'to-out-variant'
# CHECK-NEXT: help: export with rows = torch.export.Dim("rows", max=1024) in dynamic_shapes={"y": {0: rows}}
class SeveralProblems(nn.Module):
    def forward(self, x, y):
        values = torch.poisson(x)
        other = twice(x)
        wide = y.to(torch.float8_e4m3fnuz)
        return values, other, wide, y + 1

    example = (torch.ones(3, 3), X)
    export = {"dynamic_shapes": (None, {0: Dim("rows", min=1)})}


# CHECK-LABEL: === OverlappingWrite
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0413]: 'aten.add_.Tensor' changes a tensor through 'aten.expand.default': several of its elements are one element of the expanded tensor
# CHECK-NEXT: return torch.ops.aten.add_.Tensor(y, 1)
# CHECK-NEXT: note: in pass 'functionalize'
# CHECK-NEXT: help: write it without overlapping views, or clone the tensor before changing it
class OverlappingWrite(nn.Module):
    def forward(self, x):
        y = x[:1].clone().expand(4, 3)
        return torch.ops.aten.add_.Tensor(y, 1)

    example = (X,)


# CHECK-LABEL: === OverlappingWriteAndMore
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0413]: 'aten.add_.Tensor' changes a tensor through 'aten.expand.default': several of its elements are one element of the expanded tensor
# CHECK-NEXT: torch.ops.aten.add_.Tensor(y, 1)
# CHECK-NEXT: note: in pass 'functionalize'
# CHECK-NEXT: help: write it without overlapping views, or clone the tensor before changing it
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0415]: 'edge.errors.twice.default': there is no out variant
# CHECK-NEXT: return y + 1, twice(z)
# CHECK-NEXT: note: in pass 'verify-link'
# CHECK-NEXT: help: register errors::twice.out with the same arguments and 'Tensor(a!) out', or decompose the operator
# CHECK-NEXT: error[E0416]: dim 'rows', which is dim 0 of input 'x' and dim 0 of input 'z', has no upper bound: the size 'rows' of %x in method 'forward' cannot be planned
class OverlappingWriteAndMore(nn.Module):
    def forward(self, x, z):
        y = x[:1].clone().expand(4, 3)
        torch.ops.aten.add_.Tensor(y, 1)
        z = z.clone()
        z.mul_(2)
        return y + 1, twice(z)

    example = (X, X)
    export = {"dynamic_shapes": (None, {0: Dim("rows", min=1)})}


# CHECK-LABEL: === Resized
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0413]: 'aten.resize_.default' gives a tensor more elements than its storage has, or it is not known how many
# CHECK-NEXT: y.resize_(5, 3)
# CHECK-NEXT: note: in pass 'functionalize'
# CHECK-NEXT: help: make a new tensor instead: new_empty, and copy what it is to hold
class Resized(nn.Module):
    def forward(self, x):
        y = x * 2
        y.resize_(5, 3)
        return y

    example = (torch.ones(3, 4),)


# CHECK-LABEL: === HigherOrder
# CHECK-NEXT: error[E0410]: method 'forward' has a transform of torch.func (vmap, jvp, grad), which torch cannot carry out in an exported program: {{.*}}
# CHECK-NEXT: help: write what it computes out in the model
class HigherOrder(nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda a: (a * a).tanh().sum())(x)

    example = (X,)


# CHECK-LABEL: === SparseWeight
# CHECK-NEXT: error[E0404]: 'table' is a Tensor with layout torch.sparse_coo
# CHECK-NEXT: help: use dense CPU tensors: model.cpu(), tensor.to_dense(); for a tensor subclass that operators take whole, call program.run_decompositions({}) first
class SparseWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.eye(3).to_sparse())

    def forward(self, x):
        return x @ self.table.to_dense()

    example = (X,)


# CHECK-LABEL: === ResizedInput
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0413]: 'aten.t_.default' changes the sizes of an input of the method
# CHECK-NEXT: return x.t_() + 1
# CHECK-NEXT: note: in pass 'functionalize'
# CHECK-NEXT: help: make another tensor: t instead of t_
class ResizedInput(nn.Module):
    def forward(self, x):
        return x.t_() + 1

    example = (torch.ones(3, 3),)


# CHECK-LABEL: === NotExported
# CHECK-NEXT: error[E0402]: expected an ExportedProgram or a dict of them by method name, got NotExported
# CHECK-NEXT: help: pass what torch.export.export(model, args) returns, or a dict of them by method name
class NotExported(nn.Module):
    example = None


# CHECK-LABEL: === UnknownTarget
# CHECK-NEXT: error[E0601]: unknown target 'microwave'; available are executorch, etir
# CHECK-NEXT: help: Use one of the targets that the message lists.
class UnknownTarget(Plain):
    example = (X,)
    options = {"target": "microwave"}


# CHECK-LABEL: === UnknownDelegate
# CHECK-NEXT: error[E1101]: no backend named 'gpu' is installed; available: xnnpack, reference, native, and partitioners of executorch as executorch:NAME
# CHECK-NEXT: help: the message lists the installed backends; leave `delegates` empty to run on the target's kernels
class UnknownDelegate(Plain):
    example = (X,)
    options = {"delegates": ["gpu"]}


# CHECK-LABEL: === DelegateMustTakeAll
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E1104]: no delegate claims 'aten.cumsum.default', and no fallback is allowed
# CHECK-NEXT: return x.sin().cumsum(0)
# CHECK-NEXT: note: xnnpack rejects 1: xnnpack has no pattern for this operator
# CHECK-NEXT: note: in pass 'verify-fallback'
# CHECK-NEXT: help: the report says why each operator was rejected (--report); allow a fallback to run them on the target's kernels
class DelegateMustTakeAll(Plain):
    example = (X,)
    options = {"delegates": ["xnnpack"], "fallback": "refuse"}


# CHECK-LABEL: === ConstantMethodOfWrongKind
# CHECK-NEXT: error[E0403]: constant method 'size' returns a object, which no .pte can hold
# CHECK-NEXT: help: return tensors, numbers, strings or None, nested in tuples, lists and dicts
class ConstantMethodOfWrongKind(Plain):
    example = (X,)
    options = {"constant_methods": {"size": object()}}


# CHECK-LABEL: === UnknownOptimizer
# CHECK-NEXT: error[E0502]: there is no pass 'newton-step'
# CHECK-NEXT: help: et-opt --list-passes shows every pass and its options
class UnknownOptimizer(Plain):
    example = (X,)
    options = {"optimizer": "newton"}


# CHECK-LABEL: === SameOperatorTwice
# CHECK-NEXT: programs.py:{{[0-9]+}}: error[E0410]: 'aten.poisson.default' is not core ATen (2 uses, this is the first)
# CHECK-NEXT: return torch.poisson(x), torch.poisson(x + 1)
# CHECK-NEXT: note: in pass 'verify-core-aten'
# CHECK-NEXT: help: rewrite the model without it, decompose it before export, or keep it (keep=...) if the target has a kernel
class SameOperatorTwice(nn.Module):
    def forward(self, x):
        return torch.poisson(x), torch.poisson(x + 1)

    example = (torch.ones(3, 3),)


if __name__ == "__main__":
    show(globals())
