"""Pod Security of Kubernetes: what its levels `baseline` and `restricted` refuse in a pod.

Facts: k8s.io/pod-security-admission v0.36.2, policy/check_*.go. Only capabilities may be bounded otherwise.
"""

from collections.abc import Collection, Iterator
from itertools import product

from fleet.facts.tables import beside

from .pods import PodSpec, containers_of, volumes_of
from .read import Data, Faults, Later, entries, keys, line, shown, text, true, walk, whole

BASELINE, RESTRICTED = "baseline", "restricted"
PROFILES = ("seccompProfile", "appArmorProfile")
"""Controls of what a program may ask of the kernel."""
SHARED = {"hostNetwork": "network, metadata included", "hostPID": "processes", "hostIPC": "shared memory"}
ROOT = "a kernel vulnerability could then give root on the node; write the image's own user, above 0"
PRIVILEGED = "a privileged container is root on its node, with all GPUs, credentials and pods there"
_TABLES = beside(__file__, "pod_security.toml")
CAPABILITIES = frozenset(_TABLES["capabilities"])
"""Those that `baseline` lets a container add."""
UNCONFINED: str = _TABLES["fields"]["seccompProfile.type"]["means"]
_FIELDS = [(tuple(name.split(".")), row["allowed"], row["means"]) for name, row in _TABLES["fields"].items()]
"""Fields of a security context with the values that `baseline` allows, and what another one does."""
_SYSCTLS = frozenset(_TABLES["sysctls"])
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
_VOLUMES = frozenset(_TABLES["volumes"])
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"

Breach = tuple[str, str]
"""A control, and what breaks it, from the path within the resource."""


def baseline(pod: PodSpec, later: Later, allowed: Collection[str] = ()) -> Iterator[Breach]:
    """What `baseline` refuses. `allowed` are more capabilities that a container may add. `later` collects unknown values."""
    for flag, what in SHARED.items():
        if true(later.walk(pod.spec, flag)):
            yield "hostNamespaces", f"{pod.path}.{flag} is true: the pod then uses the node's {what}; remove it"
    for path, volume in volumes_of(pod, later):
        with later:
            if (host := walk(volume, "hostPath")) is not None:
                yield "hostPathVolumes", f"{pod.path}.{path}.hostPath {mount(text(walk(host, 'path')))}"
    for path, setting in entries(pod.spec, "securityContext.sysctls", later):
        if (name := text(later.walk(setting, "name"))) not in _SYSCTLS:
            yield "sysctls", f"{pod.path}.{path}.name is {shown(name)}: the setting is of the node's kernel; remove it"
    for name in keys(pod.annotations):
        value = text(Later().walk(pod.annotations, name))
        if name.startswith(_APP_ARMOR) and value and value != "runtime/default" and not value.startswith("localhost/"):
            yield "appArmorProfile", f"{pod.path}: annotation {line(name)} is {shown(value)}: {UNCONFINED}; remove it"
    in_user_namespace = later.walk(pod.spec, "hostUsers") is False
    yield from _fields(f"{pod.path}.securityContext", later.walk(pod.spec, "securityContext"), in_user_namespace, later)
    for container in containers_of(pod, later):
        path, security = f"{pod.path}.{container.path}", later.walk(container.body, "securityContext")
        yield from _fields(f"{path}.securityContext", security, in_user_namespace, later)
        if true(later.walk(security, "privileged")) and not container.made:
            yield "privileged", f"{path}.securityContext.privileged is true: {PRIVILEGED}; remove it"
        yield from (("capabilities", fault) for fault in added(f"{path}.securityContext", security, allowed, later))
        yield from _of_network(path, container.body, later)


def _of_network(path: str, container: Data, later: Later) -> Iterator[Breach]:
    for inner, port in entries(container, "ports", later):
        if whole(number := later.walk(port, "hostPort")):
            yield "hostPorts", f"{path}.{inner}.hostPort is {shown(number)}: it is a port of the node; remove it"
    for probe, how in product(_PROBES, ("httpGet", "tcpSocket")):
        if host := text(later.walk(container, *probe.split("."), how, "host")):
            where = f"{path}.{probe}.{how}.host is {shown(host)}"
            yield "hostProbesAndHostLifecycle", f"{where}: the node sends the request, also to itself; remove it"


def restricted(pod: PodSpec, later: Later) -> Iterator[Breach]:
    """What `restricted` refuses besides. `later` collects unknown values."""
    of_pod = later.walk(pod.spec, "securityContext")
    containers = [
        (f"{pod.path}.{container.path}.securityContext", later.walk(container.body, "securityContext"))
        for container in containers_of(pod, later)
    ]
    yield from (("restrictedVolumes", fault) for fault in beyond(pod, later))
    if later.walk(pod.spec, "os", "name") != "windows":
        for path, security in containers:
            yield from _rights(path, security, later)
            if not text(later.walk(_first("seccompProfile", security, of_pod, later), "type")):
                yield "seccompProfile", f"{path}.seccompProfile is not set, nor that of the pod; write type RuntimeDefault"
    if later.walk(pod.spec, "hostUsers") is False:
        for path, security in containers:
            yield from (each for each in _fields(path, security, False, later) if each[0] == "procMount")
        return
    for path, security in ((f"{pod.path}.securityContext", of_pod), *containers):
        if is_root(security, later):
            yield "runAsUser", f"{path}.runAsUser is 0: {ROOT}"
        if not true(user := _first("runAsNonRoot", security, of_pod, later)) and (user is not None or security is not of_pod):
            yield "runAsNonRoot", f"{path}.runAsNonRoot is {shown(user)}; write true there or for the pod"


def _rights(path: str, security: Data, later: Later) -> Iterator[Breach]:
    if later.walk(security, "allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation", f"{path}.allowPrivilegeEscalation is not false; write false"
    dropped, more = ({text(name) for _, name in entries(security, f"capabilities.{verb}", later)} for verb in ("drop", "add"))
    if "ALL" not in dropped or more - {"NET_BIND_SERVICE"}:
        yield "capabilities", f"{path}.capabilities does not drop ALL, or adds more than NET_BIND_SERVICE; drop ALL"


def beyond(pod: PodSpec, later: Later) -> Faults:
    """The volumes of a pod that `restricted` refuses and `baseline` does not."""
    for path, volume in volumes_of(pod, later):
        # One of no kind is an emptyDir, and level `baseline` reports hostPath.
        if not {*_VOLUMES, "hostPath"} & {*keys(volume)} and {*keys(volume)} - {"name"}:
            yield f"{pod.path}.{path} is of a kind that may reach beyond the pod; mount a claim"


def added(path: str, security: Data, allowed: Collection[str], later: Later) -> Faults:
    """The capabilities that a security context adds beyond those of `baseline` and the allowed ones."""
    for inner, capability in entries(security, "capabilities.add", later):
        if text(capability) not in (*CAPABILITIES, *allowed):
            yield f"{path}.{inner} is {shown(capability)}: a permission on the node that pods do not have by default; remove it"


def is_root(security: Data, later: Later) -> bool:
    """Whether the user of a security context is 0."""
    user = later.walk(security, "runAsUser")
    return not isinstance(user, bool) and whole(user) == 0


def mount(path: str) -> str:
    """What a folder of the node in a pod means, after its path."""
    where = f'is "{line(path)}"'
    if path.endswith(".sock"):
        return f"{where}: a pod with that socket can start privileged containers; remove the volume"
    return f"{where}: a folder of the node, with files of the node and of other pods; use emptyDir, or a claim"


def _fields(path: str, security: Data, in_user_namespace: bool, later: Later) -> Iterator[Breach]:
    for field, allowed, why in _FIELDS:
        value = later.walk(security, *field)
        if text(value) not in allowed and not (field == ("procMount",) and in_user_namespace):
            yield field[0], f"{path}.{'.'.join(field)} is {shown(value)}: {why}; remove it"
    if true(later.walk(security, "windowsOptions", "hostProcess")):
        yield "windowsHostProcess", f"{path}.windowsOptions.hostProcess is true: the pod is a process of the node; remove it"


def _first(key: str, own: Data, of_pod: Data, later: Later) -> Data:
    """The value of a container, else that of its pod."""
    return later.walk(of_pod, key) if (value := later.walk(own, key)) is None else value
