"""Analyses: what passes ask of a module without changing it.

Effects of operations, constants behind operands, the memory effects of instructions, and ``planning/``, memory planning
as plain algorithms. Passes of every level and the report import from here.
"""
