"""Words of the page's cells. Whatever a settings file names stands in code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fleet.prove.placement import Fit
from offline.gfm import code
from offline.inventory.pods import Span, Volume
from offline.inventory.users import Claim

NONE = "-"
_DIGEST = 12
"""Signs of an image's digest that tell it from others."""


def codes(names: Iterable[str], between: str = ", ") -> str:
    """Names in code, or a dash."""
    return between.join(map(code, names)) or NONE


def count(least: int, most: int) -> str:
    """0-10, or 2 where both are."""
    return str(most) if least == most else f"{least}-{most}"


def span(held: Span, text: Callable[[int], str]) -> str:
    """What is requested and the most that is taken: 4-8; a request alone where nothing bounds it."""
    if held.limit is None:
        return f"{text(held.request)}, no limit"
    return text(held.request) if held.limit == held.request else f"{text(held.request)}-{text(held.limit)}"


def cores(millicores: int) -> str:
    """1.5 rather than 1500m, which tables of whole cores are hard to read with."""
    return f"{millicores / 1000:g}"


def size(mebibytes: int) -> str:
    """Mi up to one Gi, then Gi, rounded down to a tenth: 28.8Gi."""
    return f"{mebibytes}Mi" if mebibytes < 1024 else f"{mebibytes * 10 // 1024 / 10:g}Gi"


def taken(units: int, resource: str) -> str:
    """2 x `nvidia.com/gpu`; nothing of what takes none."""
    return f"{units} x {code(resource)}" if resource else "no GPU"


def image(reference: str) -> str:
    """Its name and version, and of a digest the beginning."""
    name, at, digest = reference.partition("@")
    known = f", {code(digest[: digest.index(':') + 1 + _DIGEST] + '…')}" if at else ""
    return code(name) + known


def labels(held: Mapping[str, str], between: str = ", ") -> str:
    """Labels as `kubectl -l` takes them."""
    return codes((f"{key}={value}" for key, value in held.items()), between)


def toleration(held: Mapping[str, str]) -> str:
    """As kubectl writes a taint: `key=value:Effect`, without value where any is tolerated."""
    value = f"={held['value']}" if held.get("operator", "Equal") == "Equal" else ""
    return code(f"{held.get('key', '')}{value}:{held.get('effect', '')}")


def holds(fits: Iterable[Fit]) -> str:
    """How many one node of each type holds, and what runs out first."""
    return "<br>".join(f"{code(found.machine.name)}: {found.count}, {found.limited_by}" for found in fits) or NONE


def volume(held: Volume, claims: Mapping[str, Claim]) -> str:
    """What it is and where the container has it."""
    what = {
        "persistentVolumeClaim": "claim",
        "hostPath": "**host path**",
        "configMap": "ConfigMap",
        "secret": "Secret",
        "emptyDir": "folder of the pod",
    }[held.kind]
    of_size = f" of {size(held.size)}" if held.size else ""
    name = f" {code(held.name)}" if held.name else ""
    claim = claims.get(held.name) if held.kind == "persistentVolumeClaim" else None
    return f"{what}{name}{of_size} at {code(held.path)}{_claim(claim)}{', read only' if held.read_only else ''}"


def _claim(held: Claim | None) -> str:
    if held is None:
        return ""
    return f" ({held.size}, {storage_class(held.storage_class)}, {held.mode})"


def storage_class(name: str) -> str:
    """A claim that names none gets the cluster's default one."""
    return f"class {code(name)}" if name else "the default class"
