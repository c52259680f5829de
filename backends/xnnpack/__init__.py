"""The XNNPACK delegate: its dialect, its legalization, its blob.

``schema.py`` has the delegate's format as tables: datatypes, node kinds, FlatBuffer slots. ``graph.py`` is such a graph
as plain data, which ``blob_reader.py`` and ``blob_writer.py`` read and write; ``dialect.py`` is the same graph as text.
What takes an outlined function there is in ``support.py`` (which operators, and why not) and ``legalize/``.
"""
