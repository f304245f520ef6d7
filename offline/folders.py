"""Walks a folder that anybody may have filled: without recursion, in order, and only so deep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from offline.errors import InputError

_DEEPEST = 100
"""Folders within each other. The longest path that Linux takes has room for 2,000."""


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each folder with the sorted names of its folders and of its files, the folder itself before those in it.

    A link to a folder is listed with the folders and not followed. What the caller takes out of the folders' names is left out.
    Raises OSError for a folder that cannot be read, InputError for one that lies too deep.
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
        # The first is taken out last.
        waiting += [(folder / name, depth + 1) for name in reversed(folders) if not (folder / name).is_symlink()]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
