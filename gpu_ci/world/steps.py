"""The objects and releases that a stack declares for one cluster, in the order that Pulumi's engine keeps.

What ArgoCD would install from Git comes in the order of its waves, and an Application of a chart is that chart. Where another
program would decrypt the Secret of a GitHub App, the Secret itself has a key of the run.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fleet.facts.groups import grouped
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import SKIP_AWAIT, WAIT_FOR
from fleet.loading.stackfile import StackConfig, with_secrets
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.render.gitops.manifest import committed, wave
from fleet.render.gitops.secrets import KEY
from fleet.render.sweeps.api import Object
from fleet.settings.github import APP_SECRET
from fleet.settings.namespaces import runner_namespace
from gpu_ci.offline.gitops import waves_later
from gpu_ci.offline.plan import CLOUD, declared
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import Secret
from gpu_ci.world.plane import rsa_key

GROUPS = MappingProxyType(
    {"kueue": "kueue.x-k8s.io", "metrics-server": "metrics.k8s.io", "kube-prometheus-stack": "monitoring.coreos.com"}
)
"""The API group of the objects that exist only with a chart. `without` leaves them out with it."""
SERVED = ("kueue", "metrics-server")
"""Charts whose program the API server itself asks. Kueue's webhooks fail closed: without the program no Job can be made. Without
metrics-server's no namespace can be deleted, and it reads kubelets, so no world runs it."""
_RELEASE = "kubernetes:helm.sh/v3:Release"
_READY = MappingProxyType({"Deployment": "Available", "Job": "Complete"})
"""The condition that Pulumi's Kubernetes provider waits for, by kind (pulumi-kubernetes, provider/pkg/await). It also waits for
volumes, and no storage of a cloud is here."""
_SEALED = ("ExternalSecret", "SealedSecret", "Application")
"""Kinds of the objects in Git that make the Secret of a runner set."""

_WORKLOADS = ("gpu-ci:index:GpuWorkload", "gpu-ci:index:GpuJob")
"""Components of the tier of workloads. ArgoCD tries it again until the namespaces of the other tier are there."""


class Release(NamedTuple):
    """A release of a chart. It is ready with its objects if it `waits`, and rolled back otherwise if it is `atomic`."""

    name: str
    namespace: str
    chart: str
    version: str
    repository: str
    values: Object
    waits: bool = True
    atomic: bool = False
    validates: bool = True
    timeout: int = 600

    def __str__(self) -> str:
        return f"release {self.namespace}/{self.name}"


class Step(NamedTuple):
    """An object or a release. `needs` are the names of the steps before it, `awaits` the condition of an object that is ready."""

    content: Object | Release
    needs: frozenset[str]
    awaits: str = ""

    def __str__(self) -> str:
        return text_of(self.content) if isinstance(self.content, dict) else str(self.content)


Steps = Mapping[str, Step]
"""Steps by their names, the URNs."""


def releases(steps: Steps) -> list[Release]:
    """The releases among steps."""
    return [step.content for step in steps.values() if isinstance(step.content, Release)]


def text_of(entry: Object) -> str:
    """An object for people: kind, namespace and name."""
    metadata = entry["metadata"]
    return f"{entry['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def recorded(root: Path, config: StackConfig, fleet: Fleet) -> tuple[Recording | None, Recording | None]:
    """What the stack declares, as an update: (what `pulumi up` registers, what is in Git).

    Each GitHub App has a new key. No key of the user is read.
    """
    keys = {f"{NAMESPACE}:{key}": rsa_key() for key in fleet.secrets.values()}
    return declared(root, with_secrets(config, keys), fleet, preview=False, answers=CLOUD)


def steps(fleet: Fleet, cluster: str, program: Recording | None, git: Recording | None) -> Steps:
    """What the cluster gets. `program` and `git` are those of `recorded`."""
    made: dict[str, Step] = {}
    if program is not None:
        own = {resource.urn: resource for resource in _of(program, f"{cluster}-kubernetes")}
        needs = _needs(program, own.keys())
        made = {urn: _step(resource, needs[urn]) for urn, resource in own.items()}
    waves: dict[tuple[bool, int], dict[str, Resource]] = defaultdict(dict)
    if git is not None:
        for resource in _of(git, f"{cluster}-git"):
            if resource.inputs["kind"] != "ApplicationSet":
                number = wave(resource.inputs, waves_later(resource, git))
                waves[git.by_urn[resource.parent].type in _WORKLOADS, number][resource.urn] = resource
    before = frozenset(made)
    settings = fleet.clusters[cluster]
    scopes = {runner_namespace(name): settings.scope_of(runner) for name, runner in settings.runners.items()}
    for _, of_wave in sorted(waves.items()):
        made |= {urn: _step_of_git(resource, before, fleet, scopes) for urn, resource in of_wave.items()}
        before = frozenset(of_wave)
    return made


def without(all_steps: Steps, charts: Collection[str]) -> tuple[Steps, tuple[str, ...]]:
    """The steps without these charts of `GROUPS` and the objects of their APIs, and what is left out."""
    groups = {GROUPS[chart] for chart in charts}
    out = {name for name, step in all_steps.items() if _belongs(step.content, charts, groups)}

    def kept(needs: Iterable[str]) -> Iterator[str]:
        for name in needs:
            yield from kept(all_steps[name].needs) if name in out else (name,)

    rest = {name: step._replace(needs=frozenset(kept(step.needs))) for name, step in all_steps.items() if name not in out}
    return rest, tuple(sorted(str(all_steps[name]) for name in out))


def _belongs(content: Object | Release, charts: Collection[str], groups: Collection[str]) -> bool:
    return content.chart in charts if isinstance(content, Release) else content["apiVersion"].partition("/")[0] in groups


def _of(recording: Recording, provider: str) -> Iterator[Resource]:
    """The resources of a Kubernetes provider that the program creates."""
    for resource in recording.resources:
        if not resource.read and resource.provider_resource is not None and resource.provider_resource.name == provider:
            yield resource


def _needs(recording: Recording, own: Collection[str]) -> dict[str, frozenset[str]]:
    """The steps before each step: what it depends on, directly or by resources of a cloud and by components.

    A component means all that is below it. What a component depends on comes before all of its children.
    """
    children = grouped((resource.parent, resource.urn) for resource in recording.resources)

    def below(urn: str) -> Iterator[str]:
        yield urn
        if not recording.by_urn[urn].custom:
            for child in children.get(urn, ()):
                yield from below(child)

    @cache
    def before(urn: str) -> frozenset[str]:
        resource = recording.by_urn[urn]
        named = set(resource.dependencies).union(*resource.property_dependencies.values())
        near = ({one for name in named for one in below(name)} | {resource.parent}) - {"", urn}
        return frozenset(near.intersection(own)).union(*(before(one) for one in near.difference(own)))

    return {urn: before(urn) for urn in own}


def _step(resource: Resource, needs: frozenset[str]) -> Step:
    inputs = _clear(resource.inputs)
    if resource.type != _RELEASE:
        return Step(inputs, needs, _awaited(inputs))
    repository, _, name = inputs["chart"].rpartition("/")
    chart = (name, inputs["version"], repository or inputs["repositoryOpts"]["repo"])
    flags = (not inputs.get("skipAwait"), bool(inputs.get("atomic")), not inputs.get("disableOpenapiValidation"))
    seconds = inputs.get("timeout", 300)  # the provider's default
    return Step(Release(inputs["name"], inputs["namespace"], *chart, inputs["values"], *flags, seconds), needs)


def _step_of_git(resource: Resource, needs: frozenset[str], fleet: Fleet, scopes: Mapping[str, str]) -> Step:
    inputs, spec = _clear(resource.inputs), _clear(resource.inputs).get("spec", {})
    source = spec.get("source", {})
    if inputs["kind"] == "Application" and "chart" in source:
        helm, chart = source["helm"], (source["chart"], source["targetRevision"], source["repoURL"])
        return Step(Release(helm["releaseName"], spec["destination"]["namespace"], *chart, helm["valuesObject"]), needs)
    if inputs["kind"] in _SEALED:
        namespace = spec["destination"]["namespace"] if source else inputs["metadata"]["namespace"]
        app = fleet.github.every[scopes[namespace]]
        data = {"github_app_id": app.app_id, "github_app_installation_id": app.installation_id, KEY: rsa_key()}
        return Step(manifest("v1", "Secret", APP_SECRET, namespace) | {"stringData": data}, needs)
    return Step(committed(inputs), needs, _awaited(inputs))


def _awaited(entry: Object) -> str:
    if (annotations := entry["metadata"].get("annotations", {})).get(SKIP_AWAIT) == "true":
        return ""
    return str(annotations.get(WAIT_FOR, "")).removeprefix("condition=") or _READY.get(entry["kind"], "")


def _clear(value: Any) -> Any:
    """The value with the content of its secrets."""
    if isinstance(value, Secret):
        return _clear(value.reveal())
    if isinstance(value, Mapping):
        return {key: _clear(item) for key, item in value.items()}
    return [_clear(item) for item in value] if isinstance(value, list | tuple) else value
