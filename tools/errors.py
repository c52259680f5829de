"""Error ids of the command-line tools."""

from etir.diagnostics import define

E0901 = define("E0901", "wrong command line", "--help lists the options")
E0902 = define(
    "E0902",
    "the input cannot be read",
    "pass the path of a file in the format that the tool reads, or - for standard input",
)
E0903 = define("E0903", "the output cannot be written", "check that the folder exists, is writable and has room")
E0904 = define(
    "E0904",
    "the text does not round-trip",
    "this is a bug in the syntax of the operation on the line shown: printing and parsing must give the same IR",
)
E0905 = define(
    "E0905",
    "an expected diagnostic was not produced",
    "fix the expectation, or what should have caused the diagnostic",
)
E0906 = define(
    "E0906",
    "a diagnostic was not expected",
    "fix its cause, or expect it: // expected-error @below [ID] {{text}}",
)
E0907 = define(
    "E0907",
    "an expectation is malformed",
    "write // expected-error @below [E0301] {{part of the message}}; @above, @+2, @-1, @unknown and "
    "expected-error-re work too",
)
E0909 = define(
    "E0909",
    "internal error",
    "this is a bug in etir: run again with --debug for the traceback, and report it with the input",
)
E0910 = define(
    "E0910",
    "the inputs do not fit the method",
    "write them with numpy.savez, named like the method's inputs or in their order",
)
E0911 = define(
    "E0911",
    "bytes of weights are not written",
    "write to a file (-o FILE): the weights go into FILE.safetensors beside it; or name one with --weights-out",
)
E0912 = define(
    "E0912",
    "there is no error record",
    "pass what the runtime printed: 'etir-error CHECK METHOD INSTRUCTION OPERATOR A B', or the same as JSON",
)
E0913 = define(
    "E0913",
    "the error record does not come from this program",
    "pass the .pte file that was running when the error happened",
)
E0921 = define(
    "E0921",
    "the machine has no memory left",
    "pass less at once: smaller inputs, fewer runs or samples, or a part of the program",
)
E0920 = define(
    "E0920",
    "outputs are not those that are expected",
    "--rtol and --atol say by how much they may differ; et-run --runtime interpreter --check says whether the runtime "
    "or the program is wrong",
)
