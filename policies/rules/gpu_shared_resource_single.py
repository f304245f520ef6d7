"""gpu-shared-resource-single: a container takes at most one share of a GPU, and shares have their own resource name.

Judged: pods of every kind, ARC's runner set, the pods in the values of chart gha-runner-scale-set; the device plugin's configs in
charts nvidia-device-plugin and gpu-operator and in ConfigMaps; the operator's ClusterPolicy.

Two shares of a GPU are not a larger part of it (NVIDIA/k8s-device-plugin, README). If a plugin shares GPUs and does not rename
them, it advertises shares under the name of whole GPUs, and the rule cannot see that they are shares. The stack then declares
`timeSliced`, and a request for two of an NVIDIA resource counts as two shares.
"""

from collections.abc import Iterator

from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource
from fleet.facts.yaml_text import helm_values

from .kinds import CLUSTER_POLICY, CONFIG_MAPS, OPERATOR_CHART, PLUGIN_CHART, PODS, each, may_have_pods
from .pods import PodSpec, containers_of, gpu_amounts, pod_specs
from .read import Data, Faults, Later, keys, shown, text, true, walk
from .releases import Release, releases
from .rule import Args, Rule, facts, said, setting

SHARED = ".shared"
"""The plugin appends this to the name of a resource whose devices it shares, if it renames the resource."""

CHART_CONFIG = {PLUGIN_CHART: ("config",), OPERATOR_CHART: ("devicePlugin", "config")}
"""Where in its values each chart reads its configs."""

_FILES = {PLUGIN_CHART: "map", OPERATOR_CHART: "data"}


PluginConfig = tuple[str, Data]
"""A config file: its path and its content; the content is None if the file is not YAML or is too long."""


def _check(args: Args, later: Later) -> Faults:
    token, props = args.type, args.props
    sliced = true(args.config.get("timeSliced"))
    for pod in pod_specs(token, props, later):
        yield from _pod_faults(pod, sliced, later)
    for place, body in plugin_configs(token, props, later):
        yield from _config_faults(place, body, sliced)
    for release in releases(token, props, later):
        yield from _release_faults(release, later)
    if token in CLUSTER_POLICY:
        path = ("spec", "devicePlugin", "config")
        yield from _inert(".".join(path), walk(props, *path))


def _release_faults(release: Release, later: Later) -> Faults:
    with later:
        if (path := CHART_CONFIG.get(release.chart_name)) is None:
            return
        yield from release.unread("share GPUs", later)
        if release.chart_name == OPERATOR_CHART:
            yield from _inert(".".join((release.values_path, *path)), walk(release.values, *path))


def _pod_faults(pod: PodSpec, sliced: bool, later: Later) -> Faults:
    for container in containers_of(pod, later):
        reported = set()
        for field in ("limits", "requests"):
            for name, amount in gpu_amounts(container, field, later).items():
                if name in reported or not is_gpu_resource(name) or (quantity(amount) or 0) <= 1:
                    continue
                if name.endswith(SHARED) or (sliced and name.startswith(GPU_RESOURCE.partition("/")[0] + "/")):
                    reported.add(name)
                    why = "" if name.endswith(SHARED) else f"GPUs of this stack are shared ({setting('timeSliced')}), and "
                    yield said("several_shares", pod=pod, container=container, field=field, name=name, amount=amount, why=why)


def _config_faults(place: str, body: Data, sliced: bool) -> Faults:
    if body is None:
        yield f"{place} cannot be read: it is not YAML, or too long; write a config of version v1"
        return
    sharing = walk(body, "sharing")
    # If both are set, MPS wins. MPS rejects requests for several shares by itself.
    strategy = next((way for way in ("mps", "timeSlicing") if walk(sharing, way) is not None), None)
    if strategy is None:
        return
    path = f"{place}.sharing.{strategy}"
    renamed = walk(sharing, strategy, "renameByDefault")
    if not (sliced or true(renamed)):
        yield said("shares_named_whole", path=path, renamed=_flag(renamed), whole=GPU_RESOURCE, shares=GPU_RESOURCE + SHARED)
    single = walk(sharing, strategy, "failRequestsGreaterThanOne")
    if not (true(single) or (strategy == "mps" and single is None)):
        yield f"{path}.failRequestsGreaterThanOne is {_flag(single)}: a request for several shares would be granted; write true"


def _flag(value: Data) -> str:
    """A flag for a message."""
    return str(true(value)).lower() if value is not None else "not set"


def _inert(path: str, config: Data) -> Faults:
    if walk(config, "sharing") is not None:
        yield said("sharing_elsewhere", path=path)


def plugin_configs(token: str, props: Data, later: Later) -> Iterator[PluginConfig]:
    """The device plugin's configs in a chart's values or a ConfigMap. `later` collects unknown values.

    Chart nvidia-device-plugin has them in `config.map`, chart gpu-operator in `devicePlugin.config.data` while `create` is on,
    and a ConfigMap in `data`, whatever its keys are called. Each is YAML of version v1 (NVIDIA/k8s-device-plugin, api/config/v1).
    A file of a ConfigMap counts as such a config only if it has a section `sharing`.
    """
    for release in releases(token, props, later):
        yield from configs_of(release, later)
    if token in CONFIG_MAPS:
        for prefix, config_map in each(token, props, later):
            for place, body in _files(f"{prefix}data", later.walk(config_map, "data"), later, sign="sharing"):
                if keys(walk(body, "sharing")):
                    yield place, body


def configs_of(release: Release, later: Later) -> Iterator[PluginConfig]:
    """The device plugin's configs in the values of a chart. `later` collects unknown values."""
    with later:
        chart = release.chart_name
        if (path := CHART_CONFIG.get(chart)) is None:
            return
        config = walk(release.values, *path)
        if chart == PLUGIN_CHART or true(walk(config, "create")):
            yield from _files(".".join((release.values_path, *path, _FILES[chart])), walk(config, _FILES[chart]), later)


def _files(path: str, files: Data, later: Later, sign: str = "") -> Iterator[PluginConfig]:
    for name in sorted(keys(files)):
        # Keys of a ConfigMap with these endings contain something else.
        if name.endswith((".conf", ".crt", ".csv", ".json", ".pem", ".py", ".sh", ".toml")):
            continue
        with later:
            if sign in (content := text(walk(files, name))):
                yield f"{path}[{shown(name)}]", helm_values(content)


RULE = Rule(**facts(__name__), types=PODS | CLUSTER_POLICY, others=may_have_pods, check=_check)
