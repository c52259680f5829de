"""The manifest of the stock runtime against the installed wheel: names, schemas, and a sample of real kernel calls.

``python -m etir.tools.probe --all`` is the exhaustive form of the last test.
"""

import json
import subprocess
import sys

import pytest

from etir.targets.dtypes import can_cast, promote
from etir.targets.manifest import Manifest, load

from etir_testing.forks import commands

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

OPERATORS = """
import json, sys
from executorch.extension.pybindings import portable_lib as runtime
stages = [runtime._get_operator_names()]
import executorch.kernels.quantized
stages.append(runtime._get_operator_names())
from executorch.extension.llm.custom_ops import custom_ops
stages.append(runtime._get_operator_names())
import torch
schemas = {}
for name in stages[-1]:
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    op = getattr(packet, overload or "default", None)
    if op is not None:
        schemas[name] = [[a.name, str(a.type)] for a in op._schema.arguments]
print(json.dumps([stages, runtime._get_registered_backend_names(), schemas]), file=sys.stdout)
"""

PROBED = (
    "aten::add.out",
    "aten::where.self_out",
    "aten::cat.out",
    "aten::sum.IntList_out",
    "aten::_softmax.out",
    "aten::convolution.out",
    "dim_order_ops::_to_dim_order_copy.out",
    "executorch_prim::eq.Scalar",
    "quantized_decomposed::choose_qparams.Tensor_out",
)
"""Kernels of which a sample of the combinations of types, and all dim orders, are tried."""


@pytest.fixture(scope="module")
def stock() -> Manifest:
    return load("executorch")


@pytest.fixture(scope="module")
def wheel() -> tuple[list[list[str]], list[str], dict[str, list[list[str]]]]:
    """Operator names with each further library, backends, and torch's schema arguments, from a fresh process."""
    done = subprocess.run([sys.executable, "-c", OPERATORS], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_operator_names_are_the_wheels(stock: Manifest, wheel):  # type: ignore[no-untyped-def]
    stages, backends, _ = wheel
    libraries = [name for name, always in stock.libraries.items() if always]
    for names, added in zip(stages, ([], ["quantized"], ["custom_ops"]), strict=True):
        libraries += added
        assert sorted(names) == sorted(n for n, e in stock.kernels.items() if e.library in libraries)
    assert len(stages[0]) == 240
    assert sorted(backends) == sorted(stock.backends)


def test_schemas_are_torchs(stock: Manifest, wheel):  # type: ignore[no-untyped-def]
    _, _, schemas = wheel
    compared = 0
    for name, expected in schemas.items():
        schema = torch._C.parse_schema(stock.kernels[name].schema_text.replace(".default(", "("))
        assert [[a.name, str(a.type)] for a in schema.arguments] == expected, name
        compared += 1
    assert compared >= 260


def test_promotion_and_casts_are_torchs():
    from etir.tools.probe.call import TORCH_DTYPES

    for a, torch_a in TORCH_DTYPES.items():
        for b, torch_b in TORCH_DTYPES.items():
            try:
                expected = torch.promote_types(torch_a, torch_b)
            except RuntimeError:
                expected = None
            common = promote(a, b)
            assert (None if common is None else TORCH_DTYPES[common]) == expected, (a, b)
            assert can_cast(a, b) == torch.can_cast(torch_a, torch_b), (a, b)


def run_probe(*arguments: str) -> str:
    """The output of the probe, which must find no call that the manifest accepts and the runtime does not run."""
    command = [commands() / "python", "-m", "etir.tools.probe", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_manifest_agrees_with_the_runtime():
    operators = [word for name in PROBED for word in ("--op", name)]
    assert f"{len(PROBED)} kernels: 0 calls accepted that do not work" in run_probe(*operators, "--every", "60")


def test_the_usual_call_of_every_kernel_works():
    assert ": 0 calls accepted that do not work" in run_probe("--all", "--usual")


def test_the_probe_refuses_unknown_kernels():
    command = [commands() / "python", "-m", "etir.tools.probe", "--op", "aten::relu_"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no kernel or no sample for 'aten::relu_'; similar: aten::relu.out" in done.stderr
