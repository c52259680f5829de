"""lit's configuration: ``lit test/lit`` from any folder, with no environment to set up.

Two substitutions are whole command lines over the test's own file:

* ``%roundtrip``: print and read back in the custom and in the generic form, then FileCheck the custom form;
* ``%generic``: the same through real text: generic form out of one process, into the next.

Tools run in forks of lit's workers (``etir_testing/forked_tools.py``). ``%{process} et-opt ...`` is a process of its
own, for lines that test just that; ``lit --param process=1`` makes all of them such.
"""

import sys
from pathlib import Path

root = Path(__file__).resolve().parent
sys.path.insert(0, str(root.parent))

from etir_testing.forked_tools import PROCESS_VARIABLE, ForkedTools  # noqa: E402

config.name = "etir"  # noqa: F821
config.test_format = ForkedTools(process="process" in lit_config.params)  # noqa: F821
config.suffixes = [".mlir", ".py"]  # noqa: F821
config.excludes = ["inputs", "lit.cfg.py", "programs_support.py"]  # noqa: F821
config.test_source_root = str(root)  # noqa: F821
config.test_exec_root = str(root.parent.parent / "build" / "lit")  # noqa: F821

tools = Path(sys.executable).parent
config.environment["PATH"] = f"{tools}:{config.environment['PATH']}"  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%roundtrip", "et-opt --split-input-file --verify-roundtrip %s | filecheck %s"),
    ("%generic", "et-opt --split-input-file --print-op-generic %s | et-opt --split-input-file | filecheck %s"),
    ("%{process}", f"env {PROCESS_VARIABLE}=1"),
]
