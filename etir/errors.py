"""Error ids of the compiler's own options."""

from etir.diagnostics import define

E0908 = define("E0908", "unknown phase", "the phases are those of --compile-to in --help, in that order")
E0914 = define(
    "E0914",
    "an option of the compiler is wrong",
    "help(etir.CompileOptions) explains every option, et-compile --help those of the command line",
)
E0918 = define(
    "E0918",
    "ExecuTorch's runtime failed",
    "its message says why; et-run --runtime etir runs the program on etir's, --runtime interpreter without kernels",
)
E0919 = define(
    "E0919",
    "ExecuTorch's runtime cannot log a value",
    "et-run --runtime etir logs values of every dtype; without --values the profile has the times alone",
)
