"""Analyses: what passes ask of a module without changing it.

Effects of operations, constants as operands, the memory effects of instructions, and ``planning/``, memory planning
as plain algorithms. Passes of every level and the report import from here.
"""
