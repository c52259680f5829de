"""The models that native code is measured on: those of the zoo by their names, and the same ones at users' sizes.

Names with a size (``resnet50_224``) are of this file; all others are entries of the zoo. Every model is exported with
the sizes of its inputs, also where the zoo has it with bounded dims.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

from delegation_models import CASES

from etir_testing.models.families import llama_decoder
from etir_testing.models.families.hugging_face import hugging_face, ids, mask
from etir_testing.models.registry import MODELS, ModelCase
from etir_testing.models.seeding import seed_weights, seeded_integers, seeded_normal
from etir_testing.models.zoo_entry import DEEP, LINEAR_GAIN, Built, Entry
from etir_testing.models.zoo_table import ENTRIES

_LLAMA = llama_decoder.Shape(512, 8, 8, 2, 1536, 2000, 256, 500000.0)
"""A Llama 3 of 27 million weights: more than the caches hold, as the large ones are."""


def _of_case(case: ModelCase) -> Callable[[], Built]:
    def build() -> Built:
        module, _, _ = case.build()
        return Built(module, case.inputs(0))

    return build


def _minilm(tokens: int) -> Built:
    from etir_testing.models.minilm import VOCABULARY, load_minilm

    return Built(load_minilm(), (seeded_integers(1, VOCABULARY, 1, tokens), mask(1, tokens, 0)))


def _decode() -> Built:
    module = seed_weights(llama_decoder.Llama(_LLAMA, cached=True), seed=0, gain=LINEAR_GAIN)
    import torch

    return Built(module, (seeded_integers(1, _LLAMA.vocabulary, 1, 1), torch.tensor([_LLAMA.length // 2])))


_TRANSFORMERS = ("transformers",)
_LARGE: dict[str, tuple[Callable[[], Built], tuple[str, ...]]] = {
    "mobilenet_v2_224": (_of_case(CASES["mobilenet_v2"]), ()),
    "mobilenet_v3_small_224": (_of_case(CASES["mobilenet_v3"]), CASES["mobilenet_v3"].requires),
    "efficientnet_b0_224": (_of_case(CASES["efficientnet_b0"]), CASES["efficientnet_b0"].requires),
    "resnet18_224": (_of_case(MODELS["resnet18"]), ()),
    "resnet50_224": (_of_case(CASES["resnet50"]), CASES["resnet50"].requires),
    "vit_b_224": (_of_case(CASES["vit_b"]), CASES["vit_b"].requires),
    "mobilebert_128": (
        hugging_face(
            "MobileBertModel",
            "MobileBertConfig",
            lambda: {"input_ids": ids(1, 128, 30522), "attention_mask": mask(1, 128, 0)},
        ),
        _TRANSFORMERS,
    ),
    "minilm_128": (partial(_minilm, 128), MODELS["minilm"].requires),
    "whisper_tiny_encoder_1500": (
        hugging_face(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            lambda: {"input_features": seeded_normal(1, 1, 80, 3000)},
            part="model.encoder",
        ),
        _TRANSFORMERS,
    ),
    "wav2letter_16000": (_of_case(CASES["wav2letter"]), ()),
    "llama_prefill_32": (partial(llama_decoder.prefill, _LLAMA, 32), ()),
    "llama_decode_256": (_decode, ()),
}

LARGE: dict[str, Entry] = {
    name: Entry(name, build, "", DEEP, requires=requires) for name, (build, requires) in _LARGE.items()
}
"""Models at the sizes that users run."""
SMALL: dict[str, Entry] = {name: entry for name, entry in ENTRIES.items() if entry.small}
"""The small entries of the zoo."""
KNOWN: dict[str, Entry] = {**LARGE, **{name: entry for name, entry in ENTRIES.items() if not entry.shape_only}}
"""Every model, by its name."""
GROUPS: dict[str, tuple[str, ...]] = {
    "large": tuple(LARGE),
    "small": tuple(SMALL),
    "default": (*LARGE, *SMALL),
    "all": tuple(KNOWN),
}
"""Names that stand for several."""


def names_of(text: str) -> list[str]:
    """The models that a comma-separated list names. Raises ValueError for one that nobody knows."""
    found: list[str] = []
    for name in text.split(","):
        if name not in GROUPS and name not in KNOWN:
            raise ValueError(f"no model '{name}'; groups are {', '.join(GROUPS)}, models {', '.join(KNOWN)}")
        found += GROUPS.get(name, (name,))
    return list(dict.fromkeys(found))
