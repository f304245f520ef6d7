"""A namespace of its own for what needs no network."""

from __future__ import annotations

from fleet.render import team_namespace
from fleet.render.workloads.parts import Manifest

WALL = "workloads"
"""Name of the namespace's NetworkPolicy."""


def sealed(namespace: str) -> tuple[Manifest, Manifest]:
    """A namespace whose pods reach nothing and are reached by nothing, held to `restricted`, and its NetworkPolicy."""
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return team_namespace.namespace(namespace, "restricted"), team_namespace.wall(WALL, namespace, closed)
