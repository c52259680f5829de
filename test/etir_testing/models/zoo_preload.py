"""What the processes of the zoo share: imported once, by the server that they are forked from.

Both compilers are among it, so that their imports, which take longer than most models, count for neither.
"""

from __future__ import annotations

import contextlib
import importlib

import torch

import etir_testing.models.zoo_table  # noqa: F401
from etir_testing.models.zoo_entry import declare_torchvision

torch.set_num_threads(1)
declare_torchvision()
SHARED = ("torchvision.models", "transformers.modeling_utils", "etir.driver", "executorch.exir", "executorch.runtime")
for package in SHARED:
    # The entries that need what is not installed are left out.
    with contextlib.suppress(ImportError):
        importlib.import_module(package)
