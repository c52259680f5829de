"""Every level on the way of a function runs as text, in the interpreter, and gives what eager gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from etir.tools import et_opt, et_run, et_translate  # noqa: E402

from etir_testing.native.programs import CASES, built, outputs  # noqa: E402

LEVELS = (
    ("group", "native-group,verify-native"),
    ("tile", "native-to-tile,verify-tile"),
    (
        "rewritten",
        "tile-forward,tile-scale,tile-few-rows,tile-fuse,tile-attention,tile-columns,tile-sink,tile-inside,tile-pieces,"
        "tile-order,verify-tile",
    ),
    ("scheduled", "tile-plan,tile-schedule{cpu=x86-64-v4},verify-tile{cpu=x86-64-v4}"),
)


class Ramp(nn.Module):
    """Has a constant that is computed, which no weight of the module is."""

    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.product(x) + torch.arange(8).to(torch.float32).square(), -1)


def check(module: nn.Module, inputs: tuple[torch.Tensor, ...], folder: Path) -> str:
    """The text of the last level, after each has been run."""
    wanted = outputs(module, inputs)
    torch.export.save(torch.export.export(module, inputs), folder / "m.pt2")
    np.savez(folder / "x.npz", **{f"arr_{i}": x.numpy() for i, x in enumerate(inputs)})
    text = folder / "m.mlir"
    assert et_translate.main(["--import-pt2", str(folder / "m.pt2"), "-o", str(text)]) == 0
    way = ["--compile-to", "backend", "--target", "etir", "--delegate", "native"]
    assert et_opt.main([str(text), *way, "-o", str(text)]) == 0
    for level, passes in LEVELS:
        assert et_opt.main([str(text), "-p", passes, "-o", str(text)]) == 0
        assert ("tile." if level != "group" else "native.group") in text.read_text()
        assert et_run.main([str(text), "--inputs", str(folder / "x.npz"), "--outputs", str(folder / "y.npz")]) == 0
        with np.load(folder / "y.npz") as found:
            assert len(found.files) == len(wanted)
            for key, want in zip(found.files, wanted, strict=True):
                error = np.abs(found[key] - want.numpy()).max()
                assert error <= 1e-5 * np.abs(want.numpy()).max(), (level, key)
    return text.read_text()


@pytest.mark.parametrize("name", CASES)
def test_levels_run(name: str, tmp_path: Path) -> None:
    module, inputs, _ = built(name)
    check(module, tuple(inputs), tmp_path)


def test_constants_of_functions_are_weights_of_the_module(tmp_path: Path) -> None:
    torch.manual_seed(7)
    text = check(Ramp().eval(), (torch.randn(3, 6),), tmp_path)
    assert 'tile.weight "forward_native_0_constant_0"' in text and "et.weight @forward_native_0_constant_0" in text
