"""Neighbors of the zoo's named models in transformers: ``transformers_models.json`` lists them.

``sizes`` names options that many of the small configurations share; ``fixed`` are arguments of the call that are no
tensors, ``picked`` the outputs that are compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from etir_testing.models.families.hugging_face import hugging_face, ids, image, mask
from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import Built

_INPUTS: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
    "text": lambda: {"input_ids": ids(2), "attention_mask": mask(2)},
    "long_text": lambda: {"input_ids": ids(1, 32), "attention_mask": mask(1, 32)},
    "ids": lambda: {"input_ids": ids(2)},
    "sequences": lambda: {
        "input_ids": ids(2),
        "attention_mask": mask(2),
        "decoder_input_ids": ids(2, 7, seed=2),
    },
    "samples": lambda: {"input_values": seeded_normal(1, 1, 800)},
    "spectrogram": lambda: {"input_features": seeded_normal(1, 1, 40, 16), "decoder_input_ids": ids(1, 5)},
    "image_32": lambda: {"pixel_values": image(32)},
    "image_64": lambda: {"pixel_values": image(64)},
    "video": lambda: {"pixel_values": seeded_normal(1, 1, 4, 3, 32, 32)},
    "vectors": lambda: {"inputs": seeded_normal(1, 2, 12, 32)},
    "ids_and_image": lambda: {"input_ids": ids(2, 8), "pixel_values": image(32)},
    "text_and_image": lambda: {"input_ids": ids(2, 8), "pixel_values": image(32), "attention_mask": mask(2, 8)},
}


def _builders() -> dict[str, Callable[[], Built]]:
    table: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {
        name: hugging_face(
            row["model"],
            row["config"],
            _INPUTS[row["inputs"]],
            tuple(row.get("picked", ("last_hidden_state",))),
            row.get("fixed"),
            **table["sizes"].get(row.get("sizes"), {}),
            **row.get("options", {}),
        )
        for name, row in table["models"].items()
    }


BUILDERS = _builders()
"""Builder of each by name."""
