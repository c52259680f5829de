"""The weights beside dumped texts, so that every dump can be read and run again.

Passes make weights (folded constants), so the file that the input came with is not enough. What all texts of one run
refer to is written once, when the run ends, and every text has it under its own name: a link where the file system can
do that, a copy elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.et.weights import Blob, WeightFile, write_weight_file
from etir.dialects.payloads import Payload, payloads
from etir.passes.infra.instrumentation import Instrument, PassRun


class DumpedWeights:
    """Collects the payloads of a module at several times, and writes them beside texts."""

    def __init__(self, files: Sequence[WeightFile] = ()):
        self._files = list(files)
        """Files that may have all of them already."""
        self._found: dict[Blob, Payload] = {}
        self._names: dict[str, None] = {}

    def collect(self, module: ModuleOp) -> None:
        """Remember what the module refers to now."""
        for name, type, blob in payloads(module):
            if blob in self._found:
                continue
            unique, count = name, 0
            while unique in self._names:
                count += 1
                unique = f"{name}.{count}"
            self._names[unique] = None
            self._found[blob] = (unique, type, blob)

    def write(self, texts: Sequence[Path]) -> None:
        """Make sure that each of the texts has the weights beside it. Raises ``OSError``."""
        if not self._found or not texts:
            return
        found = list(self._found.values())
        whole = next((file.path for file in self._files if all(blob in file for _, _, blob in found)), None)
        for text in texts:
            path = text.with_suffix(".safetensors")
            if whole is None or not _linked(Path(whole), path):
                write_weight_file(path, found)
            whole = path


def _linked(source: Path, target: Path) -> bool:
    """Whether ``target`` could be made another name of ``source``; weights files are replaced, never changed."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and target.samefile(source):
            return True
        os.link(source, temporary)
        os.replace(temporary, target)
    except OSError:
        return False
    return True


class WriteDumpedWeights(Instrument):
    """Writes the weights beside the texts that another instrument has written, when the run ends or fails.

    ``texts`` is the list that the other one adds its files to.
    """

    def __init__(self, weights: DumpedWeights, texts: list[Path]):
        super().__init__()
        self._weights, self._texts = weights, texts

    def before_pipeline(self, module: ModuleOp) -> None:
        """Collect what the input has."""
        self._weights.collect(module)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Collect what the pass made."""
        self._weights.collect(module)

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """Write; what a failing pass left is dumped as well."""
        self._weights.collect(module)
        self._weights.write(self._texts)

    def after_pipeline(self, module: ModuleOp) -> None:
        """Write."""
        self._weights.write(self._texts)
