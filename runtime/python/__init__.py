"""``etir.runtime``: load and execute ``.pte`` files from Python.

    rt = etir.runtime.load("model.pte")        # or bytes; data="weights.ptd" for external weights
    y, = rt.forward(x)                         # NumPy arrays or torch tensors in, the same kind out, as a flat list
    y, = rt.forward(x=x)                       # arguments by keyword
    rt.forward.structured(x)                   # what the program returns, in its containers
    rt.methods, rt["forward"].inputs           # what is in the file
    rt.state["cache"]                          # state, in a program that has methods for it
    etir.runtime.load_library("mine.so")       # kernels and backends of your own

The C++ runtime does the work (``runtime/``, native module ``_native``); this module turns Python's containers into flat
inputs and failures into :class:`RuntimeFailure`. It needs neither torch nor NumPy until it is handed tensors of theirs.

Threads: a program and its methods may be used from any thread. Runs of one method wait for each other, as do runs of
methods that share state; others run at the same time, without Python's lock.
"""

from __future__ import annotations

from etir.runtime.api import Method, NativeWarning, Program, load
from etir.runtime.containers import Record
from etir.runtime.errors import RuntimeFailure
from etir.runtime.info import MethodMemory, OperatorTime, Profile, ScalarInfo, Signature, TensorInfo
from etir.runtime.library import Library, cmake_dir, is_available, load_library, operators
from etir.runtime.state import State
from etir.runtime.training import SGD, Adam, AdamW, TrainingModule

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Library",
    "Method",
    "MethodMemory",
    "NativeWarning",
    "OperatorTime",
    "Profile",
    "Program",
    "Record",
    "RuntimeFailure",
    "ScalarInfo",
    "Signature",
    "State",
    "TensorInfo",
    "TrainingModule",
    "cmake_dir",
    "is_available",
    "load",
    "load_library",
    "operators",
]
