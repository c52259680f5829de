"""Error ids of symbolic dim expressions."""

from etir.diagnostics import define

E0110 = define(
    "E0110",
    "a symbolic size cannot be expressed exactly",
    "compute the size with +, -, *, //, %, min and max on integers, or export with that dimension static",
)
E0111 = define(
    "E0111",
    "a symbol has no value",
    "give a value for every symbol that the expression names",
)
E0112 = define(
    "E0112",
    "division by zero in a symbolic size",
    "make the range of the divisor's symbols exclude zero, or fix the divisor",
)
E0113 = define(
    "E0113",
    "a symbolic size is too large to normalize",
    "simplify the size computation in the model, or export with one of its dimensions static",
)
