"""The hand-written decompositions, one module for each family of operators.

Every module of this package is imported, in the order of the names, when the pass first runs; a new family is a new
file.
"""
