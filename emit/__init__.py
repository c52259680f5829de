"""Bytes: what reads and writes the files of the ExecuTorch family, independent of any IR.

``flatbuffer`` holds a builder and a bounds-checked view for FlatBuffers tables, ``pte`` and ``ptd`` the two file
formats on top of it: a model (plain data), a validator, a writer and a reader each. Nothing in here knows about
dialects or torch; the translation between a ``pte`` model and the ``et`` dialect lives with the lowering.
"""
