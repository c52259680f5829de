"""The tests are complete: every pass, operation, error id and option is in one, whatever is added.

Each of these lists what the code registers and looks for it in the files of the tests; ``etir_testing.meta.checked``
says what counts. That they fail where something is missing is tested with files that are made for it.
"""

from __future__ import annotations

import re
import subprocess
from importlib import import_module

import pytest

from etir.diagnostics import REGISTRY
from etir.dialects.context import EtContext
from etir.passes.infra.registry import own_passes
from etir.tools import (
    et_bisect,
    et_compare,
    et_compile,
    et_explore,
    et_inspect,
    et_lsp,
    et_reduce,
    et_run,
    et_sweep,
    et_translate,
)
from etir.tools.common import ToolParser
from etir.tools.docs.error_ids import import_error_modules
from etir.tools.llm import COMMANDS
from etir.tools.opt_arguments import OptParser

from etir_testing import ROOT
from etir_testing.meta import checked

LIT = ROOT / "test" / "lit"

PARSERS: dict[str, ToolParser] = {
    "et-opt": OptParser(),
    "et-translate": et_translate._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-compile": et_compile._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-run": et_run._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-inspect": et_inspect._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-bisect": et_bisect._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-lsp": et_lsp._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-explore": et_explore._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-compare": et_compare._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-reduce": et_reduce._parser(),  # pyright: ignore[reportPrivateUsage]
    **{f"et-llm {name}": import_module(f"etir.tools.llm.{name}").parser() for name in COMMANDS},
    "et-sweep": et_sweep._parser(),  # pyright: ignore[reportPrivateUsage]
    "et-sweep report": et_sweep._report_parser(),  # pyright: ignore[reportPrivateUsage]
}

OF_XDSL = ("builtin", "func", "pdl", "arith", "math", "memref")
DIALECTS = [name for name in EtContext().registered_dialect_names if name not in OF_XDSL]
"""All that are not xDSL's own."""


# --- passes and dialects ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", own_passes())
def test_every_pass_has_its_lit_file(name: str) -> None:
    files = [path for path in LIT.rglob(f"{name}.mlir") if path.parent.name != "inputs"]
    assert files, f"pass '{name}' has no test/lit/**/{name}.mlir"
    for path in files:
        runs = "\n".join(checked.run_lines(path.read_text()))
        ran = re.search(rf"\bet-opt\b[^|]*(?:--|[\s,'(]){re.escape(name)}(?![\w-])", runs)
        looked = "filecheck" in runs or "--verify-diagnostics" in runs
        assert ran and looked, f"{path} does not run '{name}' and check what comes out"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_operation_is_in_the_dialect_s_file(name: str) -> None:
    """aten and edge get their operators from torch's schemas, of which the files have one of each form."""
    operations = {op.name for op in EtContext().get_dialect(name).operations}
    text = (LIT / "dialects" / name / "ops.mlir").read_text()
    assert operations - checked.operations(text) == set()
    assert all(any(word in run for word in ("%roundtrip", "%generic")) for run in checked.run_lines(text))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_every_error_is_raised_by_a_test() -> None:
    import_error_modules()
    unchecked = sorted(set(REGISTRY) - checked.checked_ids())
    assert not unchecked, "\n".join(f"{id}: {REGISTRY[id].title}" for id in unchecked)


def test_every_error_can_be_raised() -> None:
    """An id that is defined and that nothing names is a promise that the documents make for nobody."""
    import_error_modules()
    listed = subprocess.run(["git", "ls-files", "*.py", "*.cc"], cwd=ROOT, capture_output=True, text=True, check=True)
    used: set[str] = set()
    for name in listed.stdout.split():
        if not name.startswith(("test/", "docs/", "examples/", "benchmarks/")) and (ROOT / name).is_file():
            text = (ROOT / name).read_text(encoding="utf-8")
            used |= set(re.findall(r"(?<![\"\w])E\d{4}\b(?! = define)", text))
    assert set(REGISTRY) - used == set()


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", list(PARSERS))
def test_every_option_is_given_in_a_test(tool: str) -> None:
    """By each of its names, but for ``-h``, which is argparse's own."""
    actions = PARSERS[tool]._actions  # pyright: ignore[reportPrivateUsage]
    names = {name for action in actions for name in action.option_strings} - {"-h"}
    assert names - checked.used_options(tool.partition(" ")[0]) == set()


# --- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("// RUN: et-opt --verify-diagnostics %s\n// expected-error @below [E0301] {{no E0302}}\n", {"E0301"}),
        ("// RUN: et-opt %s\n// expected-error @below [E0301] {{nobody looks}}\n", set()),
        ("// RUN: et-opt %s 2>&1 | filecheck %s\n// E0301 is an error\n// CHECK: error[E0302]: x\n", {"E0302"}),
        ("// RUN: et-opt %s | filecheck %s --check-prefix=A\n// A-NEXT: error[E0301]\n// B: error[E0302]\n", {"E0301"}),
        ("// RUN: et-opt %s | filecheck %s --check-prefix=A\n// CHECK: error[E0301]\n", set()),
    ],
)
def test_ids_in_lit_files(text: str, ids: set[str]) -> None:
    assert checked.lit_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('"""E0301"""\n# E0302\ndef test():\n    """E0303"""\n    assert error.ids == ("E0304",)\n', {"E0304"}),
        ('with pytest.raises(EtirError, match=r"E0301.*x"):\n    f()\n', {"E0301"}),
        ('TABLE = [("text", "E0301")]\n', {"E0301"}),
        ("from etir.dialects.errors import E0301\n", set()),
    ],
)
def test_ids_in_pytest_files(text: str, ids: set[str]) -> None:
    assert checked.pytest_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("E0301 in a sentence, [E0302](errors.md#E0302)\n", set()),
        ("```mlir error=E0301\nE0302\n```\n", {"E0301"}),
        ("```console\n$ et-opt x\nx:1: error[E0301]: wrong\n```\n", {"E0301"}),
        ("```python\nfrom etir.errors import E0301\n```\n", set()),
    ],
)
def test_ids_in_documents(text: str, ids: set[str]) -> None:
    assert checked.document_ids(text) == ids


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("et-opt --cse -p 'dce{a=1}' %s | et-run --inputs x.npz -", {"--cse", "-p"}),
        ("not et-opt --weights=%t.missing %s 2>&1 | filecheck %s --check-prefix=X", {"--weights"}),
        ("et-run --profile %s && et-opt --timing %s", {"--timing"}),
        ("%roundtrip", {"--split-input-file", "--verify-roundtrip"}),
        ("echo --cse; et-optimizer --dce", set()),
    ],
)
def test_options_in_lit_files(line: str, options: set[str]) -> None:
    assert checked.lit_options(f"// RUN: {line}\n// --color\n", "et-opt") == options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            'from etir.tools import et_run\n"""--profile"""\net_run.main(["--threads", "2", "-x=1"])\n',
            {"--threads", "-x"},
        ),
        ('from etir.tools import et_opt\net_opt.main(["--cse"])\n', set()),
        ('command = "et-run --inputs x.npz m.pte"\n', {"--inputs"}),
    ],
)
def test_options_in_pytest_files(text: str, options: set[str]) -> None:
    assert checked.pytest_options(text, "et-run") == options


def test_operations_in_lit_files() -> None:
    assert checked.operations('// sym.add\n%0 = sym.sub %a, %b\n"sym.mul"(%a) : ()\n') == {"sym.sub", "sym.mul"}
