"""Which passes ``et-bisect`` and ``et-reduce`` look at: a pipeline, or all passes up to a phase."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from etir.tools.common import usage_error

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


def passes_of(arguments: argparse.Namespace, module: ModuleOp) -> tuple[ModulePass, ...]:
    """The passes that ``-p`` or ``--compile-to`` name. Raises error E0901 unless it is one of them."""
    from etir.options import CompileOptions
    from etir.passes.delegation.attributes import is_marked
    from etir.passes.infra.pipeline import parse_pipeline
    from etir.phases import phase_of
    from etir.pipeline import pipeline

    if (arguments.pipeline is None) == (arguments.compile_to is None):
        raise usage_error("say which passes: -p TEXT, or --compile-to PHASE")
    if arguments.pipeline is not None:
        return parse_pipeline(arguments.pipeline)
    options = CompileOptions(target=arguments.target, delegates=tuple(arguments.delegate))
    return pipeline(options, phase_of(module), arguments.compile_to, marked=is_marked(module))
