"""decompose-aten: operators as compositions of core ATen ones.

``driver.py`` is the pass, ``decomposition.py`` what a decomposition is and how it is registered, ``kept.py`` the
table of operators that stay whole where the target has a kernel, ``traced.py`` the fallback through torch's own
decompositions. Every other module is one family of hand-written decompositions.
"""
