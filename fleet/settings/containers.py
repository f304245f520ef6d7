"""What the API server takes of a container, a volume and the names of a pod (Kubernetes, core/v1, and its standard `restricted`).

Settings check these models and keep what was written. Field names are Kubernetes' own.
"""

import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from fleet.facts.errors import instead
from fleet.facts.quantities import quantity
from fleet.facts.tables import beside
from fleet.settings.environment import ENV_NAME, refuse_ours
from fleet.settings.model import Model
from fleet.settings.refusals import accepted, matching, problem, refuse_if, refuses

_Name = Annotated[str, matching("kubernetes_name", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", most=63)]
_HOSTNAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_HostName = Annotated[str, matching("host_name", _HOSTNAME, most=253)]
_Port = Annotated[int, Field(ge=1, le=65535)]


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise problem("ip_address") from None


_Ip = Annotated[str, AfterValidator(_ip)]


_NO_ROOT = accepted("root", lambda user: user != 0)


class _Capabilities(Model):
    add: list[Literal["NET_BIND_SERVICE"]] | None = None
    drop: list[str] | None = None


class _Seccomp(Model):
    type: Literal["RuntimeDefault", "Localhost"]
    localhost_profile: str | None = None


class _SecurityContext(Model):
    """Values that the standard `restricted` admits."""

    allow_privilege_escalation: Literal[False] | None = None
    capabilities: _Capabilities | None = None
    privileged: Literal[False] | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: Literal[True] | None = None
    run_as_user: Annotated[int, _NO_ROOT] | None = None
    seccomp_profile: _Seccomp | None = None


class _Key(Model):
    name: str
    key: str
    optional: bool | None = None


class _Source(Model):
    secret_key_ref: _Key | None = None
    config_map_key_ref: _Key | None = None
    field_ref: dict[str, str] | None = None
    resource_field_ref: dict[str, Any] | None = None


class _Variable(Model):
    name: Annotated[str, matching("env_name__container", ENV_NAME), refuses(refuse_ours)]
    value: str | None = None
    value_from: _Source | None = None


class _Object(Model):
    name: str
    optional: bool | None = None


class _Variables(Model):
    prefix: str | None = None
    config_map_ref: _Object | None = None
    secret_ref: _Object | None = None


class _ContainerPort(Model):
    container_port: _Port
    name: _Name | None = None
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None


class _VolumeMount(Model):
    name: str
    mount_path: Annotated[str, Field(min_length=1)]
    read_only: bool | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None
    mount_propagation: Literal["None", "HostToContainer"] | None = None
    recursive_read_only: str | None = None


class _Exec(Model):
    command: list[str]


class _HttpGet(Model):
    """Without `host`, which the standard refuses from Kubernetes 1.34 on."""

    port: int | str
    path: str | None = None
    scheme: Literal["HTTP", "HTTPS"] | None = None
    http_headers: list[dict[str, str]] | None = None


class _Tcp(Model):
    port: int | str


class _Handler(Model):
    exec: _Exec | None = None
    http_get: _HttpGet | None = None
    tcp_socket: _Tcp | None = None


class _Hook(_Handler):
    sleep: dict[str, int] | None = None


class _Lifecycle(Model):
    post_start: _Hook | None = None
    pre_stop: _Hook | None = None
    stop_signal: str | None = None


class _Grpc(Model):
    port: _Port
    service: str | None = None


_Count = Annotated[int, Field(ge=0)]


class _Probe(_Handler):
    grpc: _Grpc | None = None
    initial_delay_seconds: _Count | None = None
    period_seconds: _Count | None = None
    timeout_seconds: _Count | None = None
    success_threshold: _Count | None = None
    failure_threshold: _Count | None = None
    termination_grace_period_seconds: _Count | None = None


class _Resources(Model):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Container(Model):
    """The fields of a container without those of an interactive one."""

    name: _Name
    image: Annotated[str, Field(min_length=1)]
    args: list[str] | None = None
    command: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[_Variables] | None = None
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    lifecycle: _Lifecycle | None = None
    liveness_probe: _Probe | None = None
    ports: list[_ContainerPort] | None = None
    readiness_probe: _Probe | None = None
    resize_policy: list[dict[str, str]] | None = None
    resources: _Resources | None = None
    restart_policy: Literal["Always"] | None = None
    security_context: _SecurityContext | None = None
    startup_probe: _Probe | None = None
    termination_message_path: str | None = None
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] | None = None
    volume_mounts: list[_VolumeMount] | None = None
    working_dir: str | None = None


class _HostAlias(Model):
    ip: _Ip
    hostnames: Annotated[list[_HostName], Field(min_length=1)]


class _DnsOption(Model):
    name: Annotated[str, Field(min_length=1)]
    value: str | None = None


class _DnsConfig(Model):
    """At most 3 servers and 32 domains (Kubernetes, DNS for Services and Pods)."""

    nameservers: Annotated[list[_Ip], Field(max_length=3)] | None = None
    searches: Annotated[list[str], Field(max_length=32)] | None = None
    options: list[_DnsOption] | None = None


class _EmptyDir(Model):
    medium: Literal["", "Memory"] | None = None
    size_limit: str | int | None = None


class _VolumeName(BaseModel, extra="allow"):
    name: _Name


_SOURCES: dict[str, str] = beside(__file__, "volumes.toml")
"""Kinds of volumes that the standard `restricted` admits, and the key that such a volume needs."""


def _checked(kind: type[BaseModel], value: Mapping[str, Any]) -> None:
    """Refuse a value of another kind. The error names the field, and shows no value. Raises a settings problem."""
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        if first["type"] == "extra_forbidden":
            of = [field.alias or name for name, field in kind.model_fields.items()]
            fix = instead(str(first["loc"][-1]), of, "remove it") if len(first["loc"]) == 1 else "remove it"
            raise problem("kubernetes_field", private=True, where=where, fix=fix) from None
        message = "an object of fields belongs here" if first["type"] == "model_type" else first["msg"]
        text = message[0].lower() + message[1:]
        fix = "" if first["type"].startswith("gpu_ci_") else "; correct it"
        raise problem("kubernetes_value", private=True, where=where, text=text, fix=fix) from None


def refuse_container(value: Mapping[str, Any]) -> None:
    """Refuse a container that the API server rejects in a namespace with the standard `restricted`. Raises a settings problem."""
    _checked(_Container, value)
    drop = ((value.get("securityContext") or {}).get("capabilities") or {}).get("drop")
    refuse_if("capabilities", drop is not None and "ALL" not in drop, private=True)
    for variable in value.get("env") or ():
        sources = [source for source in (variable.get("valueFrom") or {}).values() if source is not None]
        if "valueFrom" in variable and ("value" in variable or len(sources) != 1):
            raise problem("env_source", private=True, name=variable["name"])
    paths = [mount["mountPath"] for mount in value.get("volumeMounts") or ()]
    refuse_if("mount_path_twice", len(set(paths)) < len(paths), private=True)


def refuse_sizes(name: str, resources: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse requests above limits, as the API server does. Raises a settings problem."""
    for kind, amount in resources["requests"].items():
        most = resources["limits"].get(kind)
        refuse_if("container_limit", most is not None and (quantity(amount) or 0) > (quantity(most) or 0), value=name, kind=kind)


def refuse_volume(value: Mapping[str, Any]) -> None:
    """Refuse a volume that the API server rejects in such a namespace. Raises a settings problem."""
    _checked(_VolumeName, value)
    sources = {key: source for key, source in value.items() if key != "name"}
    if len(sources) != 1 or not all(isinstance(source, Mapping) for source in sources.values()):
        raise problem("template_volume", private=True)
    (kind, source), *_ = sources.items()
    refuse_if("template_volume_kind", kind not in _SOURCES, private=True, kind=kind, kinds=", ".join(_SOURCES))
    if kind == "emptyDir":
        _checked(_EmptyDir, source)
        if (size := source.get("sizeLimit")) is not None and (quantity(size) or 0) <= 0:
            raise problem("template_volume_size", private=True)
    elif (needed := _SOURCES[kind]) and needed not in source:
        raise problem("template_volume_key", private=True, kind=kind, needed=needed)


HOST_ALIAS, DNS_CONFIG = (refuses(partial(_checked, kind)) for kind in (_HostAlias, _DnsConfig))
"""For a line of /etc/hosts, and for a configuration of resolvers: they refuse what the API server rejects."""
