"""How much of a file is read. All files that people write are read through this module, so that no input takes all memory.

A file beyond the limit is refused, never read in part. The limits inside a YAML text are in `fleet.facts.yaml_text`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 5_000_000
"""Of one file, over 100 times the largest stack file here."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Never waits for any.

    Raises OSError as `open` does, for a file of more than `MOST_BYTES`, for anything that is not a regular file, and for a file
    of the kernel that has nothing to read yet.
    """
    # Without O_NONBLOCK a pipe waits for a writer, and /proc/kmsg for the next message of the kernel.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        held: bytes | None = file.read(MOST_BYTES + 1)
    if held is None:
        raise OSError(errno.EAGAIN, "it has nothing to read", str(path))
    if len(held) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES:,} bytes", str(path))
    return held
