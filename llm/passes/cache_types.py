"""What caches of keys and values may hold. Names are data, so that a command line that only lists them imports no
compiler.
"""

from __future__ import annotations

from typing import Literal

CacheType = Literal["float32", "float16", "bfloat16", "int8"]
