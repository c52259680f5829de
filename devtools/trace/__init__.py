"""Traces: what the compiler knew. ``record`` watches a compilation and makes one, ``read`` opens the file.

A trace is a zip file, the same bytes for the same compilation: levels as text with locations, where every operation
comes from, what each pass changed and left alone, what is inside of delegates, the memory plan. It holds no weights and
no absolute paths.
"""
