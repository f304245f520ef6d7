"""Replaces an output folder as a whole: either every file is written, or the folder stays as it was."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fleet.facts.errors import InputError, reachable
from fleet.loading.home import ROOT as _ROOT

_OLD = "old"


def replace_folder(out: Path, files: Mapping[str, bytes], mark: str, foreign: str) -> tuple[Path, ...]:
    """Write the files, by their paths below `out`, in place of everything that the folder has; returns them, sorted.

    If `out` is a link, the folder that it leads to is replaced. A folder that is not empty must have the file `mark`. If it has
    none, the error says `foreign`. Raises InputError for such a folder, for the project, the current folder and their
    parents, and for a folder that cannot be written.
    """
    try:
        with reachable(f"OUT: {out} cannot be written", "name a folder that can"):
            target = out.resolve()
            _refuse(out, target, mark, foreign)
            _write(target, files)
    except RuntimeError as error:  # Python before 3.13 raises this
        raise InputError(f"OUT: {out} is a link that leads in a circle; name a folder") from error
    return tuple(out / path for path in sorted(files))


def _refuse(out: Path, target: Path, mark: str, foreign: str) -> None:
    """Raise InputError for a folder that must not be replaced."""
    for folder, name in ((Path.cwd(), "the current folder"), (_ROOT, "the project")):
        if folder == target or target in folder.parents:
            is_it = "is" if folder == target else "contains"
            why = f"OUT: {out} {is_it} {name}, and the whole folder would be replaced"
            raise InputError(f"{why}; name a separate folder, such as build/staging")
    if target.exists() and not target.is_dir():
        raise InputError(f"OUT: {out} must be a folder, but is not one; name a new folder")
    if target.exists() and any(target.iterdir()) and not (target / mark).exists():
        raise InputError(f"OUT: {out} is not empty and {foreign}; name a new folder or empty it yourself")


def _write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the folder `target` anew. On any failure the folder and its parents are as they were."""
    created = [folder for folder in target.parents if not folder.exists()]
    scratch = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that it can be renamed into place.
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".gpu-ci-"))
        fresh = scratch / "tree"
        for path, content in files.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content)
        _swap(fresh, target, scratch / _OLD)
    except BaseException:
        if scratch is not None and not (scratch / _OLD).exists():
            shutil.rmtree(scratch, ignore_errors=True)
        for folder in created:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        raise
    shutil.rmtree(scratch, ignore_errors=True)


def _swap(fresh: Path, target: Path, old: Path) -> None:
    """Move `target` to `old` and `fresh` to `target`; move `target` back if that fails."""
    try:
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException as error:
        if old.exists():
            try:
                old.rename(target)
            except OSError:
                raise InputError(f"OUT: {target} cannot be written ({error}); its old content is in {old}") from error
        raise
