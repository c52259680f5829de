"""A checkpoint in float32 as transformers runs it: what a program's logits are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ReferenceDecoder:
    """A :class:`~etir.llm.perplexity.Scorer` of a model of transformers, with its own cache."""

    def __init__(self, model: Any):
        self._model = model.float().eval()
        self.vocabulary_size = int(model.config.get_text_config().vocab_size)
        self.calls = 0
        self._cache: Any = None

    @classmethod
    def load(cls, path: str) -> ReferenceDecoder:
        """A GGUF file or a Hugging Face folder. Raises what ``etir.llm.checkpoint`` raises."""
        from etir.llm.checkpoint.load import load_checkpoint

        return cls(load_checkpoint(path).model)

    def begin(self) -> None:
        """An empty cache."""
        self._cache = None

    def feed(self, ids: Sequence[int]) -> None:
        """Tokens after those that were fed."""
        self.rows(ids)

    def rows(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The same, with the logits f32[len(ids), vocabulary_size]."""
        import torch

        with torch.no_grad():
            found = self._model(torch.tensor([list(ids)]), past_key_values=self._cache, use_cache=True)
        self._cache = found.past_key_values
        self.calls += 1
        return found.logits[0].float().numpy()
