"""Templates as machine code of other processors, under QEMU, against what their operations mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from etir.backends.native.blob import read_blob
from etir.backends.native.cpu import cpu
from etir.backends.native.kernels import templates
from etir.backends.native.kernels.brgemm import panel_of
from etir.emit.pte.reader import read_pte

from etir_testing.native.emulated import EMULATORS, EmulatedCode
from etir_testing.native.fills import FILLS
from etir_testing.native.images import Code, here, meaning
from etir_testing.native.random_functions import Function, special_numbers, whole_range

pytestmark = pytest.mark.filterwarnings("ignore")


def skip_without_tools(name: str) -> None:
    if name in here():
        pytest.skip("this machine is one")
    if EMULATORS[name].missing is not None:
        pytest.skip(f"{EMULATORS[name].missing} is not installed")


def filled(name: str, count: int) -> Function:
    """A function with operations of every template, the more the larger ``count`` is."""
    function = Function(len(name), panel_of(cpu(name)))
    for fill in FILLS.values():
        fill(function, count)
    return function


def fits(function: Function, memory: int) -> bool:
    """Whether the tensors of a function, with room between them, have place in so many bytes; 0 is no limit."""
    inputs = [data.nbytes for _, _, data in function.inputs]
    outputs = [4 * math.prod(shape) for shape in function.outputs]
    return not memory or sum(size + 512 for size in (*inputs, *outputs)) <= memory


@pytest.mark.parametrize("name", EMULATORS)
def test_templates(name: str) -> None:
    """A function with some operations of every template."""
    skip_without_tools(name)
    # A board has memory for a few megabytes of tensors: as many operations as fit.
    function = next(made for count in (4, 3, 2, 1) if fits(made := filled(name, count), EMULATORS[name].memory))
    assert {type(op) for op in function.build().body.block.ops} >= set(templates())
    function.check(names=[name])


@pytest.mark.parametrize("name", EMULATORS)
def test_numbers_that_are_none(name: str) -> None:
    """NaN and infinities go through bodies as in torch; MVE counts numbers below the normal ones as 0."""
    skip_without_tools(name)
    func, special = special_numbers()
    is_mve = name == "cortex-m55"
    counted = np.where(np.abs(special) < np.finfo(np.float32).tiny, 0 * special, special) if is_mve else special
    wanted = meaning(func, [counted], {})
    for got, want in zip(Code(func, name)([special]), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=2e-38 if is_mve else 0)


@pytest.mark.parametrize("name", EMULATORS)
def test_functions_on_the_whole_range(name: str) -> None:
    """As on this machine; MVE has no numbers below the normal ones."""
    skip_without_tools(name)
    func, given = whole_range()
    given = np.where(np.abs(given) < np.finfo(np.float32).tiny, 0 * given, given) if name == "cortex-m55" else given
    for got, want in zip(Code(func, name)([given]), meaning(func, [given], {}), strict=True):
        np.testing.assert_allclose(got, want, rtol=3.6e-7, atol=2e-38)


@pytest.mark.parametrize("case", ["images", pytest.param("rows", marks=pytest.mark.nightly), "encoder"])
@pytest.mark.parametrize("name", ["aarch64", "rv64gcv"])
def test_programs(name: str, case: str) -> None:
    """The image of a whole program, with its weights, gives eager's outputs; test/native_zoo.py has larger ones."""
    torch = pytest.importorskip("torch")
    from etir_testing.native.programs import blob_of, built, outputs

    skip_without_tools(name)
    module, inputs, program = built(case, f"{{cpus={name}}}")
    blob = read_blob(blob_of(program))
    (variant,) = blob.variants
    named = {key: bytes(entry.data) for key, entry in read_pte(program.buffer).named_data.items()}
    weights = [named[key] for key, _ in blob.weights]
    sizes = [4 * int(np.prod(shape)) for shape in blob.shapes[blob.inputs :]]
    made = EmulatedCode.of_image(variant.image, name)(
        [x.numpy().tobytes() for x in inputs], sizes, weights, blob.arena_bytes
    )
    for data, shape, want in zip(made, blob.shapes[blob.inputs :], outputs(module, inputs), strict=True):
        assert shape == tuple(want.shape)
        got = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape)
        assert (got - want).abs().max() <= 1e-5 * want.abs().max()
