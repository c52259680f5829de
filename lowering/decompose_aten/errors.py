"""Error ids of the decompositions."""

from etir.diagnostics import define

E0420 = define(
    "E0420",
    "a decomposition is wrong",
    "this is a bug in the named pattern: keep the operator (keep=...) to go on without it",
)
E0421 = define(
    "E0421",
    "an operator works in training mode",
    "call model.eval() before torch.export, so that dropout and batch norm do what they do in inference",
)
E0422 = define(
    "E0422",
    "a recurrent network has a sequence of unknown length",
    "export with a fixed sequence length: steps are unrolled",
)
E0423 = define(
    "E0423",
    "an operator needs a static size",
    "export with the dim that the message names as a constant: leave it out of dynamic_shapes, or pass its size as int",
)
