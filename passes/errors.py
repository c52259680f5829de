"""Error ids of passes and of the pass manager."""

from etir.diagnostics import define

E0501 = define(
    "E0501",
    "a set of rewrite patterns does not converge",
    "one of the named patterns undoes another: run them in separate passes, or make the first one check "
    "what the second one produces",
)
E0502 = define("E0502", "unknown pass", "et-opt --list-passes shows every pass and its options")
E0503 = define(
    "E0503",
    "a pass option is wrong",
    "et-opt --list-passes shows the options of every pass with their types and defaults",
)
E0504 = define(
    "E0504",
    "a pass produced invalid IR",
    "this is a bug in the pass: `et-opt --reproducer=FILE.mlir` writes a file that reruns it with one command",
)
E0505 = define(
    "E0505",
    "a pass failed",
    "this is a bug in the pass: --debug prints the traceback, and `et-opt --reproducer=FILE.mlir` writes a file that "
    "reruns it with one command",
)
E0506 = define("E0506", "a pipeline is malformed", "write it as 'first-pass,second-pass{option=value other=1,2}'")
E0507 = define(
    "E0507",
    "a reproducer file is not usable",
    "pass a file that et-opt wrote with --reproducer; its first lines are comments, one of them '// et-opt -p ...'",
)
E0508 = define(
    "E0508",
    "a file of PDL patterns is not usable",
    "write a module of pdl.pattern operations, each with a root and a rewrite body",
)
E0509 = define("E0509", "a pass was renamed", "write the new name: the former one goes with the next version")
E0510 = define(
    "E0510",
    "a PDL pattern leaves out an attribute",
    "as in MLIR, an attribute that a pattern does not name matches any value: name it with "
    "`%a = pdl.attribute = 1 : i64` to match that value, or with `%a = pdl.attribute` to say that any may stand there",
)
E0521 = define(
    "E0521",
    "there is no backward graph to optimize with",
    "export it with torch.export.experimental._export_forward_backward(torch.export.export(model, inputs)), where the "
    "first output of the model is the loss",
)
E0522 = define(
    "E0522",
    "there is no state to read and write",
    "state is what a method changes: buffers (register_buffer), and the parameters of a training step",
)
E0523 = define(
    "E0523",
    "control flow is nested too deeply",
    "make a loop of what repeats (torch.while_loop, scan), or put one condition after the other instead of inside",
)
E0524 = define(
    "E0524",
    "observers of fake quantization were left on",
    "turn them off before export (disable_observer of torchao.quantization.pt2e), or convert the model: then "
    "nothing is left to say",
)
