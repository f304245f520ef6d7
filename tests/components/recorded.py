"""What component tests share: the project's stacks and ways to find a resource in a recording."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fleet.facts.day import day_of
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Answer, Recording, Resource, joined
from tests import plans
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[2]
STACKS = {"staging": None, "prod": None, "homelab": None} | {
    path.name.split(".")[1]: path for path in sorted((ROOT / "examples").glob("Pulumi.*.yaml"))
}
RELEASE = "kubernetes:helm.sh/v3:Release"
APPLICATION = "kubernetes:argoproj.io/v1alpha1:Application"
_SET = "gha-runner-scale-set"
SECRET = "gpu-ci:githubPrivateKey"  # noqa: S105 - a config key
ALONE = StackConfig("gpu-ci", "test", ROOT / "Pulumi.test.yaml", {}, frozenset(), {})
"""The empty config of a program of a test's own."""
_kept: dict[str, Recording] = {}


@cache
def stack_config(stack: str) -> StackConfig:
    """The stack's config with a placeholder for the key of each App."""
    config = stackfile.load(stack, ROOT, stack_file=STACKS[stack])
    return stackfile.with_stand_ins(config, [SECRET, *fleet_of(config).secrets.values()])


@cache
def recorded(stack: str) -> Recording:
    """All that one of `STACKS` declares, in preview."""
    return joined(*recordings(stack))


@cache
def recordings(stack: str) -> tuple[Recording | None, Recording | None]:
    """(what `pulumi up` registers, what Git has) of one of `STACKS`, recorded once in a process for all tests that read it."""
    config = stack_config(stack)
    return plans.declared(ROOT, config, fleet_of(config))


in_every_stack = cases("recording", STACKS, recorded)
"""For a test of `recording`: what each of `STACKS` declares, in preview."""


def with_clusters(config: StackConfig, clusters: Mapping[str, Any]) -> StackConfig:
    """The same stack with these clusters."""
    key = "gpu-ci:clusters"
    return replace(config, objects={**config.objects, key: clusters}, values={**config.values, key: json.dumps(clusters)})


def only(config: StackConfig, *names: str) -> StackConfig:
    """The same stack with these of its clusters alone."""
    every = json.loads(config.values["gpu-ci:clusters"])
    clusters = {name: every[name] for name in names}
    if not any(cluster["provider"] == "eks" for cluster in clusters.values()):
        # A boundary of roles is refused where no cluster is in AWS.
        config = _without(config, "gpu-ci:permissionsBoundary")
    return with_clusters(config, clusters)


def _without(config: StackConfig, key: str) -> StackConfig:
    values = {name: value for name, value in config.values.items() if name != key}
    return replace(config, values=values, objects={name: value for name, value in config.objects.items() if name != key})


def of_clusters(recording: Recording, *names: str) -> tuple[Resource, ...]:
    """The resources of these clusters, with whose names theirs begin, and those of the stack itself."""
    own = ("pulumi:pulumi:Stack", "gpu-ci:index:DestroyGuard")
    return tuple(each for each in recording.resources if each.type in own or each.name.partition("-")[0] in names)


def whole(config: StackConfig, *, preview: bool = True) -> Recording:
    """All that a stack declares: what `pulumi up` registers and what Git has."""
    return joined(*plans.declared(ROOT, config, fleet_of(config), preview=preview))


def of_type(recording: Recording, token: str) -> tuple[Resource, ...]:
    """The recording's resources of one type."""
    return tuple(resource for resource in recording.resources if resource.type == token)


def named(recording: Recording, name: str, token: str) -> Resource:
    """The one resource of a type and logical name."""
    (found,) = [resource for resource in of_type(recording, token) if resource.name == name]
    return found


def cluster_id(resource: Resource) -> str:
    """The physical name of the cluster of an object, created by the program or by ArgoCD."""
    assert resource.provider_resource is not None, resource.urn
    return str(resource.provider_resource.inputs["clusterIdentifier"])


@dataclass(frozen=True)
class RunnerSet:
    """A runner set's release, or the Application that makes it. `apart`: the program makes its namespace and Git its release."""

    resource: Resource
    name: str
    namespace: str
    values: Mapping[str, Any]
    apart: bool


def runner_sets(recording: Recording) -> tuple[RunnerSet, ...]:
    """Every runner set of a recording, delivered by Helm or ArgoCD."""
    return (*_released(recording), *_applied(recording))


def _released(recording: Recording) -> Iterator[RunnerSet]:
    for each in of_type(recording, RELEASE):
        held = each.inputs
        if str(held["chart"]).rpartition("/")[2] == _SET:
            yield RunnerSet(each, held["name"], held["namespace"], held["values"], False)


def _applied(recording: Recording) -> Iterator[RunnerSet]:
    for each in of_type(recording, APPLICATION):
        source, namespace = each.inputs["spec"]["source"], each.inputs["spec"]["destination"]["namespace"]
        if source.get("chart") == _SET:
            apart = recording.by_urn[each.parent].type == "gpu-ci:index:GitTree"
            yield RunnerSet(each, source["helm"]["releaseName"], namespace, source["helm"]["valuesObject"], apart)


def build_alone(
    program: Callable[[], object], settings: str = "", *, preview: bool = True, answers: Mapping[str, Answer] | None = None
) -> Recording:
    """What a program of a test's own declares, without any stack file.

    With `settings`, on which alone the program of this name depends, it is recorded once for all tests. It must not be changed.
    """

    def make() -> Recording:
        return record(program, ALONE, preview=preview, answers=answers)

    if not settings:
        return make()
    name = f"{program.__module__}.{program.__qualname__} {settings} {preview} {sorted(answers or ())} {day_of()}"
    if name not in _kept:
        _kept[name] = plans.shared(plans.name_of(ALONE, name, of_tests()), make)
    return _kept[name]


@cache
def of_tests() -> str:
    """A name for the sources of these programs, beside those of `plans.sources`."""
    paths = (*sorted(Path(__file__).parent.glob("*.py")), ROOT / "tests" / "builders.py")
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def before(recording: Recording, resource: Resource) -> set[str]:
    """URNs of everything that must exist before a resource: its dependencies, parents and providers, and theirs."""
    found: set[str] = set()
    todo = [resource]
    while todo:
        here = todo.pop()
        wanted = {*here.dependencies, here.provider_urn, here.parent} - {""}
        for urn in wanted - found:
            found.add(urn)
            todo.append(recording.by_urn[urn])
    return found
