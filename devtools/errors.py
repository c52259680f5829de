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
