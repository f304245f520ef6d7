"""Writes the manifests, the charts' values and the boot files of a stack, one file per object."""

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.facts.errors import InputError, reachable
from fleet.facts.yaml_text import yaml_text
from fleet.providers.registry import provider_of
from fleet.settings.cluster import physical_name
from gpu_ci.offline import wire
from gpu_ci.offline.folders import walk
from gpu_ci.offline.gitops import git_files
from gpu_ci.offline.outfolder import replace_folder
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import Secret, Unknown

MARK = ".gpu-ci-render"
"""The file that marks a rendered folder. Other folders that are not empty are never replaced."""


def render(plan: Plan, out: Path) -> tuple[Path, ...]:
    """Write the plan's objects below `out`, into `<cluster>/manifests` and `<cluster>/values`; returns the files, sorted.

    `<cluster>/machines/<set>/user-data.yaml` has the cloud-init user data of the set's machines. `<cluster>` is the cluster's
    physical name (`<project>-<stack>-<key in the stack file>`), or `default` for objects without an explicit provider. The folder
    is replaced as a whole (`offline.outfolder`). Raises InputError for a folder that must not be replaced or cannot be written.
    """
    files = {path: text.encode() for path, text in rendered(plan).items()}
    return tuple(path for path in replace_folder(out, files, MARK, "was not rendered by gpu-ci") if path != out / MARK)


def rendered(plan: Plan) -> dict[str, str]:
    """The text of every file, by its path below the folder. The same settings give the same bytes."""
    files = sorted([*_files(plan), *_machines(plan), *git_files(plan)])
    texts = {MARK: f"stack {plan.config.stack}\n"} | dict(files)
    if len(texts) <= len(files):
        paths = [path for path, _ in files]
        raise ValueError(f"two objects have one file: {', '.join(sorted({path for path in paths if paths.count(path) > 1}))}")
    return texts


def differences(plan: Plan, out: Path) -> tuple[str, ...]:
    """One line for each file of `out` that differs from the files of the settings: changed, missing, or no longer rendered.

    Raises InputError if `out` is not a rendered folder, or cannot be read.
    """
    if not (out / MARK).is_file():
        raise InputError(f"OUT: {out} was not rendered by gpu-ci; run make render with it once, and commit the result")
    expected = {path: text.encode() for path, text in rendered(plan).items()}
    with reachable(f"OUT: {out} cannot be read", "name a folder that can"):
        existing = dict(_existing(out))
    astray = (path for path in {*expected, *existing} if path not in expected or expected[path] != existing.get(path))
    return tuple(f"{out / path}: {_difference(path, expected, existing)}" for path in sorted(astray))


def _existing(out: Path) -> Iterator[tuple[str, bytes | None]]:
    """Every file below a folder with its bytes; None for links and devices, which Git and ArgoCD do not read as files."""
    for here, folders, names in walk(out):
        for name in (*names, *(folder for folder in folders if (here / folder).is_symlink())):
            path = here / name
            yield path.relative_to(out).as_posix(), path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None


def _difference(path: str, expected: Mapping[str, bytes], existing: Mapping[str, bytes | None]) -> str:
    if path not in existing:
        return "missing"
    if existing[path] is None:
        return "is not a regular file"
    return "differs" if path in expected else "no setting creates it"


def _files(plan: Plan) -> Iterator[tuple[str, str]]:
    of_git = {resource.urn for resource in plan.git.resources} if plan.git else frozenset()
    for resource in plan.resources:
        if not resource.type.startswith("kubernetes:") or resource.urn in of_git:
            continue
        cluster = _cluster(resource)
        if resource.type == "kubernetes:helm.sh/v3:Release":
            yield f"{cluster}/values/{resource.inputs['namespace']}-{resource.inputs['name']}.yaml", _values(resource)
        else:
            yield f"{cluster}/manifests/{_object_name(resource)}.yaml", _manifest(resource)


def _machines(plan: Plan) -> Iterator[tuple[str, str]]:
    """Cloud-init user data of machine sets. It depends on the settings only, so the first plan has all of it."""
    for name, cluster in plan.fleet.clusters_by_name():
        for runner_set, text in provider_of(cluster).user_data(cluster).items():
            yield f"{physical_name(plan.config.project, plan.config.stack, name)}/machines/{runner_set}/user-data.yaml", text


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
    values = {"values": resource.inputs["values"]}
    head = f"# values of chart {chart} {version}{source}, release {resource.inputs['name']}\n"
    return head + _note(wire.hidden(values)) + yaml_text(_shown(values).get("values", {}))


def _manifest(resource: Resource) -> str:
    hidden = wire.hidden(resource.inputs)
    if resource.inputs["kind"] == "Secret":
        hidden = (entry for path, value in hidden for entry in _named(path, value))
    return _note(hidden) + yaml_text(_shown(resource.inputs))


def _note(hidden: Iterable[tuple[str, object]]) -> str:
    """Comments that list what is left out: one line for secrets, one for values that are not known yet."""
    entries = sorted(hidden, key=lambda part: part[0])
    secret = [path for path, value in entries if isinstance(value, Secret)]
    unknown = [path for path, value in entries if isinstance(value, Unknown)]
    lines = (("secret or set beside a secret", secret), ("known only then", unknown))
    return "".join(f"# left out, `pulumi up` sets it ({why}): {', '.join(paths)}\n" for why, paths in lines if paths)


def _named(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The keys of a Secret's map, never the values. The SDK makes the whole map secret if one value is."""
    # The maps of a Kubernetes Secret: their keys are names, only their values are secret.
    inside = value.reveal() if isinstance(value, Secret) and path in ("data", "stringData") else None
    if isinstance(inside, Mapping) and inside:
        yield from ((f"{path}.{key}", value) for key in inside)
    else:
        yield path, value


def _shown(value: object) -> Any:
    """The value without secrets and unknown values."""
    if isinstance(value, list | tuple):
        return [_shown(entry) for entry in value if not isinstance(entry, Secret | Unknown)]
    if isinstance(value, Mapping):
        return {key: _shown(entry) for key, entry in value.items() if not isinstance(entry, Secret | Unknown)}
    return value
