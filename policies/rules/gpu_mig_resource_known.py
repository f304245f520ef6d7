"""gpu-mig-resource-known: pods and queues ask only for MIG profiles that this stack's GPUs have.

Judged: pods of every kind, ARC's runner set, the pods in the values of chart gha-runner-scale-set, Kueue's queues. The rule also
judges the MIG strategy in charts gpu-operator and nvidia-device-plugin and in the ClusterPolicy. With strategy `mixed` each
profile has its own resource name; with another strategy a slice is named `nvidia.com/gpu`.

In the operator, the device plugin's config does not set the strategy: the operator sets an environment variable, which overrides
the config.
"""

from fleet.facts.scheduling import GPU_RESOURCE

from .gpu_shared_resource_single import SHARED, configs_of
from .kinds import CLUSTER_POLICY, HELM, OPERATOR_CHART, PLUGIN_CHART, PODS, QUEUES, may_have_pods
from .pods import PodSpec, containers_of, pod_specs
from .read import Data, Faults, Later, Named, entries, keys, line, shown, strings, text, walk
from .releases import releases
from .rule import Args, Rule, entry, facts, said

_SLICE = "nvidia.com/mig-"
_MIXED = "mixed"
_STRATEGY = {OPERATOR_CHART: ("mig", "strategy"), PLUGIN_CHART: ("migStrategy",)}


def _check(args: Args, later: Later) -> Faults:
    # NVIDIA's tools write 1g.5gb+me, but the resource is named mig-1g.5gb.me.
    profiles = tuple(profile.replace("+", ".") for profile in strings(args.config, "profiles") if profile)
    token, props = args.type, args.props
    for pod in pod_specs(token, props, later):
        yield from _pod_faults(pod, profiles, later)
    if token in QUEUES:
        yield from _queue_faults(props, profiles, later)
    elif not profiles and token in (HELM | CLUSTER_POLICY):
        for path, strategy in _strategies(token, props, later):
            if strategy == _MIXED:
                yield said("no_mig_profiles", path=path, mixed=_MIXED)


def _pod_faults(pod: PodSpec, profiles: tuple[str, ...], later: Later) -> Faults:
    for container in containers_of(pod, later):
        reported = set()
        for field in ("limits", "requests"):
            for name in keys(later.walk(container.body, "resources", field)):
                if name not in reported and _is_unknown(name, profiles):
                    reported.add(name)
                    yield f"{pod.path}.{container.path}.resources.{field} asks for {_unknown(name, profiles)}"


def _queue_faults(props: Data, profiles: tuple[str, ...], later: Later) -> Faults:
    for path, item in entries(props, "spec.resourceGroups.[].coveredResources", later):
        if _is_unknown(name := text(item), profiles):
            yield f"{path} is {_unknown(name, profiles)}"


def _is_unknown(name: str, profiles: tuple[str, ...]) -> bool:
    return name.startswith(_SLICE) and _profile(name) not in profiles


def _profile(name: str) -> str:
    return name.removeprefix(_SLICE).removesuffix(SHARED)


def _unknown(name: str, profiles: tuple[str, ...]) -> str:
    there = ", ".join(map(line, profiles[:8])) or f"no MIG profiles, so a slice is named {GPU_RESOURCE}"
    return f"{shown(name)}: this stack has {there}; ask for one that exists, or {entry('profiles', line(_profile(name)))}"


def _strategies(token: str, props: Data, later: Later) -> Named:
    for release in releases(token, props, later):
        with later:
            if (path := _STRATEGY.get(chart := release.chart_name)) is not None:
                strategy = walk(release.values, *path)
                if chart == PLUGIN_CHART and strategy is None:
                    for place, body in configs_of(release, later):
                        yield f"{place}.flags.migStrategy", text(walk(body, "flags", "migStrategy"))
                yield ".".join((release.values_path, *path)), text(strategy)
    if token in CLUSTER_POLICY:
        yield "spec.mig.strategy", text(later.walk(props, "spec", "mig", "strategy"))


RULE = Rule(**facts(__name__), types=PODS | QUEUES | CLUSTER_POLICY, others=may_have_pods, check=_check)
