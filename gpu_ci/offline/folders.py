"""Walks an untrusted folder without recursion, in order, and down to a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fleet.facts.errors import InputError

_DEEPEST = 100
"""Levels of folders. The longest path on Linux has room for 2,000."""


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each folder with the sorted names of its subfolders and of its files, a folder before its subfolders.

    A link to a folder is listed as a folder and not followed. Subfolders that the caller removes from the list are not visited.
    Raises OSError for a folder that cannot be read, InputError for a folder that is too deep.
    """
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InputError(
                f"{root} has folders more than {_DEEPEST} levels deep; name a folder further down, or remove the deep ones"
            )
        with os.scandir(folder) as entries:
            is_folder = {entry.name: _is_folder(entry) for entry in entries}
        folders = sorted(name for name, is_one in is_folder.items() if is_one)
        yield folder, folders, sorted(name for name, is_one in is_folder.items() if not is_one)
        # Reversed, because the last one is visited first.
        waiting += [(folder / name, depth + 1) for name in reversed(folders) if not (folder / name).is_symlink()]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
