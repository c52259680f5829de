"""Every test of the runtime draws the same random numbers in every run, in whatever order tests run."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed torch's generator."""
    torch.manual_seed(0)
