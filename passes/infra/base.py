"""What a pass is: a frozen dataclass with a name, options as fields, and ``apply``.

A pass works on a whole module and leaves it valid: the pass manager verifies after every pass, and there is no switch
that turns this off. Options are the dataclass fields (``int``, ``float``, ``bool``, ``str``, ``tuple[...]``,
``Literal[...]``, or ``X | None``), written ``name{option=value}`` in a pipeline; underscores become hyphens.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of


@dataclass(frozen=True)
class Pass(ModulePass):
    """Base of etir's passes; ``run`` gets etir's own context.

    The first line of a subclass's docstring is its summary in ``--list-passes`` and in the documentation.
    """

    name: ClassVar[str]
    checks_only: ClassVar[bool] = False
    """Whether the pass only looks: the module stays as it is, also when the pass raises."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass. Raises ``TypeError`` when the context is not etir's."""
        if not isinstance(ctx, EtContext):
            raise TypeError(f"pass '{self.name}' needs an EtContext")
        self.run(ctx, op)

    @abstractmethod
    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change ``module`` in place. All problems of the user's program are raised as one ``EtirError``."""

    def recover(self, module: ModuleOp) -> bool:
        """Whether the passes that follow can still say what else is wrong with a program after :meth:`run` raised.

        A pass that leaves its work half done may bring ``module`` into a valid state first.
        """
        return self.checks_only


def methods(module: ModuleOp) -> list[FuncOp]:
    """The methods of a module above the executable level, in order. Private functions are a delegate's business."""
    return [op for op in ops_of(module.body.block) if type(op) is FuncOp and not is_private(op)]


def is_private(func: FuncOp) -> bool:
    """Whether a function is no method: one that was outlined for a delegate."""
    return func.sym_visibility is not None and func.sym_visibility.data == "private"
