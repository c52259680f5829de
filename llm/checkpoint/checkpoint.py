"""A checkpoint as the rest of the compiler sees it, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etir.llm.checkpoint.blocks import Blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_LIMITS = ("max_position_embeddings", "n_positions", "max_seq_len")
"""What configurations call the number of positions that a model has."""


def positions_of(model: PreTrainedModel) -> int | None:
    """How many positions a model was made for; None for one without a limit (ALiBi, recurrent states)."""
    config = model.config.get_text_config()
    found = (getattr(config, name, None) for name in _LIMITS)
    return next((int(count) for count in found if isinstance(count, int)), None)


@dataclass(frozen=True)
class Chat:
    """What a runner has to know besides the tokenizer."""

    template: str | None = None
    bos: str | None = None
    eos: str | None = None
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    add_bos: bool = False

    def as_dict(self, name: str, context: int) -> dict[str, Any]:
        """The contents of ``model.chat.json``."""
        return {
            "name": name,
            "context": context,
            "chat_template": self.template,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "eos_ids": list(self.eos_ids),
            "add_bos": self.add_bos,
        }


@dataclass
class Checkpoint:
    """A model in float32 with its weights, in eval mode.

    ``blocks`` has the weights that the file holds as integers, by the names of the model's parameters; the model has
    the same numbers multiplied out. ``tokenizer`` is the text of a ``tokenizer.json``. ``vocabulary`` is how many
    tokens it has, at most the rows of the model's table. ``remarks`` are lines for the user.
    """

    name: str
    model: PreTrainedModel
    tokenizer: str
    chat: Chat
    vocabulary: int
    blocks: dict[str, Blocks] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def context(self) -> int | None:
        """Positions that the model was trained for; None for one without a limit (ALiBi, recurrent states)."""
        return positions_of(self.model)
