"""The order of lists: another one changes no resource, or the table here says what moves.

Every list of two or more items is turned around, in every shipped stack and in configs that use every key.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fleet.facts.errors import InputError
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.effects import effects
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.recording import Recording, joined
from tests import plans, strategies
from tests.cases import cases
from tests.components.oke import ANSWERS
from tests.components.recorded import SECRET, STACKS, stack_config
from tests.offline.staging import few_policies, plan_of, staging, write

At = tuple[str | int, ...]
Moved = Mapping[str, set[str]]
GROUP = "aws:eks/nodeGroup:NodeGroup"
RELEASE, APPLICATION = "kubernetes:helm.sh/v3:Release", "kubernetes:argoproj.io/v1alpha1:Application"
MAP, JOB = "kubernetes:core/v1:ConfigMap", "kubernetes:batch/v1:Job"
_GATEWAY = {
    "aws:ec2/eip:Eip": {"added", "removed"},
    "aws:ec2/natGateway:NatGateway": {"added", "removed"},
    "aws:ec2/routeTable:RouteTable": {"updated"},
}
_REPLACED = {GROUP: {"replaced"}}
_POD = {MAP: {"replaced"}}

ORDERED: dict[str, Moved] = {
    # The only NAT gateway is in the first zone. Pools split their nodes over the zones in this order.
    "eks zones": _GATEWAY,
    "eks controlPlaneZones": _GATEWAY,
    "eks pools.zones": {GROUP: {"updated"}},
    # Caches with files are mounted from the first availability domain.
    "oke zones": {
        "oci:FileStorage/mountTarget:MountTarget": {"replaced"},
        "kubernetes:storage.k8s.io/v1:StorageClass": {"replaced"},
    },
    # On demand, EKS starts the first type that it has.
    "eks pools.instanceTypes": _REPLACED,
    "eks system.instanceTypes": _REPLACED,
    # A pod goes to the first pool that has a node, and the autoscaler grows the first.
    "runners.pools": {RELEASE: {"updated"}, MAP: {"replaced"}},
    "queues.quotas": {"kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue": {"updated"}},
    # The launcher tries places, availability domains and shapes in this order, and a pool of machines its domains.
    "oke runners.places": {RELEASE: {"updated"}},
    "oke places.availabilityDomains": {MAP: {"replaced"}},
    "oke runners.availabilityDomains": {"oci:Core/instancePool:InstancePool": {"updated"}},
    # Argo CD has the labels in the order of the file, and ARC restarts the listener alone.
    "runners.labels": {APPLICATION: {"updated"}},
    # An image is built of its steps.
    "eks amis.prePull": {
        "aws:imagebuilder/component:Component": {"updated"},
        "aws:imagebuilder/imageRecipe:ImageRecipe": {"updated"},
    },
    # Words of a command, a Secret and its key, and parts of a pod that the program does not read.
    "jobs.command": {JOB: {"replaced"}},
    "jobs.args": {JOB: {"replaced"}},
    "jobs.secretEnv": {JOB: {"replaced"}},
    "workloads.command": {"kubernetes:apps/v1:Deployment": {"updated"}},
    "runners.volumes": _POD,
    "runners.hostAliases": _POD,
    "runners.hostnames": _POD,
    "runners.options": _POD,
}
"""What moves, by type and effect, if a list is turned around whose order means something."""

CONTRADICTED = {"queues.pools", "jobs.pools"}
"""Lists of pools of the configs with every key: the settings refuse it if two lists of a cluster contradict each other."""
SINGLE = {
    "shapes": "the launcher tries them as it tries places",
    "containers": "part of a pod",
    "initContainers": "part of a pod",
    "rlimits": "part of a node's container runtime",
    "disabledMounts": "two of its words exclude what the config needs",
    "taints": "describes the nodes of a cluster whose nodes the program does not make",
    "runners": "names sets that may push to a builder",
    "pulumi:disable-default-providers": "has one item",
}
"""Settings that no config has with several items, and why."""

MORE: dict[str, object] = {
    "admins": "arn:aws:iam::123456789012:role/dev",
    "args": "--fast",
    "cidrs": "198.51.100.0/24",
    "command": "-u",
    "copies": "nvcr.io/nvidia/k8s/dcgm-exporter:4",
    "emails": "ml@example.com",
    "holidays": "2026-12-26",
    "hostAliases": {"ip": "192.0.2.10", "hostnames": ["third"]},
    "hostnames": "other",
    "logTypes": "audit",
    "noProxy": "example.org",
    "options": {"name": "timeout", "value": "2"},
    "owners": "example-more",
    "prePull": f"docker.io/library/alpine:3@sha256:{'a' * 64}",
    "privateCidrs": "10.3.0.0/16",
    "privateEgress": "10.21.0.0/16",
    "publicCidrs": "198.51.100.0/24",
    "pullSecrets": "mirror",
    "regions": "us-east-2",
    "repositories": "example/lib",
    "viewers": "arn:aws:iam::123456789012:role/looks",
    "volumes": {"name": "more", "emptyDir": {"sizeLimit": "1Gi"}},
    "writeRefs": "refs/heads/next",
    "writeWorkflows": ".github/workflows/other.yml",
}
"""A second item for lists of one."""
FULL = tuple(f"full-{index}" for index in range(len(strategies.FULL)))


def lists(value: object, at: At = ()) -> Iterator[At]:
    """The paths of all lists of two or more items."""
    if isinstance(value, list) and len(value) > 1:
        yield at
    if isinstance(value, list | Mapping):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from lists(inner, (*at, key))


def parent(document: Any, at: At) -> Any:
    for step in at[:-1]:
        document = document[step]
    return document


@cache
def config_of(stack: str) -> StackConfig:
    """The config of a shipped stack, or of one with every key and a second item in its lists."""
    if stack in STACKS:
        return stack_config(stack)
    document: dict[str, Any] = copy.deepcopy(strategies.FULL[FULL.index(stack)])
    for at in strategies.places(document):
        value = parent(document, at)[at[-1]]
        if isinstance(value, list) and len(value) == 1 and at[-1] in MORE:
            value.append(MORE[str(at[-1])])
    for name, cluster in document["clusters"].items():
        if "gitops" in cluster:
            cluster["gitops"]["path"] = f"clusters/gpu-ci-test-{name}"
        if cluster["provider"] == "eks" and "own" in cluster["pools"]:
            for pool in ("t4", "apart"):
                cluster["pools"][pool]["nodes"] = {"min": 0, "max": 30}
            # Three nodes: the first zone gets one more.
            cluster["pools"]["own"] |= {"zones": ["us-west-2a", "us-west-2b"], "nodes": {"min": 0, "max": 3}}
            for holder in (cluster["pools"]["own"], cluster["system"]):
                holder["instanceTypes"].append("m6i.xlarge")
        if cluster["provider"] == "oke":
            cluster.get("jobs", {}).pop("try", None)
    objects = {f"gpu-ci:{key}": value for key, value in document.items()} | {"pulumi:disable-default-providers": ["*"]}
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in objects.items()}
    plain = StackConfig("gpu-ci", "test", ROOT / "Pulumi.test.yaml", values, frozenset(), objects)
    return stackfile.with_stand_ins(plain, [SECRET, *fleet_of(plain).secrets.values()])


def turned(config: StackConfig, places: Collection[At]) -> StackConfig:
    """The config with these lists turned around."""
    objects = copy.deepcopy({**config.objects})
    for at in places:
        parent(objects, at)[at[-1]].reverse()
    values = {key: config.values[key] if isinstance(value, str) else json.dumps(value) for key, value in objects.items()}
    return replace(config, objects=objects, values=values)


def name(config: StackConfig, at: At) -> str:
    """The row of a list: its provider, section and setting."""
    if at[0] != "gpu-ci:clusters":
        return str(at[0])
    cluster: Any = config.objects["gpu-ci:clusters"]
    setting = [step for step in at[2:] if isinstance(step, str)][-2 if at[-2] == "secretEnv" else -1]
    section = "places" if "places" in at[:-1] else at[2]
    return f"{cluster[at[1]]['provider']} {setting if len(at) == 3 else f'{section}.{setting}'}"


def is_ordered(config: StackConfig, at: At) -> bool:
    """Whether the order of a list means something."""
    row, clusters = name(config, at), config.objects["gpu-ci:clusters"]
    here = parent(config.objects, at)
    if row == "eks pools.instanceTypes":
        return bool(here["capacity"] != "spot")
    if row.endswith(" runners.labels"):
        return "gitops" in clusters[at[1]]  # type: ignore[index]
    return not {row, of_any(row)}.isdisjoint((*ORDERED, *CONTRADICTED))


def of_any(row: str) -> str:
    """The row of any provider."""
    return row.partition(" ")[2]


def recorded(config: StackConfig) -> Recording:
    """What an update declares, because a preview does not know lists with ids."""

    def make() -> Recording:
        # An update is refused before the day of a reservation, and each stack has another.
        with patch("components.build._require_works"):
            return joined(*plans.alone(ROOT, config, fleet_of(config), preview=False, answers=ANSWERS))

    return plans.shared(plans.name_of(config, "answered"), make)


@cache
def plain(stack: str) -> Recording:
    return recorded(config_of(stack))


def moved(stack: str, places: Sequence[At]) -> dict[str, set[str]]:
    """What another order of these lists changes in the cloud or in a cluster: effects by type."""
    before, after = plain(stack), recorded(turned(config_of(stack), places))
    resources = {**after.by_urn, **before.by_urn}
    found: dict[str, set[str]] = {}
    for urn, effect in effects(before.resources, after.resources).items():
        if effect.state and resources[urn].custom:
            found.setdefault(resources[urn].type, set()).add(effect.state)
    for urn in before.by_urn.keys() & after.by_urn.keys():
        if before.by_urn[urn].dependencies != after.by_urn[urn].dependencies:
            found.setdefault(resources[urn].type, set()).add("waits for others")
    return found


@cases("stack", (*STACKS, *FULL))
def test_another_order_of_lists_without_one_changes_no_resource(stack: str) -> None:
    config = config_of(stack)
    free = [at for at in lists({**config.objects}) if not is_ordered(config, at)]
    if moved(stack, free):
        assert {at: found for at in free if (found := moved(stack, [at]))} == {}


def examples(row: str) -> Iterator[tuple[str, At]]:
    """Each list of a row, those of small stacks first."""
    for stack in sorted((*STACKS, *FULL), key=lambda stack: len(plain(stack).resources)):
        config = config_of(stack)
        yield from (
            (stack, at)
            for at in lists({**config.objects})
            if row in (name(config, at), of_any(name(config, at))) and is_ordered(config, at)
        )


@pytest.mark.parametrize("row", ORDERED)
def test_another_order_that_means_something_moves_what_the_table_says(row: str) -> None:
    for stack, at in examples(row):
        try:
            found = moved(stack, [at])
        except InputError:  # a fallback pool before the others
            continue
        if found:  # a list of zones without a gateway or a share that moves
            for state in found.values():
                state.discard("waits for others")
            assert {kind: state for kind, state in found.items() if state} == ORDERED[row], f"{stack}: {at}"
            return
    pytest.fail(f"no stack has {row}")


def test_every_list_of_the_settings_is_turned_around_somewhere() -> None:
    schema = json.loads((ROOT / "schema" / "stack.schema.json").read_text())

    def arrays(node: object, setting: str = "") -> Iterator[str]:
        if isinstance(node, Mapping):
            if node.get("type") == "array" and setting:
                yield setting
            for key, inner in node.items():
                if key == "properties":
                    for inner_key, value in inner.items():
                        yield from arrays(value, inner_key)
                else:
                    yield from arrays(inner, setting)
        elif isinstance(node, list):
            for inner in node:
                yield from arrays(inner, setting)

    rows = {name(config_of(stack), at) for stack in (*STACKS, *FULL) for at in lists({**config_of(stack).objects})}
    covered = {row.rpartition(".")[2].rpartition(" ")[2] for row in rows}
    assert set(arrays(schema)) - covered == SINGLE.keys()


def test_the_plan_says_what_an_order_that_means_something_moves(tmp_path: Path) -> None:
    types = "[g4dn.2xlarge]\n          capacity: on-demand\n          role: release"
    two, other = (types.replace("g4dn.2xlarge", both) for both in ("g4dn.2xlarge, g4dn.4xlarge", "g4dn.4xlarge, g4dn.2xlarge"))
    folders = [tmp_path / name for name in ("before", "after")]
    for folder in folders:
        folder.mkdir()
    before, after = (plan_of(write(folder, (types, text))) for folder, text in zip(folders, (two, other), strict=True))
    (said,) = (change.what for change in Comparison(before, after).changes if change.is_told)
    assert said == (
        "usw2: edit of t4-release.instanceTypes replaces 2 node groups (instanceTypes) once idle: running jobs of gpu-t4-release "
        "on t4-release go on, and the old node groups go with a later `pulumi up`, once they have no node; on demand, EKS starts "
        "the first of these types that it has"
    )


def test_the_plan_says_that_another_first_domain_of_oke_moves_its_caches(tmp_path: Path) -> None:
    file = ROOT / "examples" / "Pulumi.oci-machines.yaml"
    first, second = '"abcd:US-ASHBURN-AD-1"', '"abcd:US-ASHBURN-AD-2"'
    old, new, other = f"[{first}, {second}", f"[{second}, {first}", tmp_path / file.name
    assert old in file.read_text(), "the example no longer has these domains"
    other.write_text(file.read_text().replace(old, new, 1))
    with few_policies():
        before, after = (make_plan("oci-machines", ROOT, path) for path in (file, other))
    assert Comparison(before, after).ended_jobs == (
        "iad: edit of zones replaces the mount target of caches and its exports: running jobs lose the files of those caches, "
        "and claims that exist cannot be mounted again",
    )


LABELS = "[self-hosted, linux, x64, gpu, cuda]"


def test_another_order_of_spot_types_and_labels_ends_no_job(tmp_path: Path) -> None:
    types = ("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.4xlarge, g4dn.2xlarge]")
    found = Comparison(staging(), plan_of(write(tmp_path, types, (LABELS, "[cuda, gpu, x64, linux, self-hosted]"))))
    assert [kind.type for kind in found.resources] == ["gpu-ci:index:ArcRunnerSet", "gpu-ci:index:GpuNodeGroup"]
    assert found.ended_jobs == ()


def test_another_label_registers_the_set_again_beside_the_old_one(tmp_path: Path) -> None:
    found = Comparison(staging(), plan_of(write(tmp_path, (LABELS, "[self-hosted, linux, x64, gpu]"))))
    assert found.ended_jobs == ()
    assert [change.what for change in found.changes if change.is_told] == [
        "usw2: edit of gpu-t4.labels registers runner set gpu-t4 again on github.com, beside the old one: running jobs go on, "
        "and the next `pulumi up` deletes the old set, which takes no new ones (docs/runner-set-changes.md)"
    ]
