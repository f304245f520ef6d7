"""What the API server takes of a container, a volume and the names of a pod (Kubernetes, core/v1, and its standard `restricted`).

Settings check these models and keep what was written. Field names are Kubernetes' own.
"""

import ipaddress
from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, create_model

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


_Count = Annotated[int, Field(ge=0)]
_Filled = Annotated[str, Field(min_length=1)]
_TYPES: dict[str, Any] = {
    "Capability": Literal["NET_BIND_SERVICE"],
    "Seccomp type": Literal["RuntimeDefault", "Localhost"],
    "any": dict[str, Any],
    "count": _Count,
    "env name": Annotated[str, matching("env_name__container", ENV_NAME), refuses(refuse_ours)],
    "filled": _Filled,
    "flag": bool,
    "host names": Annotated[list[_HostName], Field(min_length=1)],
    "ip": _Ip,
    "name": _Name,
    "name servers": Annotated[list[_Ip], Field(max_length=3)],
    "number or text": int | str,
    "port": _Port,
    "searches": Annotated[list[str], Field(max_length=32)],
    "text": str,
    "text or number": str | int,
    "texts": dict[str, str],
    "user": Annotated[int, accepted("root", lambda user: user != 0)],
    "whole": int,
    "wholes": dict[str, int],
}
"""What containers.toml calls a type. Resolvers: at most 3 servers and 32 domains (Kubernetes, DNS for Services and Pods)."""
_FIELDS: dict[str, dict[str, Any]] = beside(__file__, "containers.toml")


def _type(word: str | list[Any]) -> Any:
    if isinstance(word, list):
        return Literal[tuple(word)]
    return list[_type(word[:-2])] if word.endswith("[]") else _TYPES.get(word) or _model(word)  # type: ignore[misc]


@cache
def _model(name: str) -> type[BaseModel]:
    """The model of a table of containers.toml."""
    fields: dict[str, Any] = {}
    for key, word in _FIELDS[name].items():
        needed = isinstance(word, str) and word.endswith("!")
        fields[key] = (_type(word[:-1]), ...) if needed else (_type(word) | None, None)
    return create_model(name, __config__=Model.model_config, **fields)


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
    _checked(_model("Container"), value)
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
    refuse_if("template_volume", [isinstance(source, Mapping) for source in sources.values()] != [True], private=True)
    (kind, source), *_ = sources.items()
    refuse_if("template_volume_kind", kind not in _SOURCES, private=True, kind=kind, kinds=", ".join(_SOURCES))
    if kind == "emptyDir":
        _checked(_model("EmptyDir"), source)
        if (size := source.get("sizeLimit")) is not None and (quantity(size) or 0) <= 0:
            raise problem("template_volume_size", private=True)
    needed = _SOURCES[kind]
    refuse_if("template_volume_key", needed and needed not in source, private=True, kind=kind, needed=needed)


HOST_ALIAS, DNS_CONFIG = (refuses(partial(_checked, _model(name))) for name in ("HostAlias", "DnsConfig"))
"""For a line of /etc/hosts, and for a configuration of resolvers: they refuse what the API server rejects."""
