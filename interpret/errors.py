"""Error ids of the interpreter; those of the NumPy operators are in ``numpy_ops/errors.py``."""

from etir.diagnostics import define

E1001 = define(
    "E1001",
    "the interpreter cannot run an operation",
    "install torch for operators that NumPy does not cover; an operator of your own needs its "
    "library (--load-library), or a meaning: docs/guide/plugins.md",
)
E1002 = define(
    "E1002", "the inputs do not fit the method", "give one value for each input, with the shape and dtype of its type"
)
E1003 = define("E1003", "there is no such method", "the message lists the methods of the module")
E1004 = define(
    "E1004",
    "an operator failed",
    "the message has the operator's own words; the inputs may not be what the exported program expects",
)
E1006 = define(
    "E1006",
    "a value does not fit into memory",
    "run it with smaller inputs; et-inspect --size lists what the memory of a .pte file is for",
)
E1005 = define("E1005", "a loop does not end", "the interpreter stops after as many instructions as the runtimes do")
