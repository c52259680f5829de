"""The command line of ``et-opt``. Options that mlir-opt has too also go by its names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from etir.phases import PHASES
from etir.tools.common import ToolParser, add_replace_weights
from etir.tools.plugin_arguments import add_plugin_arguments
from etir.tools.remark_arguments import add_remark_arguments

_DESCRIPTION = """\
Read a module as text, run passes over it, print it.

  et-opt -p 'decompose-aten,aten-to-edge{...}' in.mlir -o out.mlir
  et-opt --cse --dce in.mlir                 a pass is an option, too; -cse as well
  et-opt --compile-to=edge in.mlir           all passes up to a named phase
"""

_OPTIONAL = {
    **{f"--{prefix}print-ir-{place}": "*" for prefix in ("", "mlir-") for place in ("before", "after")},
    "--explain-match": "*",
    **{f"--remarks-filter{kind}": ".*" for kind in ("", "-passed", "-missed", "-failed")},
    "--verify-each": "true",
}
"""Options whose value is only ever written with =, and what they mean without: none takes the input's name for it."""


class OptParser(ToolParser):
    """The options of ``et-opt``; what is left over and names a pass becomes part of the pipeline."""

    def __init__(self) -> None:
        super().__init__("et-opt", _DESCRIPTION)
        self.add_argument("input", nargs="?", default="-", help="a file with a module, or - for standard input")
        self.add_argument("-o", dest="output", default="-", metavar="FILE", help="where the module goes (default: -)")
        self._add_running()
        self._add_reading()
        self._add_printing()
        self._add_watching()
        self._add_listing()
        add_plugin_arguments(self)

    def _add_running(self) -> None:
        group = self.add_argument_group("running passes")
        group.add_argument("-p", "--pass-pipeline", dest="pipeline", metavar="TEXT", help="passes: a,b{option=1}")
        phases = ", ".join(PHASES)
        group.add_argument("--compile-to", metavar="PHASE", help=f"run the passes up to a phase: {phases}")
        group.add_argument("--compile-from", metavar="PHASE", help="the phase that the input is in (default: aten)")
        group.add_argument("--target", default="executorch", help="whose kernels the phases lower for")
        group.add_argument(
            "--delegate",
            dest="delegates",
            action="append",
            default=[],
            metavar="NAME{OPTIONS}",
            help="a backend that the phases hand work to, in this order; what is marked or outlined already needs none",
        )
        group.add_argument(
            "--verify-each",
            metavar="BOOL",
            help="verify after every pass: always so, and accepted for mlir-opt's habits",
        )
        group.add_argument("--require-locations", action="store_true", help="refuse operations without a location")
        group.add_argument("--reproducer", metavar="FILE", help="on failure, write what reruns the failing pass")
        group.add_argument("--run-reproducer", metavar="FILE", help="run a file that --reproducer wrote")

    def _add_reading(self) -> None:
        group = self.add_argument_group("reading")
        group.add_argument(
            "--weights",
            action="append",
            default=[],
            metavar="FILE",
            help="the bytes of weights (default: the .safetensors beside the input)",
        )
        group.add_argument(
            "--weights-out",
            metavar="FILE",
            help="where the weights go (default: beside the output)",
        )
        add_replace_weights(group)
        group.add_argument("--allow-unregistered-dialect", action="store_true", help="accept unknown operations")
        group.add_argument("--split-input-file", action="store_true", help="modules between lines '// -----'")
        group.add_argument(
            "--verify-diagnostics", action="store_true", help="check // expected-error @below {{text}} comments"
        )
        group.add_argument("--verify-roundtrip", action="store_true", help="check that printed text reads back")

    def _add_printing(self) -> None:
        group = self.add_argument_group("printing the result")
        group.add_argument("--print-op-generic", "--mlir-print-op-generic", dest="generic", action="store_true")
        group.add_argument("--print-debuginfo", "--mlir-print-debuginfo", dest="locations", action="store_true")
        group.add_argument(
            "--mlir-elide-elementsattrs-if-larger",
            dest="largest_elements",
            type=int,
            metavar="N",
            help="constants with more elements without their values: for reading only",
        )
        group.add_argument("--elide-weights", action="store_true", help="weights as #et.synthetic: readable anywhere")
        group.add_argument("--no-output", action="store_true", help="do not print the result")

    def _add_watching(self) -> None:
        group = self.add_argument_group("watching passes (on standard error)")
        for place in ("before", "after"):
            group.add_argument(
                f"--print-ir-{place}",
                f"--mlir-print-ir-{place}",
                dest=f"print_{place}",
                metavar="NAMES",
                help=f"print the IR {place} these passes (a,b); all without =NAMES",
            )
        for what, help in (
            ("before-all", "print the IR before every pass"),
            ("after-all", "print the IR after every pass"),
            ("after-change", "print only what a pass changed"),
            ("after-failure", "print what a failing pass left"),
        ):
            dest = "print_" + what.replace("-", "_")
            group.add_argument(
                f"--print-ir-{what}", f"--mlir-print-ir-{what}", dest=dest, action="store_true", help=help
            )
        group.add_argument(
            "--print-ir-dir",
            "--mlir-print-ir-tree-dir",
            dest="print_dir",
            metavar="DIR",
            help="IR to numbered files; the input and after every pass unless another option says when",
        )
        group.add_argument("--trace", metavar="FILE", help="record what the passes do, for the developer tools")
        group.add_argument(
            "--trace-detail",
            choices=("levels", "passes"),
            default="levels",
            help="what the trace has the text of: ends of phases (default), or all passes that change something",
        )
        group.add_argument(
            "--check-numerics",
            action="store_true",
            help="interpret after every pass, and name the first pass and rewrite after which the result is another",
        )
        group.add_argument(
            "--inputs", action="append", metavar="FILE", help=".npz with inputs for --check-numerics; several count"
        )
        group.add_argument("--method", default="forward", help="what --check-numerics runs (default: forward)")
        group.add_argument(
            "--tolerance",
            type=float,
            default=1e-4,
            help="--check-numerics: the largest difference, relative to the largest number of an output (1e-4)",
        )
        group.add_argument(
            "--max-rewrites", type=int, metavar="N", help="let patterns rewrite so many times, and then no more"
        )
        group.add_argument(
            "--explain-match", metavar="NAME", help="why a pattern matched or did not (s*); any without =NAME"
        )
        add_remark_arguments(group)
        group.add_argument("--trace-op", metavar="NAME", help="every rewrite of an operation: aten.silu")
        group.add_argument("--timing", "--mlir-timing", action="store_true", help="wall and CPU time of every pass")
        group.add_argument(
            "--statistics", "--mlir-pass-statistics", action="store_true", help="operations and rewrites of every pass"
        )
        group.add_argument(
            "--print-pipeline", "--dump-pass-pipeline", action="store_true", help="print the pipeline with all options"
        )

    def _add_listing(self) -> None:
        group = self.add_argument_group("what there is")
        group.add_argument("--list-passes", action="store_true", help="every pass with its options")
        group.add_argument("--list-dialects", "--show-dialects", action="store_true", help="every dialect")

    def add_completions(self) -> None:
        """Passes are options, which only the shell has to know beforehand."""
        from etir.passes.infra.registry import all_passes

        for name in all_passes():
            self.add_argument(f"--{name}", help="a pass")
        for action in self._actions:
            if action.dest in ("compile_to", "compile_from"):
                action.choices = PHASES

    def parse_args(self, args: Sequence[str] | None = None, namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse, taking ``--NAME[=OPTIONS]`` of a known pass as a pass."""
        import sys

        words = [self._normal(word) for word in (sys.argv[1:] if args is None else args)]
        arguments, rest = self.parse_known_args(words)
        passes = [_pass_option(word) for word in rest]
        if unknown := [word for word, spec in zip(rest, passes, strict=True) if spec is None]:
            if not unknown[0].startswith("-"):
                self.error(
                    f"one input is read, and there are two: '{arguments.input}' and '{unknown[0]}'",
                    "a value of an option is written with =, as in --explain-match=NAME",
                )
            self.error(f"unknown option '{unknown[0]}'{_nearest(unknown[0], self)}")
        if arguments.verify_each not in (None, "true", "1"):
            if arguments.verify_each not in ("false", "0"):
                self.error(f"--verify-each is true or false, not '{arguments.verify_each}'")
            self.error("the verifier runs after every pass, and nothing turns it off: leave --verify-each out")
        if passes and arguments.pipeline is not None:
            self.error("give passes either as options or with -p")
        if passes:
            arguments.pipeline = ",".join(spec for spec in passes if spec is not None)
        if arguments.run_reproducer is not None and (arguments.pipeline is not None or arguments.input != "-"):
            self.error("--run-reproducer takes pipeline and input from its file")
        return arguments

    def _normal(self, word: str) -> str:
        """An option as argparse takes it: mlir-opt's single hyphen (``-cse``) as two, a value that is left out said."""
        name = word.partition("=")[0]
        if len(name) > 2 and name.startswith("-") and not name.startswith("--"):
            known = f"-{name}" in self._option_string_actions or (name[1].isalpha() and _is_pass(name[1:]))
            word = f"-{word}" if known else word
        return f"{word}={_OPTIONAL[word]}" if word in _OPTIONAL else word


def _is_pass(name: str) -> bool:
    from etir.passes.infra.registry import has_pass

    return has_pass(name)


def _pass_option(word: str) -> str | None:
    name, _, options = word.removeprefix("--").partition("=")
    if not word.startswith("--") or not _is_pass(name):
        return None
    return f"{name}{{{options}}}" if options else name


def _nearest(word: str, parser: argparse.ArgumentParser) -> str:
    from difflib import get_close_matches

    from etir.passes.infra.registry import all_passes

    options = [o for action in parser._actions for o in action.option_strings]  # pyright: ignore[reportPrivateUsage]
    near = get_close_matches(word.partition("=")[0], [*options, *(f"--{name}" for name in all_passes())], 1)
    return f"; did you mean {near[0]}?" if near else ""
