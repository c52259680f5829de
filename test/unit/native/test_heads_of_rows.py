"""Heads of attention that are multiplied on the way to rows of all heads: they lie in those rows, over the queries."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from torch import nn  # noqa: E402
from torch.nn import functional as f  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.loop import LoopOp  # noqa: E402
from etir.backends.native.tile import BufferOp, MapOp, strides_of  # noqa: E402
from etir.backends.native.users import base_of  # noqa: E402

from etir_testing.models.zoo_entry import declare_torchvision  # noqa: E402
from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WIDE, HEADS = 128, 4


class Layer(nn.Module):
    """A layer of BERT with a mask: rows of which no key is there become 0, as transformers does it."""

    def __init__(self) -> None:
        super().__init__()
        self.of = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(4))
        self.up, self.down, self.norm = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, WIDE), nn.LayerNorm(WIDE)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        b, n, _ = x.shape
        q, k, v = (one(x).view(b, n, HEADS, -1).transpose(1, 2) for one in self.of[:3])
        y = f.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = torch.where(mask.any(-1, keepdim=True), y, 0.0).transpose(1, 2).reshape(b, n, -1)
        x = self.norm(x + self.of[3](y))
        return self.norm(x + self.down(f.gelu(self.up(x))))


def planned(program: etir.Program) -> int:
    memory = program.report().methods[0].runtime
    return sum(memory.planned) + memory.temp


def layer() -> Layer:
    torch.manual_seed(5)
    return Layer().eval()


def given(batch: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    keep = torch.arange(rows).expand(batch, rows) < rows - torch.arange(batch)[:, None] - 2
    return torch.randn(batch, rows, WIDE), keep[:, None, None, :] & keep[:, None, :, None]


@pytest.mark.parametrize(("batch", "rows"), [(1, 64), (1, 150), (3, 33), (2, 32)])
def test_no_more_memory_than_the_kernels(batch: int, rows: int) -> None:
    """With blocks of rows that all are equal, and with some left; of sizes that are known, and that are not."""
    module, inputs = layer(), given(batch, rows)
    exported = torch.export.export(module, inputs)
    most = planned(etir.compile(exported, target="etir"))
    waiting = -(-batch * rows // 64) * 64  # which rows have a key: kernels make it before the code runs
    with torch.no_grad():
        wanted = module(*inputs)
    for cpu in here():
        program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={cpu}}}"])
        assert not program.warnings and planned(program) <= most + waiting, cpu
        found = []
        for threads in (1, 2):
            method = etir.runtime.load(program, native="trusted", threads=threads).forward
            found += [torch.as_tensor(method(*inputs)[0]).clone() for _ in range(2)]
        assert all(torch.equal(found[0], other) for other in found)
        assert (found[0] - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def exported_with_sizes() -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=3, max=160)
    return torch.export.export(layer(), given(1, 150), dynamic_shapes=({1: rows}, {2: rows, 3: rows}))


def test_sizes_that_change() -> None:
    """Rows that are known at run time only are written over queries, too."""
    module, exported = layer(), exported_with_sizes()
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert not program.warnings
    loaded = [etir.runtime.load(program, native="trusted", threads=threads).forward for threads in (1, 2)]
    for count in (150, 160, 3, 48, 49, 97):
        inputs = given(1, count)
        with torch.no_grad():
            wanted = module(*inputs)
        found = [torch.as_tensor(method(*inputs)[0]).clone() for method in loaded]
        assert torch.equal(*found)
        assert (found[0] - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_fewer_rows_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a small number of rows the loop over whole blocks, and what is in it, has nothing to do."""
    monkeypatch.setattr(sys.modules[__name__], "WIDE", 256)
    monkeypatch.setattr(sys.modules[__name__], "HEADS", 8)
    module, rows = layer(), torch.export.Dim("rows", min=3, max=64)
    exported = torch.export.export(module, given(1, 48), dynamic_shapes=({1: rows}, {2: rows, 3: rows}))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not program.warnings
    method = etir.runtime.load(program, native="trusted").forward
    for count in (64, 3, 20):
        inputs = given(1, count)
        with torch.no_grad():
            wanted = module(*inputs)
        assert (torch.as_tensor(method(*inputs)[0]) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


class Bert(nn.Module):
    """Two layers of BERT as transformers has it."""

    def __init__(self) -> None:
        super().__init__()
        declare_torchvision()
        import transformers

        config = transformers.BertConfig(
            vocab_size=200, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024
        )
        self.core = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.core(input_ids=tokens, attention_mask=mask).last_hidden_state


def test_a_mask_is_made_when_values_are_packed() -> None:
    """The two loops move together: what only the first one needs may come after what both need."""
    torch.manual_seed(6)
    module, rows = Bert().eval(), torch.export.Dim("rows", min=3, max=128)
    inputs = torch.randint(200, (1, 64)), torch.ones(1, 64, dtype=torch.int64)
    exported = torch.export.export(module, inputs, dynamic_shapes=({1: rows}, {1: rows}))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert planned(program) <= planned(etir.compile(exported, target="etir"))


@pytest.mark.parametrize("is_known", [True, False])
def test_the_map_writes_over_what_it_reads(is_known: bool) -> None:
    """Loops write rows of all heads into the memory of the queries that they read; one has the scores of the other."""
    exported = torch.export.export(layer(), given(1, 150)) if is_known else exported_with_sizes()
    (tiled,) = functions_of(exported)
    ops = [*tiled.func.body.block.ops]
    loops = [op for op in ops if isinstance(op, LoopOp)]
    assert len(loops) == 2
    assert len({base_of(value) for op in loops for value in op.locals}) == 2
    made = base_of(loops[0].outputs[0])
    (after,) = [op for op in ops if isinstance(op, MapOp) and made in [base_of(v) for v in op.inputs]]
    (read,) = [value for value in after.inputs if base_of(value) is made]
    assert strides_of(read.type)[1:] == strides_of(after.out.type)[1:]
    places = [base_of(value).owner for value in (loops[0].inputs[0], read, after.out)]
    buffers = [op for op in places if isinstance(op, BufferOp)]
    assert len(buffers) == 3 and len({op.at.value.data for op in buffers if op.at is not None}) == 1
