"""Workspaces: native code and the kernels in its place compute in memory that the method plans."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.backends.native import cc, chain, compile, placing
from etir.backends.native.blob import read_blob
from etir.backends.native.frame import Frame
from etir.backends.native.image import Image
from etir.backends.native.workspace import Planned
from etir.backends.reference.lowered import PASSES
from etir.diagnostics import EtirError
from etir.dialects.et.payloads import DelegateOp
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.errors import E0703
from etir.passes.infra.pipeline import parse_pipeline
from etir.pipeline import stages
from etir.program import Program
from etir.runtime import RuntimeFailure

from etir_testing.exports import exported
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.native.blobs import blobs_of


class Net(nn.Module):
    """Convolutions whose first image is larger than what comes later, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.last = nn.Linear(8 * 64, 24)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(image.flatten(1)), image


class Apart(nn.Module):
    """Two delegates with an operator between them that stays with the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.logcumsumexp(torch.relu(self.first(x)), 0)) * 0.1


class Several(nn.Module):
    """Three delegates; what the first one makes for the third lives while the second one runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, 96), nn.Linear(96, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.tanh(self.first(x))
        middle = torch.sigmoid(self.second(torch.logcumsumexp(start, 0)))
        return self.third(torch.tanh(torch.logcumsumexp(middle, 0) + start[:, :64])) * 0.5


def planned(program: Program) -> int:
    """Bytes of planned and temporary memory."""
    memory = program.report().methods[0].runtime
    return sum(memory.planned) + memory.temp


def cases() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    return {
        "net": (Net().eval(), torch.randn(1, 3, 16, 16)),
        "apart": (Apart().eval(), torch.randn(16, 64)),
        "several": (Several().eval(), torch.randn(16, 64)),
    }


@pytest.mark.parametrize("name", ["net", "apart", "several"])
@pytest.mark.parametrize("options", [{}, {"plan_inputs": False}, {"plan_outputs": False}], ids=str)
def test_results(name: str, options: dict[str, bool]) -> None:
    """Code, kernels and the interpreter compute what eager does, run after run, wherever inputs and outputs are."""
    model, x = cases()[name]
    exported = torch.export.export(model, (x,))
    program = etir.compile(exported, target="etir", delegates=["native"], **options)
    native, kernels = (etir.runtime.load(program, native=policy) for policy in ("trusted", "refuse"))
    for seed in range(3):
        torch.manual_seed(seed)
        given = torch.randn_like(x)
        with torch.no_grad():
            wanted = [*torch.utils._pytree.tree_leaves(model(given))]
        for loaded in (native, kernels):
            for got, want in zip(loaded.forward(given), wanted, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)


def test_memory_is_the_methods() -> None:
    """One delegate in a method takes what the kernels do without it, and nothing apart from the plan."""
    layers = [nn.Linear(64, 192), nn.GELU(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 32)]
    exported = torch.export.export(nn.Sequential(*layers).eval(), (torch.randn(48, 64),))
    program = etir.compile(exported, target="etir", delegates=["native"])
    (blob,) = (read_blob(data) for data in blobs_of(program.buffer))
    assert 0 < blob.arena_bytes <= blob.workspace <= planned(program) < blob.workspace + 64
    assert planned(program) <= planned(etir.compile(exported, target="etir"))
    assert program.report().methods[0].runtime.temp == 0


@pytest.mark.parametrize("name", ["apart", "several"])
def test_workspaces_begin_at_one_byte(name: str) -> None:
    """Workspaces of several delegates lie over one another, and a tensor between two is in both: the method takes what
    the kernels do and, beside it, the operand of the operator between them or less.
    """
    model, x = cases()[name]
    exported = torch.export.export(model, (x,))
    program = etir.compile(exported, target="etir", delegates=["native"])
    workspaces = [read_blob(data).workspace for data in blobs_of(program.buffer)]
    assert len(workspaces) == {"apart": 2, "several": 3}[name]
    assert planned(program) < sum(workspaces)
    assert planned(program) <= planned(etir.compile(exported, target="etir")) + 4096


def test_equal_delegates_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of buffers are in the images and not in the C, which is the same for both layers."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)) for _ in range(2)]

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[1](torch.logcumsumexp(self.layers[0](x), 0))

    model, x = Twice().eval(), torch.randn(16, 64)
    compiled: list[str] = []
    real = cc.shared_object
    monkeypatch.setattr(cc, "shared_object", lambda text, *given: compiled.append(text) or real(text, *given))
    program = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native{cpus=x86-64}"])
    blobs = [read_blob(data) for data in blobs_of(program.buffer)]
    assert (len(blobs), len(compiled)) == (2, 1) and all(blob.arena_bytes for blob in blobs)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(etir.runtime.load(program).forward(x)[0]), model(x))


def test_an_image_without_its_table() -> None:
    for code in (b"\0" * 64, 2 * struct.pack("<5I", *placing.words(placing.HEAD + 1))):
        with pytest.raises(EtirError) as refused:
            placing.with_places(Image(code, 0), [64])
        assert refused.value.ids == ("E1163",)


def test_a_workspace_that_is_too_small() -> None:
    """A file whose tables ask for more than its method has planned is refused where it is loaded."""
    model, x = cases()["net"]
    program = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native"])
    (data,) = (bytes(blob) for blob in blobs_of(program.buffer))
    size = np.frombuffer(data[40:44], "<u4")[0]
    changed = bytearray(program.buffer)
    at = bytes(changed).index(data) + 40
    changed[at : at + 4] = np.array([size + 64], "<u4").tobytes()
    with pytest.raises(RuntimeFailure, match="at byte 40"):
        etir.runtime.load(bytes(changed), native="refuse")["forward"]


def test_places_that_cannot_be_cost_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs that other delegates have put at bytes in common are apart from the workspace: nothing is left to the
    kernels for that.
    """

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 32)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)) * y)

    given = torch.randn(16, 64), torch.randn(16, 96)
    monkeypatch.setattr(compile, "free_places", lambda *_: [0, 64, None])
    module = Two().eval()
    program = etir.compile(torch.export.export(module, given), target="etir", delegates=["native{cpus=x86-64}"])
    assert program.warnings == ()
    (blob,) = (read_blob(data) for data in blobs_of(program.buffer))
    assert len(blob.variants) == 1
    (got,) = etir.runtime.load(program).forward(*given)
    torch.testing.assert_close(torch.as_tensor(got), module(*given).detach(), rtol=1e-5, atol=1e-5)


def test_what_is_left_to_the_kernels_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that fails is a warning with its id, and a line of the partition in the report."""

    def fails(*_: object) -> None:
        raise E0703.error("two buffers are pinned to the same bytes")

    monkeypatch.setattr(compile, "plan_both", fails)
    model, x = cases()["net"]
    program = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native"])
    assert [warning.id.id for warning in program.warnings] == ["E0703"]
    assert program.delegation is not None
    (partition,) = program.delegation.backends[0].partitions
    assert partition.on_kernels == "E0703: two buffers are pinned to the same bytes"
    assert "    runs on the kernels: E0703: two buffers" in str(program.delegation)


class Transposed(nn.Module):
    """A step of attention over a cache, whose rows are the columns of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.out = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.register_buffer("keys", torch.randn(1, 2, 512, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = (layer(x).view(1, 1, 2, 16).transpose(1, 2) for layer in (self.query, self.key))
        self.keys[:, :, 5:6] = key
        weights = torch.softmax(query @ self.keys.transpose(2, 3), -1)
        return self.out((weights @ self.keys).transpose(1, 2).reshape(1, 1, 32))


def arenas() -> dict[str, tuple[nn.Module, torch.Tensor, float]]:
    """Programs, with the most that memory with code may be of what it is without."""
    torch.manual_seed(0)
    image, rows = torch.randn(2, 3, 32, 32), torch.randn(24, 32)
    pool, convolution = nn.MaxPool2d(2), nn.Conv2d(3, 32, 3, padding=1)
    norm = nn.BatchNorm2d(32, track_running_stats=False)
    after = nn.Conv2d(32, 8, 3, padding=1)
    up = nn.ConvTranspose2d(3, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1)
    return {
        "a step over a cache": (Transposed().eval(), torch.randn(1, 1, 32), 1.1),
        "pools without indices": (nn.Sequential(convolution, nn.ReLU(), pool).eval(), image, 1.0),
        "elementwise in place": (Elementwise(), torch.randn(64, 64), 1.0),
        "norms of channels": (nn.Sequential(convolution, norm, nn.ReLU(), after), image, 1.0),
        "transposed": (nn.Sequential(*up).eval(), image, 1.0),
        "each layer adds to what it is given": (Residual(), torch.randn(24, 32), 1.0),
        "added to scores once they are there": (Scores(), torch.randn(4, 40, 8), 1.0),
        "attention of several examples, by heads": (Heads(), torch.randn(2, 12, 32), 1.0),
        "a column of each of several matrices": (Column(), torch.randn(24, 32), 1.0),
        "a page to each row": (nn.Sequential(nn.Linear(32, 1024), nn.GELU(), nn.Linear(1024, 32)), rows, 1.0),
        "attention split over channels": (Split(), torch.randn(1, 8, 24, 24), 1.0),
        "each channel times what its mean says": (Squeezed(), torch.randn(1, 8, 96, 96), 1.0),
        "added branch by branch": (Branches().eval(), torch.randn(1, 8, 48, 48), 1.0),
        "apart, queries and keys of one product": (Turned(), torch.randn(1, 64, 32), 1.13),
        "at its part of what is joined": (Joined(), torch.randn(1, 16, 24, 24), 1.0),
    }


class Residual(nn.Module):
    """Layers whose results are written over their inputs, from the first one to the program's result."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(32, 128) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(128, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(torch.relu(up(x)))
        return x


class Scores(nn.Module):
    """Attention with a gate on what is added to its scores, which is made of them last."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values, self.gate = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.bias = nn.Parameter(torch.randn(4, 40, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added = torch.sigmoid(self.gate(x)) * self.bias
        scores = torch.baddbmm(added, x, self.keys(x).transpose(1, 2))
        return torch.softmax(scores, -1) @ self.values(x)


class Heads(nn.Module):
    """Attention whose heads lie side by side in each row, of two examples, beside what it is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.mask = nn.Parameter(torch.randn(2, 1, 12, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(x)
        query, keys, values = (part(x).view(2, 12, 4, 8).transpose(1, 2) for part in self.parts[:3])
        scores = torch.softmax(query @ keys.transpose(2, 3) / 8**0.5 + self.mask, -1)
        return x + self.parts[3]((scores @ values).transpose(1, 2).reshape(2, 12, 32))


class Column(nn.Module):
    """Products of many rows and one column each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(24, 96, 32)), nn.Parameter(torch.randn(24, 80, 96))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(torch.bmm(self.first, torch.tanh(x).unsqueeze(2)))
        return torch.bmm(self.second, y).squeeze(2)


class Joined(nn.Module):
    """A sum and an image that kernels make, joined before a product."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Conv2d(32, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = torch.logcumsumexp(x, 2), torch.logcumsumexp(x, 3)
        return self.last(torch.cat([torch.relu(x + one), two], 1))


class Squeezed(nn.Module):
    """A product of an image whose channels are scaled by their means, added to what the image was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(8, 64, 1), nn.Conv2d(64, 8, 1)
        self.scale, self.last = nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = torch.relu(x * 0.5)
        return self.down(x + self.last(y * torch.sigmoid(self.scale(y.mean((2, 3), keepdim=True)))))


class Split(nn.Module):
    """The halves of an image's channels, each times its own weights of channels, and added."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.weights = nn.Conv2d(8, 64, 1), nn.Conv2d(32, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = torch.relu(self.first(x)).view(1, 2, 32, 24, 24)
        weights = self.weights(parts.sum(1).mean((2, 3), keepdim=True))
        weights = torch.softmax(weights.view(1, 1, 2, 32).transpose(1, 2), 1).reshape(1, 2, 32, 1, 1)
        return (parts * weights).sum(1)


class Branches(nn.Module):
    """Layers that add up what several convolutions and a norm make of one image, as those of networks that are trained
    with more branches than they run with.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.ModuleList(nn.Conv2d(8, 8, 3, groups=8, padding=1) for _ in range(3))
        self.wide = nn.ModuleList(nn.Conv2d(8, 16, 1) for _ in range(3))
        self.kernels = nn.ModuleList(nn.Conv2d(16, 16, n, padding=(n[0] // 2, n[1] // 2)) for n in ((3, 1), (1, 3)))
        self.norm, self.last = nn.BatchNorm2d(8), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(x)
        x = torch.relu(self.norm(x) + self.deep[0](x) + self.deep[1](x) + self.deep[2](x))
        x = torch.relu(self.wide[0](x) + self.wide[1](x) + self.wide[2](x)) * 0.5
        return self.last(torch.relu(x + self.kernels[0](x) + self.kernels[1](x)))


class Turned(nn.Module):
    """Queries, keys and values of one product, of which operators that stay with the kernels want rows side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(32, 3 * 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = self.all(torch.tanh(x)).reshape(1, 64, 3, 2, 32).permute(2, 0, 3, 1, 4).unbind(0)
        return torch.logcumsumexp(q, 2), torch.logcumsumexp(k, 2), torch.logcumsumexp(v, 2)


class Elementwise(nn.Module):
    """Operators whose operands nobody reads afterwards."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum(-1, keepdim=True)
        y = torch.exp(x - total) * 0.5
        return torch.sqrt(y * y + 1.0) * torch.tanh(y) - torch.sigmoid(y + total)


@pytest.mark.parametrize("name", [n if n[0] in "ae" else pytest.param(n, marks=pytest.mark.nightly) for n in arenas()])
def test_memory_beside_that_of_the_kernels(name: str) -> None:
    """Planned and temporary memory of a program with code and without."""
    model, x, most = arenas()[name]
    exported = torch.export.export(model, (x,))
    with_code = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert planned(with_code) <= most * planned(etir.compile(exported, target="etir"))
    got = etir.runtime.load(with_code).forward(x)
    with torch.no_grad():
        wanted = model(x)
    for one, other in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["hf_wav2vec2", pytest.param("fcn_resnet50", marks=pytest.mark.nightly)])
def test_savings_that_help_together(name: str) -> None:
    """Attention by blocks, another order and operands that are read as they lie; images without a border and products
    that are not cut: none of them alone lowers the plan enough.
    """
    program, kernels = (
        etir.compile(exported(ENTRIES[name]), target="etir", delegates=delegates)
        for delegates in (["native{cpus=x86-64-v4}"], [])
    )
    assert planned(program) <= planned(kernels)


def test_kernels_in_place_of_code_are_prepared_like_others() -> None:
    """The passes of a delegate's program for the kernels end as those of a method do: none of them was forgotten."""
    ours = [step.run.name for step in stages(stop="backend")[-1].steps]
    end = [run.name for run in parse_pipeline(PASSES)]
    own = end[: end.index("verify-link") + 1]
    assert ours[-len(own) :] == own


def test_what_lives_across_a_delegate_is_in_its_workspace() -> None:
    """The three delegates of a decoder's step are planned as one: the method takes what the kernels do, with tensors in
    parts of workspaces that are left alone. Code and kernels compute what eager does, step after step. (A model with
    states and masks between delegates, as the zoo has it, and so some seconds.)
    """
    entry = ENTRIES["llama3_decode"]
    program = etir.compile(exported(entry), target="etir", delegates=["native{cpus=x86-64}"])
    delegates = [op for op in program.module.body.block.ops if isinstance(op, DelegateOp)]
    assert any(b" kept=" in data for op in delegates for _, data in op.compile_specs)
    assert planned(program) <= planned(etir.compile(exported(entry), target="etir"))
    for policy in ("trusted", "refuse"):
        built = entry.build()
        loaded = etir.runtime.load(program, native=policy)
        for _ in range(3):
            with torch.no_grad():
                wanted = torch.utils._pytree.tree_leaves(built.module(*built.inputs))
            for got, want in zip(loaded.forward(*built.inputs), wanted, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)


def test_what_is_read_between_delegates_makes_room() -> None:
    """Kernels gather from two tables between delegates: what they take from the second one lies where the first one
    was. (A model whose delegates are planned as one, as the zoo has it; 1.36 of the kernels' memory without that.)
    """
    entry = ENTRIES["hf_deberta_v2"]
    delegates, left = ["native{cpus=x86-64 arena=free}"], {"exclude": ("aten.gather.default",)}
    program = etir.compile(exported(entry), target="etir", delegates=delegates, partition=left)
    assert sum(isinstance(op, DelegateOp) for op in program.module.body.block.ops) == 3
    assert planned(program) <= 1.2 * planned(etir.compile(exported(entry), target="etir"))
    built = entry.build()
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(built.module(*built.inputs))
    for policy in ("trusted", "refuse"):
        got = etir.runtime.load(program, native=policy).forward(*built.inputs)
        torch.testing.assert_close(torch.as_tensor(got[0]), wanted[0], rtol=1e-5, atol=1e-5)


def test_the_methods_bytes_are_looked_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a plan of all delegates as one is found that needs more than the method without them, another one is looked
    for that does not; here the first one gives every buffer bytes of its own.
    """
    torch.manual_seed(0)
    model, x = Several().eval(), torch.randn(8, 64)
    exported = torch.export.export(model, (x,))
    most = planned(etir.compile(exported, target="etir"))
    sizes: list[list[int]] = []

    def both(links: list[chain.Link], frame: Frame, made: list[Planned], room: int | None) -> list[Planned] | None:
        for given in (None, room):
            found = chain.plan_chain(links, frame, made, given)
            sizes.append([row.bytes for row in found or ()])
        assert room == most
        return found

    monkeypatch.setattr(chain, "plan", lambda problem: plan(problem, "naive"))
    monkeypatch.setattr(chain.Chain, "beside", lambda self, made: 10 * most)
    monkeypatch.setattr(compile, "plan_chain", both)
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    short, longer = sizes[:2]
    assert max(short) > most >= max(longer) > 0 and planned(program) <= most
    with torch.no_grad():
        (got,) = etir.runtime.load(program, native="trusted").forward(x)
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_a_program_of_several_delegates() -> None:
    """Two delegates, of which one reads the encoder's words and the other the decoder's: four, which what steps need
    asks for, need more than the kernels.
    """
    program, kernels = (
        etir.compile(exported(ENTRIES["hf_bart"]), target="etir", delegates=delegates)
        for delegates in (["native{cpus=x86-64-v4}"], [])
    )
    assert sum(isinstance(op, DelegateOp) for op in program.module.body.block.ops) > 1
    assert planned(program) <= planned(kernels)
