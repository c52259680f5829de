"""Generated requirements: etir refuses the calls that torch refuses, and takes those that torch takes."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.interpret.interpreter import Interpreter  # noqa: E402

from etir_testing.interop.program_runs import fresh  # noqa: E402
from etir_testing.interop.size_requirements import is_taken, random_call, random_program  # noqa: E402

PROGRAMS, CALLS = 60, 10
"""Programs, and calls of each besides the one that it was exported with."""


def _result(run: Any, call: tuple[Any, ...]) -> tuple[Any, str]:
    try:
        return [torch.as_tensor(value) for value in run(*fresh(call))], ""
    except EtirError as error:
        return None, str(error)


@pytest.mark.parametrize("part", range(6))
def test_as_torch(part: int) -> None:
    runs = 0
    for seed in range(part * PROGRAMS // 6, (part + 1) * PROGRAMS // 6):
        source = random.Random(seed)
        torch.manual_seed(seed)
        module, inputs, dynamic = random_program(source)
        try:
            program = torch.export.export(module, inputs, dynamic_shapes=(tuple(dynamic),), strict=seed % 3 == 0)
        except Exception:  # The dims do not go with the questions.
            continue
        exported = program.module()
        compiled = [etir.compile(program, target=target).buffer for target in ("etir", "executorch")]
        own, stock = (etir.runtime.load(data)["forward"] for data in compiled)
        interpreter = Interpreter(etir.import_program(program), "torch")
        for call in (inputs, *(random_call(source, inputs) for _ in range(CALLS))):
            taken = is_taken(program, exported, fresh(call))
            where = f"seed {seed}, {[getattr(v, 'shape', v) for v in call]}"
            for run in (own, stock, lambda *values: interpreter.run(list(values))):  # noqa: B023
                results, message = _result(run, call)
                if run is stock and "differs from the one it was compiled for" in message:
                    continue  # The stock runtime takes no other number.
                assert (results is not None) == taken, f"{where}: {message}"
                if run is not stock and not taken:
                    assert "input" in message or "size" in message, f"{where}: {message}"
                for got, wanted in zip(results or (), exported(*fresh(call)) if taken else (), strict=True):
                    torch.testing.assert_close(got, wanted)
                runs += 1
    assert runs > 100


def test_numbers_vary_on_etirs_runtime() -> None:
    """A number among the inputs that varies, with a range, a size that it is compared with, and one that it is."""

    class Take(torch.nn.Module):
        def forward(self, x: Any, y: Any, n: int) -> Any:
            torch._check(n <= x.shape[0])
            return x.narrow(0, 0, n) * n + y

    dims = ({0: torch.export.Dim("rows", max=9)}, {0: torch.export.Dim.AUTO(max=9)}, torch.export.Dim.AUTO)
    program = torch.export.export(Take(), (torch.randn(6, 2), torch.randn(4, 2), 4), dynamic_shapes=dims)
    method = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    for rows, n in ((6, 4), (9, 9), (5, 3), (6, 4)):
        x, y = torch.randn(rows, 2), torch.randn(n, 2)
        torch.testing.assert_close(method(x, y, n)[0], x[:n] * n + y)
    for rows, given, n in ((6, 4, 5), (3, 4, 4), (6, 10, 10)):
        with pytest.raises(EtirError) as found:
            method(torch.randn(rows, 2), torch.randn(given, 2), n)
        assert "n" in str(found.value)
    # A call that was refused changes nothing.
    torch.testing.assert_close(method(torch.ones(6, 2), torch.zeros(2, 2), 2)[0], torch.full((2, 2), 2.0))
    with pytest.raises(EtirError, match="E1208"):
        method(torch.randn(6, 2), torch.randn(4, 2), 4.0)


def test_the_stock_runtime_takes_the_number_of_the_export() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: Any, n: int) -> Any:
            return x * n

    program = torch.export.export(Scale(), (torch.randn(3), 4), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    method = etir.runtime.load(etir.compile(program))["forward"]
    torch.testing.assert_close(method(torch.ones(3), 4)[0], torch.full((3,), 4.0))
    with pytest.raises(EtirError, match="E1208"):
        method(torch.ones(3), 5)
