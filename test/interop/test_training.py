"""Joint graphs of forward and backward: trained on the stock runtime and on etir's, as eager is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch import nn  # noqa: E402
from torch.export.experimental import _export_forward_backward  # noqa: E402
from torch.nn import functional  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.emit.from_pte import read_program  # noqa: E402
from etir.emit.ptd.reader import read_ptd  # noqa: E402
from etir.interpret.interpreter import Interpreter  # noqa: E402
from etir.lowering.import_fx import import_program  # noqa: E402

STEPS = 4


class Loss(nn.Module):
    """The loss of a net, and what the net says."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x: Any, label: Any) -> Any:
        y = self.net(x)
        return functional.cross_entropy(y, label), y.detach().argmax(-1)


class Attention(nn.Module):
    """An embedding, a causal attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(12, 16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.head = nn.Linear(16, 24), nn.Linear(24, 16), nn.Linear(16, 12)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        q, k, v = self.qkv(self.norm(x)).view(*ids.shape, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(x + self.down(functional.gelu(self.up(x)))).flatten(0, 1)


def images() -> tuple[nn.Module, tuple[Any, ...]]:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2),
        nn.ConvTranspose2d(4, 3, 2, stride=2), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(27, 3),
    )  # fmt: skip
    return Loss(net), (torch.randn(3, 2, 8, 8), torch.tensor([0, 2, 1]))


def signals() -> tuple[nn.Module, tuple[Any, ...]]:
    net = nn.Sequential(nn.Conv1d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(24, 3))
    net[0].bias.requires_grad_(False)
    return Loss(net), (torch.randn(2, 3, 8), torch.tensor([0, 2]))


def words() -> tuple[nn.Module, tuple[Any, ...]]:
    return Loss(Attention()), (torch.randint(0, 12, (2, 5)), torch.randint(0, 12, (10,)))


def numbers() -> tuple[nn.Module, tuple[Any, ...]]:
    net = nn.Sequential(nn.Linear(2, 10), nn.Sigmoid(), nn.Linear(10, 2))
    return Loss(net), (torch.tensor([[0.0, 1.0], [1.0, 1.0]]), torch.tensor([1, 0]))


CASES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "images": images,
    "signals": signals,
    "words": words,
    "numbers": numbers,
}


def case(name: str) -> tuple[nn.Module, tuple[Any, ...], Any]:
    """The model, its inputs, and its joint graph."""
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    return model, inputs, _export_forward_backward(torch.export.export(model, inputs))


def eager(
    model: nn.Module, inputs: tuple[Any, ...], kind: Any = torch.optim.SGD, *, steps: int = STEPS, **options: Any
) -> tuple[list[float], nn.Module]:
    """The losses of the steps, and the model after them."""
    model = copy.deepcopy(model)
    optimizer = kind(model.parameters(), **options)
    losses: list[float] = []
    for _ in range(steps):
        loss = model(*inputs)[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


ADAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "decayed": ("adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "amsgrad": ("adam", {"lr": 0.05, "betas": (0.5, 0.1), "amsgrad": True}),
    "without_moments": ("adam", {"lr": 0.01, "betas": (0.0, 0.0), "eps": 1e-3}),
    "adamw_all": ("adamw", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.3, "amsgrad": True}),
}
"""Optimizers as the program names them, and torch's arguments."""


def words_of(options: dict[str, Any]) -> str:
    """Options of torch's as those of a pass."""
    flat = {k: v for k, v in options.items() if k != "betas"}
    if "betas" in options:
        flat["beta1"], flat["beta2"] = options["betas"]
    return " ".join(f"{k.replace('_', '-')}={str(v).lower()}" for k, v in flat.items())


@pytest.mark.parametrize("name", list(ADAMS))
def test_adam(name: str) -> None:
    """The step in the program, with the learning rate in it (on the stock runtime) or given; and the host's step."""
    kind, options = ADAMS[name]
    model, inputs, joint = case("numbers")
    torch_class = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    losses, trained = eager(model, inputs, torch_class, steps=10, **options)
    assert losses[-1] < losses[0]
    expected = {fqn: value.detach() for fqn, value in trained.named_parameters()}
    stock = runs(etir.compile(joint, optimizer=f"{kind}{{{words_of(options)}}}"), "executorch")
    assert [float(stock(*inputs)[0]) for _ in losses] == pytest.approx(losses, rel=1e-5)
    given = {k: v for k, v in options.items() if k != "lr"}
    program = etir.compile(joint, target="etir", optimizer=f"{kind}{{{words_of(given)}}}", state_methods=True)
    loaded = etir.runtime.load(program.buffer)
    rate = torch.tensor(options["lr"])
    assert [float(loaded.forward(*inputs, lr=rate)[0]) for _ in losses] == pytest.approx(losses, rel=1e-5)
    for fqn, value in expected.items():
        # The step divides small gradients by their own size, and with them what rounding does to them.
        torch.testing.assert_close(torch.from_numpy(loaded.state[fqn]), value, rtol=1e-3, atol=1e-4)

    module = etir.runtime.TrainingModule(
        etir.runtime.load(etir.compile(joint, target="etir", state_methods=True).buffer)
    )
    host = (etir.runtime.AdamW if kind == "adamw" else etir.runtime.Adam)(module, **options)
    outside = []
    for _ in losses:
        outside.append(float(module.forward_backward(*inputs)[0]))
        host.step()
    assert outside == pytest.approx(losses, rel=1e-5)
    for fqn, value in module.named_parameters().items():
        torch.testing.assert_close(value, expected[fqn], rtol=1e-3, atol=1e-4)


def test_adam_trains_attention() -> None:
    """Embeddings, norms and attention, on both runtimes."""
    model, inputs, joint = case("words")
    losses, _ = eager(model, inputs, torch.optim.AdamW, lr=0.01)
    for target in ("etir", "executorch"):
        step = runs(etir.compile(joint, target=target, optimizer="adamw{lr=0.01}"), target)
        assert [float(step(*inputs)[0]) for _ in losses] == pytest.approx(losses, rel=1e-4), target


def runs(program: etir.Program, target: str) -> Callable[..., list[Any]]:
    """Method ``forward`` on the runtime that ``target`` stands for."""
    data = program.buffer
    if target == "etir":
        return etir.runtime.load(data)["forward"]
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return lambda *inputs, _data=data: loaded.run_method("forward", inputs)


@pytest.mark.parametrize("name", list(CASES))
def test_program_that_trains_itself(name: str) -> None:
    """Each call is a step: the losses are eager's, also where running statistics change."""
    model, inputs, joint = case(name)
    losses, trained = eager(model, inputs, lr=0.1, momentum=0.5)
    assert losses[-1] < losses[0]
    for target in ("etir", "executorch"):
        program = etir.compile(joint, target=target, optimizer="sgd{lr=0.1 momentum=0.5}", state_methods=True)
        step = runs(program, target)
        got = [step(*inputs) for _ in range(STEPS)]
        assert [float(outputs[0]) for outputs in got] == pytest.approx(losses, rel=1e-4), target
        assert all(len(outputs) == 2 for outputs in got)
        if target == "etir":
            state = etir.runtime.load(program.buffer)
            for _ in range(STEPS):
                state.forward(*inputs)
            for fqn, value in trained.named_parameters():
                if value.requires_grad:
                    torch.testing.assert_close(torch.from_numpy(state.state[fqn]), value.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.05},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ],
    ids=["plain", "dampened", "nesterov"],
)
def test_optimizers(options: dict[str, Any]) -> None:
    """The step in the program, the host's step through etir's runtime, and the stock training module's."""
    training = pytest.importorskip("executorch.extension.training.pybindings._training_module")
    library = pytest.importorskip("executorch.extension.training.pybindings._training_lib")
    model, inputs, joint = case("numbers")
    losses, trained = eager(model, inputs, **options)

    words = " ".join(f"{k.replace('_', '-')}={str(v).lower()}" for k, v in options.items() if k != "lr")
    step = runs(etir.compile(joint, target="etir", optimizer=f"sgd{{{words}}}"), "etir")
    rate = torch.tensor(options["lr"])
    inside = [float(step(*inputs, lr=rate)[0]) for _ in range(STEPS)]

    module = etir.runtime.TrainingModule(
        etir.runtime.load(etir.compile(joint, target="etir", state_methods=True).buffer)
    )
    host = etir.runtime.SGD(module, **options)
    outside = []
    for _ in range(STEPS):
        outside.append(float(module.forward_backward(*inputs)[0]))
        host.step()
    for fqn, value in module.named_parameters().items():
        torch.testing.assert_close(value, trained.get_parameter(fqn).detach(), rtol=1e-4, atol=1e-5)

    data = etir.compile(joint).buffer
    stock_module = training._load_for_executorch_for_training_from_buffer(data)
    optimizer, stock = None, []
    for _ in range(STEPS):
        stock.append(float(stock_module.forward_backward("forward", inputs)[0]))
        if optimizer is None:
            optimizer = library.get_sgd_optimizer(stock_module.named_parameters(), *options.values())
            if options.get("nesterov"):
                arguments = (options["lr"], options["momentum"], 0, 0, True)
                optimizer = library.get_sgd_optimizer(stock_module.named_parameters(), *arguments)
        optimizer.step(stock_module.named_gradients())
    for got in (inside, outside, stock):
        assert got == pytest.approx(losses, rel=1e-5)


def test_parameters_outside_of_the_program(tmp_path: Path) -> None:
    """Initial values in a ``.ptd`` file, which both runtimes load, and which reads back."""
    model, inputs, joint = case("numbers")
    losses, _ = eager(model, inputs, lr=0.1)
    program = etir.compile(joint, optimizer="sgd{lr=0.1}", external_state="weights")
    program.save(tmp_path / "step.pte")
    assert sorted(read_ptd((tmp_path / "weights.ptd").read_bytes()).named_data) == sorted(
        name for name, _ in model.named_parameters()
    )
    loaded = etir.runtime.load(tmp_path / "step.pte", data=tmp_path / "weights.ptd")
    stock = portable_lib._load_for_executorch(str(tmp_path / "step.pte"), str(tmp_path / "weights.ptd"))
    for step in (loaded.forward, lambda *values: stock.run_method("forward", values)):
        assert [float(step(*inputs)[0]) for _ in range(STEPS)] == pytest.approx(losses, rel=1e-5)
    files = {"weights": read_ptd((tmp_path / "weights.ptd").read_bytes())}
    again = read_program((tmp_path / "step.pte").read_bytes(), files)
    assert float(Interpreter(again, "torch").run([*inputs], "forward")[0]) == pytest.approx(losses[0], rel=1e-5)


def test_interpreter_runs_joint_graphs() -> None:
    """Convolutions whose input needs no gradient included."""
    model, inputs, joint = case("images")
    model(*inputs)[0].backward()
    outputs = Interpreter(import_program(joint), "torch").run([*inputs], "forward")
    compiled = Interpreter(etir.compile(joint).module, "torch").run([*inputs], "forward")
    for results in (outputs, compiled):
        for got, parameter in zip(results[2:], model.parameters(), strict=False):
            torch.testing.assert_close(got, parameter.grad, rtol=1e-3, atol=1e-4)


def test_errors() -> None:
    model, inputs, joint = case("numbers")
    plain = torch.export.export(model, inputs)
    for options, id in (
        ({"optimizer": "sgd{lr=0.1}"}, "E0521"),
        ({"state_methods": True}, "E0522"),
    ):
        with pytest.raises(EtirError) as error:
            etir.compile(plain, **options)
        assert error.value.ids == (id,)
    with pytest.raises(EtirError) as error:
        etir.compile(joint, optimizer="sgd{lr=-1}")
    assert error.value.ids == ("E0503",) and "cannot be negative" in str(error.value)
    with pytest.raises(EtirError) as error:
        etir.compile(joint, optimizer="adam{beta1=1}")
    assert error.value.ids == ("E0503",) and "beta1 is 1" in str(error.value)
    with pytest.raises(EtirError) as error:
        etir.compile(joint, state_methods=["nothing.*"])
    assert "net.0.weight" in str(error.value)
    without = etir.runtime.load(etir.compile(joint, target="etir").buffer)
    with pytest.raises(etir.runtime.RuntimeFailure, match="state_methods=True"):
        etir.runtime.TrainingModule(without)
    with pytest.raises(etir.runtime.RuntimeFailure, match="returns no gradients"):
        etir.runtime.TrainingModule(etir.runtime.load(etir.compile(plain, target="etir").buffer))
