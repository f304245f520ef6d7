"""Draws the pictures of docs/images: diagrams from their Mermaid text, and a plan as the terminal shows it.

merman renders Mermaid without a browser. It has wheels for few machines, so .ci/requirements/dev.txt does not have it, and
`make pictures` installs it. Each diagram has the hashes of its source and of itself: a test without merman finds an old one, too.
"""

from __future__ import annotations

import hashlib
import io
import json
import re

from rich.terminal_theme import TerminalTheme

from gpu_ci.offline.layout import MaskingConsole
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.report import report
from tests.docs.markdown import ROOT

IMAGES = ROOT / "docs" / "images"
DIAGRAMS = sorted(IMAGES.glob("*.mmd"))
FONT = "Helvetica, Arial, sans-serif"
COLORS = {
    "job": ("#fff7e6", "#b7791f"),
    "set": ("#e8f1fd", "#3b6fb5"),
    "pool": ("#e6f6ec", "#2f855a"),
    "system": ("#f1f3f5", "#6b7280"),
}
"""Fill and border of the classes that a diagram uses for its boxes."""
_CLASSES = "".join(f"\n  classDef {name} fill:{fill},stroke:{stroke},color:#1f2937" for name, (fill, stroke) in COLORS.items())
WIDTH = 120
"""Columns of the terminal in the picture of the plan."""
_THEME = TerminalTheme(
    (250, 250, 250),
    (31, 41, 55),
    [(31, 41, 55), (176, 32, 36), (26, 127, 55), (146, 94, 0), (9, 105, 218), (130, 80, 223), (14, 116, 130), (107, 114, 128)],
)
_TERMINAL = """<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}
.{unique_id}-title {{ font: bold 18px Helvetica, Arial, sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""rich's own template loads a font from the network, which no image may do."""
_SEAL = re.compile(r"<!-- source sha256 (\w{64}), picture sha256 (\w{64}) -->\n")


def sealed(svg: str, source: str) -> str:
    """A picture that begins with the hashes of its source and of itself."""
    return f"<!-- source sha256 {_hash(source)}, picture sha256 {_hash(svg)} -->\n{svg}"


def fault(written: str, source: str) -> str:
    """What is wrong with a sealed picture of this source; "" if nothing is."""
    seal = _SEAL.match(written)
    if seal is None:
        return "it has no hashes"
    if seal[1] != _hash(source):
        return "its source has changed"
    return "" if seal[2] == _hash(written[seal.end() :]) else "it was edited by hand"


def diagram(source: str, name: str) -> str:
    """The SVG of a Mermaid text on a light ground, which is readable on dark pages too."""
    from merman import Merman

    config = {
        "look": "classic",
        "layout": "dagre",
        "theme": "base",
        "htmlLabels": False,  # Text of SVG: not every viewer shows HTML in an image.
        "flowchart": {"htmlLabels": False, "nodeSpacing": 28, "rankSpacing": 44, "wrappingWidth": 300, "padding": 16},
        "fontFamily": FONT,
        "themeVariables": {
            "fontFamily": FONT,
            "fontSize": "14px",
            "lineColor": "#64748b",
            "clusterBkg": "#fafafa",
            "clusterBorder": "#9ca3af",
            "edgeLabelBackground": "#ffffff",
        },
    }
    options = {"svg": {"diagram_id": name, "root_background_color": "#ffffff"}, "site_config": config}
    svg: str = Merman().render_svg(source + _CLASSES, json.dumps(options))
    # Without a size of its own an image is as wide as the page.
    size = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)
    assert size is not None, "merman gives a viewBox"
    width, height = size.groups()
    return svg.replace('width="100%"', f'width="{float(width):.0f}" height="{float(height):.0f}"', 1).rstrip() + "\n"


def plan_picture(stack: str) -> str:
    """The SVG of what `make plan` prints on a terminal of 120 columns."""
    console = MaskingConsole(width=WIDTH)
    console.file, console.record = io.StringIO(), True
    report(make_plan(stack, ROOT), console)
    svg = console.export_svg(title=f"make plan STACK={stack}", theme=_THEME, code_format=_TERMINAL, unique_id="plan")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
