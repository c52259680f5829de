"""ExecuTorch's operators for Cortex-M with their references in torch, without what else its packages import.

The packages beside the operators import the serializer of another backend, which the wheel does not bring.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

PACKAGE = "executorch.backends.cortex_m"
_BESIDE = ("passes", "quantizer")
_CONFIGS = f"{PACKAGE}.quantizer.quantization_configs"
_SOFTMAX = {"CMSIS_SOFTMAX_SCALE": 1 / 256, "CMSIS_SOFTMAX_ZERO_POINT": -128}
"""What the operators take from the configurations, for softmax alone, which no test here calls."""


def register_references() -> None:
    """Define ``torch.ops.cortex_m``. Packages are what their folders hold while the operators are imported."""
    parent = importlib.import_module(f"{PACKAGE}.library").__spec__
    assert parent is not None and parent.origin is not None
    folder = parent.origin.rsplit("/", 2)[0]
    names = [f"{PACKAGE}.{name}" for name in _BESIDE if f"{PACKAGE}.{name}" not in sys.modules]
    for name in names:
        package = ModuleType(name)
        package.__path__ = [f"{folder}/{name.rpartition('.')[2]}"]
        sys.modules[name] = package
    configs = ModuleType(_CONFIGS)
    vars(configs).update(_SOFTMAX)
    if _CONFIGS not in sys.modules:
        sys.modules[_CONFIGS] = configs
        names.append(_CONFIGS)
    importlib.import_module(f"{PACKAGE}.ops.operators")
    for name in names:
        del sys.modules[name]
