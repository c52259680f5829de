"""Language models: from a checkpoint to a chat.

A checkpoint (GGUF or a Hugging Face folder) becomes transformers' own model, ``torch.export`` exports it, passes of
:mod:`etir.llm.passes` put its cache and its attention into the operators that runtimes have, and the file that comes
out keeps the contract of ExecuTorch's ``TextLLMRunner``. Tokenizers, sampling and sessions are C++ (``runtime/llm``).
A program that is no language model never loads anything of this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etir.llm.chat_description import ChatDescription
    from etir.llm.sampling import Sampling
    from etir.llm.session import Generation, LanguageModel, Session, Statistics, Token
    from etir.llm.tokenizer import Tokenizer, TokenStream

_PLACES = {
    "ChatDescription": "chat_description",
    "Generation": "session",
    "LanguageModel": "session",
    "Sampling": "sampling",
    "Session": "session",
    "Statistics": "session",
    "Token": "session",
    "TokenStream": "tokenizer",
    "Tokenizer": "tokenizer",
}
"""Public names by the module that has them, which is imported when one is asked for."""

__all__ = [
    "ChatDescription",
    "Generation",
    "LanguageModel",
    "Sampling",
    "Session",
    "Statistics",
    "Token",
    "TokenStream",
    "Tokenizer",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'etir.llm' has no attribute '{name}'")
    return getattr(import_module(f"etir.llm.{_PLACES[name]}"), name)
