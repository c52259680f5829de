"""Development tool: runs one-kernel programs on the installed ExecuTorch and compares what happens with a manifest.

``samples`` and its companions say how to call every operator, ``call`` turns a sample into files and asks PyTorch for
the expected results, ``runner`` runs cases in child processes that may crash, ``check`` compares outcomes with the
manifest. Needs torch and executorch; ``python -m etir.tools.probe --all`` tries about half a million calls.
"""
