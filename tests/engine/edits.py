"""What an edit of a deployed stack's file changes in the clouds, as the engine's preview has it."""

from __future__ import annotations

from tests.engine.cli import STACK_FILE
from tests.engine.staging import Site
from tests.engine.verdicts import STREAMED, events

_PARTS = ("same", "refresh", "create-replacement", "delete-replaced")
"""Steps that change nothing, and the parts of a replacement."""


def steps_of(
    site: Site, name: str, before: str, after: str, *more: tuple[str, str]
) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """The operation and the paths that differ, by type and logical name.

    `name` is that of the edited copy, and `more` are further texts with those in their place. Raises AssertionError when the
    file no longer has a text, or the preview fails.
    """
    cli = site.variant(name)
    file = cli.folder / STACK_FILE.format(site.stack)
    text = file.read_text()
    for old, new in ((before, after), *more):
        assert old in text, "the stack file no longer has this text"
        text = text.replace(old, new, 1)
    file.write_text(text)
    preview = cli.having(**STREAMED)("preview", "--stack", site.stack, "--json", "--suppress-progress")
    assert preview.status == 0, preview
    found = {}
    for step in (event["metadata"] for event in events(preview, "resourcePreEvent")):
        kind = step["urn"].split("::")[2].rpartition("$")[2]
        if step["op"] not in _PARTS and not kind.startswith(("gpu-ci:", "pulumi:")):
            found[kind, step["urn"].rpartition("::")[2]] = (step["op"], sorted(step.get("detailedDiff") or {}))
    return found
