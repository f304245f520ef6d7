"""Records the states of a release: `python -m tests.states.record CHECKOUT` of the release, with `pulumi` on PATH."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tests.engine import staging

FOLDER = Path(__file__).parent
STACKS = ("staging", "prod")
KEY = "not-a-key"
"""What the states have as the key of the GitHub App."""
_LEFT_OUT = ("created", "modified", "sourcePosition", "stackTrace")


def state(checkout: Path, stack: str) -> dict[str, Any]:
    """What `pulumi stack export` prints after the checkout's program created the stack in the simulated clouds."""
    with tempfile.TemporaryDirectory() as base, staging.built(Path(base), stack, root=checkout) as site:
        site.cli.ok("config", "set", "--stack", stack, "--secret", staging.KEY, given=KEY)
        site.up()
        document: dict[str, Any] = json.loads(site.cli.ok("stack", "export", "--stack", stack).out)
    for resource in document["deployment"]["resources"]:
        for key in _LEFT_OUT:
            resource.pop(key, None)
    return document


def read(state: str) -> bytes:
    """The document of a state, by its path below this folder."""
    return gzip.decompress((FOLDER / state).read_bytes())


def main(checkout: Path) -> None:
    """Writes the state of each stack below the version that the checkout has."""
    folder = FOLDER / tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
    folder.mkdir(exist_ok=True)
    for stack in STACKS:
        content = json.dumps(state(checkout, stack), sort_keys=True).encode()
        (folder / f"{stack}.json.gz").write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
