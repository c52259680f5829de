"""Weights in ``.ptd`` files: by tag, several programs over one file, and what is said when a file does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.emit.ptd.reader import read_ptd  # noqa: E402
from etir.tools import et_compile  # noqa: E402


class Adapted(nn.Module):
    """A layer with a low-rank addition."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Linear(8, 6)
        self.lora_a, self.lora_b = nn.Linear(8, 2, bias=False), nn.Linear(2, 6, bias=False)

    def forward(self, x: Any) -> Any:
        return self.base(x) + self.lora_b(self.lora_a(x))


class Plain(nn.Module):
    """The layer alone."""

    def __init__(self, base: nn.Module):
        super().__init__()
        self.base = base

    def forward(self, x: Any) -> Any:
        return torch.relu(self.base(x))


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def exported(module: nn.Module) -> Any:
    return torch.export.export(module, (X,))


def test_programs_over_one_file(tmp_path: Path) -> None:
    """The file of one tag is the same for every program that has its weights; each runs with the files it needs."""
    adapted = Adapted()
    plain = Plain(adapted.base)
    for target in ("etir", "executorch"):
        both = etir.compile(exported(adapted), target=target, external_weights={"lora": "lora_*", "base": ["*"]})
        one = etir.compile(exported(plain), target=target, external_weights="base")
        assert both.external["base"] == one.external["base"]
        assert sorted(read_ptd(both.external["lora"]).named_data) == ["lora_a.weight", "lora_b.weight"]
        assert sorted(read_ptd(one.external["base"]).named_data) == ["base.bias", "base.weight"]
        both.save(tmp_path / "both.pte")
        one.save(tmp_path / "one.pte")
        files = [tmp_path / "base.ptd", tmp_path / "lora.ptd"]
        if target == "etir":
            got = etir.runtime.load(tmp_path / "both.pte", data=files).forward(X)[0]
            again = etir.runtime.load(tmp_path / "both.pte", data=[f.read_bytes() for f in files], mmap=True).forward(X)
            torch.testing.assert_close(got, adapted(X).detach())
            assert torch.equal(again[0], got)
            got = etir.runtime.load(tmp_path / "one.pte", data=files[0]).forward(X)[0]
        else:
            # The stock bindings take one file.
            stock = portable_lib._load_for_executorch(str(tmp_path / "one.pte"), str(files[0]))
            got = stock.run_method("forward", (X,))[0]
        torch.testing.assert_close(got, plain(X).detach())


def test_small_weights_may_stay_inside() -> None:
    adapted = Adapted()
    program = etir.compile(exported(adapted), target="etir", external_weights={"lora": "lora_*"})
    assert list(program.external) == ["lora"]
    got = etir.runtime.load(program.buffer, data=program.external["lora"]).forward(X)[0]
    torch.testing.assert_close(got, adapted(X).detach())


def test_errors(tmp_path: Path) -> None:
    """A missing file, a missing name, another size, a damaged file: each is said, and the next step."""
    adapted = Adapted()
    program = etir.compile(exported(adapted), target="etir", external_weights={"lora": "lora_*", "base": "*"})
    path = tmp_path / "model.pte"
    program.save(path)
    narrow = Plain(nn.Linear(8, 5))
    other = etir.compile(exported(narrow), target="etir", external_weights="base").external["base"]
    lora = program.external["lora"]
    cases: list[tuple[Any, str, str]] = [
        ([tmp_path / "absent.ptd"], "E1203", "absent.ptd"),
        (None, "E1206", "no external data"),
        ([lora], "E1206", "no external data"),
        ([lora, other], "E1206", "another dtype, shape or dim order"),
        ([lora, program.external["base"][:100]], "E1206", "external data"),
        ([lora, program.external["base"][:-1]], "E1206", "external data"),
        ([lora, program.buffer], "E1206", "no external data: its identifier"),
    ]
    for data, id, words in cases:
        with pytest.raises(etir.runtime.RuntimeFailure) as error:
            etir.runtime.load(path, data=data).forward(X)
        assert error.value.ids == (id,) and words in str(error.value), (words, str(error.value))
        assert error.value.diagnostics[0].help
    for data in (None, str(tmp_path / "lora.ptd")):
        with pytest.raises(RuntimeError):
            portable_lib._load_for_executorch(str(path), *([] if data is None else [data])).run_method("forward", (X,))


def test_command_line(tmp_path: Path) -> None:
    adapted = Adapted()
    torch.export.save(exported(adapted), tmp_path / "model.pt2")
    output = tmp_path / "model.pte"
    options = ["--external-weights", "lora=lora_a*,lora_b*", "--external-weights", "base", "--target", "etir"]
    assert et_compile.main([str(tmp_path / "model.pt2"), "-o", str(output), *options]) == 0
    files = [tmp_path / "base.ptd", tmp_path / "lora.ptd"]
    torch.testing.assert_close(etir.runtime.load(output, data=files).forward(X)[0], adapted(X).detach())


def test_command_line_trains(tmp_path: Path) -> None:
    """A joint graph in a ``.pt2`` file, whose parameters are state in a file of their own."""
    from torch.export.experimental import _export_forward_backward

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Adapted()

        def forward(self, x: Any) -> Any:
            return self.net(x).square().mean()

    joint = _export_forward_backward(torch.export.export(Loss(), (X,)))
    torch.export.save(joint, tmp_path / "step.pt2")
    output = tmp_path / "step.pte"
    options = ["--optimizer", "sgd{lr=0.1}", "--external-state", "weights", "--state-methods", "net.lora_*"]
    assert et_compile.main([str(tmp_path / "step.pt2"), "-o", str(output), *options, "--target", "etir"]) == 0
    loaded = etir.runtime.load(output, data=tmp_path / "weights.ptd")
    losses = [float(loaded.forward(X)[0]) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]
    assert list(loaded.state) == ["net.lora_a.weight", "net.lora_b.weight"]
