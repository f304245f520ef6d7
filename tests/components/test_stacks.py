"""What holds for every stack as a whole: inventory, parents, providers, order, secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import Secret
from tests import plans
from tests.cases import cases
from tests.components.built import MADE_BY_EKS, updated
from tests.components.recorded import (
    ROOT,
    SECRET,
    STACKS,
    before,
    cluster_id,
    in_every_stack,
    of_clusters,
    of_type,
    recorded,
    recordings,
    runner_sets,
    stack_config,
)

EKS_POOL, OKE_POOL = "aws:eks/nodeGroup:NodeGroup", "oci:ContainerEngine/nodePool:NodePool"
CONTROL_PLANES = ("eks:index:Cluster", "oci:ContainerEngine/cluster:Cluster")
RELEASE = "kubernetes:helm.sh/v3:Release"
KEY = "-----BEGIN RSA PRIVATE KEY----- made up for a test"


def components_above(recording: Recording, resource: Resource) -> Iterator[str]:
    while resource.parent:
        resource = recording.by_urn[resource.parent]
        yield resource.type


def test_inventory_is_the_reviewed_one(snapshot):
    """One test for all stacks: what every cluster gets is reviewed once, in one file."""
    different = {}
    for stack in STACKS:
        inventory = "\n".join(sorted(f"{resource.type} {resource.name}" for resource in recorded(stack).resources))
        reviewed = snapshot(name=stack)
        if inventory != reviewed:
            different[stack] = reviewed.get_assert_diff()
    assert not different


def test_no_inventory_is_left_of_a_stack_that_is_gone():
    reviewed = (Path(__file__).parent / "__snapshots__" / "test_stacks.ambr").read_text(encoding="utf-8")
    names = re.findall(r"^# name: test_inventory_is_the_reviewed_one\[(.+)\]$", reviewed, re.MULTILINE)
    assert set(names) == set(STACKS), "pytest --snapshot-update tests/components/test_stacks.py"


@in_every_stack
def test_nothing_uses_a_default_provider(recording):
    for resource in recording.resources:
        if (resource.custom or resource.remote) and not resource.type.startswith("pulumi:"):
            assert resource.provider, f"{resource.type} {resource.name} would land on a default provider"


def test_default_providers_are_off_in_every_stack():
    for stack in STACKS:
        assert stack_config(stack).objects["pulumi:disable-default-providers"] == ["*"]


@in_every_stack
def test_children_hang_below_their_own_component(recording):
    for resource in recording.resources:
        if resource.custom and not resource.type.startswith("pulumi:"):
            above = next(components_above(recording, resource))
            assert above.startswith("gpu-ci:index:"), f"{resource.name} was re-parented to {above}"


def cluster_of(recording: Recording, resource: Resource) -> str:
    """The name of the cluster that a resource belongs to: every name begins with it."""
    clusters = [found.name.removesuffix("-control-plane") for token in CONTROL_PLANES for found in of_type(recording, token)]
    return next(name for name in clusters if resource.name.startswith(f"{name}-"))


def of_created(recording: Recording, resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """The resources of clusters that the program creates. An existing cluster is there before all of them."""
    existing = [found.name.removesuffix("existing") for found in of_type(recording, "gpu-ci:index:ExistingCluster")]
    return tuple(each for each in resources if not each.name.startswith(tuple(existing)))


def pools(recording: Recording) -> tuple[Resource, ...]:
    return (*of_type(recording, EKS_POOL), *of_type(recording, OKE_POOL))


@in_every_stack
def test_every_pool_and_chart_waits_for_its_control_plane(recording):
    planes = {found.name: found.urn for token in CONTROL_PLANES for found in of_type(recording, token)}
    for resource in of_created(recording, (*pools(recording), *of_type(recording, RELEASE))):
        plane = planes[f"{cluster_of(recording, resource)}-control-plane"]
        assert plane in before(recording, resource), f"{resource.name} may start before its control plane"


@in_every_stack
def test_every_pool_of_eks_waits_for_network_addons_and_rights(recording):
    for pool in of_created(recording, of_type(recording, EKS_POOL)):
        cluster = cluster_of(recording, pool)
        names = {urn.rpartition("::")[2] for urn in before(recording, pool)}
        for needed in ("addon-vpc-cni", "addon-kube-proxy", "node-AmazonEKSWorkerNodePolicy"):
            assert f"{cluster}-{needed}" in names, f"{pool.name} may start before {needed} and never become ready"


@in_every_stack
def test_every_chart_waits_for_the_system_nodes(recording):
    system = {pool.name: pool.urn for pool in pools(recording)}
    for chart in of_created(recording, of_type(recording, RELEASE)):
        nodes = system[f"{cluster_of(recording, chart)}-system-nodes"]
        assert nodes in before(recording, chart), f"{chart.name} may wait for a node that is never made"


@in_every_stack
def test_every_runner_set_waits_for_the_controller_and_its_secret(recording):
    controllers = {cluster_id(each): each.urn for each in recording.resources if each.name.endswith("-arc-chart")}
    sets = runner_sets(recording)
    assert sets, "a stack has runner sets"
    # Of what Git has apart ArgoCD's waves keep the order (test_git_tree.py).
    for chart in (found.resource for found in sets if not found.apart):
        controller = controllers[cluster_id(chart)]
        assert controller in chart.dependencies, f"{chart.name}: removed after the controller, its finalizers never end"
        secrets = [urn for urn in chart.dependencies if "Secret::" in urn]
        assert len(secrets) == 1, f"{chart.name} starts before its GitHub App secret"


@in_every_stack
def test_no_dependency_is_a_component_that_contains_its_dependant(recording):
    for resource in recording.resources:
        above = set(_ancestors(recording, resource))
        assert not above & set(resource.dependencies), f"{resource.name} waits for its own parent: a cycle"


def _ancestors(recording: Recording, resource: Resource) -> Iterator[str]:
    while resource.parent:
        yield resource.parent
        resource = recording.by_urn[resource.parent]


@in_every_stack
def test_no_output_enters_a_charts_values(recording):
    for chart in of_type(recording, RELEASE):
        text = json.dumps(chart.inputs["values"])
        assert "[unknown]" not in text, f"{chart.name}: policies and Git could not see this value"
        assert "[secret]" not in text, f"{chart.name}: a secret is passed by name, never as a value"


def test_the_private_key_reaches_runner_sets_and_their_secrets_only_and_is_marked():
    config = stackfile.load("staging", ROOT)
    values = {**config.values, SECRET: KEY}
    with_key = stackfile.StackConfig(
        config.project, config.stack, config.path, values, frozenset({SECRET}), {**config.objects, SECRET: KEY}
    )
    recording = plans.program(with_key)
    holders = {resource.type for resource in recording.resources if KEY in str(resource.wire)}
    assert holders == {"kubernetes:core/v1:Secret", "gpu-ci:index:ArcRunnerSet"}
    for resource in of_type(recording, "gpu-ci:index:ArcRunnerSet"):
        assert isinstance(resource.inputs["githubPrivateKey"], Secret), f"{resource.name} shows the key in its inputs"
    for resource in of_type(recording, "kubernetes:core/v1:Secret"):
        data = resource.inputs["stringData"]
        key = data if isinstance(data, Secret) else data["github_app_private_key"]
        assert isinstance(key, Secret), f"{resource.name} would hold the key in clear in the state"
    assert KEY not in repr(recording.resources)


UPDATED = {
    "staging": ("usw2",),
    "prod": ("sjc",),
    "existing-context": ("lab",),
    "existing-eks": ("usw2",),
    "existing-oke": ("sjc",),
    "capacity-block": ("use2",),
    "container-jobs": ("usw2",),
    "gitops": ("use1",),
    "gpu-work": ("usw2",),
    "monitoring": ("use1",),
    "oci-machines": ("iad",),
    "oke-pods": ("sjc",),
    "right-size": ("usw2",),
}
"""Clusters that show every type of resource below every type of component."""


def test_the_updated_clusters_have_every_type_below_every_component():
    def types(recording: Recording, resources: Iterable[Resource]) -> set[tuple[str, str]]:
        return {(each.type, recording.by_urn[each.parent].type) for each in resources if each.parent}

    programs = {stack: program for stack in STACKS if (program := recordings(stack)[0]) is not None}
    every = {kind for program in programs.values() for kind in types(program, program.resources)}
    shown = (types(programs[stack], of_clusters(programs[stack], *names)) for stack, names in UPDATED.items())
    assert every == set().union(*shown)


@cases("stack", UPDATED)
def test_update_mode_builds_what_preview_declares(stack):
    declared, _ = recordings(stack)
    assert declared is not None
    names = UPDATED[stack]
    made = updated(stack) if len(names) == len(fleet_of(stack_config(stack)).clusters) else updated(stack, *names)
    assert sorted((each.type, each.name) for each in of_clusters(made, *names)) == sorted(
        (each.type, each.name) for each in of_clusters(declared, *names)
    ), "what is built must not depend on what the cloud answers"
    tags = [each.inputs["autoscalingGroupName"] for each in of_type(made, "aws:autoscaling/tag:Tag")]
    assert set(tags) <= {MADE_BY_EKS}, "tags go on the group that EKS made"
