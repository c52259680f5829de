"""Making a program that fails small: operations, instructions, branches and loops, dims, weights, source lines."""

from etir.devtools.reduction.candidate import Candidate, Reduced, StillFails
from etir.devtools.reduction.reduce import reduce

__all__ = ["Candidate", "Reduced", "StillFails", "reduce"]
