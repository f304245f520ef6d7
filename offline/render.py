"""Writes what goes into the clusters: our own manifests and the charts' values, one file an object."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ruamel.yaml import YAML

from offline.errors import InputError
from offline.plan import Plan
from offline.record import Resource
from offline.wire import Secret, Unknown

MARK = ".gpu-ci-render"
"""Marks a folder as rendered, so that it may be replaced; any other non-empty folder is left alone."""
_RELEASE = "kubernetes:helm.sh/v3:Release"


def render(plan: Plan, out: Path) -> tuple[Path, ...]:
    """Write the plan's objects below `out`, `<cluster>/manifests` and `<cluster>/values`; returns the files, sorted.

    The folder is replaced whole, and only when all files are written. Raises InputError for a folder that something else filled.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise InputError(f"OUT: {out} is not empty and was not rendered by gpu-ci; name a new folder or empty it yourself")
    out.parent.mkdir(parents=True, exist_ok=True)
    files = sorted(_files(plan))
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".gpu-ci-") as scratch:
        fresh = Path(scratch) / "tree"
        fresh.mkdir()
        (fresh / MARK).write_text(f"stack {plan.config.stack}\n")
        for path, text in files:
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text)
        if out.exists():
            shutil.move(out, Path(scratch) / "old")
        shutil.move(fresh, out)
    return tuple(out / path for path, _ in files)


def _files(plan: Plan) -> Iterator[tuple[str, str]]:
    for resource in plan.resources:
        if not resource.type.startswith("kubernetes:"):
            continue
        cluster = _cluster(resource)
        if resource.type == _RELEASE:
            yield f"{cluster}/values/{resource.inputs['namespace']}-{resource.inputs['name']}.yaml", _values(resource)
        else:
            yield f"{cluster}/manifests/{_object_name(resource)}.yaml", _manifest(resource)


def _cluster(resource: Resource) -> str:
    provider = resource.provider_resource
    return str(provider.inputs["clusterIdentifier"]) if provider else "default"


def _object_name(resource: Resource) -> str:
    metadata = resource.inputs["metadata"]
    names = metadata if isinstance(metadata, Mapping) else {}
    parts = (names.get("namespace"), resource.inputs["kind"], names.get("name"))
    return "-".join(str(part).lower() for part in parts if part)


def _values(resource: Resource) -> str:
    chart, version = resource.inputs["chart"], resource.inputs["version"]
    repository = resource.inputs.get("repositoryOpts")
    source = f" of {repository['repo']}" if isinstance(repository, Mapping) else ""
    return f"# values of chart {chart} {version}{source}, release {resource.inputs['name']}\n" + _yaml(resource.inputs["values"])


def _manifest(resource: Resource) -> str:
    hidden = sorted(_hidden(resource.inputs))
    note = f"# left out, `pulumi up` sets it from the stack's secrets: {', '.join(hidden)}\n" if hidden else ""
    return note + _yaml(resource.inputs)


def _hidden(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, Secret | Unknown):
        yield path
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _hidden(entry, f"{path}.{key}" if path else str(key))


def _yaml(value: object) -> str:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 4096
    text = io.StringIO()
    writer.dump(_shown(value), text)
    return text.getvalue()


def _shown(value: object) -> object:
    """The value without what nobody may read or knows yet."""
    if isinstance(value, Mapping):
        return {key: _shown(entry) for key, entry in value.items() if not isinstance(entry, Secret | Unknown)}
    if isinstance(value, list | tuple):
        return [_shown(entry) for entry in value]
    return value
