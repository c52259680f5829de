"""The bridge: every partitioner and backend of the ``executorch`` package as a delegate.

``"executorch:xnnpack"`` names a partitioner by its short name (:data:`partitioners.KNOWN`), and
``"executorch:my_package.module.MyPartitioner"`` any other one by its class; :func:`from_partitioner` takes an instance.
The partitioner is shown a block of the program in ExecuTorch's edge dialect and tags nodes; what it tags under one name
becomes an outlined function. The function becomes an exported program, which the backend's ``preprocess`` turns into a
blob; the blob goes into the file like any other.

``edge.py`` is ExecuTorch's edge dialect for ``lowering/export_fx``, ``partitioners.py`` finds and asks partitioners,
``backend.py`` is what the passes of delegation see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner


def from_partitioner(partitioner: Partitioner, name: str = "") -> str:
    """Make a partitioner known to this process and return what to write in ``delegates=[...]`` for it.

    ``name`` is what it is called after the prefix, by default its class's name; a partitioner that was given the same
    name before is replaced. Where the partitioner can be made without arguments, or with ones that can be written as
    text, prefer ``"executorch:package.module.Class{arguments=per_op_mode=True}"``, which other processes can read too.
    Raises E1101 for what is no partitioner.
    """
    from etir.backends.bridge.partitioners import register

    return register(partitioner, name)
