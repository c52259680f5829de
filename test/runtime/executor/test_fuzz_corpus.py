"""The seeds of the fuzzers: valid files, every kernel in one of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.executor import TORCH, ExecutorError, Method, Program, build_executor
from etir_testing.runtime.fuzz_corpus import CORPUS, call_of, load_manifest, made_seeds

SEEDS = {path.name: path.read_bytes() for path in sorted(CORPUS.iterdir())} | made_seeds()


@pytest.fixture(scope="module")
def library() -> Any:
    return build_executor()


def test_seeds_are_of_all_kinds_and_small() -> None:
    least = {"stock": 10, "found": 1, "hand": 10, "xnnpack": 50, "native": 16, "kernels": len(load_manifest()) // 4}
    for kind, count in least.items():
        assert sum(name.startswith(f"{kind}-") for name in SEEDS) >= count
    assert max(map(len, SEEDS.values())) <= 8192


def test_every_kernel_is_loaded_and_called(library: Any) -> None:
    """With arguments of the right kinds, so that it is the kernel that accepts or refuses them; many accept."""
    results: dict[str, str] = {}
    for name, row in load_manifest().items():
        builder = call_of(name, row)
        method = Method(Program(library, builder.pte(check=False)), allocator=True)
        for i, index in enumerate(builder.inputs):
            tensor = builder.values[index]
            method.set_input(i, torch.ones(tensor.sizes, dtype=TORCH[int(tensor.scalar_type)]))
        try:
            method.execute()
            results[name] = "ok"
        except ExecutorError as error:
            results[name] = error.check
    answers = ("Kernel", "PrimResult", "InputSizes", "InputNumbers", "ProgramAssertion")
    assert all(check == "ok" or check.startswith(answers) for check in results.values()), results
    accepted = sum(check == "ok" for check in results.values())
    assert accepted > len(results) // 3, f"{accepted} of {len(results)}"
