"""What it means that a program still fails, for :mod:`etir.devtools.reduction`: numbers, an error's id, a command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.passes import ModulePass

from etir.devtools.checks import Answer, SameNumbers, run
from etir.devtools.reduction import Candidate
from etir.devtools.values.interpreted import as_array
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.passes.infra.dumped_weights import DumpedWeights
from etir.passes.infra.manager import run_pipeline


@dataclass(frozen=True)
class ChangesNumbers:
    """Passes change what the program computes by more than a tolerance."""

    ctx: EtContext
    passes: Sequence[ModulePass]
    method: str = "forward"
    tolerance: float = 1e-4

    def __call__(self, candidate: Candidate) -> Answer:
        """Judge a candidate against what it gives before the passes."""
        check = SameNumbers.of(candidate.module, candidate.samples, self.method, self.tolerance)
        changed = candidate.module.clone()
        run_pipeline(self.ctx.clone(), changed, self.passes)
        return check(changed)


@dataclass(frozen=True)
class Raises:
    """Passes, or the interpreter after them where there are samples, raise an error of an id."""

    ctx: EtContext
    passes: Sequence[ModulePass]
    id: str
    method: str = "forward"

    def __call__(self, candidate: Candidate) -> Answer:
        """Bad for the same id, unresolved for another one."""
        changed = candidate.module.clone()
        try:
            run_pipeline(self.ctx.clone(), changed, self.passes)
            for sample in candidate.samples:
                run(changed, sample, self.method)
        except EtirError as error:
            return Answer.BAD if self.id in error.ids else Answer.UNRESOLVED
        return Answer.GOOD


@dataclass(frozen=True)
class Command:
    """A command that ends with 0 as long as the program fails; ``{}`` in it is the file, ``{inputs}`` its samples.

    Without ``{}`` the file comes last. The weights are beside the file, and samples are ``0.npz``, ``1.npz`` ...
    """

    text: str

    def __call__(self, candidate: Candidate) -> Answer:
        """Run it in a folder of its own."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "candidate.mlir"
            inputs = write_candidate(candidate, file)
            words = shlex.split(self.text)
            if "{}" not in self.text:
                words.append("{}")
            named = [str(path) for path in inputs]
            given: list[str] = []
            for word in words:
                given += named if word == "{inputs}" else [word.replace("{}", str(file))]
            done = subprocess.run(given, capture_output=True, check=False)
            return Answer.GOOD if done.returncode else Answer.BAD


def write_candidate(candidate: Candidate, file: Path) -> list[Path]:
    """Write the text, its weights beside it, and one ``.npz`` for each sample. Raises ``OSError``."""
    import numpy as np

    file.write_text(print_module(candidate.module, locations=True), encoding="utf-8")
    weights = DumpedWeights()
    weights.collect(candidate.module)
    weights.write([file])
    paths: list[Path] = []
    for number, sample in enumerate(candidate.samples):
        path = file.with_name(f"{file.stem}.{number}.npz" if file.stem != "candidate" else f"{number}.npz")
        arrays = {f"arr_{i}": as_array(v) if hasattr(v, "shape") else np.asarray(v) for i, v in enumerate(sample)}
        np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
        paths.append(path)
    return paths
