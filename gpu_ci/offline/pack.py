"""Writes the policy pack as a folder that `pulumi policy publish` accepts.

The folder has the pack's files, the modules and tables of `fleet` that its rules import, and its pinned requirements. No file in
it reads a file outside of it. The pack names no virtual environment: the CLI that publishes it runs the Python on PATH, and the
CLI that downloads it creates an environment. An environment that the pack names must exist, and would be published too.

Facts: pulumi/pulumi 3.260, pkg/backend/httpstate/policypack.go (Publish, installRequiredPolicy), sdk/go/common/util/archive.
"""

from collections.abc import Iterator
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.loading.home import ROOT, program_of
from gpu_ci.offline.outfolder import replace_folder

MARK = "PulumiPolicy.yaml"
_IGNORE_FILE = ".gitignore"
_SETTINGS = ("config/*.json", "stacks.toml")
"""The user's part of the pack."""
_TEMPLATES = ("rules/*.py", "rules/*.toml", "rules.toml", "__main__.py", "pack.py", "requirements.txt", MARK)
_CARRIED = ("fleet/__init__.py", "fleet/facts/*.py", "fleet/facts/data/*.csv", "fleet/facts/data/*.toml")
"""The part of `fleet` that the rules may import."""


def write_pack(out: Path, root: Path = ROOT) -> tuple[Path, ...]:
    """Write the pack into the folder `out` and replace a pack that is there; returns its files, sorted.

    Raises InputError for a folder with other files, and for a folder below an ignore file: the CLI may not publish its files.
    """
    if (target := out.resolve()) == root or target in root.parents or root / "policies" == target:
        raise InputError(f"OUT: {out} contains the project itself; name a separate folder")
    if (ignoring := next((above for above in target.parents if (above / _IGNORE_FILE).is_file()), None)) is not None:
        why = f"OUT: {out} is below {ignoring / _IGNORE_FILE}, and the CLI silently skips the files that it names"
        raise InputError(f"{why}; name a folder elsewhere")
    files = {str(path): content for content, path in _files(root)}
    return tuple(path.resolve() for path in replace_folder(out, files, MARK, "holds no policy pack"))


def _files(root: Path) -> Iterator[tuple[bytes, Path]]:
    """Content and path of each file."""
    # Running the pack creates these folders. The CLI does not archive files that an ignore file names.
    yield b"__pycache__/\nvenv/\n", Path(_IGNORE_FILE)
    program = program_of(root)
    for folder, patterns in ((root / "policies", _SETTINGS), (program / "policies", _TEMPLATES), (program, _CARRIED)):
        for pattern in patterns:
            for source in sorted(folder.glob(pattern)):
                content = source.read_bytes()
                if source.name == MARK:
                    content = content.replace(b"\n  options:\n    virtualenv: ../.venv", b"")
                yield content, source.relative_to(folder)
