"""Plans of the same settings share one recording: the recording is most of a plan's time.

A recording depends on nothing but the settings, the sources and the SDKs, as tests/offline/test_record.py and
tests/test_program.py hold. A process keeps the recordings that it used last, and a folder has all of them for other processes and
the next run. `make clean` removes it.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet
from gpu_ci.offline import plan, wire
from gpu_ci.offline.judge import Remediation, Remedies
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Answer, Recording, Resource
from tests.builders import ROOT

Kept = TypeVar("Kept")
Declared = tuple[Recording | None, Recording | None]
_Made = tuple[Declared, list[Remediation]]
alone = plan.declared
"""For a test that must record for itself."""
FOLDER = ROOT / ".pytest_cache" / "recordings"
SOURCES = ("fleet", "gpu_ci", "components", "policies", "__main__.py", "Pulumi.yaml", "requirements.txt", "tests/plans.py")
"""What a recording depends on beside the settings."""
_LIMIT = 32
"""Recordings that a process keeps: some MiB each."""
_kept: dict[str, _Made] = {}


def declared(
    root: Path,
    config: StackConfig,
    fleet: Fleet,
    remedy: Remedies | None = None,
    *,
    preview: bool = True,
    answers: Mapping[str, Answer] | None = None,
) -> Declared:
    """What `offline.plan.declared` gives, from memory or the folder if a plan of the same settings and remedies asked before.

    Remedies that change no resource of a recording without them give that recording.
    """
    if root != ROOT or answers or not isinstance(remedy, Remedies | None):
        return alone(root, config, fleet, remedy, preview=preview, answers=answers)
    name = name_of(config, preview)
    plain, _ = _kept_or(name, lambda: shared(name, lambda: (alone(root, config, fleet, preview=preview), [])))
    if remedy is None or not remedy._policies:
        return plain
    key = name_of(config, preview, [(rule.id, repr(configured.config)) for rule, configured in remedy._policies])

    def remedied() -> _Made:
        trial = copy(remedy)
        trial.done = []
        if all(trial(resource) is None for resource in _changeable(plain)):
            return plain, []
        trial.done = []
        return shared(key, lambda: (alone(root, config, fleet, trial, preview=preview), trial.done))

    recordings, done = _kept_or(key, remedied)
    remedy.done.extend(done)
    return recordings


def _changeable(recordings: Declared) -> Iterator[Resource]:
    """The resources that the recorder gives to remedies."""
    for recording in filter(None, recordings):
        yield from (resource for resource in recording.resources if not (resource.remote or resource.read))


def _kept_or(key: str, make: Callable[[], _Made]) -> _Made:
    """What the process keeps under this key, or else what `make` gives."""
    _kept[key] = made = _kept.pop(key) if key in _kept else make()
    if len(_kept) > _LIMIT:
        # The one whose last use is the longest ago.
        _kept.pop(next(iter(_kept)))
    return made


def program(config: StackConfig) -> Recording:
    """What `pulumi up` registers with a config, from memory or the folder, whether its settings are a fleet or not."""
    return shared(name_of(config), lambda: record(ROOT / "__main__.py", config))


def name_of(config: StackConfig, *settings: object) -> str:
    """A name for what depends on a stack's config and on other settings, each equal exactly if its `repr` is."""
    parts = (config.project, config.stack, sorted(config.values.items()), sorted(config.secret_keys))
    return hashlib.sha256(repr((*parts, *settings)).encode()).hexdigest()


def shared(name: str, make: Callable[[], Kept], folder: Path = FOLDER) -> Kept:
    """What `make` gives, or what a process with the same sources wrote under this name. It must not be changed."""
    path = folder / sources() / name
    if path.exists():
        return cast("Kept", pickle.loads(path.read_bytes()))  # noqa: S301 - written below
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another process may write the same file at the same time: each replaces it as a whole.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**copyreg.dispatch_table, **_REDUCED}
        pickler.dump(made)
    Path(file.name).replace(path)
    return made


@cache
def sources() -> str:
    """A name for the sources, Python and the SDKs, which changes with each of them."""
    sdks = [metadata.version(name) for name in ("pulumi", "pulumi-aws", "pulumi-kubernetes", "pulumi-oci", "protobuf")]
    found = hashlib.sha256(repr((sys.version, sdks)).encode())
    for path in sorted(_source_files()):
        found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _source_files() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        files = path.rglob("*") if path.is_dir() else [path]
        yield from (file for file in files if "__pycache__" not in file.parts and file.is_file())


def share() -> None:
    """Let every plan of this process use it, and forget the recordings of other sources."""
    plan.declared = declared
    for folder in FOLDER.glob("*"):
        if folder.name != sources():
            shutil.rmtree(folder, ignore_errors=True)


# -- how a recording is written ----------------------------------------------------------------------------------------


def _frozen(items: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(items)


def _unknown() -> wire.Unknown:
    return wire.UNKNOWN


def _resource(fields: dict[str, Any]) -> Resource:
    return Resource(**fields)


def _fields(resource: Resource) -> dict[str, Any]:
    """The fields without what is computed from them."""
    return {name: getattr(resource, name) for name in Resource.__dataclass_fields__}


_REDUCED: dict[type, Callable[[Any], Any]] = {
    MappingProxyType: lambda proxy: (_frozen, (dict(proxy),)),
    wire.Unknown: lambda _: (_unknown, ()),
    wire.Secret: lambda secret: (wire.Secret, (secret.reveal(),)),  # here it keeps its value, as the resources' Structs do
    Resource: lambda resource: (_resource, (_fields(resource),)),
}
