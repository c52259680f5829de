"""Developer tools: from "it is slow" or "the numbers are wrong" to one line of Python and one operation of every level.

Two artifacts carry everything: a *trace* is what the compiler knew (``trace``), a *profile* is what a runtime saw
(``profile``); origins, integers in the locations of operations, are the link between them. Everything here reads what
the compiler and the runtimes have written: nothing of the compiler imports this package.
"""
