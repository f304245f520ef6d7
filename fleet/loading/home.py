"""The two folders of a run: where the program's own files are, and the user's project.

In a clone both are the repository. In a wheel the program's files are in `gpu_ci/_tree`, and the project is the current folder.
"""

from __future__ import annotations

from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
"""The folder that has `fleet`, `components`, `policies` and the `__main__.py` that Pulumi runs."""
INSTALLED = not (TREE / "gpu_ci").is_dir()
"""Whether the program runs from a wheel."""
ROOT = Path.cwd() if INSTALLED else TREE
"""The user's project: stack files, `policies/stacks.toml` and `policies/config`."""


def of_project(root: Path, name: str) -> Path:
    """A file of the project in `root`; if there is none, the program's own."""
    return root / name if (root / name).exists() else TREE / name
