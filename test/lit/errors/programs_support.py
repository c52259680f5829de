"""Runs the programs of a lit test: exports each one, compiles it, and prints its errors with their source lines."""

import linecache
import logging
import os
import warnings
from pathlib import Path

import torch

import etir
from etir.diagnostics import EtirError


def show(space):
    """Every module class with an ``example``: inputs, and options of export and of compilation."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    folder = f"{Path(__file__).parent}{os.sep}"
    for name, cls in list(space.items()):
        if not isinstance(cls, type) or not hasattr(cls, "example"):
            continue
        program = module = cls()
        if cls.example is not None:
            with torch.no_grad():
                program = torch.export.export(module, cls.example, **getattr(cls, "export", {}))
        print(f"=== {name}")
        try:
            etir.compile(program, **getattr(cls, "options", {}))
            print("compiled")
        except EtirError as error:
            for diagnostic in error.diagnostics:
                place = diagnostic.location
                line = None if place is None else linecache.getline(place.file, place.line).strip() or None
                print(diagnostic.render(line).replace(folder, ""))
