"""runner-no-privileged: no pod has root access to its node.

Judged: every kind with a pod spec, ARC's runner set, releases of charts. In a release the rule judges the pods of chart
gha-runner-scale-set with the containers that the chart adds (in mode `dind` a privileged one). Of other charts it judges
privileged settings anywhere in the values, and whether the chart needs the node according to `charts.toml`. It also reports value
files, because it cannot read them.

Pods that serve the node need these permissions. The config exempts them by namespace and name, never by a label, because
everybody may set a label. Access to the namespace controls who may create such pods. Pods that only lack the profiles of seccomp
or AppArmor, such as BuildKit without root, have a list of their own. An exempt scale set of mode `dind` still
needs its own nodes.
"""

from collections.abc import Callable
from functools import partial

from fleet.facts.scheduling import POOL_LABEL, SYSTEM_POOL

from . import charts
from .exceptions import matches
from .kinds import HELM, LIST_PATHS, PODS
from .node_labels import wanted
from .pods import PodSpec, containers_of, pod_specs, pods_of, tolerations, volumes_of
from .read import Data, Faults, Later, entries, keys, line, shown, strings, text, true, walk, whole
from .releases import Release, objects, passed_over, releases, step
from .rule import Args, Rule, facts, setting

_SHARED = {"hostNetwork": "network, metadata included", "hostPID": "processes", "hostIPC": "shared memory"}

_Named = Callable[[str], str]
"""Returns the "namespace" or the "name" of the judged pods. Raises UnknownError."""


def _check(args: Args, later: Later) -> Faults:
    config = args.config
    exempt = strings(config, "exempt")
    allowed = frozenset(strings(config, "capabilities"))
    unconfined = (*exempt, *strings(config, "unconfined"))
    for release in releases(args.type, args.props, later):
        of = _of_release(release)
        for pod in pods_of(release, later):
            yield from _judge(of, exempt, _pod_faults(pod, allowed, later), later)
            yield from _judge(of, unconfined, _profile_faults(pod, later), later)
        yield from _judge(of, unconfined, _value_profiles(release, later), later)
        yield from _judge(of, exempt, _release_faults(release, allowed, later), later)
        yield from _shared_nodes(release, exempt, later)
    if args.type not in HELM:
        for pod in pod_specs(args.type, args.props, later):
            owner = pod.owner if args.type in LIST_PATHS else args.props
            yield from _judge(_of_object(owner), exempt, _pod_faults(pod, allowed, later), later)
            yield from _judge(_of_object(owner), unconfined, _profile_faults(pod, later), later)


def _of_object(owner: Data) -> _Named:
    return lambda part: text(walk(owner, "metadata", part))


def _of_release(release: Release) -> _Named:
    return lambda part: release.namespace if part == "namespace" else release.name


def _judge(of: _Named, exempt: tuple[str, ...], faults: Faults, later: Later) -> Faults:
    """Reports the faults, unless the pods are exempt."""
    messages, hidden = list(faults), Later()
    if messages and not _exempt(of, exempt, hidden) and later.clear(hidden):
        yield from messages


def _exempt(of: _Named, exempt: tuple[str, ...], later: Later) -> bool:
    """Whether the resource's pods are exempt. If an unknown namespace or name decides, `later` collects it."""
    hidden = Later()
    names: list[str | None] = [hidden.get(partial(of, part), None) for part in ("namespace", "name")]
    for pattern in exempt:
        namespace, _, name = pattern.partition("/")
        if all(value is None or matches(part, value) for part, value in zip((namespace, name), names, strict=True)):
            return later.clear(hidden)
    return False


def _pod_faults(pod: PodSpec, allowed: frozenset[str], later: Later) -> Faults:
    for flag, what in _SHARED.items():
        if true(later.walk(pod.spec, flag)):
            yield f"{pod.path}.{flag} is true: the pod then uses the node's {what}; remove it"
    if _is_root(later.walk(pod.spec, "securityContext"), later):
        yield f"{pod.path}.securityContext.runAsUser is 0: {_ROOT}"
    for path, volume in volumes_of(pod, later):
        with later:
            if (host := walk(volume, "hostPath")) is not None:
                yield f"{pod.path}.{path}.hostPath {_mount(text(walk(host, 'path')))}"
    for container in containers_of(pod, later):
        with later:
            security = walk(container.body, "securityContext")
            path = f"{pod.path}.{container.path}"
            if container.made and true(walk(security, "privileged")):
                why = f"{path}.securityContext.privileged is true, made by {container.made}"
                fix = f"leave that empty, or add the set to {setting('exempt')} and give it its own nodes"
                yield f"{why}: {_PRIVILEGED}; {fix}"
            else:
                yield from _security_faults(f"{path}.securityContext", security, allowed, later)


def _security_faults(path: str, security: Data, allowed: frozenset[str], later: Later) -> Faults:
    """Faults of a container's security context, or of an object in values that looks like one."""
    if true(later.walk(security, "privileged")):
        yield f"{path}.privileged is true: {_PRIVILEGED}; remove it"
    if _is_root(security, later):
        yield f"{path}.runAsUser is 0: {_ROOT}"
    for inner, capability in entries(security, "capabilities.add", later):
        if text(capability) not in allowed:
            yield (
                f"{path}.{inner} is {shown(capability)}: a permission on the node that pods do not have by default; remove it, "
                f"or list it in {setting('capabilities')}"
            )


def _profile_faults(pod: PodSpec, later: Later) -> Faults:
    """The profiles that the pod or a container turns off."""
    containers = ((f"{pod.path}.{container.path}", container.body) for container in containers_of(pod, later))
    for path, holder in ((pod.path, pod.spec), *containers):
        yield from _unconfined(f"{path}.securityContext", later.walk(holder, "securityContext"), later)


def _value_profiles(release: Release, later: Later) -> Faults:
    with later:
        for path, holder in objects(release.values, release.values_path, later, passed_over(release)):
            yield from _unconfined(path, holder, later)


def _unconfined(path: str, security: Data, later: Later) -> Faults:
    for profile in _PROFILES:
        if text(later.walk(security, profile, "type")) == "Unconfined":
            yield f'{path}.{profile}.type is "Unconfined": {_UNCONFINED}'


def _release_faults(release: Release, allowed: frozenset[str], later: Later) -> Faults:
    with later:
        if use := charts.NODE.get(release.chart_name):
            chart = f"{release.chart_path} is {shown(release.chart)}"
            yield f"{chart}: it {use}; add its namespace and name to {setting('exempt')}, or leave it out"
    yield from release.unread("ask for any right", later)
    with later:
        passing, values = passed_over(release), release.values
        for path, holder in objects(values, release.values_path, later, passing):
            yield from _security_faults(path, holder, allowed, later)
            for key in (*_SHARED, "hostPath"):
                if key in keys(holder):
                    with later:
                        yield from _value_faults(step(path, key), key, walk(holder, key))


def _value_faults(path: str, key: str, value: Data) -> Faults:
    if key != "hostPath":
        if true(value):
            yield f"{path} is true: the pod then uses the node's {_SHARED[key]}; remove it"
    elif value and (where := text(value) or text(walk(value, "path"))):
        yield f"{path} {_mount(where)}"


def _shared_nodes(release: Release, exempt: tuple[str, ...], later: Later) -> Faults:
    """The fault of an exempt scale set with privileged Docker that has no pool of its own with a taint for other pods."""
    with later:
        if not release.is_scale_set or charts.mode(release.values) != charts.DIND:
            return
        hidden = Later()
        if not _exempt(_of_release(release), exempt, hidden):
            later.join(hidden)
            return
        spec = walk(release.values, "template", "spec")
        unsure = Later()
        tainted = any(toleration.key for _, toleration in tolerations(spec, unsure))
        pools = wanted(spec).pools
        if not pools or not {"", SYSTEM_POOL}.isdisjoint(pools) or not (tainted or unsure):
            yield (
                f'{release.values_path}.{charts.MODE} is "{charts.DIND}": jobs are then root on their node, so they need their '
                f"own tainted pool; set template.spec.nodeSelector[{shown(POOL_LABEL)}] and a toleration with a key"
            )
        elif not tainted:
            later.join(unsure)


def _is_root(security: Data, later: Later) -> bool:
    user = later.walk(security, "runAsUser")
    return not isinstance(user, bool) and whole(user) == 0


def _mount(path: str) -> str:
    where = f'is "{line(path)}"'
    if path.endswith(".sock"):
        return f"{where}: a pod with that socket can start privileged containers; remove the volume"
    return f"{where}: a folder of the node, with files of the node and of other pods; use emptyDir, or a claim"


_PRIVILEGED = "a privileged container is root on its node, with all GPUs, credentials and pods there"
_PROFILES = ("seccompProfile", "appArmorProfile")
_UNCONFINED = f"the pod may then make system calls that others may not; remove it, or list it in {setting('unconfined')}"
_ROOT = "a kernel vulnerability could then give root on the node; write the image's own user, above 0"


RULE = Rule(**facts(__name__), types=PODS, check=_check)
