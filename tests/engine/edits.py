"""What an edit of a deployed stack's file changes in the clouds, as the engine's preview has it."""

from __future__ import annotations

from tests.engine.cli import STACK_FILE
from tests.engine.staging import Site
from tests.engine.verdicts import STREAMED, events

_PARTS = ("same", "refresh", "create-replacement", "delete-replaced")
"""Steps that change nothing, and the parts of a replacement."""


def steps_of(site: Site, name: str, before: str, after: str) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """The operation and the paths that differ, by type and logical name.

    `name` is that of the edited copy. Raises AssertionError when the file no longer has the text `before`, or the preview fails.
    """
    cli = site.variant(name)
    file = cli.folder / STACK_FILE.format(site.stack)
    text = file.read_text()
    assert before in text, "the stack file no longer has this text"
    file.write_text(text.replace(before, after, 1))
    preview = cli.having(**STREAMED)("preview", "--stack", site.stack, "--json", "--suppress-progress")
    assert preview.status == 0, preview
    found = {}
    for step in (event["metadata"] for event in events(preview, "resourcePreEvent")):
        kind = step["urn"].split("::")[2].rpartition("$")[2]
        if step["op"] not in _PARTS and not kind.startswith(("gpu-ci:", "pulumi:")):
            found[kind, step["urn"].rpartition("::")[2]] = (step["op"], sorted(step.get("detailedDiff") or {}))
    return found
