"""services-internal: no Service opens pods to the network outside, or leads to the metadata of a node or to the cluster's API.

Judged: every kind of Kubernetes, and the values of charts. Any object whose `type` or `serviceType` is LoadBalancer or NodePort
makes such a Service: a RayCluster does. An Ingress and a Gateway open pods as well. A NodePort passes if a NetworkPolicy names
the clients of its pods. Neither CoreDNS nor a pod's own file of hosts answers a name of GitHub, of a registry or of a repository
of charts. `exempt` has objects and releases by namespace and name.
"""

import ipaddress
import re

from fleet.facts.versions import CHARTS

from .exceptions import matches
from .kinds import CONFIG_MAPS, NETWORK_POLICY, SERVICE, each, is_object, kind_of, table
from .networks import world
from .pods import pod_specs
from .read import SETTLED, Data, Faults, Later, Named, count, entries, keys, parsed, shown, strings, text, walk
from .releases import objects, releases, step, texts
from .rule import Resource, Stack, StackRule, Violations, entry, facts, said

_OPEN = ("LoadBalancer", "NodePort")
_DOORS = ("Ingress", "Gateway", "IngressRoute", "IngressRouteTCP", "IngressRouteUDP", "Route", "HTTPProxy", "TargetGroupBinding")
"""Kinds of any group that lead from outside to pods."""
_OWN = re.compile(r"(?i)(?:metadata|instance-data|localhost|kubernetes\.default)(?:\..*)?|.*\b169[.-]254[.-]\d.*")
"""Names of the metadata of a node, of the node and of the cluster's API."""
_NETWORKS, _HOSTS = [*map(ipaddress.ip_network, table("names")["own-networks"])], table("names")["hosts"]
_OF_OTHERS = "|".join(re.escape(name) for name in (*_HOSTS, *(chart.repository.split("/")[2] for chart in CHARTS.values())))
"""Names, and those below them, from which jobs, charts and images come."""
_COREFILE = re.compile(r"Corefile|NodeHosts|.*\.(?:server|override)")
"""Keys of the configuration of CoreDNS: its own, and those of distributions for additions."""
_NAME = re.compile(r"[\w-]+(?:\\?\.[\w-]+)+")
_PASSING = frozenset(("metadata", "status"))


def _check(stack: Stack, later: Later) -> Violations:
    exempt = strings(stack.config, "exempt")
    for resource in stack.resources:
        with later:
            installed = list(releases(resource.type, resource.props, later))
            metadata = walk(resource.props, "metadata")
            here = tuple(text(walk(metadata, key)) for key in ("namespace", "name"))
            names = [f"{release.namespace}/{release.name}" for release in installed] or ["/".join(here)]
            if any(matches(pattern, name) for pattern in exempt for name in names):
                continue
            bodies = [(release.values_path, release.values) for release in installed] or [("spec", walk(resource.props, "spec"))]
            for path, body in bodies if kind_of(resource.type) != "CustomResourceDefinition" else ():
                for fault in _opened(path, body, resource, stack, later):
                    yield f"{fault}, or {entry('exempt', names[0])}", resource.urn
            for path, name in _renamed(resource, later):
                yield f"{said('renamed', path=path, name=name)}, or {entry('exempt', names[0])}", resource.urn
            for fault in _led(kind_of(resource.type), resource.props, here, later):
                yield f"{fault}: that is a node's metadata or the cluster's API; take the address out", resource.urn


def _opened(path: str, body: Data, resource: Resource, stack: Stack, later: Later) -> Faults:
    """What opens pods to the network outside."""
    if kind_of(resource.type) in _DOORS:
        yield f"{path}: {kind_of(resource.type)} opens pods to the network outside; leave it out"
    for place, holder in objects(body, path, later, _PASSING):
        for key in keys(holder):
            with later:
                value = walk(holder, key)
                opens = (key == "type" or key.lower().endswith("servicetype")) and text(value) in _OPEN
                if opens and not (text(value) == _OPEN[1] and _admitted(resource, stack)):
                    yield f'{step(place, key)} is {shown(value)}: it opens pods to the network outside; write "ClusterIP"'
                if key == "externalIPs" and count(value):
                    yield f"{step(place, key)} takes addresses of the network, and their traffic; remove it"
                if key == "ingress" and walk(value, "enabled") is True:
                    yield f"{step(place, key)}.enabled is true: it opens pods to the network outside; write false"


def _renamed(resource: Resource, later: Later) -> Named:
    """Path and name of each name of others that the cluster, or a pod, answers itself."""
    for prefix, body in each(resource.type, resource.props, later) if resource.type in CONFIG_MAPS else ():
        data = later.walk(body, "data")
        for key in filter(_COREFILE.fullmatch, keys(data)):
            lines = (line.partition("#")[0] for line in text(later.walk(data, key))[:65536].splitlines())
            yield from ((f"{prefix}{step('data', key)}", name) for name in _NAME.findall("\n".join(lines)) if _is_others(name))
    for pod in pod_specs(resource.type, resource.props, later):
        for path, name in entries(pod.spec, "hostAliases.[].hostnames", later):
            if _is_others(text(name)):
                yield f"{pod.path}.{path}", text(name)


def _is_others(name: str) -> bool:
    return re.fullmatch(rf"(?i)(?:.*\.)?(?:{_OF_OTHERS})\.?", name.replace("\\", "")) is not None


def _admitted(service: Resource, stack: Stack) -> bool:
    """Whether a NetworkPolicy of its namespace names the clients of a Service's pods, none of them the whole internet.

    Raises UnknownError.
    """
    labels, home = _labels(walk(service.props, "spec", "selector")), walk(service.props, "metadata", "namespace")
    for policy in stack.of(NETWORK_POLICY) if labels else ():
        selector = walk(policy.props, "spec", "podSelector", "matchLabels")
        if (walk(policy.props, "metadata", "namespace"), _labels(selector)) == (home, labels):
            clients = [client for _, client in entries(policy.props, "spec.ingress.[].from", SETTLED)]
            return bool(clients) and not any(world(walk(client, "ipBlock", "cidr")) for client in clients)
    return False


def _labels(value: Data) -> dict[str, Data]:
    return {key: walk(value, key) for key in keys(value)}


def _led(kind: str, props: Data, here: tuple[str, ...], later: Later) -> Faults:
    """The destinations of a Service or of its endpoints that no pod may reach by it."""
    fields = {"Service": ("spec",), "Endpoints": ("subsets",), "EndpointSlice": ("endpoints",)}.get(kind, ())
    if fields and "kubernetes" in (here[1] if here[0] == "default" else "", later.walk(props, *_LABEL)):
        yield f"metadata.name is {shown(here[1])}"
    for field in fields:
        for path, found in texts(later.walk(props, field), field, later):
            if _is_own(found) and not path.startswith("spec.selector"):
                yield f"{path} is {shown(found)}"


_LABEL = ("metadata", "labels", "kubernetes.io/service-name")


def _is_own(found: str) -> bool:
    if (address := parsed(found, ipaddress.ip_address)) is None:
        return _OWN.fullmatch(found) is not None
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in _NETWORKS)


RULE = StackRule(**facts(__name__), types=frozenset((SERVICE,)), others=is_object, check=_check)
