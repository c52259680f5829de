"""decompose-aten: operators as compositions of core ATen ones.

``driver.py`` is the pass, ``decomposition.py`` what a decomposition is and how it is registered, ``preserved.py``
the table of operators that are preserved where the target has a kernel, ``traced.py`` the fallback through torch's own
decompositions. Every other module is one family of hand-written decompositions.
"""
