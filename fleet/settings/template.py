"""Fields of a runner's pod that no other setting has: more containers, and what they and the pod need.

Kubernetes' own words (core/v1, PodSpec and Container). The chart's values have them, so every policy judges them as a pod.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from fleet.facts.credentials import mask
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import NO_GPU, is_gpu_resource
from fleet.settings.containers import DNS_CONFIG, HOST_ALIAS, refuse_container, refuse_sizes, refuse_volume
from fleet.settings.github import is_app_secret
from fleet.settings.model import Model
from fleet.settings.refusals import problem, refusal, refuse, refuse_if, refuses, require_once

_WHILE_IT_RUNS = frozenset({"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
_SIZES = ("requests", "limits")
_NAMES = ("name", "secretName")
"""The keys of all references to a Secret."""


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of each text and number, and (key, None) of each key of an object."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name, None
            yield from _texts(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)
    else:
        yield key, value


def _safe(value: dict[str, Any]) -> None:
    """Refuse what must not get into a pod: credentials, the App's key, tokens of the API server."""
    for key, text in _texts(value):
        refuse_if("template_token", key == "serviceAccountToken", private=True)
        refuse_if("template_app", key in _NAMES and is_app_secret(text), private=True, text=text)
        refuse_if("template_credential", isinstance(text, str) and mask(text) != text, private=True)


def _container(value: dict[str, Any]) -> None:
    refuse_container(value)
    refuse_if("container_runner", value["name"] == "runner", private=True)
    sizes: Any = value.get("resources")
    for size in _SIZES:
        amounts = sizes.get(size) if isinstance(sizes, Mapping) else None
        if not isinstance(amounts, Mapping) or any((quantity(amounts.get(name)) or 0) <= 0 for name in ("cpu", "memory")):
            raise problem("container_size", value=value["name"], size=size)
        if any(quantity(amount) is None or is_gpu_resource(name) for name, amount in amounts.items()):
            raise problem("container_amount", value=value["name"], size=size)
    refuse_sizes(value["name"], sizes)


def _dns_policy(value: object) -> object:
    refuse(dns_default=value == "Default")
    return value


Fields = Annotated[dict[str, Any], refuses(_safe)]
"""An object of a pod, as Kubernetes has it."""
Container = Annotated[Fields, refuses(_container)]
"""A container beside the runner's."""


def _set(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """The keys of an object that have a value: null is as good as no key."""
    return {key: inner for key, inner in (value or {}).items() if inner is not None}


def _confined(container: Mapping[str, Any], confined: Mapping[str, Any]) -> dict[str, Any]:
    own = _set(container.get("securityContext"))
    capabilities = {"capabilities": {**confined["capabilities"], **_set(own.get("capabilities"))}}
    # An image that names all GPUs would get them without a request, because the runtime reads the variable.
    env = [NO_GPU, *(container.get("env") or ())]
    return {**container, "env": env, "securityContext": {**confined, **own, **capabilities}}


class Template(Model):
    """More of a runner's pod, in Kubernetes' words. Every policy judges the pod, and placement counts its containers."""

    init_containers: tuple[Container, ...] = ()
    """Containers that end before the runner starts. With `restartPolicy: Always` one runs beside it. Example:
    `[{name: warm, image: "example:1", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]`"""
    containers: tuple[Container, ...] = ()
    """Containers beside the runner. The pod ends with the runner only if they end too. Example:
    `[{name: cache, image: "example:1", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]`"""
    volumes: tuple[Annotated[Fields, refuses(refuse_volume)], ...] = ()
    """Volumes of these containers. The runner mounts those in `volumes` of the class. Example: `[{name: tmp, emptyDir: {}}]`"""
    host_aliases: tuple[Annotated[Fields, HOST_ALIAS], ...] = ()
    """Lines of /etc/hosts. Example: `[{ip: 10.20.0.5, hostnames: [mirror]}]`"""
    dns_config: Annotated[Fields, DNS_CONFIG] | None = None
    """Name servers and search domains. Example: `{options: [{name: ndots, value: "1"}]}`"""
    dns_policy: Annotated[Literal["ClusterFirst", "None"], BeforeValidator(_dns_policy)] | None = None
    """Where names are resolved: in the cluster, or by `nameservers` of `dnsConfig` alone. Example: `ClusterFirst`"""
    enable_service_links: bool | None = None
    """Whether jobs find the services of their namespace as environment variables. Example: `false`"""

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The resolvers of all names; empty if the cluster resolves them. Kubelet appends others to the cluster's."""
        return tuple((self.dns_config or {}).get("nameservers") or ()) if self.dns_policy == "None" else ()

    def names(self, secret: str) -> bool:
        """Whether it may read a Secret."""
        return any(key in _NAMES and text == secret for key, text in _texts(self.model_dump()))

    def merged(self, pod: Mapping[str, Any], confined: Mapping[str, Any]) -> dict[str, Any]:
        """A pod with these fields. Containers get what their `securityContext` lacks of `confined`, and see no GPU."""
        fields = self.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        for key in ("initContainers", "containers"):
            fields[key] = [_confined(container, confined) for container in fields.get(key, ())]
        lists = {key: [*pod.get(key, ()), *fields.pop(key, ())] for key in ("initContainers", "containers", "volumes")}
        return {**pod, **{key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}} | {
            key: items for key, items in lists.items() if items
        }

    @refusal
    def _names(self) -> None:
        """Refuse two containers or volumes of one name, and a pod without any resolver."""
        names = [container["name"] for container in (*self.init_containers, *self.containers)]
        require_once("container_twice", names, at=("containers",))
        require_once("template_volume_twice", [volume["name"] for volume in self.volumes], at=("volumes",))
        for container in self.containers:
            refuse_if("container_restart", container.get("restartPolicy"), at=("containers",), value=container["name"])
        for container in self.init_containers:
            if not container.get("restartPolicy") and (wrong := sorted(_WHILE_IT_RUNS & _set(container).keys())):
                raise problem("container_ends", at=("initContainers",), value=container["name"], field=wrong[0])
        refuse("dnsPolicy", dns_none=self.dns_policy == "None" and not self.name_servers)

    def mounted(self) -> Iterator[str]:
        """The names of the volumes that its containers mount."""
        for container in (*self.init_containers, *self.containers):
            yield from (mount["name"] for mount in container.get("volumeMounts") or ())
