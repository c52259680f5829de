"""Error ids of the delegate ``native``, beside those of :mod:`etir.backends.errors`."""

from etir.diagnostics import define

E1160 = define(
    "E1160",
    "an unknown processor",
    "name one of those that the message lists, or describe the processor in a file of targets/cpus",
)
E1161 = define(
    "E1161",
    "there is no compiler for generated code",
    "install one with `pip install 'etir[native]'`, or put clang or gcc on the path, or name one: native{cc=PATH}",
)
E1162 = define(
    "E1162",
    "the compiler cannot make generated code",
    "the message has what it printed; native{cc=...} takes another one",
)
E1163 = define(
    "E1163",
    "the linked image is not position independent code alone",
    "native{cc=...} takes another compiler; generated code has no data of its own and calls nothing",
)
E1164 = define(
    "E1164",
    "a schedule is not legal",
    "the message says what the processor can do; remove the schedule to have one chosen",
)
