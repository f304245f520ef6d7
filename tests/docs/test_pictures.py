"""The pictures of docs/images are those of their sources. GPU_CI_RENEW=1 draws them anew; diagrams need merman."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from fleet.prove.placement import place
from gpu_ci.offline import words
from tests.docs.inside import stack
from tests.docs.markdown import assert_file, links, pages
from tests.docs.pictures import COLORS, DARK, DIAGRAMS, IMAGES, TERMINAL_COLORS, TEXT, TINT, diagram, fault, plan_picture, sealed

NO_MERMAN = pytest.mark.skipif(find_spec("merman") is None, reason="merman is not installed; make pictures installs it")
SOURCES = [pytest.param(path, id=path.stem) for path in DIAGRAMS]


@NO_MERMAN
@pytest.mark.parametrize("path", SOURCES)
def test_merman_draws_the_same_picture(path):
    source = path.read_text()
    assert_file(path.with_suffix(".svg"), sealed(diagram(source, path.stem), source))


@pytest.mark.parametrize("path", SOURCES)
def test_a_picture_is_of_its_source(path):
    assert fault(path.with_suffix(".svg").read_text(), path.read_text()) == "", "run `make pictures`"


@pytest.mark.parametrize(
    ("written", "source", "what"),
    [
        (sealed("<svg/>\n", "a"), "a", ""),
        (sealed("<svg/>\n", "a"), "b", "its source has changed"),
        (sealed("<svg/>\n", "a").replace("<svg/>", "<svg></svg>"), "a", "it was edited by hand"),
        ("<svg/>\n", "a", "it has no hashes"),
    ],
)
def test_an_old_or_edited_picture_is_found(written, source, what):
    assert fault(written, source) == what


def test_the_picture_of_the_plan_is_the_plan():
    assert_file(IMAGES / "plan.svg", plan_picture("staging"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in sorted(IMAGES.glob("*.svg"))])
def test_a_picture_needs_no_network_and_no_html(path):
    text = path.read_text()
    assert re.findall(r"@import|<script|<foreignObject|url\((?!#)|(?:href|src)=\"(?!#)", text) == []


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in sorted(IMAGES.glob("*.svg"))])
def test_a_picture_fits_light_and_dark_pages(path):
    light, rule, dark = path.read_text().partition("@media (prefers-color-scheme: dark)")
    dark, _, drawing = dark.partition("</style>")
    assert rule, "no colors for dark pages"
    dark = re.sub(r"\[fill=\S+?\]", "", dark)
    assert [color for color in DARK if color in dark and color not in DARK.values()] == []
    assert [color for color in DARK if color in light and DARK[color] not in dark] == []
    # White grounds, and colors of attributes that override the style sheet.
    assert re.findall(r'background-color: #fff|<rect[^>]*fill="(?:#f{3,6}|white)"| style="(?:fill|color):#', drawing) == []


@pytest.mark.parametrize("ground", [*(fill for fill, _ in COLORS.values()), TINT, "#ffffff"])
def test_text_has_contrast_on_each_ground(ground):
    assert contrast(TEXT, ground) >= 7
    # Pages of GitHub and of the site are this dark.
    assert contrast(DARK[TEXT], DARK.get(ground, "#161b22")) >= 7


@pytest.mark.parametrize("color", TERMINAL_COLORS)
def test_the_terminal_has_contrast(color):
    assert min(contrast(color, TINT), contrast(DARK[color], DARK[TINT])) >= 4.5


def test_the_picture_of_the_plan_fits_a_page():
    text = (IMAGES / "plan.svg").read_text()
    size = re.match(r'<svg viewBox="0 0 (\S+) (\S+)" width="(\d+)"', text)
    assert size is not None
    width, height, shown = map(float, size.groups())
    assert height / width <= 1.1, "a reader sees the plan and what follows it"
    assert 20 * shown / width >= 14, "the terminal's text has 20 of these units"


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colors: https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio."""
    darker, lighter = sorted(luminance(bytes.fromhex(color[1:])) for color in (first, second))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: bytes) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in (byte / 255 for byte in color)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_picture_of_the_fleet_has_the_runner_sets_and_pools_of_staging():
    text = (IMAGES / "fleet.mmd").read_text()
    fleet = stack("staging")
    found = place(fleet)
    assert found
    for each in found:
        pool = fleet.clusters[each.cluster].pools[each.host.name]
        span = words.span(each.runner.span.min, each.runner.span.max)
        assert f"**runner set {each.runner_set}**\n    {span} runners" in text
        bought = f"{words.span(pool.nodes.min, pool.nodes.max)} nodes, {pool.capacity}"
        assert f"**pool {each.host.name}**\n    {bought}\n    {', '.join(pool.instance_types)}`" in text


def test_a_page_shows_every_picture():
    shown = {(page.parent / target).resolve() for page in pages() for target in links(page) if target.endswith(".svg")}
    assert shown >= {*IMAGES.glob("*.svg"), *(path.with_suffix(".svg") for path in DIAGRAMS)}
