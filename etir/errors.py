"""Error ids of the compiler's own options."""

from etir.diagnostics import define

E0908 = define("E0908", "unknown phase", "the phases are those of --compile-to in --help, in that order")
E0914 = define(
    "E0914",
    "an option of the compiler is wrong",
    "help(etir.CompileOptions) explains every option, et-compile --help those of the command line",
)
