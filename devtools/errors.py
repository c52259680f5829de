"""Error ids of the developer tools."""

from etir.diagnostics import define

E1401 = define(
    "E1401",
    "the file is not a trace",
    "pass what et-compile --trace=FILE or et-opt --trace=FILE wrote",
)
E1402 = define(
    "E1402",
    "the trace was written by another version of etir",
    "read it with that version, or compile again with --trace",
)
E1403 = define(
    "E1403",
    "the trace is damaged",
    "it may have been truncated while copying: copy it again, or compile again with --trace",
)
E1410 = define(
    "E1410",
    "a pass changes what the program computes",
    "print the program around the rewrite: et-opt -p PASS --max-rewrites=N, with N and one less",
)
E1404 = define(
    "E1404",
    "the profile is of another program",
    "pass the trace (or the .pte file) that was made when the program that ran was compiled",
)
E1405 = define("E1405", "there is no such grouping", "et-inspect --help lists what a profile can be grouped by")
E1406 = define(
    "E1406",
    "nothing is known of what was asked for",
    "name a source line (model.py:41), a node of the FX graph, an operator, or the path of a module",
)
E1407 = define(
    "E1407",
    "there is no ETRecord",
    "compile with trace=True, a program with a method 'forward'; to read one, pass what ExecuTorch or etir wrote",
)
E1420 = define(
    "E1420",
    "there is no page of such a file",
    "pass a trace (et-compile --trace) or a .pte file; ETRecords, profiles, values and compare results are options",
)
E1421 = define(
    "E1421",
    "the compare results cannot be shown",
    "pass what et-compare -o (or --json) wrote for the program of this trace",
)
E1422 = define(
    "E1422",
    "the values are not those of the profile",
    "pass the two files that one run has written: et-run --etdump FILE --values FILE",
)
E1423 = define(
    "E1423",
    "the program is too large for a page",
    "trace a part of it: et-opt --trace on one method, or one layer of the model",
)
E1430 = define(
    "E1430",
    "the language server could not do everything",
    "report it with the file; `et-opt FILE` says what the compiler thinks of it",
)
E1431 = define(
    "E1431",
    "the language server is not installed",
    "install it with pip install 'etir[lsp]'",
)
E1432 = define(
    "E1432",
    "what the editor asked for cannot be done here",
    "name a file that is open, a line of it, and passes as et-opt takes them: cse,dce",
)
E1411 = define(
    "E1411",
    "there is nothing to compare with",
    "pass the exported program (.pt2) or the text that was compiled, a trace for the levels, or what runs the file "
    "(--runtime etir,stock; none is for files with a source or a trace)",
)
E1412 = define(
    "E1412",
    "the files do not belong together",
    "pass the trace that was made when the .pte file was compiled, and the program that it was compiled from",
)
E1413 = define(
    "E1413",
    "the inputs of a comparison do not fit",
    "pass one list of inputs for each sample, in the order of the method's; et-run --list shows them",
)
E1415 = define(
    "E1415",
    "the values of a run do not fit into memory",
    "compare one sample at a time, with smaller inputs, or one layer of the model; --runtime none leaves out what "
    "runtimes log",
)
E1416 = define(
    "E1416",
    "values of a run are missing",
    "there was no room for them: record fewer runs, smaller inputs, or a part of the program",
)
E1414 = define(
    "E1414",
    "the program does not fail",
    "reduce what fails: the check has to say so of the whole program before it is made smaller",
)
