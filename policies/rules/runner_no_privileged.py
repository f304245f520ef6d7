"""runner-no-privileged: no pod has root access to its node, nor what Pod Security refuses at level `baseline`.

Judged: every kind with a pod spec, ARC's runner set, releases of charts. In a release the rule judges the pods of chart
gha-runner-scale-set with the containers that the chart adds (in mode `dind` a privileged one). Of other charts it judges
privileged settings anywhere in the values, and whether the chart needs the node according to `charts.toml`. It also reports value
files, because it cannot read them.

Pods that serve the node need these permissions. The config exempts them by namespace and name, never by a label, because
everybody may set a label. A pod with the namespace and the name of one that the defaults exempt must have its image, too. Pods
that only lack the profiles of seccomp or AppArmor, such as BuildKit without root, have a list of their own. An exempt scale set
of mode `dind` still needs its own nodes.

Also judged: namespaces without Pod Security, volumes of the cluster that are folders of a node, and tokens of accounts beside
runners.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

from fleet.facts.scheduling import POD_SECURITY_LABEL, POOL_LABEL, RUNNERS, SYSTEM_POOL

from . import charts
from .exceptions import matches
from .kinds import HELM, LIST_PATHS, PODS, kind_of, may_have_pods
from .node_labels import wanted
from .pod_security import PRIVILEGED, PROFILES, ROOT, SHARED, UNCONFINED, Breach, added, baseline, beyond, is_root, mount
from .pods import PodSpec, containers_of, has_image_of_node, pod_specs, pods_of, tolerations, volumes_of
from .read import SETTLED, Data, Faults, Later, entries, keys, shown, strings, text, true, walk
from .releases import Release, objects, passed_over, releases, step
from .rule import Args, Rule, facts, said, setting

_INLINE = frozenset(("secrets-store.csi.k8s.io", "csi.cert-manager.io", "driver.sharedresource.openshift.io"))
"""Drivers of volumes that a pod has without a claim, and that have nothing of the node."""
_LISTED = f", or list it in {setting('capabilities')}"
_Named = Callable[[str], str]
"""Returns the "namespace" or the "name" of the judged pods. Raises UnknownError."""


def _check(args: Args, later: Later) -> Faults:
    config = args.config
    exempt, unconfined = strings(config, "exempt"), strings(config, "unconfined")
    yield from _opened(args, (*exempt, *unconfined), later)
    allowed = frozenset(strings(config, "capabilities"))
    for release in releases(args.type, args.props, later):
        of = _of_release(release)
        for pod in pods_of(release, later):
            yield from _judge_pod(of, pod, allowed, exempt, unconfined, later)
        yield from _judge(of, (*exempt, *unconfined), _value_profiles(release, later), later)
        yield from _judge(of, exempt, _release_faults(release, allowed, later), later)
        yield from _shared_nodes(release, exempt, later)
    if args.type not in HELM:
        for pod in pod_specs(args.type, args.props, later):
            owner = pod.owner if args.type in LIST_PATHS else args.props
            # Anybody may take the name of a pod that this pack exempts, but not its image.
            images = later.get(partial(_has_images_of_nodes, pod), False)
            passing = exempt if images else tuple(pattern for pattern in exempt if pattern not in _KNOWN)
            yield from _judge_pod(_of_object(owner), pod, allowed, passing, unconfined, later)
            if text(Later().walk(owner, "metadata", "namespace")).startswith(RUNNERS):
                yield from _token_faults(pod, strings(config, "accounts"), later)


def _opened(args: Args, exempt: tuple[str, ...], later: Later) -> Faults:
    """The faults of objects that let pods have what this rule refuses: a namespace without Pod Security, a volume of the node."""
    if kind_of(args.type) == "Namespace":
        name = text(later.walk(args.props, "metadata", "name"))
        level = text(later.walk(args.props, "metadata", "labels", POD_SECURITY_LABEL))
        if level == "privileged" and not any(matches(pattern.partition("/")[0], name) for pattern in exempt):
            yield said("privileged_namespace", label=POD_SECURITY_LABEL, level=level)
    if kind_of(args.type) == "PersistentVolume":
        for key in ("hostPath", "local"):
            if (volume := later.walk(args.props, "spec", key)) is not None:
                yield f"spec.{key} {mount(text(later.walk(volume, 'path')))}"


def _has_images_of_nodes(pod: PodSpec) -> bool:
    return all(map(has_image_of_node, containers_of(pod, SETTLED)))


def _token_faults(pod: PodSpec, accounts: tuple[str, ...], later: Later) -> Faults:
    """What gives a pod beside runners the rights of an account."""
    if (account := text(later.walk(pod.spec, "serviceAccountName"))) in accounts:
        return
    if true(later.walk(pod.spec, "automountServiceAccountToken")):
        yield f"{pod.path}.automountServiceAccountToken is true beside runners, with account {shown(account)}; remove it"
    for path, source in entries(pod.spec, "volumes.[].projected.sources", later):
        if later.walk(source, "serviceAccountToken") is not None:
            yield f"{pod.path}.{path}.serviceAccountToken is a token beside runners; remove it"


def _of_object(owner: Data) -> _Named:
    return lambda part: text(walk(owner, "metadata", part))


def _of_release(release: Release) -> _Named:
    return lambda part: release.namespace if part == "namespace" else release.name


def _judge_pod(
    of: _Named, pod: PodSpec, allowed: frozenset[str], exempt: tuple[str, ...], unconfined: tuple[str, ...], later: Later
) -> Faults:
    breaches = list(baseline(pod, later, allowed))
    yield from _judge(of, exempt, _pod_faults(pod, breaches, later), later)
    profiles = (f"{fault}, or list it in {setting('unconfined')}" for control, fault in breaches if control in PROFILES)
    yield from _judge(of, (*exempt, *unconfined), profiles, later)


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


def _pod_faults(pod: PodSpec, breaches: Iterable[Breach], later: Later) -> Faults:
    yield from (fault + (_LISTED if control == "capabilities" else "") for control, fault in breaches if control not in PROFILES)
    if is_root(later.walk(pod.spec, "securityContext"), later):
        yield f"{pod.path}.securityContext.runAsUser is 0: {ROOT}"
    if true(later.walk(pod.spec, "shareProcessNamespace")):
        yield f"{pod.path}.shareProcessNamespace is true: each container reads the memory of the others; remove it"
    yield from beyond(pod, later)
    for path, volume in volumes_of(pod, later):
        if (driver := text(later.walk(volume, "csi", "driver"))) and driver not in _INLINE:
            yield f"{pod.path}.{path}.csi.driver is {shown(driver)}: its volume may be any folder of the node; use a claim"
    for container in containers_of(pod, later):
        path = f"{pod.path}.{container.path}.securityContext"
        security = later.walk(container.body, "securityContext")
        if container.made and true(later.walk(security, "privileged")):
            yield said("privileged_by_chart", path=path, container=container, means=PRIVILEGED)
        if is_root(security, later):
            yield f"{path}.runAsUser is 0: {ROOT}"


def _security_faults(path: str, security: Data, allowed: frozenset[str], later: Later) -> Faults:
    """Faults of an object in values that looks like a container's security context."""
    if true(later.walk(security, "privileged")):
        yield f"{path}.privileged is true: {PRIVILEGED}; remove it"
    if is_root(security, later):
        yield f"{path}.runAsUser is 0: {ROOT}"
    yield from (f"{fault}{_LISTED}" for fault in added(path, security, allowed, later))


def _value_profiles(release: Release, later: Later) -> Faults:
    with later:
        held = objects(release.values, release.values_path, later, passed_over(release))
        for (path, holder), profile in product(held, PROFILES):
            if text(later.walk(holder, profile, "type")) == "Unconfined":
                yield f'{path}.{profile}.type is "Unconfined": {UNCONFINED}; remove it, or list it in {setting("unconfined")}'


def _release_faults(release: Release, allowed: frozenset[str], later: Later) -> Faults:
    with later:
        if use := charts.NODE.get(release.chart_name):
            yield said("privileged_chart", release=release, use=use)
    yield from release.unread("ask for any right", later)
    with later:
        passing, values = passed_over(release), release.values
        for path, holder in objects(values, release.values_path, later, passing):
            yield from _security_faults(path, holder, allowed, later)
            for key in (*SHARED, "hostPath"):
                if key in keys(holder):
                    with later:
                        yield from _value_faults(step(path, key), key, walk(holder, key))


def _value_faults(path: str, key: str, value: Data) -> Faults:
    if key != "hostPath":
        if true(value):
            yield f"{path} is true: the pod then uses the node's {SHARED[key]}; remove it"
    elif value and (where := text(value) or text(walk(value, "path"))):
        yield f"{path} {mount(where)}"


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
        if not (pools := wanted(spec).pools) or not {"", SYSTEM_POOL}.isdisjoint(pools) or not (tainted or unsure):
            yield said("docker_in_docker", release=release, key=charts.MODE, mode=charts.DIND, label=POOL_LABEL)
        elif not tainted:
            later.join(unsure)


_FACTS = facts(__name__)
_KNOWN = frozenset(_FACTS["config"]["exempt"]["default"])
RULE = Rule(**_FACTS, types=PODS, others=may_have_pods, check=_check)
