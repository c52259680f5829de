"""etir's runtime beside the stock ExecuTorch runtime and torch eager: the same ``.pte`` files, one thread, in turns.

    python benchmarks/runtime.py                     kernels, models and the interpreter's overhead, as tables
    python benchmarks/runtime.py --isa x86-64-v3     with the kernels built for one instruction set
    python benchmarks/runtime.py kernels --check     exit code 1 when a bar is missed

How it is measured: etir compiles each case for the stock runtime, so that both runtimes execute one file, whose inputs
and outputs are not in the planned memory (neither runtime copies them in or out). Every case is warmed up and then run
in turns on etir, on the stock runtime and in eager with one thread; the figure is the least of the repetitions, which
noise disturbs least. Inputs are the same memory for all three.

The overhead is measured on a chain of additions of numbers, whose kernels do nothing worth mentioning, and on one of
additions of small tensors, with the method loaded in full by both (the stock runtime's module loads it at its first
call, its `Program` class when it is asked). What the runtimes allocate for a method is read from etir's; the stock one
does not tell.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import nn

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]


class _Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        """Call it."""
        return self.function(*args)


def kernel_cases() -> dict[str, Case]:
    """One operator each."""
    image = torch.randn(1, 64, 56, 56)
    square = torch.randn(512, 512)
    return {
        "conv2d 3x3": (nn.Conv2d(64, 64, 3, padding=1), (image,)),
        "depthwise 3x3": (nn.Conv2d(64, 64, 3, padding=1, groups=64), (image,)),
        "linear 1024": (nn.Linear(1024, 1024), (torch.randn(64, 1024),)),
        "mm 512": (_Call(torch.mm), (square, torch.randn(512, 512))),
        "softmax": (_Call(lambda x: torch.softmax(x, -1)), (square,)),
        "layer_norm": (nn.LayerNorm(512), (square,)),
        "gelu": (_Call(nn.functional.gelu), (square,)),
        "add broadcast": (_Call(torch.add), (square, torch.randn(512))),
        "permute": (_Call(lambda x: x.permute(0, 2, 3, 1).contiguous()), (image,)),
        "mean": (_Call(lambda x: x.mean(-1)), (square,)),
        "max_pool": (nn.MaxPool2d(3, 2, 1), (image,)),
    }


def model_cases() -> dict[str, Case]:
    """Whole models without a delegate."""
    from etir_testing.models.registry import MODELS

    cases: dict[str, Case] = {}
    for name in ("mobilenet_v2", "resnet18", "minilm"):
        case = MODELS[name]
        module, _, _ = case.build()
        cases[name] = (module, tuple(case.inputs(0)))
    return cases


def chain_program(length: int = 1000) -> bytes:
    """Additions of four elements, one after the other: what an instruction with a kernel costs."""
    import etir

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(length):
            x = x + x
        return x

    return etir.compile(torch.export.export(_Call(chain), (torch.zeros(4),)), target="executorch").buffer


def number_program(length: int = 1000) -> bytes:
    """Additions of numbers, one after the other: what an instruction costs whose kernel does next to nothing."""
    from etir_testing.runtime.programs import number_chain

    return number_chain(length)


def best(functions: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Least seconds of each function, run in turns for about ``seconds`` each, at least three times."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    spent = dict.fromkeys(functions, 0.0)
    while any(spent[n] < seconds or len(times[n]) < 3 for n in functions):
        for name, function in functions.items():
            if spent[name] < seconds or len(times[name]) < 3:
                start = time.perf_counter()
                function()
                taken = time.perf_counter() - start
                times[name].append(taken)
                spent[name] += taken
    return {name: min(taken) for name, taken in times.items()}


def measure(case: Case, isa: str | None, seconds: float) -> dict[str, float]:
    """Seconds of one case on etir, on the stock runtime and in eager; checks that the results agree."""
    from executorch.extension.pybindings import portable_lib

    import etir
    import etir.runtime

    module, inputs = case
    module = module.eval() if not isinstance(module, torch.fx.GraphModule) else module
    with torch.no_grad():
        exported = torch.export.export(module, inputs)
        data = etir.compile(exported, target="executorch", plan_inputs=False, plan_outputs=False).buffer
        own = etir.runtime.load(data, isa=isa)["forward"]
        stock = portable_lib._load_for_executorch_from_buffer(data)
        wanted = module(*inputs)
        got = torch.as_tensor(own(*inputs)[0])
        torch.testing.assert_close(got, wanted if isinstance(wanted, torch.Tensor) else wanted[0], rtol=1e-3, atol=1e-3)
        return best(
            {
                "etir": lambda: own(*inputs),
                "stock": lambda: stock.forward(inputs),
                "eager": lambda: module(*inputs),
            },
            seconds,
        )


def table(cases: dict[str, Case], isa: str | None, seconds: float) -> dict[str, dict[str, float]]:
    """Measure and print; returns the figures."""
    print(f"{'case':16} {'etir us':>10} {'stock us':>11} {'eager us':>10} {'stock/etir':>10} {'etir/eager':>10}")
    results: dict[str, dict[str, float]] = {}
    for name, case in cases.items():
        taken = results[name] = measure(case, isa, seconds)
        own, stock, eager = taken["etir"], taken["stock"], taken["eager"]
        row = f"{name:16} {own * 1e6:10,.1f} {stock * 1e6:11,.1f} {eager * 1e6:10,.1f}"
        print(f"{row} {stock / own:10.2f} {own / eager:10.2f}", flush=True)
    ratios = [r["stock"] / r["etir"] for r in results.values()]
    print(f"geometric mean of stock/etir: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
    return results


def heap() -> int:
    """Bytes that the process has allocated."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _MallInfo
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd


class _MallInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    )


def overhead(isa: str | None) -> dict[str, float]:
    """What an instruction costs in time, in loading time and in memory on both runtimes; etir's part of the stock's."""
    from executorch.runtime import Runtime

    import etir.runtime

    stock_runtime = Runtime.get()
    load = {
        "etir": lambda data: etir.runtime.load(data, isa=isa).load_method("forward"),
        "stock": lambda data: stock_runtime.load_program(data).load_method("forward"),
    }
    ratios: dict[str, float] = {}
    print(f"{'each instruction':28} {'etir':>9} {'stock':>9} {'etir/stock':>10}")

    def row(name: str, own: float, stock: float) -> float:
        print(f"{name:28} {own:9.2f} {stock:9.2f} {own / stock:10.3f}", flush=True)
        return own / stock

    numbers = number_program()
    methods = {name: loader(numbers) for name, loader in load.items()}
    taken = best({"etir": lambda: methods["etir"](), "stock": lambda: methods["stock"].execute(())}, 1.0)
    ratios["run"] = row("ns, addition of numbers", taken["etir"] * 1e6, taken["stock"] * 1e6)

    tensors, inputs = chain_program(), (torch.zeros(4),)
    methods = {name: loader(tensors) for name, loader in load.items()}
    taken = best({"etir": lambda: methods["etir"](*inputs), "stock": lambda: methods["stock"].execute(inputs)}, 1.0)
    ratios["run tensors"] = row("ns, addition of tensors", taken["etir"] * 1e6, taken["stock"] * 1e6)

    taken = best({name: functools.partial(loader, tensors) for name, loader in load.items()}, 1.0)
    ratios["load"] = row("ns to load, tensors", taken["etir"] * 1e6, taken["stock"] * 1e6)

    memory: dict[str, float] = {}
    for name, loader in load.items():
        before, count = heap(), 20
        kept = [loader(tensors) for _ in range(count)]
        memory[name] = (heap() - before) / count / 1000
        del kept
    ratios["memory"] = row("bytes when loaded, tensors", memory["etir"], memory["stock"])
    return ratios


def missed(kernels: dict[str, dict[str, float]], models: dict[str, dict[str, float]], isa: str | None) -> list[str]:
    """The bars that the figures miss."""
    found: list[str] = []
    if kernels:
        logs = [math.log(r["stock"] / r["etir"]) for r in kernels.values()]
        if math.exp(sum(logs) / len(logs)) < 15:
            found.append("kernels are less than 15 times as fast as the stock ones in the geometric mean")
        found += [f"{name} is slower than the stock kernel" for name, r in kernels.items() if r["etir"] > r["stock"]]
        if isa != "baseline":
            found += [f"{n} is over 2.5 times eager" for n, r in kernels.items() if r["etir"] > 2.5 * r["eager"]]
    found += [f"{name} is over 2 times eager" for name, r in models.items() if r["etir"] > 2 * r["eager"]]
    return found


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="kernels, models, overhead (default: all)")
    parser.add_argument(
        "--isa", help="the instruction set of the kernels: baseline, x86-64-v3, ... (default: the best)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case and runtime")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    what = arguments.what or ["overhead", "kernels", "models"]
    kernels: dict[str, dict[str, float]] = {}
    models: dict[str, dict[str, float]] = {}
    bars: list[str] = []
    if "overhead" in what:
        ratios = overhead(arguments.isa)
        bars += ["an instruction takes over half of the stock time"] if ratios["run"] > 0.5 else []
        bars += ["loading takes over a third of the stock time"] if ratios["load"] > 1 / 3 else []
        bars += ["an instruction takes over a third of the stock memory"] if ratios["memory"] > 1 / 3 else []
    if "kernels" in what:
        kernels = table(kernel_cases(), arguments.isa, arguments.seconds)
    if "models" in what:
        models = table(model_cases(), arguments.isa, arguments.seconds)
    bars += missed(kernels, models, arguments.isa)
    for bar in bars:
        print(f"missed: {bar}")
    return int(arguments.check and bool(bars))


if __name__ == "__main__":
    sys.exit(main())
