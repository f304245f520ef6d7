"""ArgoCD as the second deliverer: it gets the same values as Helm, and only the program has the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pulumi
import pytest

from components.build import build
from components.config import read_fleet
from fleet.charts.chart import mirrored
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import StackConfig
from fleet.providers.installed import installed
from fleet.providers.registry import PROVIDERS
from fleet.render.gitops.manifest import wave
from fleet.settings.cluster import physical_name
from gpu_ci.offline.gitops import waves_later
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording, Resource, joined
from gpu_ci.offline.wire import Secret, Unknown
from tests import plans
from tests.cases import cases
from tests.components.recorded import (
    ROOT,
    SECRET as SECRET_KEY,
    STACKS,
    before,
    named,
    of_clusters,
    of_type,
    only,
    recorded,
    recordings,
    stack_config,
    whole,
    with_clusters,
)

APPLICATION = "kubernetes:argoproj.io/v1alpha1:Application"
RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type of resources
SWEEPS = "gpu-ci:index:Sweeps"
KEY = "gpu-ci:clusters"
REPOSITORY = "https://github.com/example/gpu-ci"
DEPLOYED = {
    "container-jobs": ("usw2",),
    "gitops": ("sjc", "use1"),
    "gpu-work": ("usw2",),
    "monitoring": ("sjc", "use1"),
    "staging": ("usw2",),
}
"""By stack, clusters that show every kind of object and chart, of those that a program creates: each takes time to record."""
FILLED = ("homelab", *DEPLOYED)


def delivered(config: StackConfig, by_git: bool) -> StackConfig:
    """The same stack with all of its clusters filled by Git, or by Helm."""
    clusters = {}
    for name, held in json.loads(config.values[KEY]).items():
        git = {"repository": REPOSITORY, "path": f"clusters/{physical_name(config.project, config.stack, name)}"}
        rest = {key: value for key, value in held.items() if key not in ("delivery", "gitops")}
        clusters[name] = rest | ({"delivery": "argocd", "gitops": held.get("gitops", git)} if by_git else {})
    return with_clusters(config, clusters)


@cache
def both(stack: str) -> tuple[Recording, Recording]:
    """(by Helm, by Git) of one stack that a program makes."""
    by_helm = delivered(stack_config(stack), False)
    helm = recorded(stack) if by_helm.objects == stack_config(stack).objects else whole(by_helm)
    return replace(helm, resources=of_clusters(helm, *DEPLOYED[stack])), joined(*filled_by_git(stack))


@cache
def filled_by_git(stack: str) -> tuple[Recording | None, Recording | None]:
    """(what the program makes, what Git has) of one stack that Git fills."""
    by_git = delivered(stack_config(stack), True)
    if by_git.objects == stack_config(stack).objects:
        return recordings(stack)
    config = only(by_git, *DEPLOYED[stack])
    return plans.declared(ROOT, config, fleet_of(config))


def releases(recording: Recording) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Every release by (cluster, namespace, name), from Helm or from ArgoCD: where the chart is from, its version and values."""
    found = {}
    for resource in recording.resources:
        held = resource.inputs
        if resource.type == RELEASE:
            options = held.get("repositoryOpts") or {}
            name = str(held["chart"]).rpartition("/")[2]
            repository = options.get("repo") or str(held["chart"]).rpartition("/")[0]
            where = (cluster_of(resource), held["namespace"], held["name"])
            found[where] = {"chart": name, "repository": repository, "version": held["version"], "values": plain(held["values"])}
        elif resource.type == APPLICATION and "chart" in held["spec"]["source"]:
            source, helm = held["spec"]["source"], held["spec"]["source"]["helm"]
            where = (cluster_of(resource), held["spec"]["destination"]["namespace"], helm["releaseName"])
            repository = source["repoURL"] if "://" in source["repoURL"] else f"oci://{source['repoURL']}"
            version = source["targetRevision"]
            found[where] = {
                "chart": source["chart"],
                "repository": repository,
                "version": version,
                "values": plain(helm["valuesObject"]),
            }
    return found


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def cluster_of(resource: Resource) -> str:
    assert resource.provider_resource is not None
    return str(resource.provider_resource.inputs["clusterIdentifier"])


OF_ARGO = {
    ("Namespace", "", "argocd"),
    ("ApplicationSet", "argocd", "gpu-ci"),
    ("PodMonitor", "monitoring", "gpu-ci-argo-cd"),
}
"""Objects that a cluster has only with ArgoCD."""


def test_these_stacks_have_every_kind_of_object_and_chart():
    def kinds(stack: str, resources: Iterable[Resource]) -> set[tuple[str, ...]]:
        recording = recorded(stack)
        return {
            (resource.type, parent, resource.name.split(".")[1] if parent == SWEEPS else str(resource.inputs.get("chart")))
            for resource in resources
            if resource.type.startswith("kubernetes:")
            for parent in [recording.by_urn[resource.parent].type]
        }

    # ArgoCD fills no cluster that exists already: its settings refuse it.
    created = [stack for stack in STACKS if not of_type(recorded(stack), "gpu-ci:index:ExistingCluster")]
    every = {kind for stack in created for kind in kinds(stack, recorded(stack).resources)}
    shown = (kinds(stack, of_clusters(recorded(stack), *names)) for stack, names in (DEPLOYED | {"homelab": ("home",)}).items())
    assert set().union(*shown) == every


@cases("stack", DEPLOYED)
def test_both_deliveries_give_every_chart_the_same_source_version_and_values(stack):
    by_helm, by_git = map(releases, both(stack))
    argo = {where for where in by_git if where[2] == "argo-cd"}
    assert len(argo) == len({where[0] for where in by_git}), "each cluster has an ArgoCD of its own"
    assert {where: held for where, held in by_git.items() if where not in argo} == by_helm


@cases("stack", STACKS)
def test_components_install_the_charts_of_the_one_list_and_no_others(stack):
    config = stack_config(stack)
    fleet = fleet_of(config)
    listed = {
        (physical, chart.namespace, chart.name): {
            "chart": chart.chart,
            "repository": chart.repository,
            "version": chart.version,
            "values": pulled["values"],
        }
        for name, cluster in fleet.clusters_by_name()
        for made in [physical_name(config.project, config.stack, name)]
        for physical in [made if cluster.found is None else cluster.found.identity]
        for chart in installed(cluster, made, fleet.github)
        for named in [{"chart": chart.chart, "values": chart.values}]
        for pulled in [named if cluster.mirror is None else mirrored(cluster.mirror, named)]
    }
    found = {(cluster.removesuffix("-kubernetes"), *where): held for (cluster, *where), held in releases(whole(config)).items()}
    assert found == listed


@cases("stack", DEPLOYED)
def test_both_deliveries_declare_the_same_objects_in_each_cluster(stack):
    def objects(recording: Recording) -> set[tuple[str, str, str, str]]:
        return {
            (cluster_of(resource), resource.inputs["kind"], held.get("namespace", ""), held["name"])
            for resource in recording.resources
            if resource.type.startswith("kubernetes:") and resource.type not in (RELEASE, APPLICATION)
            for held in [resource.inputs["metadata"]]
        }

    by_helm, by_git = map(objects, both(stack))
    of_argo = {each for each in by_git if each[1:] in OF_ARGO}
    # Where Git has them, another kind makes the secrets.
    assert {(cluster, kind.removeprefix("External"), *where) for cluster, kind, *where in by_git - of_argo} == by_helm


@cases("stack", DEPLOYED)
def test_the_program_of_a_stack_that_git_fills_has_clouds_argocd_and_what_only_it_knows(stack):
    program, git = filled_by_git(stack)
    assert program is not None
    assert git is not None
    charts = [resource.inputs["name"] for resource in program.resources if resource.type == RELEASE]
    assert set(charts) == {"argo-cd"}, "all other charts are Git's"
    helm = both(stack)[0]
    clouds = [resource.urn for resource in helm.resources if resource.type.startswith(("aws:", "eks:", "oci:"))]
    assert {resource.urn for resource in program.resources} >= set(clouds), "the cloud is the same, under the same names"
    assert not [resource.urn for resource in git.resources if resource.type.startswith(("aws:", "eks:", "oci:"))]


@cases("stack", FILLED)
def test_git_has_no_secret_and_nothing_that_only_a_cloud_knows(stack):
    _, git = filled_by_git(stack)
    assert git is not None

    def leaves(value: object) -> list[object]:
        if isinstance(value, Mapping):
            return [leaf for entry in value.values() for leaf in leaves(entry)]
        return [leaf for entry in value for leaf in leaves(entry)] if isinstance(value, list | tuple) else [value]

    objects = [resource for resource in git.resources if resource.type.startswith("kubernetes:")]
    assert objects
    for resource in objects:
        assert resource.type != SECRET, resource.urn
        assert not [leaf for leaf in leaves(resource.inputs) if isinstance(leaf, Secret | Unknown)], resource.urn


@cases("stack", FILLED)
def test_waves_follow_what_the_components_wait_for(stack):
    """Within one Application, whatever a resource waits for is in an earlier wave; parts of one workload share theirs."""
    _, git = filled_by_git(stack)
    assert git is not None
    objects = {resource.urn: resource for resource in git.resources if resource.type.startswith("kubernetes:")}
    edges = [(found, objects[urn]) for found in objects.values() for urn in found.dependencies if urn in objects]
    assert edges
    for later, earlier in edges:
        if _tier(git, later) == _tier(git, earlier):
            before, after = (wave(each.inputs, waves_later(each, git)) for each in (earlier, later))
            together = before == after and _tier(git, later) == "workloads"
            assert before < after or together, f"{later.name} waits for {earlier.name}"


def _tier(git: Recording, resource: Resource) -> str:
    parent = git.by_urn[resource.parent].type
    return "workloads" if parent.endswith((":GpuWorkload", ":GpuJob")) else "infrastructure"


def test_a_stack_that_nobody_deploys_is_refused_in_one_line_that_says_what_to_run():
    config = stack_config("homelab")

    def program() -> None:
        build(read_fleet(pulumi.Config("gpu-ci")), "gpu-ci", "homelab", {"default": pulumi.Output.secret("key")})

    with pytest.raises(pulumi.RunError) as refused:
        record(program, config)
    assert str(refused.value) == (
        "home: provider talos is not deployed by Pulumi; run make render STACK=homelab OUT=<folder>, commit what it wrote, "
        "and ArgoCD does the rest (docs/gitops.md)"
    )


def test_no_program_of_such_a_stack_is_recorded():
    program, git = filled_by_git("homelab")
    assert program is None
    assert git is not None
    assert joined(program, git).resources == git.resources


def test_every_provider_that_nobody_deploys_has_a_stack_here():
    unmade = {name for name, row in PROVIDERS.items() if not row.deployable}
    shown = {
        cluster.provider
        for stack in STACKS
        for _, cluster in fleet_of(stack_config(stack)).clusters_by_name()
        if not PROVIDERS[cluster.provider].deployable
    }
    assert shown == unmade


def test_it_is_refused_before_its_key_is_asked_for():
    config = stackfile.load("homelab", ROOT)
    assert SECRET_KEY not in config.values
    with pytest.raises(pulumi.RunError, match="is not deployed by Pulumi; run make render STACK=homelab"):
        record(ROOT / "__main__.py", config)


def test_argocd_comes_after_what_git_has_needs_and_so_goes_before_it():
    """Without its secret no runner set ever ends, and without ArgoCD nothing that it made."""
    program, _ = recordings("gitops")
    assert program is not None
    root = named(program, "use1-argocd-applicationset", "kubernetes:argoproj.io/v1alpha1:ApplicationSet")
    stands = {program.by_urn[urn].name for urn in before(program, root)}
    assert {
        "use1-argocd-chart",
        "use1-gpu-t4-quarter-namespace",
        "use1-gpu-t4-quarter-github-app",
        "use1-autoscaler-identity",
        "use1-namespaces.research",
        "use1-models.research",
    } <= stands
    assert root.inputs["metadata"]["annotations"] == {"pulumi.com/deletionPropagationPolicy": "foreground"}
    machines = named(program, "sjc-argocd-applicationset", "kubernetes:argoproj.io/v1alpha1:ApplicationSet")
    assert "sjc-oracle-vm-gpu-a10-1-launcher" in {program.by_urn[urn].name for urn in before(program, machines)}


@cache
def scheduled() -> tuple[Recording, Recording]:
    """(what the program makes, what Git has) of staging, which Git fills: its keys are Git's, and one class has a schedule."""
    config = delivered(stackfile.load("staging", ROOT), True)
    clusters = json.loads(config.values[KEY])
    window = {"days": ["mon"], "start": "09:00", "end": "18:00", "runners": 2}
    clusters["usw2"]["gitops"]["secrets"] = {"by": "external-secrets"}
    clusters["usw2"]["runners"]["gpu-t4"]["schedules"] = {"timeZone": "Europe/Berlin", "windows": {"work": window}}
    config = with_clusters(config, clusters)
    assert SECRET_KEY not in config.values
    program, git = plans.declared(ROOT, config, fleet_of(config))
    assert program is not None
    assert git is not None
    return program, git


def test_a_stack_whose_keys_are_all_gits_asks_for_none():
    program, _ = scheduled()
    assert not of_type(program, SECRET)


def spaces(config: StackConfig, by_git: bool) -> set[str]:
    """URNs of the namespaces of teams and of runner sets that the program makes, or Git."""
    recording = plans.declared(ROOT, config, fleet_of(config))[by_git]
    found = [each.urn for each in recording.resources if each.type == NAMESPACE] if recording is not None else []
    return {urn for urn in found if ":Namespaces$" in urn or ":ArcRunnerSet$" in urn}


def test_no_namespace_changes_hands_with_its_first_or_last_cache_or_with_who_brings_the_charts():
    """A namespace that one of two stops making is deleted, with all that people keep in it."""
    config = stack_config("gitops")
    clusters = {"use1": json.loads(config.values[KEY])["use1"]}
    assert clusters["use1"].pop("caches")
    for job in clusters["use1"]["jobs"].values():
        job.pop("cache", None)
        job.pop("cacheReadOnly", None)
    without = with_clusters(config, clusters)
    ours = spaces(config, False)
    of_use1 = {urn for urn in ours if urn.rpartition("::")[2].startswith("use1-")}
    assert {urn.rpartition("::")[2] for urn in of_use1} >= {"use1-namespaces.research", "use1-gpu-t4-quarter-namespace"}
    assert spaces(config, True) == set()
    assert spaces(without, False) == of_use1
    assert spaces(without, True) == set()
    assert spaces(delivered(config, False), False) == ours


def test_pulumi_up_refuses_a_path_that_ends_otherwise_than_the_folder_is_called():
    """The ArgoCD that it would make found nothing there."""
    config = stack_config("gitops")
    clusters = json.loads(config.values[KEY])
    clusters["use1"]["gitops"]["path"] = "clusters/use1"
    config = with_clusters(config, clusters)
    with pytest.raises(pulumi.RunError, match="gpu-ci-gitops-use1; end the path with it"):
        record(ROOT / "__main__.py", config)


def test_git_has_no_minimum_of_a_scheduled_class_and_has_the_sweep_that_sets_it() -> None:
    """ArgoCD reverts only fields that Git has a value for."""
    _, git = scheduled()
    found = {name: held["values"] for (_, _, name), held in releases(git).items()}
    assert "minRunners" not in found["gpu-t4"]
    assert found["gpu-t4-release"]["minRunners"] == 0
    sweeps = [each for each in git.resources if each.type == "kubernetes:apps/v1:Deployment"]
    assert "runner-scheduler" in [each.inputs["metadata"]["name"] for each in sweeps]
