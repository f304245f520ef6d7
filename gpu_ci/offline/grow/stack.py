"""A stack file that grows: its text, its fleet, and the fleet after edits."""

from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError, instead, quoted
from fleet.facts.limits import read_bytes
from fleet.facts.places import Keys
from fleet.loading.config import read_fleet, read_stack
from fleet.loading.files import from_here
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.registry import provider_of
from gpu_ci.offline.grow.draft import Draft
from gpu_ci.offline.init.answers import Answers

_KEYS = (f"{NAMESPACE}:clusters", "clusters")


def member(option: str, rule: str, name: str, names: Collection[str]) -> str:
    """The name, if it is one of the names. Raises InputError."""
    if name not in names:
        hint = instead(name, names, f"give one of: {', '.join(names) or 'none'}")
        raise InputError(f"{option}: {rule}; got {quoted(name)}; {hint}")
    return name


class GrowingStack:
    """A stack of the project in `root`, whose file is valid. Raises InputError if it is not.

    `draft` is the file with the edits so far, `notes` says why an edit is not the usual one.
    """

    def __init__(self, stack: str, root: Path, file: Path | None = None) -> None:
        config, fleet = read_stack(stack, file, root)
        self.stack, self.root, self.path = stack, root, config.path.resolve()
        self.fleet = fleet.written
        # Bytes, because every line end and a byte order mark stay.
        self.before = read_bytes(self.path).decode("utf-8")
        self.draft = Draft(str(from_here(config.path)), self.before)
        written = self.draft.value(("config",))
        if (key := next((key for key in _KEYS if key in written), None)) is None:
            raise InputError(f"{self.draft.name}: has no {_KEYS[0]}; only clusters of this file can grow")
        self.clusters: Keys = ("config", key)
        self.notes: list[str] = []

    def cluster(self, name: str | None) -> str:
        """The cluster of this name; without one the only cluster. Raises InputError."""
        names = self.names(self.clusters)
        if name is None and len(names) > 1:
            raise InputError(f"--cluster: required, because the stack has several clusters; give one of: {', '.join(names)}")
        return names[0] if name is None else member("--cluster", "the stack has no such cluster", name, names)

    def names(self, path: Keys) -> list[str]:
        """The names of the entries at a path, in the order of the file."""
        return [*(self.draft.value(path) or {})]

    def at(self, cluster: str, *keys: str | int) -> Keys:
        """The path of a cluster's settings in the file."""
        return (*self.clusters, cluster, *keys)

    def require_new(self, what: str, path: Keys) -> None:
        """Raise InputError if there is an entry at this path."""
        if self.draft.value(path) is not None:
            raise InputError(f"NAME: the stack has {what} {path[-1]} already; give another name, or edit it")

    def answers(self, cluster: str, gpu: str = "") -> Answers:
        """The answers of `init` for this cluster. Raises InputError for a provider that sells no machines."""
        settings = self.fleet.clusters[cluster]
        if (starter := provider_of(settings).starter) is None or starter.owns or starter.reads:
            why = "has machines of your own or nodes that exist already, which no command can choose"
            rule = f"clusters.{cluster}: provider {settings.provider} {why}"
            raise InputError(f"{rule}; write this part by hand (docs/settings.md)")
        return Answers(self.stack, starter.answers[-1 if settings.found else 0], settings.region, gpu, "", (), "")

    def grown(self) -> Fleet:
        """The fleet after the edits. Raises InputError with a line for each rule that it breaks."""
        with TemporaryDirectory(prefix="gpu-ci-") as folder:
            try:
                return read_fleet(self.stack, self.written(Path(folder)), self.root).written
            except InputError as error:
                lines = (f"after this edit: {fault.path}: {fault.message}" for fault in error.faults)
                raise InputError("\n".join(lines), error.faults) from None

    def written(self, folder: Path) -> Path:
        """The file with the edits, in another folder. Raises InputError if the edits would change other settings."""
        path = folder / f"Pulumi.{self.stack}.yaml"
        path.write_bytes(self.draft.checked().encode())
        return path
