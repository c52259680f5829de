"""A language server for the text of programs: what an editor asks of a file while it is written.

``reader`` reads text that may be malformed anywhere, and only what an edit has changed; ``names`` finds definitions and
uses without a parser; ``document`` puts both together. ``hover``, ``completion``, ``actions`` answer in plain data, and
``server`` and ``features``, the only modules that need ``pygls`` (the extra ``etir[lsp]``), speak the protocol.
"""
