"""Making operations: the builder, result types of what it makes, sizes and dims, type promotion.

Used by every step of ``lowering/`` and by passes. What torch is asked for is imported where it is asked.
"""
