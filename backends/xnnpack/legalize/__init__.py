"""From edge operators to nodes of an XNNPACK graph.

``emitter.py`` keeps track of every value's forms (dim orders, quantised or not) and makes each form once; the other
files have one function for each operator, entered in :data:`~etir.backends.xnnpack.legalize.registry.LEGALIZERS`.
"""
