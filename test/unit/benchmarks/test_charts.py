"""Pictures: valid XML, everything in them and inside of the frame, the same bytes every time."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

from charts import FASTER, SLOWER, Bar, Point, Roof, apart, bars, roofline

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    Bar("quick", 0.5, "of one", {"one": 1.0, "two": 1.5}),
    Bar("slow & <odd>", 1.25, "of two", {"one": 3.0, "two": 1.0}),
    Bar("far", 7.0, "of one", {"one": 1.0}),
    Bar("gone", None, "native is a gap"),
]
ROOF = Roof(200e9, {"cache": 100e9, "memory": 20e9})
POINTS = [Point("a", 0.5, 8e9), Point("b", 40.0, 150e9), Point("c", 41.0, 150e9), Point("tiny", 3.0, 0.02e9)]


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(picture: ElementTree.Element) -> list[str]:
    return [found.text or "" for found in picture.iter(f"{SVG}text")]


def inside(picture: ElementTree.Element) -> None:
    """Every text starts, and every shape lies, inside of the picture."""
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for found in picture.iter():
        for key, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("cy", height)):
            if key in found.attrib:
                assert 0 <= float(found.attrib[key]) <= limit, ElementTree.tostring(found)
        if found.tag == f"{SVG}rect":
            assert float(found.attrib["x"]) + float(found.attrib["width"]) <= width


def test_bars_are_as_long_as_their_ratios() -> None:
    picture = parsed(bars(ROWS, "title", ["one", "two"]))
    inside(picture)
    drawn = [found for found in picture.iter(f"{SVG}rect") if found.attrib["fill"] in (FASTER, SLOWER)]
    assert [found.attrib["fill"] for found in drawn] == [FASTER, SLOWER, SLOWER]
    quick, slow, far = (float(found.attrib["width"]) for found in drawn)
    assert abs(slow / quick - 2.5) < 0.01
    assert abs(far / quick - 4.0) < 0.01  # cut at 2


def test_bars_say_what_they_show() -> None:
    said = texts(parsed(bars(ROWS, "title", ["one", "two"])))
    for text in ("title", "one", "two", "quick", "slow & <odd>", "0.50 of one", "7.00 (cut) of one", "native is a gap"):
        assert text in said


def test_marks_beyond_the_scale_are_left_out() -> None:
    def circles(ratio: float) -> int:
        row = Bar("a", 1.0, "", {"one": ratio})
        return sum(1 for _ in parsed(bars([row], "title", ["one"])).iter(f"{SVG}circle"))

    assert circles(1.5) == 2  # the legend's and the mark
    assert circles(2.5) == 1


def test_the_roofline_has_every_point_below_its_peak() -> None:
    picture = parsed(roofline(POINTS, ROOF, "title"))
    inside(picture)
    assert {"a", "b", "c", "tiny", "multiply-adds, 200 GFLOP/s", "cache, 100 GB/s", "memory, 20 GB/s"} <= set(
        texts(picture)
    )
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == len(POINTS)
    assert [next(iter(c)).text for c in circles][1] == "b: 150.0 GFLOP/s, 75% of the limit"
    heights = [float(c.attrib["cy"]) for c in circles]
    assert heights[3] > heights[0] > heights[1] == heights[2]


def test_labels_of_neighbors_do_not_lie_on_each_other() -> None:
    picture = parsed(roofline(POINTS, ROOF, "title"))
    places = {found.text: float(found.attrib["y"]) for found in picture.iter(f"{SVG}text")}
    assert abs(places["b"] - places["c"]) >= 11


def test_many_labels_at_any_height_find_a_place() -> None:
    """A label that was moved down by the least distance is that far away, however the sum was rounded."""
    for step in range(500):
        y = 50 + step * 0.37
        heights = [at for _, at, _ in apart([(0.0, y, "a"), (1.0, y, "b"), (2.0, y + 0.1, "c")], 11)]
        assert [round(b - a, 6) >= 11 for a, b in itertools.pairwise(heights)] == [True, True]


def test_a_point_may_be_without_a_label() -> None:
    picture = parsed(roofline([*POINTS, Point("more", 5.0, 5e9, named=False)], ROOF, "title"))
    assert "more" not in texts(picture)
    assert any((found.text or "").startswith("more: ") for found in picture.iter(f"{SVG}title"))


def test_the_same_figures_give_the_same_bytes() -> None:
    assert bars(ROWS, "title", ["one", "two"]) == bars(list(ROWS), "title", ["one", "two"])
    assert roofline(POINTS, ROOF, "title") == roofline(list(POINTS), ROOF, "title")


def test_pictures_have_a_background_of_their_own() -> None:
    for text in (bars(ROWS, "title"), roofline(POINTS, ROOF, "title")):
        first = next(iter(parsed(text)))
        assert first.tag == f"{SVG}rect"
        assert first.attrib["fill"] == "#fbfcfd"


def test_no_rows() -> None:
    inside(parsed(bars([], "title")))
    inside(parsed(roofline([], ROOF, "title")))
