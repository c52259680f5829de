"""What is said of a run that ExecuTorch's runtime ends; ``test/interop`` runs programs on it."""

from __future__ import annotations

import pytest

from etir.devtools.stock_runtime import _reason

KERNEL = """\
W1126 torch/utils/_pytree.py:630] something else
[op_native_batch_norm.cpp:73] Check failed (is_contiguous_dim_order(in.dim_order().data())):
[method.cpp:1483] KernelCall failed at instruction 0:2 in operator aten::_native_batch_norm.out: 0x12
[method.cpp:1493] arg 0 with type id 1
RuntimeError: Failed to execute method forward, error: 0x12
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            KERNEL,
            "KernelCall failed at instruction 0:2 in operator aten::_native_batch_norm.out: 0x12, "
            "check failed (is_contiguous_dim_order(in.dim_order().data()))",
        ),
        (KERNEL.replace("Check", "Other"), "KernelCall failed at instruction 0:2 in operator "),
        ("Traceback\nRuntimeError: loading method forward failed with error 0x14\n", "RuntimeError: loading method"),
        ("[method.cpp:3] assert failed (full): too small\nAborted\n", "[method.cpp:3] assert failed (full): too small"),
        ("", ""),
    ],
)
def test_the_reason_names_the_kernel_and_its_check(text: str, reason: str) -> None:
    assert _reason(text).startswith(reason)
