"""FlatBuffers without generated code: tables as data, a hash-consing builder and a bounds-checked view.

Only what the file formats need: tables, unions, strings, and vectors of scalars, of bytes and of tables; a buffer may
have its size in front. https://flatbuffers.dev/internals/ describes the encoding.
"""
