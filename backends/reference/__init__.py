"""The reference delegate: etir's own kernels as a delegate.

It takes what etir's runtime has a kernel for, so that delegation can be tested with any program, on every machine that
the runtime runs on, against the same program without a delegate: the results are equal bit for bit.
``runtime/backends/reference/`` is its runtime half.
"""
