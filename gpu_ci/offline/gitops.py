"""The folder that ArgoCD reads: one file per object of each cluster, and the files that its machines boot.

`<cluster>/infrastructure` and `<cluster>/workloads` are one Application each (`fleet.render.gitops.application`). Each
component has its own files, so a change of one setting changes the files of one component.

A Secret that SOPS encrypted is copied into the folder only if every value in it is encrypted.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.charts.argo_cd import argo_cd
from fleet.facts.errors import InputError
from fleet.facts.limits import read_bytes
from fleet.facts.tables import beside
from fleet.facts.yaml_text import kubernetes_documents, yaml_text
from fleet.providers.installed import installed
from fleet.providers.registry import provider_of
from fleet.render.gitops.application import TIERS, application_name
from fleet.render.gitops.manifest import TEAMS_LATER, committed
from fleet.render.gitops.secrets import ENCRYPTED, SECRETS_FOLDER, sops_folder
from fleet.settings.cluster import Cluster, physical_name
from fleet.settings.github import APP_SECRET
from fleet.settings.gitops import Sops
from fleet.settings.namespaces import runner_namespace
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import hidden

_COMPONENTS = "gpu-ci:index:"
BOOTSTRAP = "bootstrap"
"""Folder of the files that are applied once, by hand."""
_TABLE = beside(__file__, "gitops.toml")
_INSTALL: str = _TABLE["install"]
_SHARED: Mapping[str, str] = _TABLE["folders"]
"""Folders of components without a chart, by the component's name. A workload and a job have a folder of their own."""

_ENCRYPTED = re.compile(r"ENC\[AES256_GCM,data:[A-Za-z0-9+/=]*,iv:[A-Za-z0-9+/=]+,tag:[A-Za-z0-9+/=]+,type:[a-z]+\]")
_KEYS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
_PARTS = ("data", "stringData")
_HOW = "encrypt it with: sops encrypt --in-place --encrypted-regex '^(data|stringData)$' <file>"


def git_files(plan: Plan) -> Iterator[tuple[str, str]]:
    """Path and text of each file of the stack in Git. Raises InputError for a secret that is missing or not encrypted."""
    if plan.git is None:
        return
    charts = _charts(plan)
    releases = [resource for resource in plan.git.resources if _is_release(resource.inputs)]
    folders = {one.parent: charts[_cluster(one)[0], one.inputs["metadata"]["name"]] for one in releases}
    for resource in plan.git.resources:
        if resource.type.startswith("kubernetes:"):
            if any(hidden(resource.inputs)):
                raise TypeError(f"{resource.urn}: a part is secret or not known yet; pulumi up must create it, not Git")
            text = yaml_text(committed(resource.inputs, waves_later(resource, plan.git)))
            yield f"{_cluster(resource)[1]}/{_place(resource, plan.git.by_urn[resource.parent], charts, folders)}.yaml", text
    for name, settings in plan.fleet.clusters_by_name():
        folder = physical_name(plan.config.project, plan.config.stack, name)
        if settings.gitops is not None:
            # Git has no empty folders, and an Application needs its folder.
            yield from ((f"{folder}/{tier}/.keep", "") for tier in TIERS)
            yield from _secrets(folder, settings, plan.config.path.parent)
            # Git may have the files that the machines of a cluster boot.
            boots = provider_of(settings).boot_files(name, settings)
            yield from ((f"{folder}/{settings.provider}/{path}", text) for path, text in boots.items())
            if not provider_of(settings).deployable:
                chart = argo_cd(settings.gitops.namespace)
                yield f"{folder}/{BOOTSTRAP}/argo-cd.yaml", _INSTALL.format(chart=chart) + yaml_text(chart.values)


def waves_later(resource: Resource, git: Recording) -> int:
    """The number of waves by which ArgoCD creates an object later than other objects of its kind."""
    return TEAMS_LATER if git.by_urn[resource.parent].type == f"{_COMPONENTS}Namespaces" else 0


def _cluster(resource: Resource) -> tuple[str, str]:
    """(name in the settings, physical name) of an object's cluster, read from its Kubernetes provider."""
    if (provider := resource.provider_resource) is None:
        raise ValueError(f"{resource.urn}: Git has only objects of clusters; set the cluster's provider")
    return provider.name.removesuffix("-git"), str(provider.inputs["clusterIdentifier"])


def _charts(plan: Plan) -> dict[tuple[str, str], str]:
    """The folder of each chart that ArgoCD installs, by cluster and the name of its Application."""
    folders: dict[tuple[str, str], str] = {}
    for cluster, settings in ((cluster, settings) for cluster, settings in plan.fleet.clusters_by_name() if settings.by_git):
        name = physical_name(plan.config.project, plan.config.stack, cluster)
        folders |= {(cluster, application_name(chart)): chart.folder for chart in installed(settings, name, plan.fleet.github)}
    return folders


def _is_release(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is an Application of a chart."""
    return manifest.get("kind") == "Application" and "chart" in manifest["spec"]["source"]


def _place(resource: Resource, parent: Resource, charts: Mapping[tuple[str, str], str], folders: Mapping[str, str]) -> str:
    """Path of an object below its cluster's folder, without its ending. `folders` has those of components with a chart."""
    cluster = _cluster(resource)[0]
    if (kind := parent.type.removeprefix(_COMPONENTS)) == "GitTree":
        return _of_tree(resource.inputs, cluster, charts)
    # The part after a dot is a name from the settings. Objects of two kinds may have the same name there.
    _, dot, setting = resource.name.removeprefix(cluster)[1:].partition(".")
    role = resource.name.removeprefix(parent.name)[1:]
    file = f"{str(resource.inputs['kind']).lower()}-{setting}" if dot else {"chart": "application"}.get(role, role)
    if parent.urn in folders:
        return f"{folders[parent.urn]}/{file}"
    if kind in _SHARED:
        return f"{_SHARED[kind]}/{file}"
    # A job of the stack may have the name of a workload, and both may be a Kubernetes Job.
    file_name = f"stack-{file}" if kind == "GpuJob" else file
    return f"workloads/{parent.name.removeprefix(f'{cluster}-')}/{file_name}"


def _of_tree(manifest: Mapping[str, Any], cluster: str, charts: Mapping[tuple[str, str], str]) -> str:
    """Path of an object that `GitTree` declares: an Application of a chart, or an object that creates a runner set's secret."""
    if manifest["kind"] == "ApplicationSet":
        return f"{BOOTSTRAP}/applicationset"
    if _is_release(manifest):
        return f"{charts[cluster, manifest['metadata']['name']]}/application"
    # The secret is in the namespace of its runner set, and the set's Application has the name of that namespace.
    where = manifest["spec"]["destination"] if manifest["kind"] == "Application" else manifest["metadata"]
    return f"{charts[cluster, where['namespace']]}/github-app"


def _secrets(folder: str, settings: Cluster, root: Path) -> Iterator[tuple[str, str]]:
    """The folders that Kustomize reads, if SOPS keeps the secret."""
    for runner_set, runner in settings.runners.items():
        if not isinstance(by := settings.secrets_of(settings.scope_of(runner)), Sops):
            return
        text = encrypted_secret(root / by.file, by.file)
        namespace = runner_namespace(runner_set)
        yield f"{folder}/{SECRETS_FOLDER}/{namespace}/{ENCRYPTED}", text
        for name, document in sops_folder(namespace).items():
            yield f"{folder}/{SECRETS_FOLDER}/{namespace}/{name}", yaml_text(document)


def encrypted_secret(path: Path, name: str) -> str:
    """The file's text. Raises InputError if it is missing, is not the GitHub App's Secret, or has a value in clear.

    No error repeats a value of the file.
    """
    where = f"gitops.secrets.file: {name}"
    try:
        text = read_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where} cannot be read; put the encrypted Secret there, beside the stack file") from error
    try:
        (document,) = kubernetes_documents(name, text)
        if document.fault:
            raise document.fault
    except (InputError, ValueError):  # ValueError: no document, or several
        raise InputError(f"{where} is not YAML with one document; {_HOW}") from None
    secret = document.value
    metadata = secret.get("metadata") if isinstance(secret, Mapping) else None
    if not isinstance(secret, Mapping) or secret.get("kind") != "Secret" or not isinstance(metadata, Mapping):
        raise InputError(f"{where} is not a Secret; write one with the keys {', '.join(_KEYS)}, and {_HOW}")
    if metadata.get("name") != APP_SECRET:
        raise InputError(f"{where} must be a Secret named {APP_SECRET}, because runner sets use that name; rename it")
    parts = (part for part in map(secret.get, _PARTS) if isinstance(part, Mapping))
    values = [(str(key), value) for part in parts for key, value in part.items()]
    clear = sorted({key for key, value in values if not _ENCRYPTED.fullmatch(str(value))})
    if clear or not _sealed(secret.get("sops")):
        raise InputError(f"{where} has values in clear text ({', '.join(clear) or 'no sops block'}); {_HOW}")
    # SOPS encrypts the data alone. kubectl, for example, keeps a copy of the whole Secret in an annotation.
    clear_top = {*map(str, secret)} - {"apiVersion", "kind", "metadata", "type", "sops", *_PARTS}
    clear_metadata = {f"metadata.{key}" for key in metadata if key not in ("name", "namespace", "labels")}
    if astray := sorted(clear_top | clear_metadata):
        raise InputError(f"{where} has {', '.join(astray)}, which SOPS leaves in clear text; remove it, and {_HOW}")
    if "PRIVATE KEY" in text or any(line.lstrip().startswith("#") for line in text.splitlines()):
        raise InputError(f"{where} has a comment or a key in clear text; remove it, and {_HOW}")
    if missing := [key for key in _KEYS if key not in dict(values)]:
        raise InputError(f"{where} lacks {', '.join(missing)}; add them, and {_HOW}")
    return text


def _sealed(block: object) -> bool:
    """Whether SOPS wrote the block: its MAC proves that no encrypted value was changed or removed."""
    return isinstance(block, Mapping) and _ENCRYPTED.fullmatch(str(block.get("mac"))) is not None and bool(block.get("version"))
