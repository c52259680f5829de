"""From edge operators to nodes of an XNNPACK graph.

``emitter.py`` keeps track of every value's forms (dim orders, quantized or not) and makes each form once,
``constants.py`` knows the numbers of weights and constants; the other files have one function for each operator,
entered for the operators that it is annotated with (``legalizer.py``).
"""
