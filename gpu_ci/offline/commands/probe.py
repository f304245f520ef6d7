"""`gpu-ci probe`: describes a machine from saved output of its own tools."""

import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleet.facts.errors import InputError, quoted
from fleet.facts.limits import MOST_BYTES, read_bytes
from fleet.settings.model import DnsLabel
from gpu_ci.app import WRITE, Gpu, app, reply
from gpu_ci.offline.probe import in_braces, machine

_STDIN = "-"


@app.command(rich_help_panel=WRITE)
def probe(outputs: list[str] | None = None, name: str = "machine", gpu: Gpu = None, disk: str = "") -> None:
    """Print the `machines` block of a stack file from saved output of a machine's tools. It runs nothing and asks no network."""
    try:
        TypeAdapter(DnsLabel).validate_python(name)
    except ValidationError as error:
        raise InputError(f"--name: {error.errors()[0]['msg']}; got {quoted(name)}") from None
    block = machine({place: _text(place) for place in outputs or (_STDIN,)}, gpu or "", disk)
    reply(("machines:", f"  {name}: {in_braces(block)}"))


def _text(place: str) -> str:
    """The text of a file or of stdin: UTF-8, or UTF-16 with a mark, as PowerShell writes it. Raises InputError."""
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1) if place == _STDIN else read_bytes(Path(place))
        if len(content) > MOST_BYTES:
            raise InputError(f"stdin: it has more than {MOST_BYTES:,} bytes; give the output of one machine")
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror or error}); name a file with saved output") from None
    except UnicodeDecodeError:
        raise InputError(f"{place}: it is not text in UTF-8; save the output of the command as text") from None
