"""The console of the offline commands: data is printed as it is, credentials are not printed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fleet.facts.credentials import mask


class MaskingConsole(Console):
    """Masks credentials in every text, in tables and trees too, before rich folds the text and cuts a credential in two."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        # No markup: names and labels are data, and [red] in one of them is no colour.
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable. A masked text keeps its style, and loses the styles of its parts."""
        if isinstance(renderable, str):
            renderable = mask(renderable)
        elif isinstance(renderable, Text) and (known := mask(renderable.plain)) != renderable.plain:
            renderable = Text(known, style=renderable.style, justify=renderable.justify, overflow=renderable.overflow)
        return super().render(renderable, options)
