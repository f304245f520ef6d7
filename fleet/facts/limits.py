"""Reads the files that people write, up to a size limit, so that no input uses all memory.

A file beyond the limit is an error; it is never read in part. The limits inside a YAML text are in `fleet.facts.yaml_text`.
"""

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 5_000_000
"""The limit for one file: over 100 times the largest stack file of this repository."""


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Never waits for data.

    Raises OSError as `open` does. Also raises it for a file of more than `most` bytes, for a path that is not a regular file, and
    for a kernel file that has no data yet.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer, and reading /proc/kmsg waits for a kernel message.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        content: bytes | None = file.read(most + 1)
    if content is None:
        raise OSError(errno.EAGAIN, "it has nothing to read", str(path))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content
