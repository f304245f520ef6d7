"""The fleet of a stack, read from its file for the builder of Jobs: without Pulumi, and without the stack's secrets."""

from __future__ import annotations

from pathlib import Path

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.providers import fleet as settings
from submit.errors import InputError
from submit.objects import listed
from submit.yamlfile import documents

ROOT = Path(__file__).resolve().parent.parent


def read_fleet(stack: str, root: Path = ROOT) -> settings.Fleet:
    """The settings of `Pulumi.<stack>.yaml`. Raises InputError, a line for each problem; `make plan` says more of them."""
    path = root / f"Pulumi.{stack}.yaml"
    if not path.is_file() or path.parent != root:
        names = (found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in sorted(root.glob("Pulumi.?*.yaml")))
        raise InputError(
            f"--stack: there must be a file for the stack; there is none for {stack!r}; give one of: {listed(names)}"
        )
    return read_file(path)


def read_file(path: Path) -> settings.Fleet:
    """The settings of one stack file. Raises InputError, a line for each problem."""
    try:
        found = documents(path, path.name)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; name a stack file") from None
    if len(found) > 1:
        raise InputError(f"{path.name}: must hold one document; it holds {len(found)}; leave the others out")
    held = found[0] if found else None
    config = held.get("config") if isinstance(held, dict) else None
    keys = {str(key).partition(":")[::2]: value for key, value in (config or {}).items()}
    ours = {name: value for (home, name), value in keys.items() if home == settings.NAMESPACE}
    try:
        return load({name: value for name, value in ours.items() if name not in settings.SECRETS})
    except FleetError as error:
        raise InputError("\n".join(f"{path.name}: {problem}" for problem in error.problems)) from error
