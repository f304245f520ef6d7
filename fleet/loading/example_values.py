"""The settings of a stack file that still have an example value."""

from collections.abc import Iterator
from typing import NamedTuple

from fleet.facts.example_values import meaning
from fleet.facts.places import Keys, dotted, leaves
from fleet.facts.remark import todo
from fleet.loading.stackfile import StackConfig

_SHOWN = 6
"""Settings that the remark names."""


class ExampleValue(NamedTuple):
    """A setting with an example value. `line` is its line, or that of what contains it, in the stack file."""

    path: Keys
    value: str
    meaning: str
    line: int

    @property
    def key(self) -> str:
        """The path without the namespace: clusters.usw2.zones[0]."""
        return dotted(self.path).partition(":")[2]


def example_values(config: StackConfig) -> list[ExampleValue]:
    """Every setting with an example value, in the order of the file."""
    examples = []
    for path, text in leaves({key: value for key, value in config.objects.items() if key not in config.secret_keys}):
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        if isinstance(text, str) and (kind := meaning(name, text)):
            examples.append(ExampleValue(path, text, kind, config.line_of(*path) or 1))
    return sorted(examples, key=lambda example: example.line)


def remarks(config: StackConfig) -> Iterator[str]:
    """One warning that names the first settings with example values; none if there is no such setting."""
    # No line numbers: a remark that changes with every inserted line would be new in every pull request.
    keys = [example.key for example in example_values(config)]
    more = f" and {len(keys) - _SHOWN} more (gpu-ci doctor {config.stack} lists them)" if len(keys) > _SHOWN else ""
    if keys:
        yield todo(f"example values: {', '.join(keys[:_SHOWN])}{more}; set your own before pulumi up")
