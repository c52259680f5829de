"""Targets: what the runtimes that programs are compiled for can execute, as data.

One JSON manifest per runtime says for every kernel which scalar types, dim orders and ranks it takes:
``executorch.json`` for the stock ExecuTorch 1.5.1 libraries; ``etir.json`` for this project's own runtime, whose
kernels are described beside their sources in ``runtime/kernels``. ``manifest`` loads it and answers the link check,
``rules`` defines what an entry means, ``dtypes`` has the type sets and promotion that rules use. ``probe`` compares a
manifest with the installed runtime, one kernel call at a time. No lowering happens here, and nothing outside ``probe``
needs torch.
"""
