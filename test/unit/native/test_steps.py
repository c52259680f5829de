"""Events of native code: the runtime tells of as many steps as the compiler has, and each has its operation."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import relu6  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.devtools.profile.from_etdump import read_profile  # noqa: E402
from etir.devtools.profile.profile import Kind, Row  # noqa: E402
from etir.devtools.trace.read import Trace  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.query, self.value = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        q, v = (y.reshape(1, -1, 4, 8).transpose(1, 2) for y in (self.query(x), self.value(x)))
        return nn.functional.scaled_dot_product_attention(q, v, v).transpose(1, 2).reshape(1, -1, 32).relu()


class Images(nn.Module):
    """A residual block whose image in between leaves the cache, which goes by rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.wide = nn.Conv2d(16, 96, 1)
        self.each = nn.Conv2d(96, 96, 3, padding=1, groups=96)
        self.back = nn.Conv2d(96, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        return x + self.back(relu6(self.each(relu6(self.wide(x)))))


PROGRAMS = {"attention": (Attention, (1, 20, 32)), "images": (Images, (1, 3, 96, 96))}


def told(profile: etir.runtime.Profile) -> list[Row]:
    """What the delegate said of its inside."""
    assert profile.recorded is not None
    return [row for row in read_profile(profile.recorded.etdump).rows if row.kind is Kind.NODE]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_is_told_of(name: str, threads: int) -> None:
    """Once a run and in order; results are those of a run that nobody watches."""
    make, shape = PROGRAMS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    program = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native"], trace=True)
    assert isinstance(program.trace, Trace)
    (nodes,) = program.trace.delegates.values()
    loaded = etir.runtime.load(program, native="trusted", threads=threads)
    plain = [y.clone() for y in loaded.forward(x)]
    rows = told(loaded.forward.profile(x, repeat=2))
    for run in range(2):
        steps = [row.id for row in rows if row.run == run]
        assert steps == list(range(len(nodes)))
    assert torch.equal(loaded.forward(x)[0], plain[0])
    most = max(len(nodes.several("origins", step)) for step in range(len(nodes)))
    assert {"norm", "query"} <= set(nodes["path"]) if name == "attention" else most >= 5


def test_kernels_in_place_of_code_tell_nothing() -> None:
    """Their instructions would be taken for steps of the code."""
    model, x = Attention().eval(), torch.randn(1, 20, 32)
    program = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native"])
    assert not told(etir.runtime.load(program, native="refuse").forward.profile(x))
