"""The folder that ArgoCD reads: one file for each object of a cluster, and what its machines boot.

`<cluster>/infrastructure` and `<cluster>/workloads` are one Application each (`fleet.render.gitops.applicationset`). The folder
of a file names its component, so a change of one setting touches the files of that component and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.charts import argo_cd, runner_namespace
from fleet.facts.yaml_text import yaml_text
from fleet.providers.registry import PROVIDERS
from fleet.render.files import machine_files
from fleet.render.gitops.applicationset import TIERS
from fleet.render.gitops.manifest import committed
from fleet.render.gitops.secrets import ENCRYPTED, SECRETS_FOLDER, sops_folder
from fleet.render.gitops.waves import TEAMS_LATER
from fleet.settings.cluster import Cluster, physical_name
from fleet.settings.gitops import Sops
from offline.plan import Plan
from offline.record import Recording, Resource
from offline.sops import encrypted_secret
from offline.wire import Secret, Unknown

_COMPONENTS = "gpu-ci:index:"
_APPLICATION = "kubernetes:argoproj.io/v1alpha1:Application"
BOOTSTRAP = "bootstrap"
"""Folder of what is applied once, by hand."""
_INSTALL = """\
# Values of chart {chart.chart} {chart.version}, where ArgoCD is not there yet:
#   helm upgrade --install {chart.name} {chart.chart} --repo {chart.repository} --version {chart.version} \\
#     --namespace {chart.namespace} --create-namespace --values argo-cd.yaml
# An ArgoCD of your own needs configs.cm of these: without it no wave waits for the Applications of the one before.
"""
_KEEP = ".keep"
_SETS, _CONTROLLERS = "infrastructure/runners", "infrastructure/controllers"
_APART = {
    "ArcController": _CONTROLLERS,
    "ArcRunnerSet": _SETS,
    "DevicePluginStack": _CONTROLLERS,
    "GpuJob": "workloads",
    "GpuOperator": _CONTROLLERS,
    "GpuWorkload": "workloads",
}
"""Components that have a folder of their own, by their name."""
_TOGETHER = {
    "GpuQueue": "infrastructure/queues",
    "LocalQueues": "infrastructure/queues",
    "Namespaces": "infrastructure/namespaces",
    "Priorities": "infrastructure/gpu",
    "QueueController": "infrastructure/queues",
}
"""Components that share a folder."""


def git_files(plan: Plan) -> Iterator[tuple[str, str]]:
    """Path and text of every file that Git has of the stack. Raises InputError for a secret that is missing or in clear."""
    if plan.git is None:
        return
    for resource in plan.git.resources:
        if resource.type.startswith("kubernetes:"):
            cluster, folder = _cluster(resource)
            text = yaml_text(committed(_known(resource), waves_later(resource, plan.git)))
            yield f"{folder}/{_place(resource, cluster, plan.git)}.yaml", text
    root = plan.config.path.parent
    for name, settings in plan.fleet.clusters_by_name():
        folder = physical_name(plan.config.project, plan.config.stack, name)
        if settings.gitops is not None:
            # Git has no empty folders, and an Application wants its own.
            yield from ((f"{folder}/{tier}/{_KEEP}", "") for tier in TIERS)
            yield from _secrets(folder, settings, root)
            yield from _machines(folder, name, settings)
            if not PROVIDERS[settings.provider].deployable:
                chart = argo_cd(settings.gitops.namespace)
                yield f"{folder}/{BOOTSTRAP}/argo-cd.yaml", _INSTALL.format(chart=chart) + yaml_text(chart.values)


def waves_later(resource: Resource, git: Recording) -> int:
    """How much later than others of its kind ArgoCD makes an object."""
    return TEAMS_LATER if git.by_urn[resource.parent].type == f"{_COMPONENTS}Namespaces" else 0


def _cluster(resource: Resource) -> tuple[str, str]:
    """(name in the settings, physical name) of the cluster that an object is of: its provider tells."""
    provider = resource.provider_resource
    if provider is None:
        raise ValueError(f"{resource.urn}: Git has objects of clusters alone; give it the cluster's provider")
    return provider.name.removesuffix("-git"), str(provider.inputs["clusterIdentifier"])


def _place(resource: Resource, cluster: str, git: Recording) -> str:
    """Path of an object below its cluster's folder, without its ending."""
    parent = git.by_urn[resource.parent]
    kind = parent.type.removeprefix(_COMPONENTS)
    if kind == "GitTree":
        return _of_tree(resource.inputs)
    if kind in _APART:
        role = resource.name.removeprefix(parent.name)[1:]
        # A job of the stack may be called as a workload is, and both may be one object of kind Job.
        role = f"stack-{role}" if kind == "GpuJob" else role
        return f"{_APART[kind]}/{parent.name.removeprefix(f'{cluster}-')}/{_role(role)}"
    # A dot stands before what the settings name: two kinds of objects may have one name there.
    role, dot, named = resource.name.removeprefix(cluster)[1:].partition(".")
    file = f"{str(resource.inputs['kind']).lower()}-{named}" if dot else _role(role.partition("-")[2])
    return f"{_TOGETHER[kind]}/{file}"


def _of_tree(held: Mapping[str, Any]) -> str:
    """Where an object stands that `GitTree` declares: of a runner set, or of a chart of the provider's own."""
    if held["kind"] == "ApplicationSet":
        return f"{BOOTSTRAP}/applicationset"
    of_chart = held["kind"] == "Application" and "chart" in held["spec"]["source"]
    where = held["spec"]["destination"]["namespace"] if held["kind"] == "Application" else held["metadata"]["namespace"]
    owner = where.removeprefix(runner_namespace(""))
    if owner == where:
        return f"{_CONTROLLERS}/{held['metadata']['name']}/application"
    return f"{_SETS}/{owner}/{'application' if of_chart else 'github-app'}"


def _role(role: str) -> str:
    return "application" if role == "chart" else role


def _known(resource: Resource) -> Mapping[str, Any]:
    """The object, which Git may have: TypeError where a part of it is secret or known only in the cloud."""
    for value in _leaves(resource.inputs):
        if isinstance(value, Secret | Unknown):
            raise TypeError(f"{resource.urn}: a part is secret or not known yet; the program has to make it, not Git")
    return resource.inputs


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _leaves(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value


def _machines(folder: str, name: str, settings: Cluster) -> Iterator[tuple[str, str]]:
    """What the machines of a cluster boot, in a folder of their provider's name, where Git has that."""
    for path, text in machine_files(name, settings).items():
        yield f"{folder}/{settings.provider}/{path}", text


def _secrets(folder: str, settings: Cluster, root: Path) -> Iterator[tuple[str, str]]:
    """The folders that Kustomize reads where SOPS is who keeps the secret."""
    by = settings.secrets_by
    if not isinstance(by, Sops):
        return
    text = encrypted_secret(root / by.file, by.file)
    for runner_set in settings.runners:
        namespace = runner_namespace(runner_set)
        yield f"{folder}/{SECRETS_FOLDER}/{namespace}/{ENCRYPTED}", text
        for name, document in sops_folder(namespace).items():
            yield f"{folder}/{SECRETS_FOLDER}/{namespace}/{name}", yaml_text(document)
