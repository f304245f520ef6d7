"""A namespace of workloads: what its pods may be, whom they reach and who reaches them."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.charts.chart import Level
from fleet.scheduling import POD_SECURITY_LABEL
from fleet.team_namespace import network_policy
from fleet.workloads.parts import Manifest

WALL = "workloads"
"""Name of the namespace's NetworkPolicy."""


def home(namespace: str, level: Level, closed: Sequence[str], opened: Sequence[str] = ()) -> tuple[Manifest, Manifest]:
    """The namespace, held to a Pod Security Standard, and its NetworkPolicy.

    Its pods reach DNS, the internet, each other and what the settings open; none but they reach them.
    """
    return _namespace(namespace, level), _wall(namespace, network_policy(closed, opened))


def sealed(namespace: str) -> tuple[Manifest, Manifest]:
    """A namespace whose pods reach nothing and are reached by nothing, held to `restricted`."""
    return _namespace(namespace, "restricted"), _wall(namespace, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})


def _namespace(name: str, level: Level) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {POD_SECURITY_LABEL: level}},
    }


def _wall(namespace: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": WALL, "namespace": namespace},
        "spec": spec,
    }
