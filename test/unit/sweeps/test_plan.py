"""Plans: what they say, and everything that is wrong with one at once, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir import EtirError
from etir.sweeps.reader import read_plan

from etir_testing import ROOT
from etir_testing.sweeps import cells

WRONG = """targets = ["etir", "executorh"]
delegates = ["none", "xnnpak"]
recipes = ["float32", "static-int9"]
measure = ["byts"]
tolernce = 3
[[programs]]
name = "net"
factory = "etir_testing.sweeps.models:nett"
[[programs]]
file = "x.pt2"
[[options]]
name = "a"
plan_input = false
[[exclude]]
target = "etirr"
[limits]
memory = "4 Gb"
"""

PLACES = {
    (1, 20, "E1902"): "executorh",
    (2, 22, "E1902"): "xnnpak",
    (3, 23, "E1902"): "static-int9",
    (4, 12, "E1902"): "byts",
    (5, 1, "E1902"): "tolernce",
    (8, 39, "E1902"): "nett",
    (10, 8, "E1902"): "x.pt2",
    (13, 1, "E1902"): "plan_input",
    (15, 10, "E1902"): "etirr",
    (17, 10, "E1903"): "4 Gb",
}


def _plan(**more: object) -> dict[str, object]:
    return {"programs": [{"factory": "etir_testing.sweeps.models:net"}], **more}


def test_everything_that_is_wrong_is_reported_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(WRONG)
    with pytest.raises(EtirError) as caught:
        read_plan(path)
    found = {(d.location.line, d.location.column, d.id.id): d.message for d in caught.value.diagnostics if d.location}
    assert set(found) == set(PLACES)
    assert all(PLACES[place] in message for place, message in found.items())


@pytest.mark.parametrize(
    ("plan", "id", "text"),
    [
        (_plan(targets=[]), "E1903", "'targets' takes a list"),
        (_plan(targets=[3]), "E1903", "'targets.0' takes the name of a target"),
        (_plan(tolerance=-1), "E1903", "not negative"),
        (_plan(tolerance=True), "E1903", "not negative"),
        (_plan(exclusive="yes"), "E1903", "true or false"),
        (_plan(limits=[1]), "E1903", "'limits' takes a table"),
        (_plan(limits={"second": 1}), "E1902", "did you mean 'seconds'"),
        (_plan(delegates=[3]), "E1903", "'delegates.0' takes"),
        (_plan(recipes=[{"name": "x"}]), "E1903", "'recipes.0' takes"),
        (_plan(recipes=[{"recipe": "static-int8", "encodings": "mean"}]), "E1902", "method to choose scales 'mean'"),
        (_plan(recipes=["float32", "float32"]), "E1903", "two recipes are called 'float32'"),
        (
            _plan(recipes=[{"name": "two\nlines", "recipe": "weight-int8"}]),
            "E1903",
            "that can be printed, not 'two\\nlines'",
        ),
        (_plan(options=[{"name": "half \ud800"}]), "E1903", "that can be printed, not 'half \\ud800'"),
        (_plan(delegates=[{"name": "", "delegates": []}]), "E1903", "that can be printed, not ''"),
        (_plan(recipes=[{"recipe": "static-int8", "ranges": "none.json"}]), "E1902", "there is no file 'none.json'"),
        (_plan(options=[{"plan_inputs": 3}]), "E1903", "plan_inputs"),
        (_plan(depends=["nothing-*.bin"]), "E1902", "no file fits"),
        (_plan(exclude=[{"program": "net"}]), "E1903", "the grid has no cell"),
        (_plan(exclude=[3]), "E1903", "'exclude.0' takes a table"),
        ({"programs": []}, "E1903", "'programs' takes a list"),
        ({"programs": [{"name": "x"}]}, "E1903", "either `file` or `factory`"),
        ({"programs": [{"factory": "models"}]}, "E1903", "`module:function`"),
        ({"programs": [{"factory": "no_such_module:f"}]}, "E1902", "there is no module 'no_such_module'"),
        ({"programs": [lambda: 3]}, "E1901", "cannot be imported by other processes"),
        ({"programs": [{"each": 3, "factory": cells.figures}]}, "E1903", "'programs.0.each' takes names"),
    ],
)
def test_wrong_plans(plan: dict[str, object], id: str, text: str) -> None:
    with pytest.raises(EtirError) as caught:
        read_plan(plan)
    assert id in caught.value.ids
    assert text in str(caught.value)


def test_names_that_are_there_twice(tmp_path: Path) -> None:
    """The place is that of the second one, not of the same word elsewhere."""
    path = tmp_path / "plan.toml"
    path.write_text(
        'name = "net"\ntargets = ["etir", "executorch", "etir"]\nfunction = "etir_testing.sweeps.cells:figures"\n'
        '[[programs]]\nname = "net"\n[[programs]]\neach = ["a", "net"]\n[[exclude]]\nprogram = "net"\n'
    )
    with pytest.raises(EtirError) as caught:
        read_plan(path)
    places = [(d.location.line, d.location.column) for d in caught.value.diagnostics if d.location]
    assert places == [(7, 14), (2, 34)]


def test_names_of_any_script() -> None:
    names = ["größe", "模型", "a/b", "with space", "*[x]", "🙂"]
    plan = read_plan({"programs": [{"each": names, "factory": "etir_testing.sweeps.models:net"}]})
    assert [cell.program for _, cell in plan.cells()] == names


def test_files_that_are_no_plan(tmp_path: Path) -> None:
    with pytest.raises(EtirError, match="E1901.*No such file"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = 1\nb = = 2\n")
    with pytest.raises(EtirError, match=r"bad.toml:2:\d+: error\[E1901\]"):
        read_plan(tmp_path / "bad.toml")


def test_the_grid() -> None:
    plan = read_plan(
        {
            "programs": [{"each": "etir_testing.sweeps.cells:names", "factory": cells.figures, "arguments": {"a": 1}}],
            "targets": ["etir", "executorch"],
            "delegates": [
                "none",
                ["xnnpack", "reference"],
                {"name": "half", "delegates": ["xnnpack{enable-bf16=true}"]},
            ],
            "recipes": ["float32", {"name": "mse", "recipe": "static-int8", "encodings": "mse"}],
            "options": [{"name": "a"}, {"name": "b", "plan_inputs": False}],
            "exclude": [{"target": "etir", "delegates": "[!n]*"}, {"recipe": "mse", "options": "b"}],
        }
    )
    found = [cell for _, cell in plan.cells()]
    # Two programs; 1 + 3 pairs of target and delegates; 3 pairs of recipe and options.
    assert len(found) == 2 * 4 * 3
    assert len({cell.name for cell in found}) == len(found)
    assert found[0].name == "first/etir/none/float32/a"
    assert found[0].arguments == {"name": "first", "a": 1}
    assert {c.delegates: c.delegate_texts for c in found} == {
        "none": (),
        "xnnpack+reference": ("xnnpack", "reference"),
        "half": ("xnnpack{enable-bf16=true}",),
    }
    assert next(c for c in found if c.recipe == "mse").recipe_keywords == {"recipe": "static-int8", "encodings": "mse"}
    only = read_plan(plan, only="second/*/none/*/b")
    assert [cell.name for _, cell in only.cells()] == [
        "second/etir/none/float32/b",
        "second/executorch/none/float32/b",
    ]


@pytest.mark.parametrize("name", ["zoo", pytest.param("opinfo", marks=pytest.mark.nightly), "accuracy", "schedules"])
def test_the_repository_s_plans(name: str) -> None:
    plan = read_plan(ROOT / "benchmarks" / "plans" / f"{name}.toml")
    assert len(list(plan.cells())) >= 10
