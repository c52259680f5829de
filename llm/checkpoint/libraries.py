"""transformers, imported only where a checkpoint is read: it takes seconds, and a compiler without it works."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

from etir.llm.errors import E1609

NEEDED = ("torch", "transformers", "gguf", "tokenizers", "safetensors")
_KEEP: list[Any] = []
"""A library's definitions end with it."""


def import_transformers() -> Any:
    """The package, quiet. Raises E1609 when it or another one of the extra ``llm`` is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise E1609.error(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed")
    _declare_torchvision()
    # torchao, which transformers imports, warns of kernels for other machines and of what torch will call otherwise.
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import transformers

    transformers.logging.disable_progress_bar()
    return transformers


def _declare_torchvision() -> None:
    """Let transformers import torchvision, if it is there.

    The published package is built for CUDA, and its extension does not load beside torch for CPUs alone; its Python
    code then only misses the schemas of ``nms``.
    """
    import sys

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or "torchvision" in sys.modules or _KEEP:
        return
    import torch

    extension = Path(spec.origin).with_name("_C.so")
    try:
        if extension.exists():
            torch.ops.load_library(str(extension))
            return
    except OSError:
        pass
    if hasattr(torch.ops.torchvision, "nms"):  # Somebody else has declared it.
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEEP.append(library)
    importlib.import_module("torchvision")


def first_line(error: Exception) -> str:
    """What an exception says, in short: libraries add lines of advice for their own callers."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
