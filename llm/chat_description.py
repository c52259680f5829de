"""What ``model.chat.json`` says: how a conversation becomes a prompt, and which tokens end an answer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etir.llm.errors import E1713


@dataclass(frozen=True)
class ChatDescription:
    """The contents of a ``model.chat.json``."""

    chat_template: str | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    eos_ids: tuple[int, ...] = ()
    add_bos: bool = False
    """Whether a prompt begins with ``bos_token`` though its template does not write it."""
    context: int = 0
    name: str = ""
    segments: dict[str, Any] | None = None
    """The template's compiled form (:mod:`etir.llm.template`), where it has one."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ChatDescription:
        """Read a file. Raises EtirError (E1713)."""
        path = Path(path)
        try:
            data = json.loads(path.read_bytes())
        except OSError as error:
            raise E1713.error(f"'{path}' cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise E1713.error(f"'{path}' is no JSON: {error}") from None
        return cls.from_data(data, str(path))

    @classmethod
    def from_data(cls, data: object, name: str) -> ChatDescription:
        """From what JSON gives; ``name`` is the file's, for messages. Raises EtirError (E1713)."""
        if not isinstance(data, dict):
            raise E1713.error(f"'{name}' holds no object")
        kinds: dict[str, tuple[type, ...]] = {
            "chat_template": (str, type(None)),
            "bos_token": (str, type(None)),
            "eos_token": (str, type(None)),
            "eos_ids": (list,),
            "add_bos": (bool,),
            "context": (int,),
            "name": (str,),
            "segments": (dict, type(None)),
        }
        found: dict[str, Any] = {}
        for key, kind in kinds.items():
            if key not in data:
                continue
            value = data[key]
            if not isinstance(value, kind):
                raise E1713.error(f"'{name}': '{key}' is {type(value).__name__}")
            found[key] = value
        ids = found.get("eos_ids", [])
        if not all(isinstance(id, int) and 0 <= id < 2**31 for id in ids):
            raise E1713.error(f"'{name}': 'eos_ids' are no token ids")
        found["eos_ids"] = tuple(ids)
        return cls(**found)
