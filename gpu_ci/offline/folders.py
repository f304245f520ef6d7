"""Walks an untrusted folder in order and down to a limit."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fleet.facts.errors import InputError, reachable

_DEEPEST = 100
"""Levels of folders. The longest path on Linux has room for 2,000."""


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each folder with the sorted names of its subfolders and of its files, a folder before its subfolders.

    A link to a folder is listed as a folder and not followed. Subfolders that the caller removes from the list are not visited.
    Raises OSError for a folder that cannot be read, InputError for a folder that is too deep.
    """
    for name, folders, files_of_folder in os.walk(root, onerror=_refuse):
        folder = Path(name)
        if len(folder.relative_to(root).parts) > _DEEPEST:
            why = f"{root} has folders more than {_DEEPEST} levels deep"
            raise InputError(f"{why}; name a folder further down, or remove the deep ones")
        folders.sort()
        yield folder, folders, sorted(files_of_folder)


def _refuse(error: OSError) -> None:
    raise error


def files(option: str, root: Path, suffixes: tuple[str, ...], fix: str) -> Iterator[Path]:
    """A file, or the files of a folder with one of these suffixes, sorted by name, those of a folder before its subfolders'.

    The folder `.git` is left out, and so are pipes and devices. Raises InputError, which names the option and the fix, for a path
    that does not exist or cannot be read.
    """
    with reachable(f"{option}: {root} cannot be read", fix):
        if root.is_file():
            yield root
            return
        if not root.is_dir():
            fault = "is neither a folder nor a file" if root.exists() else "does not exist"
            raise InputError(f"{option}: {root} {fault}; {fix}")
    try:
        for folder, folders, names in walk(root):
            folders[:] = [name for name in folders if name != ".git"]
            paths = (folder / name for name in names if name.lower().endswith(suffixes))
            yield from (path for path in paths if not _is_device(path))
    except OSError as error:
        why = f"{option}: {error.filename} cannot be read ({error.strerror})"
        raise InputError(f"{why}; check its permissions, or leave it out") from None


def _is_device(path: Path) -> bool:
    """Whether the path is a pipe or a device, which may never end. Other problems show when the file is read."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
