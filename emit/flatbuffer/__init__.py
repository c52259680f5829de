"""FlatBuffers without generated code: tables as data, a hash-consing builder and a bounds-checked view.

Only what the two file formats need: tables, unions, strings, and vectors of scalars, of bytes and of tables; all
defaults are zero. https://flatbuffers.dev/internals/ describes the encoding.
"""
