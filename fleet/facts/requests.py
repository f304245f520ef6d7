"""What pods request, read from their specs as Kubernetes does."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fleet.facts.quantities import quantity


def requests_of(spec: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Fraction]:
    """What the scheduler reserves for a pod, by resource (kubernetes.io, sidecar containers and pod overhead).

    `defaults` are the requests that a LimitRange gives to containers without any.
    """
    total: dict[str, Fraction] = {}
    first: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        request = requested(container, defaults)
        if container.get("restartPolicy") == "Always":
            total = _sum(total, request)
            request = {}
        first = {name: max(first.get(name, Fraction(0)), amount) for name, amount in (first | _sum(total, request)).items()}
    for container in spec.get("containers") or ():
        total = _sum(total, requested(container, defaults))
    most = {name: max(total.get(name, Fraction(0)), first.get(name, Fraction(0))) for name in total | first}
    # Requests of the pod as a whole replace those of its containers (Kubernetes 1.34, pod-level resources).
    most |= requested(spec)
    return _sum(most, amounts(spec.get("overhead")))


def resources(container: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The limits or requests of a container."""
    return dict((container.get("resources") or {}).get(field) or {})


def requested(container: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Fraction]:
    """The requests of a container. The API server sets those that are missing from its limits, then from `defaults`."""
    return amounts({**(defaults or {}), **resources(container, "limits"), **resources(container, "requests")})


def amounts(texts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    """Quantities as numbers. A text that is not a quantity counts as 0."""
    return {name: quantity(text) or Fraction(0) for name, text in (texts or {}).items()}


def _sum(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: first.get(name, Fraction(0)) + second.get(name, Fraction(0)) for name in {**first, **second}}
