"""A language model's program on ExecuTorch's own runtime: token ids in, logits out, by the contract of its text runner.

It runs in this process, unlike :mod:`etir.devtools.stock_runtime`: the caches of thousands of calls are its state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from etir.errors import E0918
from etir.llm.errors import E1721

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StockDecoder:
    """The method ``forward`` of a file: a :class:`~etir.llm.perplexity.Scorer`.

    Raises E0918 when the stock runtime is not installed or does not load the file, E1721 when its method is none of a
    language model.
    """

    def __init__(self, path: str):
        self._module = _load(path)
        try:
            meta = self._module.method_meta("forward")
            inputs = [tuple(meta.input_tensor_meta(i).sizes()) for i in range(meta.num_inputs())]
            outputs = [tuple(meta.output_tensor_meta(i).sizes()) for i in range(meta.num_outputs())]
        except (RuntimeError, ValueError, IndexError) as error:
            raise E1721.error(f"'{path}' has no method 'forward': {_first_line(error)}") from None
        if len(inputs) != 2 or len(inputs[0]) != 2 or len(inputs[1]) != 1 or len(outputs) != 1 or len(outputs[0]) < 2:
            raise E1721.error(
                f"'{path}': 'forward' takes {inputs} and gives {outputs}, not tokens and positions, logits"
            )
        self.piece = inputs[0][1]
        self.all_positions = len(outputs[0]) == 3
        self.vocabulary_size = outputs[0][-1]
        self.calls = 0
        self._one_position = inputs[1] == (1,)
        self._at = 0

    def begin(self) -> None:
        """From position 0: what the caches hold after it is not looked at."""
        self._at = 0

    def feed(self, ids: Sequence[int]) -> None:
        """Tokens after those that were fed."""
        for at in range(0, len(ids), self.piece):
            self._run(ids[at : at + self.piece])

    def rows(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The same, with the logits f32[len(ids), vocabulary_size].

        A file that gives the last position's logits only runs once for each token.
        """
        import numpy as np

        step = self.piece if self.all_positions else 1
        return np.concatenate([self._run(ids[at : at + step]) for at in range(0, len(ids), step)])

    def _run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        import torch

        positions = range(self._at, self._at + (1 if self._one_position else len(ids)))
        try:
            (logits,) = self._module.run_method("forward", (torch.tensor([list(ids)]), torch.tensor([*positions])))
        except RuntimeError as error:
            raise E0918.error(f"the stock runtime cannot run the file: {_first_line(error)}") from None
        self._at += len(ids)
        self.calls += 1
        # The runtime's own memory, which the next call writes again.
        return logits.float().numpy().reshape(-1, self.vocabulary_size).copy()


def _load(path: str) -> Any:
    try:
        # Kernels of llama:: for the stock runtime register themselves.
        import executorch.extension.llm.custom_ops.custom_ops  # pyright: ignore[reportMissingImports]
        from executorch.extension.pybindings import portable_lib
    except ImportError as error:
        raise E0918.error(f"the stock runtime is not installed: {_first_line(error)}") from None
    assert executorch is not None
    try:
        return portable_lib._load_for_executorch(os.fspath(path))  # pyright: ignore[reportPrivateUsage]
    except RuntimeError as error:
        raise E0918.error(f"the stock runtime does not load '{path}': {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
