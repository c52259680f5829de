"""Checkpoints: GGUF files and Hugging Face folders as transformers' own models, with their tokenizers.

transformers and torch are imported when a checkpoint is loaded, not before.
"""
