"""Comparing a program with itself: eager torch, every level of the compiler, every runtime, value by value."""

from etir.devtools.comparison.compare import compare
from etir.devtools.comparison.findings import Comparison, Finding, Row, Stage

__all__ = ["Comparison", "Finding", "Row", "Stage", "compare"]
