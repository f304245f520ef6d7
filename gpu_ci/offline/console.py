"""The console of the offline commands. It prints data without markup and masks credentials."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fleet.facts.credentials import mask


def is_plain(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether output has no escape sequence, not even for bold: NO_COLOR (no-color.org) is not empty, or TERM is dumb."""
    return bool(environment.get("NO_COLOR")) or environment.get("TERM") in ("dumb", "unknown")


class MaskingConsole(Console):
    """Masks credentials in every text, also in tables, before rich folds a text and splits a credential."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        # No markup: names and labels are data, so [red] in a name is not a color.
        super().__init__(
            stderr=stderr,
            width=width,
            color_system=None if is_plain() else "auto",
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable. A masked text keeps its own style and loses the styles of its parts."""
        if isinstance(renderable, str):
            renderable = mask(renderable)
        elif isinstance(renderable, Text) and (masked := mask(renderable.plain)) != renderable.plain:
            renderable = Text(masked, style=renderable.style, justify=renderable.justify, overflow=renderable.overflow)
        return super().render(renderable, options)
