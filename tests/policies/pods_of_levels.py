"""Pods for comparing the rules with Pod Security: those of suites and evasions, and each field of Kubernetes' table by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from policies.rules import RULES
from policies.rules.pod_security import BASELINE, RESTRICTED, Breach, baseline, restricted
from policies.rules.pods import PodSpec
from policies.rules.read import Later
from tests.policies.cases import Case, StackCase
from tests.policies.evasions.manifests import CASES as EVASIONS
from tests.policies.evasions.pod_kinds import CASES as KINDS
from tests.policies.fixtures import POD
from tests.policies.harness import changed
from tests.policies.suite import suite_of

CONFINED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SPEC: dict[str, Any] = {
    "securityContext": {},
    "containers": [{"name": "a", "image": "example.com/a:1", "securityContext": CONFINED}],
}
"""A pod that even level `restricted` admits."""
_CONTEXT = ("containers", 0, "securityContext")
_BOTH = (("securityContext",), _CONTEXT)
_FIELDS: dict[tuple[str, ...], tuple[Any, ...]] = {
    ("seccompProfile",): ({"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "a"}, None),
    ("appArmorProfile",): ({"type": "Unconfined"}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a"}),
    ("seLinuxOptions",): (
        *({"type": name} for name in ("spc_t", "container_t", "container_engine_t", "")),
        *({name: "a"} for name in ("user", "role", "level")),
    ),
    ("windowsOptions",): ({"hostProcess": True}, {"hostProcess": False}),
    ("runAsUser",): (0, 1000),
    ("runAsNonRoot",): (False, None, True),
}
_OF_CONTAINER: dict[str, tuple[Any, ...]] = {
    "privileged": (True, False),
    "allowPrivilegeEscalation": (True, None),
    "procMount": ("Unmasked", "Default"),
    "capabilities": (
        None,
        {"drop": ["KILL"]},
        *({"drop": ["ALL"], "add": [name]} for name in ("NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN")),
    ),
}
_VOLUMES: tuple[dict[str, Any], ...] = (
    {"hostPath": {"path": "/"}},
    {"emptyDir": {}},
    {"nfs": {"server": "10.0.0.1", "path": "/"}},
    {"csi": {"driver": "a.example.com"}},
    {"image": {"reference": "example.com/a:1"}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {
        "ephemeral": {
            "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        }
    },
)
_SYSCTLS = ("kernel.msgmax", "kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_keepalive_time", "net.core.somaxconn")
_PROBE = {"httpGet": {"port": 80, "host": "10.0.0.1"}}


def _table() -> Iterator[Mapping[str, Any]]:
    yield SPEC
    for path in _BOTH:
        for field, values in _FIELDS.items():
            yield from (changed(SPEC, *path, *field, value) for value in values)
    # A container that says nothing has what its pod says.
    for value in (True, False, None):
        yield changed(changed(SPEC, "securityContext", "runAsNonRoot", value), *_CONTEXT, "runAsNonRoot", None)
    yield changed(
        changed(SPEC, "securityContext", "seccompProfile", {"type": "RuntimeDefault"}), *_CONTEXT, "seccompProfile", None
    )
    for name, values in _OF_CONTAINER.items():
        yield from (changed(SPEC, *_CONTEXT, name, value) for value in values)
    yield from (SPEC | {"volumes": [{"name": "a"} | volume]} for volume in _VOLUMES)
    yield from (SPEC | {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}} for name in _SYSCTLS)
    yield from (SPEC | {flag: True} for flag in ("hostNetwork", "hostPID", "hostIPC"))
    yield from (changed(SPEC, "containers", 0, "ports", [{"containerPort": 80, "hostPort": port}]) for port in (80, 0))
    yield from (changed(SPEC, "containers", 0, probe, _PROBE) for probe in ("livenessProbe", "readinessProbe", "startupProbe"))
    yield from (changed(SPEC, "containers", 0, "lifecycle", {hook: _PROBE}) for hook in ("postStart", "preStop"))
    yield changed(SPEC, "containers", 0, "livenessProbe", {"tcpSocket": {"port": 80, "host": "10.0.0.1"}})
    of_users = SPEC | {"hostUsers": False}
    yield of_users
    for path, other in ((("runAsUser",), 0), (("runAsNonRoot",), False), (("procMount",), "Unmasked")):
        yield changed(of_users, *_CONTEXT, *path, other)
    yield SPEC | {"initContainers": [{"name": "b", "image": "example.com/b:1"}]}
    yield {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, "containers": [{"name": "a", "image": "a:1"}]}


def _written() -> Iterator[Mapping[str, Any]]:
    for rule in RULES:
        suite = suite_of(rule)
        for case in (*suite.passing, *suite.violating):
            members = [case] if isinstance(case, Case) else case.members if isinstance(case, StackCase) else []
            yield from (member.props for member in members if member.token == POD)
    for evasion in (*EVASIONS, *KINDS):
        objects = () if isinstance(evasion.objects, str) else evasion.objects
        yield from (one for one in objects if one["kind"] == "Pod")


def pods() -> tuple[dict[str, Any], ...]:
    """Every pod once, with its metadata; the API server may refuse one for another reason."""
    every = chain(_written(), ({"spec": spec} for spec in _table()), _annotated())
    texts = {json.dumps(_whole(body), sort_keys=True): None for body in every if isinstance(body.get("spec"), dict)}
    return tuple(json.loads(text) for text in texts)


def _annotated() -> Iterator[Mapping[str, Any]]:
    for value in ("unconfined", "runtime/default", "localhost/a"):
        name = "container.apparmor.security.beta.kubernetes.io/cont-0"
        yield {"metadata": {"annotations": {name: value}}, "spec": SPEC}


def _whole(body: Mapping[str, Any]) -> dict[str, Any]:
    """The pod, with what any pod must have, and without amounts: other rules break those in many ways."""
    metadata, spec = body.get("metadata") or {}, dict(body["spec"])
    annotations = {"annotations": metadata["annotations"]} if metadata.get("annotations") else {}
    for field in ("initContainers", "containers"):
        if isinstance(given := spec.get(field), list) and all(isinstance(one, dict) for one in given):
            spec[field] = [{"image": "a:1", **one, "name": f"{field[:4]}-{at}", "resources": {}} for at, one in enumerate(given)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **annotations}, "spec": spec}


def of_level(pod: PodSpec, level: str, later: Later) -> Iterator[Breach]:
    """What the level refuses; nothing at another one, as `privileged`."""
    if level in (BASELINE, RESTRICTED):
        yield from chain(baseline(pod, later), restricted(pod, later) if level == RESTRICTED else ())
