"""The policy pack as a directory of its own: what `pulumi policy publish` takes.

It holds the pack's files, what of `fleet` its rules import (the hardware and price tables included) and its pinned
requirements; nothing in it reaches outside of it. It names no virtual environment: the CLI that publishes it runs the Python on
PATH, the CLI that downloads it makes an environment for it. One that is named has to be there, and is then published too.

Facts: pulumi/pulumi 3.260, pkg/backend/httpstate/policypack.go (Publish, installRequiredPolicy), sdk/go/common/util/archive.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from offline.errors import InputError
from offline.outfolder import replace_folder

MARK = "PulumiPolicy.yaml"
_IGNORE_FILE = ".gitignore"
_ROOT = Path(__file__).resolve().parent.parent
_BESIDE = b"""
  options:
    virtualenv: ../.venv"""
_IGNORED = "__pycache__/\nvenv/\n"
"""What running the pack leaves in its folder; the CLI leaves out of the archive what an ignore file names."""
_TEMPLATES = ("config/*.json", "rules/*.py", "rules/*.toml", "__main__.py", "requirements.txt", MARK)


def write_pack(out: Path, root: Path = _ROOT) -> tuple[Path, ...]:
    """Write the pack into the folder `out` and replace a pack that is there; returns its files, sorted.

    Raises InputError for a folder that has something else, and for a folder that an ignore file above it may keep from being
    published.
    """
    target = out.resolve()
    if target == root or target in root.parents or root / "policies" == target:
        raise InputError(f"OUT: {out} holds the project itself; name a folder of its own")
    ignoring = next((above for above in target.parents if (above / _IGNORE_FILE).is_file()), None)
    if ignoring is not None:
        raise InputError(
            f"OUT: {out} is below {ignoring / _IGNORE_FILE}, and what that names the CLI silently leaves unpublished; "
            "name a folder elsewhere"
        )
    files = {str(path): content for content, path in _files(root)}
    return tuple(path.resolve() for path in replace_folder(out, files, MARK, "holds no policy pack"))


def _files(root: Path) -> Iterator[tuple[bytes, Path]]:
    """Content and path of each file."""
    yield _IGNORED.encode(), Path(_IGNORE_FILE)
    policies = root / "policies"
    for pattern in _TEMPLATES:
        for source in sorted(policies.glob(pattern)):
            content = source.read_bytes()
            if source.name == MARK:
                content = content.replace(_BESIDE, b"")
            yield content, source.relative_to(policies)
    for module in sorted(carried(root)):
        yield (root / module).read_bytes(), Path(module)
    for table in sorted((root / "fleet" / "facts" / "data").glob("*.*")):
        yield table.read_bytes(), table.relative_to(root)


def carried(root: Path = _ROOT) -> frozenset[str]:
    """Paths of the modules of `fleet` that the rules import, of those that these import, and of their packages."""
    found: set[str] = set()
    waiting = [path for rule in (root / "policies" / "rules").glob("*.py") for path in _fleet_imports(rule, root)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _fleet_imports(root / path, root)
            waiting += [f"{folder}/__init__.py" for folder in Path(path).parents if folder.name]
    return frozenset(found)


def _fleet_imports(path: Path, root: Path) -> list[str]:
    """Paths of the modules of `fleet` that a module imports. A `from` name may be a module itself."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    modules = [f"{name.replace('.', '/')}.py" for name in names if name.startswith("fleet.")]
    return [module for module in modules if (root / module).is_file()]
