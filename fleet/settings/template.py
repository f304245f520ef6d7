"""Fields of a runner's pod that no other setting has: more containers, and what they and the pod need.

Kubernetes' own words (core/v1, PodSpec and Container). The chart's values have them, so every policy judges them as a pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from fleet.facts.credentials import mask
from fleet.facts.errors import instead
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import is_gpu_resource
from fleet.settings.github import APP_SECRET
from fleet.settings.model import Model, problem, refusal, require_once

_FIELDS = frozenset(
    {
        *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports"),
        *("readinessProbe", "resizePolicy", "resources", "restartPolicy", "securityContext", "startupProbe"),
        *("terminationMessagePath", "terminationMessagePolicy", "volumeDevices", "volumeMounts", "workingDir"),
    }
)
"""Fields of a container without those of an interactive one."""
_SIZES = ("requests", "limits")


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


def _is_named(key: str, text: Any, secret: str) -> bool:
    """Whether a text may be the name of a Secret: `name` and `secretName` are the keys of all references."""
    return bool(text == secret) and key in ("name", "secretName")


def _safe(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what must not get into a pod: credentials, the App's key, tokens of the API server."""
    for key, text in _texts(value):
        if key == "serviceAccountToken":
            raise problem(
                "template_token", "it opens the API server, and jobs get no token of it; remove the volume", private=True
            )
        if _is_named(key, text, APP_SECRET):
            raise problem(
                "template_app", f"the Secret {APP_SECRET} has the private key of the GitHub App; name another", private=True
            )
        if isinstance(text, str) and mask(text) != text:
            message = "a text in it looks like a credential; put it into a Secret, and name that by secretKeyRef"
            raise problem("template_credential", message, private=True)
    return value


def _container(value: dict[str, Any]) -> dict[str, Any]:
    if unknown := sorted(value.keys() - _FIELDS):
        fix = instead(unknown[0], _FIELDS, "remove it")
        raise problem("container_field", f"{unknown[0]} is not a field of such a container; {fix}", private=True)
    if not isinstance(value.get("name"), str) or not isinstance(value.get("image"), str):
        raise problem("container_name", "a container has a name and an image; add them", private=True)
    if value["name"] == "runner":
        message = "gpu-ci writes the container runner; write image, env, volumes, cpu and memory of the class, and rename yours"
        raise problem("container_runner", message, private=True)
    sizes: Any = value.get("resources")
    for size in _SIZES:
        amounts = sizes.get(size) if isinstance(sizes, Mapping) else None
        if not isinstance(amounts, Mapping) or any((quantity(amounts.get(name)) or 0) <= 0 for name in ("cpu", "memory")):
            message = f"without resources.{size} of cpu and memory the namespace gives it those of the runner; add them"
            raise problem("container_size", message, value=value["name"])
        if any(quantity(amount) is None or is_gpu_resource(name) for name, amount in amounts.items()):
            message = f"resources.{size} has more than quantities of cpu, memory and disk; correct it, and raise gpus for GPUs"
            raise problem("container_amount", message, value=value["name"])
    return value


def _volume(value: dict[str, Any]) -> dict[str, Any]:
    sources = {key: source for key, source in value.items() if key != "name"}
    if not isinstance(value.get("name"), str) or len(sources) != 1 or not all(isinstance(s, Mapping) for s in sources.values()):
        raise problem("template_volume", "a volume has a name and one source, as in a pod; correct it", private=True)
    return value


Fields = Annotated[dict[str, Any], AfterValidator(_safe)]
"""An object of a pod, as Kubernetes has it."""
Container = Annotated[Fields, AfterValidator(_container)]
"""A container beside the runner's."""


class Template(Model):
    """More of a runner's pod, in Kubernetes' words. Every policy judges the pod, and placement counts its containers."""

    init_containers: tuple[Container, ...] = ()
    """Containers that end before the runner starts. With `restartPolicy: Always` one runs beside it. Example:
    `[{name: warm, image: "example:1", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]`"""
    containers: tuple[Container, ...] = ()
    """Containers beside the runner. The pod ends with the runner only if they end too. Example:
    `[{name: cache, image: "example:1", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]`"""
    volumes: tuple[Annotated[Fields, AfterValidator(_volume)], ...] = ()
    """Volumes of these containers. The runner mounts those in `volumes` of the class. Example: `[{name: tmp, emptyDir: {}}]`"""
    host_aliases: tuple[Fields, ...] = ()
    """Lines of /etc/hosts. Example: `[{ip: 10.20.0.5, hostnames: [mirror]}]`"""
    dns_config: Fields | None = None
    """Name servers and search domains. Example: `{options: [{name: ndots, value: "1"}]}`"""
    dns_policy: Literal["ClusterFirst", "Default", "None"] | None = None
    """Where names are resolved. Example: `ClusterFirst`"""
    enable_service_links: bool | None = None
    """Whether jobs find the services of their namespace as environment variables. Example: `false`"""

    def names(self, secret: str) -> bool:
        """Whether it may read a Secret."""
        return any(_is_named(key, text, secret) for key, text in _texts(self.model_dump()))

    def merged(self, pod: Mapping[str, Any], confined: Mapping[str, Any]) -> dict[str, Any]:
        """A pod with these fields. Containers without a `securityContext` get `confined`."""
        fields = self.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        for key in ("initContainers", "containers"):
            fields[key] = [{"securityContext": dict(confined), **container} for container in fields.get(key, ())]
        lists = {key: [*pod.get(key, ()), *fields.pop(key, ())] for key in ("initContainers", "containers", "volumes")}
        return {**pod, **{key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}} | {
            key: items for key, items in lists.items() if items
        }

    @refusal
    def _names(self) -> None:
        """Refuse two containers of one name."""
        names = [container["name"] for container in (*self.init_containers, *self.containers)]
        require_once("container_twice", "two containers have the same name; rename one", names, at=("containers",))
