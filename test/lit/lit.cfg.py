"""lit's configuration: ``lit test/lit`` from any folder, with no environment to set up.

Two substitutions are whole command lines over the test's own file:

* ``%roundtrip``: print and read back in the custom and in the generic form, then FileCheck the custom form;
* ``%generic``: the same through real text: generic form out of one process, into the next.
"""

import sys
from pathlib import Path

import lit.formats

config.name = "etir"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".py"]  # noqa: F821
config.excludes = ["inputs", "lit.cfg.py", "programs_support.py"]  # noqa: F821

root = Path(__file__).resolve().parent
config.test_source_root = str(root)  # noqa: F821
config.test_exec_root = str(root.parent.parent / "build" / "lit")  # noqa: F821

tools = Path(sys.executable).parent
config.environment["PATH"] = f"{tools}:{config.environment['PATH']}"  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%roundtrip", "et-opt --split-input-file --verify-roundtrip %s | filecheck %s"),
    ("%generic", "et-opt --split-input-file --print-op-generic %s | et-opt --split-input-file | filecheck %s"),
]
