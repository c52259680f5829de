"""The passes that lower a language model to the backend level, with fewer operators for a token.

They stand around those of ``etir.compile``, which are among them: what one token takes is counted in operators. Hence
this list is above the compiler, while the passes themselves are below it (``llm/passes``).
"""

from __future__ import annotations

from xdsl.passes import ModulePass

from etir.llm.passes.fuse_rms_norm import FuseRmsNormPass
from etir.llm.passes.fuse_rotary import FuseRotaryPass
from etir.llm.passes.gate_group_layers import GateGroupLayersPass
from etir.llm.passes.join_group_layers import JoinGroupLayersPass
from etir.options import CompileOptions
from etir.pipeline import pipeline


def fusing_passes(options: CompileOptions, start: str) -> tuple[ModulePass, ...]:
    """What takes a module from phase ``start``, ``aten`` to ``edge``, to ``backend`` with fewer operators for a token.

    Those of ``etir.compile`` are among them. With delegates there are no others. Raises what
    :func:`etir.pipeline.pipeline` does.
    """
    to_edge, to_backend = pipeline(options, start, "edge"), pipeline(options, "edge", "backend")
    if options.delegates:
        return (*to_edge, *to_backend)
    norms, positions = FuseRmsNormPass(options.target), FuseRotaryPass(options.target)
    layers = JoinGroupLayersPass(options.target), GateGroupLayersPass(options.target)
    return (*to_edge, norms, positions, *to_backend, *layers)
