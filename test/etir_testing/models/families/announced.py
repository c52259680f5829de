"""MobileBERT, Whisper-tiny and Mamba of transformers."""

from __future__ import annotations

from etir_testing.models.families.hugging_face import hugging_face, ids, mask
from etir_testing.models.seeding import seeded_normal

_WHISPER = {"max_source_positions": 100, "vocab_size": 500, "max_target_positions": 32}
"""The sizes of Whisper-tiny, but for a second of sound and a short vocabulary: Radford et al., 2022."""
_TINY = {"d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6}
_TINY |= {"decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 2}

whisper_encoder = hugging_face(
    "WhisperForConditionalGeneration",
    "WhisperConfig",
    lambda: {"input_features": seeded_normal(1, 1, 80, 200)},
    part="model.encoder",
    **_WHISPER,
    **_TINY,
    **_TOKENS,
)
whisper_decoder = hugging_face(
    "WhisperForConditionalGeneration",
    "WhisperConfig",
    lambda: {"input_ids": ids(1, 6, 500), "encoder_hidden_states": seeded_normal(1, 1, 100, 384)},
    part="model.decoder",
    fixed={"use_cache": False},
    **_WHISPER,
    **_TINY,
    **_TOKENS,
)
mobilebert = hugging_face(
    "MobileBertModel",
    "MobileBertConfig",
    lambda: {"input_ids": ids(1, 16, 1000), "attention_mask": mask(1, 16)},
    ("last_hidden_state", "pooler_output"),
    vocab_size=1000,
)
mobilebert_small = hugging_face(
    "MobileBertModel",
    "MobileBertConfig",
    lambda: {"input_ids": ids(1, 16, 200), "attention_mask": mask(1, 16)},
    vocab_size=200,
    num_hidden_layers=3,
)
mamba = hugging_face(
    "MambaForCausalLM",
    "MambaConfig",
    lambda: {"input_ids": ids(1, 8)},
    ("logits",),
    {"use_cache": False},
    vocab_size=100,
    hidden_size=64,
    num_hidden_layers=2,
    state_size=8,
)
