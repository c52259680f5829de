"""``gather`` by constant indices: elements of rows, as scores by relative positions are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.gather import GatherOp  # noqa: E402
from etir.backends.native.tile import MapOp  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
OPERATOR = "aten.gather.default"


class Gathered(nn.Module):
    """Of a product, elements by their numbers, with what follows; numbers that stand in the text, and more of them."""

    def __init__(self, columns: int, count: int) -> None:
        super().__init__()
        self.linear = nn.Linear(8, columns)
        self.register_buffer("at", torch.randint(0, columns, (2, 3, count)))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.linear(x)
        return torch.relu(rows.gather(-1, self.at) * 2.0 + y), rows.gather(2, self.at)


def exported(columns: int, count: int) -> tuple[nn.Module, tuple[Tensor, ...], torch.export.ExportedProgram]:
    torch.manual_seed(0)
    model, inputs = Gathered(columns, count).eval(), (torch.randn(2, 3, 8), torch.randn(2, 3, count))
    return model, inputs, torch.export.export(model, inputs)


@pytest.mark.parametrize("name", here())
@pytest.mark.parametrize(("columns", "count"), [(5, 2), (16, 12), (33, 50), (1, 16), (200, 1)])
def test_results_are_eager_s(name: str, columns: int, count: int) -> None:
    """By code on one thread and on two, and by the kernels in its place; the first one is done with what follows."""
    model, inputs, program = exported(columns, count)
    made = etir.compile(program, target="etir", delegates=[f"native{{cpus={name} arena=free}}"])
    assert made.warnings == () and made.delegation.backends[0].claimed[OPERATOR] == 2
    with torch.no_grad():
        wanted = model(*inputs)
    loaded = [etir.runtime.load(made, native="trusted", threads=n) for n in (1, 2)]
    for load in (*loaded, etir.runtime.load(made)):
        for got, want in zip(load.forward(*inputs), wanted, strict=True):
            assert (got - want).abs().max() <= 1e-6 * max(1.0, want.abs().max())


def test_one_operation_with_what_follows() -> None:
    """No map is left beside two gathers."""
    (func,) = functions_of(exported(16, 12)[2])
    ops = [*func.func.walk()]
    assert sum(isinstance(op, GatherOp) for op in ops) == 2 and not any(isinstance(op, MapOp) for op in ops)


@pytest.mark.parametrize(
    ("shape", "dim", "rows", "why"),
    [((4, 6), 0, (4, 6), "another dim"), ((4, 6), 1, (3, 2), "a part of the rows"), ((4, 6), 1, None, "run time")],
)
def test_what_is_left_to_kernels(shape: tuple[int, ...], dim: int, rows: tuple[int, ...] | None, why: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(shape[1], shape[1])
            self.register_buffer("at", torch.zeros(rows or (1,), dtype=torch.int64))

        def forward(self, x: Tensor, at: Tensor) -> Tensor:
            return torch.relu(self.linear(x).gather(dim, self.at if rows else at))

    inputs = (torch.randn(shape), torch.zeros(shape, dtype=torch.int64))
    made = etir.compile(torch.export.export(Model().eval(), inputs), target="etir", delegates=["native{cpus=x86-64}"])
    (backend,) = made.delegation.backends
    assert any(OPERATOR in r.op and why in r.reason for r in backend.rejected)


class Disentangled(nn.Module):
    """Attention as in DeBERTa: scores of content, and of relative positions by either side of a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.to_key, self.to_query = (nn.Parameter(torch.randn(8, 8, 16)) for _ in range(2))
        at = (torch.arange(12)[:, None] - torch.arange(12)[None] + 8).clamp(0, 15)
        self.register_buffer("at", at.expand(8, 12, 12).contiguous())

    def heads(self, x: Tensor) -> Tensor:
        return x.view(2, 12, 4, 8).permute(0, 2, 1, 3).reshape(8, 12, 8)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        query, key, value = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.bmm(query, key.transpose(1, 2) / 4.9)
        of_query = torch.bmm(query, self.to_key).gather(-1, self.at) / 4.9
        of_key = torch.bmm(key, self.to_query).gather(-1, self.at).transpose(1, 2) / 4.9
        scores = (scores + (of_query + of_key)).view(2, 4, 12, 12).masked_fill(hidden, -1e9)
        mixed = torch.bmm(torch.softmax(scores, -1).view(8, 12, 12), value)
        return mixed.view(2, 4, 12, 8).permute(0, 2, 1, 3).reshape(2, 12, 32) + x


def test_attention_by_relative_positions_takes_no_more_memory() -> None:
    """It is one delegate. In the program that its kernels run, the product of the scores comes before those by relative
    positions, although it is one group with the sum after them: queries and keys have more bytes than it.
    """
    torch.manual_seed(0)
    inputs = (torch.randn(2, 12, 32), torch.rand(2, 1, 12, 12) < 0.2)
    model = Disentangled().eval()
    program = torch.export.export(model, inputs)
    plain = etir.compile(program, target="etir")
    made = etir.compile(torch.export.export(model, inputs), target="etir", delegates=["native{cpus=x86-64}"])
    assert len(made.delegation.backends[0].partitions) == 1
    assert bytes_of(made) <= bytes_of(plain)
    (got,) = etir.runtime.load(made, native="trusted").forward(*inputs)
    assert (got - model(*inputs)).abs().max() <= 1e-5


class Repeated(nn.Module):
    """Scores of keys by relative positions as in ProphetNet: numbers of 32 bits, repeated for all streams and heads as
    rows of a matrix, and cast. As constants of 64 bits they would be too large a part of the file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 8 * 4)
        self.register_buffer("at", torch.randint(0, 8, (48, 64), dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        rows = self.linear(x).view(2, 48, 8, 4).permute(0, 1, 3, 2).reshape(-1, 8)
        at = self.at.unsqueeze(0).repeat(2, 4, 1).view(-1, 64).long()
        return torch.relu(rows.gather(1, at).view(2, 4, 48, 64) - 0.1)


def test_numbers_that_are_repeated() -> None:
    """They are constants of one head that are expanded, so that all of it is one delegate, and kernels that read them
    need no more memory than before.
    """
    torch.manual_seed(0)
    model, x = Repeated().eval(), torch.randn(2, 48, 32)
    made = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native{cpus=x86-64}"])
    assert made.delegation.backends[0].claimed[OPERATOR] == 1 and len(made.delegation.backends[0].partitions) == 1
    assert bytes_of(made) <= bytes_of(etir.compile(torch.export.export(model, (x,)), target="etir"))
    for policy in ("trusted", "refuse"):
        (got,) = etir.runtime.load(made, native=policy).forward(x)
        with torch.no_grad():
            assert (got - model(x)).abs().max() <= 1e-6


class Taken(nn.Module):
    """A table that a layer makes, or a weight, of which many indices take elements, as of relative positions."""

    def __init__(self, heads: int, count: int, kind: str) -> None:
        super().__init__()
        self.linear, self.kind = nn.Linear(8, heads), kind
        self.table = nn.Parameter(torch.randn(30, heads))
        self.register_buffer("at", torch.randint(0, 30, (count * count,)))
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        made = self.linear(x)
        if self.kind == "row":
            return made.T[:, self.at]
        if self.kind == "select":
            return torch.relu(made.index_select(0, self.at))
        if self.kind == "square":
            return made.sum() + torch.relu(made[self.at.view(self.count, self.count)]).permute(2, 0, 1)
        biases = (self.table * made.sum())[self.at].view(self.count, self.count, -1).permute(2, 0, 1)
        return torch.softmax(biases + 1.0, -1)


@pytest.mark.parametrize("kind", ["row", "select", "square", "biases"])
@pytest.mark.parametrize("name", here())
def test_many_indices(name: str, kind: str) -> None:
    """They are a weight, by which elements are gathered: from the first or the last dim, to where the result is."""
    torch.manual_seed(0)
    model, inputs = Taken(3, 130, kind).eval(), (torch.randn(30, 8),)
    program = torch.export.export(model, inputs)
    made = etir.compile(program, target="etir", delegates=[f"native{{cpus={name} arena=free}}"])
    assert made.warnings == () and made.delegation.backends[0].rejected == []
    (func,) = functions_of(program)
    assert sum(isinstance(op, GatherOp) for op in func.func.walk()) == 1
    with torch.no_grad():
        wanted = model(*inputs)
    loaded = [etir.runtime.load(made, native="trusted", threads=n) for n in (1, 2)]
    for load in (*loaded, etir.runtime.load(made, native="refuse")):
        (got,) = load.forward(*inputs)
        assert (torch.as_tensor(got) - wanted).abs().max() <= 1e-6 * max(1.0, wanted.abs().max())
