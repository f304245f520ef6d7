"""Standard output and error of a command line program, so that where the output goes never changes what the exit status says."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

READER_GONE = 141
"""Exit status if the reader of stdout has ended, as in `plan | head -1`: 128 + SIGPIPE, what a shell shows for other programs."""
_UNWRITABLE = 2


@contextmanager
def safe_streams() -> Iterator[None]:
    """Run a program with streams that never raise.

    A closed stream drops all text. A character that the encoding lacks is written as an escape. If the reader
    of stdout has ended, the program ends with `READER_GONE`; if stdout cannot be written, as on a full disk, with one line and 2.
    Errors of stderr have no other place to be shown, so the program goes on.
    """
    # With PYTHONWARNINGS=error a deprecation inside a library would end the program.
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    sys.stdout, sys.stderr = _safe(sys.stdout, _Stdout), _safe(sys.stderr, _Stream)
    try:
        yield
    finally:
        sys.stdout.flush()


def _safe(stream: TextIO | None, kind: "type[_Stream]") -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        # Python has None for a stream that was closed before it started. The new file takes its number.
        return stream or Path(os.devnull).open("w", encoding="utf-8")
    encoding, at_line = stream.encoding, stream.line_buffering
    return kind(stream.detach(), encoding=encoding, errors="backslashreplace", line_buffering=at_line)


class _Stream(io.TextIOWrapper):
    """Drops text that cannot be written."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        # Python writes what is left once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


class _Stdout(_Stream):
    """Ends the program if something cannot be written. SystemExit passes every `except Exception` on its way."""

    def _give_up(self, error: OSError) -> None:
        super()._give_up(error)
        if isinstance(error, BrokenPipeError):
            raise SystemExit(READER_GONE) from None
        sys.stderr.write(f"error: stdout: must be writable; got {error.strerror}; free space, or write elsewhere\n")
        raise SystemExit(_UNWRITABLE) from None
