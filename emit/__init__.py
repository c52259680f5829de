"""Bytes: what reads and writes the files of the ExecuTorch family.

``flatbuffer`` holds a builder and a bounds-checked view for FlatBuffers tables, ``pte`` and ``ptd`` the two file
formats on top of it: a model (plain data), a validator, a writer and a reader each, none of which knows any IR.
``to_pte`` and ``from_pte`` translate between the executable level and the ``pte`` model. Nothing in here needs torch.
"""
