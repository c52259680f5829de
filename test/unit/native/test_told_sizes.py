"""Sizes of a view that its own tensors do not tell: rows of a product are as many as examples times words."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.images import here  # noqa: E402


class Rows(nn.Module):
    """Products of rows, as GPT-2 has them, after which there are examples and words again."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Parameter(torch.randn(16, 24) / 4), nn.Parameter(torch.randn(24, 16) / 5)
        self.bias, self.last = nn.Parameter(torch.randn(24)), nn.Parameter(torch.randn(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(self.bias, self.norm(x).reshape(-1, 16), self.up).view(*x.shape[:2], 24)
        y = torch.relu(y) * x.mean(-1, keepdim=True)
        return x + torch.addmm(self.last, y.reshape(-1, 24), self.down).view(x.shape)


def rows() -> tuple[nn.Module, torch.export.ExportedProgram]:
    torch.manual_seed(2)
    module = Rows().eval()
    examples, words = torch.export.Dim("examples", min=1, max=3), torch.export.Dim("words", min=1, max=9)
    return module, torch.export.export(module, (torch.randn(2, 5, 16),), dynamic_shapes=({0: examples, 1: words},))


def check(program: etir.Program, module: nn.Module) -> None:
    loaded = etir.runtime.load(program)
    for count in ((1, 1), (3, 9), (2, 1), (1, 9), (3, 4)):
        x = torch.randn(*count, 16)
        with torch.no_grad():
            wanted = module(x)
        assert (torch.as_tensor(loaded.forward(x)[0]) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_one_delegate_has_all_of_it() -> None:
    module, exported = rows()
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not program.warnings and program.delegation is not None
    (backend,) = program.delegation.backends
    assert len(backend.partitions) == 1 and not backend.rejected
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    check(program, module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [10, 12])
def test_what_no_tensor_of_a_partition_tells_is_left(number: int) -> None:
    """Operators between what tells a size and what is given it may be left to the kernels."""
    module, exported = rows()
    partition = {"leave": (f"forward_native:{number}",)}
    check(
        etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"], partition=partition), module
    )
