"""Passes are found by the names of their files, wherever these are."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from etir.diagnostics import EtirError
from etir.passes.infra import registry
from etir.passes.infra.base import Pass

OWN = """
from dataclasses import dataclass
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class {cls}Pass(Pass):
    \"""Nothing.\"""

    name = "{name}"

    def run(self, ctx, module):
        \"""Do nothing.\"""
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of passes that nothing has imported, instead of etir's."""
    folder = tmp_path / "some_passes"
    for below in (folder, folder / "deep" / "deeper", folder / "wide"):
        below.mkdir(parents=True)
        (below / "__init__.py").write_text("")
    (folder / "deep" / "__init__.py").write_text("")
    (folder / "first_one.py").write_text(OWN.format(cls="FirstOne", name="first-one"))
    (folder / "deep" / "deeper" / "second.py").write_text(OWN.format(cls="Second", name="second"))
    (folder / "wide" / "driver.py").write_text(OWN.format(cls="Wide", name="wide"))
    (folder / "helper.py").write_text("# what is above passes: @register_pass\n")
    (folder / "broken.py").write_text("raise RuntimeError('nobody asked for this file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "PACKAGES", ("some_passes",))
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(registry, "installed_plugins", dict)
    for cached in (registry._files, registry.own_passes, registry._installed):
        monkeypatch.setattr(registry, cached.__name__, cached.__wrapped__)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_passes"]:
        del sys.modules[name]


def test_names_come_from_files(package: Path) -> None:
    assert registry.own_passes() == registry.all_passes() == ("first-one", "second", "wide")
    assert not [name for name in sys.modules if name.startswith("some_passes.")], "listing imports nothing"
    for name in ("second", "wide", "first-one"):
        assert registry.find_pass(name).name == name
    assert not registry.has_pass("helper")
    assert not registry.has_pass("nothing")


def test_a_new_pass_is_one_file(package: Path) -> None:
    (package / "wide" / "third_one.py").write_text(OWN.format(cls="ThirdOne", name="third-one"))
    assert registry.has_pass("third-one")
    assert "third-one" in registry.all_passes()


def test_two_passes_of_one_name(package: Path) -> None:
    (package / "wide" / "second.py").write_text(OWN.format(cls="Second", name="second"))
    with pytest.raises(
        EtirError, match="E1303.*there are two passes 'second': of some_passes.deep.deeper.second and of some"
    ):
        registry.find_pass("second")


def test_what_stands_for_one_of_etir_s_own(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of etir's own is taken unless the other says that it replaces it; etir's file then stays unread."""
    monkeypatch.setattr(registry, "_REPLACED", {})
    with pytest.raises(EtirError, match="E1303.*there are two passes 'second': of some_passes.deep.deeper.second and"):
        registry.add_pass("second", "mine:Second")
    assert registry.replacement("second") is None
    registry.add_pass("second", Other, replace=True)
    assert registry.replacement("second") is registry.find_pass("second") is Other
    importlib.import_module("some_passes.deep.deeper.second")
    assert registry.find_pass("second") is Other, "etir's own does not take its name back"


@dataclass(frozen=True)
class Other(Pass):
    """Stands for another."""

    name = "second"


def test_what_is_no_pass(package: Path) -> None:
    registry.add_pass("odd", "json:dumps")
    with pytest.raises(EtirError, match="'odd' of a plug-in .*: json:dumps is no class of a pass") as caught:
        registry.find_pass("odd")
    assert caught.value.ids == ("E1302",)


def test_every_pass_of_etir_is_called_like_its_file() -> None:
    for name in registry.own_passes():
        cls = registry.find_pass(name)
        assert issubclass(cls, Pass)
        assert cls.name == name
        module = cls.__module__.removesuffix(".driver").rpartition(".")[2]
        assert module == name.replace("-", "_")
        assert cls.__name__ == "".join(word.title() for word in name.split("-")) + "Pass"


def test_former_names_lead_to_passes() -> None:
    for former, name in registry.ALIASES.items():
        assert former not in registry.own_passes()
        assert registry.find_pass(former) is registry.find_pass(name)
        assert registry.has_pass(former)


def test_looking_one_pass_up_imports_no_other() -> None:
    """What a tool imports when it starts stays small: one file, and what that needs."""
    code = (
        "import sys; from etir.passes.infra.registry import find_pass, own_passes; own_passes(); find_pass('dce');"
        "print([name for name in ('cse', 'partition', 'plan_memory', 'canonicalize') if"
        " any(module.endswith('.' + name) for module in sys.modules)])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
