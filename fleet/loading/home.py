"""The two folders of a run: where the program's own files are, and the user's project.

In a clone both are the repository. In a wheel the program's files are in `gpu_ci/_tree`, and the project is the current folder.
"""

from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
"""The folder that has `fleet`, `components`, `policies` and the `__main__.py` that Pulumi runs."""
INSTALLED = not (TREE / "gpu_ci").is_dir()
"""Whether the program runs from a wheel."""
ROOT = Path.cwd() if INSTALLED else TREE
"""The user's project: stack files, `policies/stacks.toml` and `policies/config`."""


def program_of(root: Path) -> Path:
    """The folder whose `__main__.py` a plan of the project in `root` records: a wheel records its own."""
    return TREE if INSTALLED else root


def project_file(root: Path) -> Path:
    """`Pulumi.yaml` of the project in `root`. A wheel includes one for a folder that has only stack files."""
    own = root / "Pulumi.yaml"
    return TREE / own.name if INSTALLED and not own.exists() else own
