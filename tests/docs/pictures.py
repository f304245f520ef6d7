"""Draws the pictures of docs/images: diagrams from their Mermaid text, and a plan as the terminal shows it.

merman renders Mermaid without a browser. It has wheels for few machines, so .ci/requirements/dev.txt does not have it, and
`make pictures` installs it. Each diagram has the hashes of its source and of itself: a test without merman finds an old one, too.
"""

from __future__ import annotations

import hashlib
import io
import json
import re

from rich.color import blend_rgb
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from gpu_ci.offline.layout import MaskingConsole
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.report import report
from tests.docs.markdown import ROOT

IMAGES = ROOT / "docs" / "images"
DIAGRAMS = sorted(IMAGES.glob("*.mmd"))
FONT = "Helvetica, Arial, sans-serif"


def _rgb(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


TEXT, LINE = "#1f2937", "#64748b"
FRAME, TINT = "#9ca3af", "#f8fafc"
"""Border and ground of a box around boxes."""
COLORS = {
    "job": ("#fff7e6", "#b7791f"),
    "set": ("#e8f1fd", "#3b6fb5"),
    "pool": ("#e6f6ec", "#2f855a"),
    "system": ("#f1f3f5", "#6b7280"),
}
"""Fill and border of the classes that a diagram uses for its boxes."""
_CLASSES = "".join(f"\n  classDef {name} fill:{fill},stroke:{stroke},color:{TEXT}" for name, (fill, stroke) in COLORS.items())
WIDTH = 100
"""Columns of the terminal in the picture of the plan."""
TERMINAL_COLORS = (TEXT, "#b02024", "#1a7f37", "#925e00", "#0969da", "#8250df", "#0e7482", "#6b7280")
DARK = {
    TEXT: "#e5e7eb",
    LINE: "#94a3b8",
    FRAME: "#6b7280",
    TINT: "#161b22",
    "#fff7e6": "#3b2a08",
    "#b7791f": "#d69e2e",
    "#e8f1fd": "#12294a",
    "#3b6fb5": "#6ea8fe",
    "#e6f6ec": "#0f3320",
    "#2f855a": "#4ade80",
    "#f1f3f5": "#262c36",
    "#6b7280": "#9ca3af",
    "#b02024": "#f87171",
    "#1a7f37": "#4ade80",
    "#925e00": "#fbbf24",
    "#0969da": "#6ea8fe",
    "#8250df": "#c4a5ff",
    "#0e7482": "#5fd0de",
}
"""Each color of a picture, and what a reader with the dark color scheme gets instead."""
_THEME = TerminalTheme(_rgb(TINT), _rgb(TEXT), [*map(_rgb, TERMINAL_COLORS)])
_DIM = blend_rgb(_THEME.foreground_color, _THEME.background_color, 0.4).hex
_TERMINAL = """<svg viewBox="0 0 {width} {height}" width="868" xmlns="http://www.w3.org/2000/svg">
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
"""rich's own template loads a font from the network, which no image may do. At this width text has 14 px, as in diagrams."""
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
    """The SVG of a Mermaid text, on a transparent ground."""
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
            "primaryTextColor": TEXT,
            "titleColor": TEXT,
            "textColor": TEXT,
            "lineColor": LINE,
            "clusterBkg": TINT,
            "clusterBorder": FRAME,
            "edgeLabelBackground": TINT,
        },
    }
    options = {"svg": {"diagram_id": name, "root_background_color": "transparent"}, "site_config": config}
    svg: str = Merman().render_svg(source + _CLASSES, json.dumps(options))
    # Without a size of its own an image is as wide as the page.
    size = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)
    assert size is not None, "merman gives a viewBox"
    width, height = size.groups()
    svg = svg.replace('width="100%"', f'width="{float(width):.0f}" height="{float(height):.0f}"', 1)
    # A box has its colors twice. Those of its attribute would override the style sheet.
    return both_schemes(re.sub(r' style="(?:fill|color):#[^"]*"', "", svg).rstrip() + "\n")


def both_schemes(svg: str) -> str:
    """The picture with its colors, and those of DARK for a reader whose pages are dark."""
    style = re.search(r"<style>(.*?)</style>", svg, re.DOTALL)
    assert style is not None, "a picture has one style sheet"
    light = re.compile("|".join(DARK))
    rules = [
        light.sub(lambda color: DARK[color[0]], rule).strip()
        for rule in re.findall(r"[^{}]+\{[^{}]*\}", style[1])
        if light.search(rule)
    ]
    # A rule of a style sheet overrides an attribute.
    rules += [f'[fill="{color}"]{{fill:{DARK[color]}}}' for color in DARK if f'fill="{color}"' in svg]
    dark = "\n".join(rules)
    return svg.replace("</style>", f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n</style>", 1)


def plan_picture(stack: str) -> str:
    """The SVG of what `make plan` prints on a terminal of 100 columns, down to the price."""
    console = MaskingConsole(width=WIDTH)
    console.file, console.record = io.StringIO(), True
    report(make_plan(stack, ROOT), console)
    head, *_ = console.export_text(styles=True).partition("Ends and remarks")
    console.print(Text.from_ansi(head.rpartition("\n\n")[0]))
    svg = console.export_svg(title=f"make plan STACK={stack}", theme=_THEME, code_format=_TERMINAL, unique_id="plan")
    # rich mixes dim text with the ground, which is too pale to read, and frames a dark terminal.
    svg = svg.replace(_DIM, TERMINAL_COLORS[-1]).replace("rgba(255,255,255,0.35)", FRAME)
    return both_schemes("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
