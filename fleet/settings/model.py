"""The base of every settings model, and the field types of stack files.

All models are frozen and forbid unknown keys. They are validated in strict JSON mode: a string is not a number, a number is
not a string. Each quantity has one unit: millicores, MiB, seconds.
"""

import ipaddress
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic.types import Discriminator

from fleet.facts.quantities import cpu_text, memory_text
from fleet.settings.refusals import Form, matching, problem, refusal, refuse, refuse_if, words


class Model(BaseModel):
    """Base model: frozen, strict, no unknown keys, keys in camelCase."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel, defer_build=True)

    def set_fields(self, kind: type[BaseModel]) -> dict[str, Any]:
        """The fields of `kind`, a base of this model, that are set. They make another model that extends `kind`."""
        return {name: getattr(self, name) for name in kind.model_fields if name in self.model_fields_set}


def without(*keys: str) -> Callable[[dict[str, Any]], None]:
    """A value for `json_schema_extra`: the schema of the model lacks these keys of its base, because rules refuse them."""

    def drop(schema: dict[str, Any]) -> None:
        for key in keys:
            del schema["properties"][key]
        schema["required"] = [key for key in schema.get("required", ()) if key not in keys]

    return drop


IN_ANY_ORDER = AfterValidator(lambda items: tuple(sorted(items)))
"""For a list whose order means nothing: resources get it sorted, so that another order in a stack file changes none of them.

Where a later rule refuses one item by its place in the file, what writes the resource sorts the list instead."""


DnsLabel = Annotated[str, matching("name", r"[a-z]([-a-z0-9]*[a-z0-9])?", most=63)]
"""A name that becomes part of Kubernetes objects and label values."""


RuntimeHandler = Annotated[str, matching("runtime_handler", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", most=63)]
"""Name of a runtime in containerd's configuration, as a RuntimeClass has it (Kubernetes node/v1, `handler`)."""


def _quoted(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise problem("quote", drops=" (1.30 as 1.3)" if isinstance(value, float) else "")
    return value


QuotedText = Annotated[str, BeforeValidator(_quoted)]
"""A string that YAML would read as a number if left unquoted (1.30 becomes 1.3)."""


AccountId = Annotated[QuotedText, matching("account_id", "[0-9]{12}")]


_CPU = re.compile(r"([0-9]{1,9})m|([0-9]{1,6}(?:\.[0-9]{1,3})?)")


def _millicores(value: object) -> int:
    text = str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    match = _CPU.fullmatch(text)
    cores = 0 if match is None else int(match[1]) if match[1] else round(float(match[2]) * 1000)
    refuse(cpu=cores <= 0)
    return cores


_CPU_FORM = Form("CPU", words("cpu"), _CPU.pattern, types=("number", "string"))
Cpu = Annotated[int, BeforeValidator(_millicores), PlainSerializer(cpu_text), _CPU_FORM]
"""CPU in millicores."""

_MOST_MEMORY = 2**30
"""1 PiB. No disk, bucket or machine of a fleet is larger, so a larger one is a typo."""
_MEMORY = re.compile(r"([0-9]{1,9})(Mi|Gi)")


def _mebibytes(value: object) -> int:
    if (match := _MEMORY.fullmatch(value) if isinstance(value, str) else None) is None or int(match[1]) == 0:
        raise problem("memory")
    size = int(match[1]) * (1024 if match[2] == "Gi" else 1)
    refuse_if("memory_size", size > _MOST_MEMORY, most=memory_text(_MOST_MEMORY))
    return size


_MEMORY_FORM = Form("memory", words("memory"), _MEMORY.pattern)
Memory = Annotated[int, BeforeValidator(_mebibytes), PlainSerializer(memory_text), _MEMORY_FORM]
"""Memory or storage in MiB."""

_MOST_SECONDS = 87600 * 3600
"""Go, which reads the durations, counts nanoseconds in 64 bits: 292 years. Ten years are a typo already."""
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(value: object) -> int:
    """The seconds of a duration such as 10m."""
    if (match := _DURATION.fullmatch(value) if isinstance(value, str) else None) is None:
        raise problem("duration")
    seconds = int(match[1]) * _SECONDS[match[2]]
    refuse_if("duration_length", seconds > _MOST_SECONDS, hours=_MOST_SECONDS // 3600)
    return seconds


DURATION = Form("duration", words("duration"), _DURATION.pattern)
Duration = Annotated[int, BeforeValidator(seconds_of), PlainSerializer(lambda value: f"{value}s"), DURATION]
"""A length of time in seconds."""


def _day(text: str) -> str:
    with suppress(ValueError):
        # Python also reads 20261219 and 2026-W51-6.
        if date.fromisoformat(text).isoformat() == text:
            return text
    raise problem("day")


Day = Annotated[str, AfterValidator(_day), Form("day", words("day"), r"[0-9]{4}-[0-9]{2}-[0-9]{2}")]
"""A day as year-month-day."""


def _cidr(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise problem("cidr", error=error) from None
    return str(network)


_CIDR_RULE = "not a CIDR block; write a network such as 203.0.113.0/24"
Cidr = Annotated[str, AfterValidator(_cidr), Form("CIDR block", _CIDR_RULE, r"[0-9a-fA-F.:]+(/[0-9]{1,3})?")]
"""An IPv4 or IPv6 network in CIDR notation."""

_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"


def is_label_value(text: str) -> bool:
    """Whether a text can be the value of a label. Kubernetes also accepts an empty one."""
    return len(text) <= 63 and re.fullmatch(_LABEL_NAME, text) is not None


LabelKey = Annotated[str, matching("label_key", rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL_NAME}", most=63)]
"""Key of a node label. 63 characters in all is the EKS API's limit (labelKey); Kubernetes allows a longer domain."""

LabelValue = Annotated[str, matching("label_value", _LABEL_NAME, most=63)]
"""Value of a node label. Kubernetes allows an empty one, the EKS API (labelValue) does not."""

Labels = dict[LabelKey, LabelValue]
"""Labels of nodes or objects by their keys."""


def selected_by(key: str, values: tuple[str, ...], rule: str, head: str) -> Discriminator:
    """The discriminator of a union: the value of `key` selects a model. `head` begins the error for any other value."""

    def tag(settings: Any) -> str | None:
        value = settings.get(key) if isinstance(settings, dict) else getattr(settings, key, None)
        return value if value in values else None

    message = f"{head} {', '.join(values[:-1])} or {values[-1]}; name one in {key}"
    # No custom_error_context: it is a dict, and a union with None must be hashable.
    return Discriminator(tag, custom_error_type=f"gpu_ci_{rule}", custom_error_message=message)


def go_duration(seconds: int) -> str:
    """Seconds as Go's time.ParseDuration reads them: 600 → "10m0s"."""
    hours, remainder = divmod(seconds, 3600)
    minutes, seconds = divmod(remainder, 60)
    return f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"


YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML does not read as text without quotes, which some charts omit."""


_TAG = r"[\w .:/=+@-]"
_TAG_KEY = Form("tag key", words("tag__key"), most=128)
TagKey = Annotated[str, matching("tag__key", rf"(?![aA][wW][sS]:){_TAG}{{1,128}}", form=_TAG_KEY)]
TagValue = Annotated[str, matching("tag__value", rf"{_TAG}{{0,256}}", form=Form("tag value", words("tag__value"), most=256))]


class Span(Model):
    """A request and a limit in the same unit. The scheduler reserves the request."""

    request: Any
    """What the scheduler reserves."""
    limit: Any
    """The most that the pod may use. It is not below `request`."""

    @refusal
    def _rules(self) -> None:
        """Refuse a limit below the request, as the API server does."""
        refuse(limit=self.limit < self.request)


class CpuSpan(Span):
    """CPU request and limit."""

    request: Cpu
    """CPU that the scheduler reserves on the node. Unit: cores, or millicores with m."""
    limit: Cpu
    """The most CPU that the pod may use. It is not below `request`. Unit: cores, or millicores with m."""


class MemorySpan(Span):
    """Memory request and limit."""

    request: Memory
    """Memory that the scheduler reserves on the node."""
    limit: Memory
    """The most memory that the pod may use. Beyond it the kernel ends a process. It is not below `request`."""


class Scale(Model):
    """The minimum and maximum number of runners.

    GitHub allows 10,000 self-hosted runners per runner group (docs.github.com, usage limits for self-hosted runners).
    """

    min: Annotated[int, Field(ge=0)] = 0
    """Runners that always wait, also while no job runs. Unit: runners."""
    max: Annotated[int, Field(ge=1, le=10_000)]
    """The most runners at the same time. GitHub allows 10,000 per runner group. Unit: runners. Source: docs.github.com, usage
    limits for self-hosted runners."""

    @refusal
    def _rules(self) -> None:
        """Refuse min above max."""
        refuse_if("scale", self.min > self.max, at=("min",), max=self.max)


class Nodes(Scale):
    """The minimum and maximum number of nodes of a pool.

    OKE allows 1,000 nodes per node pool (docs.oracle.com, service limits, 2025-03-11). EKS allows 450 per managed node group
    until AWS raises the quota (docs.aws.amazon.com, EKS service quotas). Both have the same bound here, to catch typos.
    """

    min: Annotated[int, Field(ge=0)] = 0
    """Nodes that always run, also while no job runs. Unit: nodes. Mark: first."""
    max: Annotated[int, Field(ge=1, le=1000)]
    """The most nodes at the same time. Unit: nodes. Source: docs.oracle.com, service limits (OKE, 1,000 per pool); EKS service
    quotas (450 per node group until AWS raises it)."""
