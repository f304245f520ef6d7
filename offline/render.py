"""Writes our own manifests and the charts' values, one file an object, and what machines run at boot."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fleet.facts.yaml_text import yaml_text
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.render.machine.cloudinit import user_data
from fleet.settings.cluster import physical_name
from offline.errors import InputError
from offline.folders import walk
from offline.gitops import git_files
from offline.plan import Plan
from offline.record import Resource
from offline.wire import Secret, Unknown

MARK = ".gpu-ci-render"
"""Marks a folder as rendered, so that it may be replaced; any other non-empty folder is left alone."""
_OLD = "old"
_ROOT = Path(__file__).resolve().parent.parent
_RELEASE = "kubernetes:helm.sh/v3:Release"
_SECRET_MAPS = ("data", "stringData")
"""Of a Kubernetes Secret: their keys are names, only their values are secret."""


def render(plan: Plan, out: Path) -> tuple[Path, ...]:
    """Write the plan's objects below `out`, `<cluster>/manifests` and `<cluster>/values`; returns the files, sorted.

    Beside them `<cluster>/machines/<set>/user-data.yaml` has what cloud-init runs on the set's machines, as text.

    `<cluster>` is the cluster's physical name (`<project>-<stack>-<key in the stack file>`), or `default` for objects
    without a provider of their own. A link as `out` means what it leads to. The folder is replaced whole, and only when
    all files are written; on any failure it is as it was. Raises InputError for a folder that something else filled, one
    that the command or the project stands in, and one that cannot be written.
    """
    files = rendered(plan)
    try:
        target = _resolved(out)
        _refuse(out, target)
        _write(target, files.items())
    except OSError as error:
        raise InputError(f"OUT: {out} cannot be written ({error.strerror or error}); name a folder that can") from error
    return tuple(out / path for path in files if path != MARK)


def rendered(plan: Plan) -> dict[str, str]:
    """Every file of the folder, by its path below it: the same settings give the same bytes."""
    files = sorted([*_files(plan), *_machines(plan), *git_files(plan)])
    made = {MARK: f"stack {plan.config.stack}\n"} | dict(files)
    if len(made) <= len(files):
        paths = [path for path, _ in files]
        raise ValueError(f"two objects have one file: {', '.join(sorted({path for path in paths if paths.count(path) > 1}))}")
    return made


def differences(plan: Plan, out: Path) -> tuple[str, ...]:
    """A line for each file of `out` that is not what the settings give: changed, missing, or of nothing any more.

    Raises InputError for a folder that is none, that `render` never wrote, or that cannot be read.
    """
    if not (out / MARK).is_file():
        raise InputError(f"OUT: {out} was not rendered by gpu-ci; run make render with it once, and commit what it wrote")
    wanted = {path: text.encode() for path, text in rendered(plan).items()}
    try:
        held = dict(_held(out))
    except OSError as error:
        raise InputError(f"OUT: {out} cannot be read ({error.strerror or error}); name a folder that can") from error
    return tuple(
        f"{out / path}: {_difference(path, wanted, held)}"
        for path in sorted({*wanted, *held})
        if path not in wanted or wanted[path] != held.get(path)
    )


def _held(out: Path) -> Iterator[tuple[str, bytes | None]]:
    """Every file below a folder with its bytes; None for what Git or ArgoCD would not take for a file, such as a link."""
    for here, folders, names in walk(out):
        for name in (*names, *(each for each in folders if (here / each).is_symlink())):
            path = here / name
            plain = stat.S_ISREG(path.lstat().st_mode)
            yield path.relative_to(out).as_posix(), path.read_bytes() if plain else None


def _difference(path: str, wanted: Mapping[str, bytes], held: Mapping[str, bytes | None]) -> str:
    if path not in held:
        return "missing"
    if held[path] is None:
        return "is no regular file"
    return "differs" if path in wanted else "no setting gives it"


def _resolved(out: Path) -> Path:
    try:
        return out.resolve()
    except RuntimeError as error:  # so Python before 3.13 has it
        raise InputError(f"OUT: {out} is a link that leads in a circle; name a folder") from error


def _refuse(out: Path, target: Path) -> None:
    """InputError for a folder that must not be replaced."""
    here = Path.cwd()
    for held, name in ((here, "the current folder"), (_ROOT, "the project")):
        if held == target or target in held.parents:
            is_it = "is" if held == target else "contains"
            raise InputError(f"OUT: {out} {is_it} {name}, and is replaced whole; name a folder of its own, as build/staging")
    if target.exists() and not target.is_dir():
        raise InputError(f"OUT: {out} must be a folder and is none; name a new folder")
    if target.exists() and any(target.iterdir()) and not (target / MARK).exists():
        raise InputError(f"OUT: {out} is not empty and was not rendered by gpu-ci; name a new folder or empty it yourself")


def _write(target: Path, files: Iterable[tuple[str, str]]) -> None:
    """Make the folder `target` anew out of paths and texts; whatever fails, it and its parents are as they were."""
    made = [folder for folder in target.parents if not folder.exists()]
    scratch = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that a rename is all it takes.
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".gpu-ci-"))
        fresh = scratch / "tree"
        for path, text in files:
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text, encoding="utf-8")
        _swap(fresh, target, scratch / _OLD)
    except BaseException:
        if scratch is not None and not (scratch / _OLD).exists():
            shutil.rmtree(scratch, ignore_errors=True)
        for folder in made:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        raise
    shutil.rmtree(scratch, ignore_errors=True)


def _swap(fresh: Path, target: Path, old: Path) -> None:
    """`fresh` takes the place of `target`, which goes to `old`, or comes back from there when the move fails."""
    try:
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException as error:
        if old.exists():
            try:
                old.rename(target)
            except OSError:
                raise InputError(f"OUT: {target} cannot be written ({error}); what it held lies in {old}") from error
        raise


def _files(plan: Plan) -> Iterator[tuple[str, str]]:
    of_git = {resource.urn for resource in plan.git.resources} if plan.git else frozenset()
    for resource in plan.resources:
        if not resource.type.startswith("kubernetes:") or resource.urn in of_git:
            continue
        cluster = _cluster(resource)
        if resource.type == _RELEASE:
            yield f"{cluster}/values/{resource.inputs['namespace']}-{resource.inputs['name']}.yaml", _values(resource)
        else:
            yield f"{cluster}/manifests/{_object_name(resource)}.yaml", _manifest(resource)


def _machines(plan: Plan) -> Iterator[tuple[str, str]]:
    """Cloud-init user data of machine sets. It follows from the settings alone, so a first plan knows it whole."""
    for cluster, name, runner in plan.fleet.runner_sets():
        # Without an image it is CNCF's launcher, whose machines boot images of its owner's.
        if isinstance(runner, MachineRunner) and runner.image is not None:
            folder = physical_name(plan.config.project, plan.config.stack, cluster)
            yield f"{folder}/machines/{name}/user-data.yaml", user_data(runner)


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
    shown = _shown(values).get("values", {})
    return head + _note(_hidden(values)) + yaml_text(shown if isinstance(shown, Mapping) else {})


def _manifest(resource: Resource) -> str:
    hidden = _hidden(resource.inputs)
    if resource.inputs["kind"] == "Secret":
        hidden = (found for path, value in hidden for found in _named(path, value))
    return _note(hidden) + yaml_text(_shown(resource.inputs))


def _note(hidden: Iterable[tuple[str, object]]) -> str:
    """What a reader must know to be left out, a line for secrets and one for what is not known yet."""
    found = sorted(hidden, key=lambda part: part[0])
    secret = [path for path, value in found if isinstance(value, Secret)]
    unknown = [path for path, value in found if isinstance(value, Unknown)]
    lines = (("secret or set beside a secret", secret), ("known only then", unknown))
    return "".join(f"# left out, `pulumi up` sets it ({why}): {', '.join(paths)}\n" for why, paths in lines if paths)


def _hidden(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Path and value of each part that nobody may read or knows yet."""
    if isinstance(value, Secret | Unknown):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _hidden(entry, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _hidden(entry, f"{path}[{index}]")


def _named(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The keys of a Secret's map, which the SDK makes secret as one when a single value is; never the values."""
    inside = value.reveal() if isinstance(value, Secret) and path in _SECRET_MAPS else None
    if isinstance(inside, Mapping) and inside:
        for key in inside:
            yield f"{path}.{key}", value
    else:
        yield path, value


def _shown(value: Mapping[str, object]) -> dict[str, object]:
    """The mapping without what nobody may read or knows yet."""
    return {key: _part(entry) for key, entry in value.items() if not isinstance(entry, Secret | Unknown)}


def _part(value: object) -> object:
    if isinstance(value, Mapping):
        return _shown(value)
    if isinstance(value, list | tuple):
        return [_part(entry) for entry in value if not isinstance(entry, Secret | Unknown)]
    return value
