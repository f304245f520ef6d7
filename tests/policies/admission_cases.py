"""Objects that break each rule of `admission.toml`, and neighbours that pass it: for the policies and for a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fleet.facts.admission import RULES, SYSTEM
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.render.isolation import network_policy, wall
from policies.rules import RULES as POLICIES
from policies.rules.admission import refused
from policies.rules.pods import pod_specs
from policies.rules.read import Later
from tests.policies.cases import Case, StackCase
from tests.policies.evasions.manifests import CASES as EVASIONS
from tests.policies.evasions.objects import GPU, Object, container, gpu_spec, on_gpu, pod, spec, thing
from tests.policies.evasions.pod_kinds import CASES as KINDS
from tests.policies.harness import changed
from tests.policies.suite import suite_of

GPUS = 2
"""The most GPUs of a container in these cases."""
NUMBERS = {"maxPerContainer": GPUS, "ceiling": RUNNER_PRIORITY.value}
HOME, TEAM = "runners-gpu-t4", "team-a"
RBAC = "rbac.authorization.k8s.io/v1"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_MOUNT = "/var/run/nvidia-container-devices/all"
_CLOSED = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def _env(value: Any, **fields: Any) -> Object:
    return container(env=[{"name": _VISIBLE, "value": value} | fields])


def _mounts(path: str) -> Object:
    return container(volumeMounts=[{"name": "a", "mountPath": path}])


def _tolerates(*tolerations: Object) -> Object:
    return spec(tolerations=list(tolerations))


def _network(**fields: Any) -> Object:
    return thing("networking.k8s.io/v1", "NetworkPolicy", _CLOSED | fields, "more", HOME)


def _to(cidr: str, *but: str) -> Object:
    return _network(egress=[{"to": [{"ipBlock": {"cidr": cidr} | ({"except": list(but)} if but else {})}]}])


def _space(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {"a": "b"}}}


def _level(level: str) -> dict[str, str]:
    return {"pod-security.kubernetes.io/enforce": level}


def _binding(role: str, namespace: str = HOME, kind: str = "ClusterRole") -> Object:
    ref = {"apiGroup": RBAC.partition("/")[0], "kind": kind, "name": role}
    return thing(RBAC, "RoleBinding", None, "own", namespace, roleRef=ref, subjects=[])


def _class(value: int) -> Object:
    return thing("scheduling.k8s.io/v1", "PriorityClass", None, "own", None, value=value)


def _image(name: str) -> Object:
    return pod(spec(container(image=name)))


_SIDECAR = {"name": "side", "image": "example.com/side:1"}
BROKEN: dict[str, tuple[Object, ...]] = {
    "gpu-count": (
        pod(gpu_spec(on_gpu(3))),
        pod(gpu_spec(on_gpu("4"))),
        pod(gpu_spec() | {"initContainers": [on_gpu(8) | {"name": "first"}]}),
        pod(gpu_spec(on_gpu("1k"))),
    ),
    "gpu-taint": (
        pod(_tolerates({"key": GPU, "operator": "Exists", "effect": "NoSchedule"})),
        pod(_tolerates({"key": GPU, "operator": "Equal", "value": "true"})),
        pod(_tolerates({"operator": "Exists"})),
        pod(gpu_spec(tolerations=[{"operator": "Exists"}])),
        pod(_tolerates({"key": "a", "operator": "Exists"}, {"key": GPU, "operator": "Exists", "effect": "NoExecute"})),
    ),
    "node-name": (pod(spec(nodeName="gpu-1")),),
    "visible-devices": (
        pod(spec(_env("all"))),
        pod(spec(_env("0"))),
        pod(spec(container()) | {"initContainers": [_SIDECAR | {"env": [{"name": _VISIBLE, "value": "all"}]}]}),
        pod(spec(container(env=[{"name": _VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]))),
    ),
    "device-list": (
        pod(spec(), {"cdi.k8s.io/all": "nvidia.com/gpu=all"}),
        pod(spec(_mounts(_MOUNT), volumes=[{"name": "a", "emptyDir": {}}])),
    ),
    "runtime-class": (pod(spec(runtimeClassName="nvidia")), pod(spec(runtimeClassName="nvidia-legacy"))),
    "image-version": (
        *map(_image, ("a", "example.com/a", "example.com:5000/a", "a:latest", "a:2-latest", "a:stable", "a@sha256:")),
        pod(spec() | {"initContainers": [_SIDECAR | {"image": "example.com/side"}]}),
    ),
    "runner-level": (_space("runners-new"), _space("runners-new", **_level("privileged"))),
    "runner-network": (
        _network(ingress=[{}]),
        _network(egress=[{}]),
        _network(egress=[{"ports": [{"port": 53}]}]),
        _to("0.0.0.0/0"),
        _to("0.0.0.0/0", "10.0.0.0/8"),
        _to("128.0.0.0/1"),
        *map(_to, ("169.254.169.254/32", "169.254.169.254/31", "169.254.128.0/17", "169.252.0.0/14")),
    ),
    "runner-quota": (thing("v1", "ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "99"}}, "more", HOME),),
    "runner-rights": tuple(map(_binding, ("admin", "edit", "cluster-admin"))),
    "priority": (_class(1_000_001), _class(999_999_999)),
}
PASSING: dict[str, tuple[Object, ...]] = {
    "gpu-count": (pod(gpu_spec(on_gpu(GPUS))), pod(gpu_spec(on_gpu("1"))), pod(spec())),
    "gpu-taint": (
        pod(gpu_spec()),
        pod(_tolerates({"key": GPU, "operator": "Exists", "effect": "PreferNoSchedule"})),
        pod(_tolerates({"key": "gpu-ci/cpu", "operator": "Exists", "effect": "NoSchedule"})),
    ),
    "node-name": (pod(gpu_spec(nodeName="gpu-1")),),
    "visible-devices": (
        pod(spec(_env("void"))),
        pod(spec(_env("none"))),
        pod(gpu_spec(on_gpu(env=[{"name": _VISIBLE, "value": "all"}]))),
    ),
    "device-list": (
        pod(gpu_spec(), {"cdi.k8s.io/all": "nvidia.com/gpu=all"}),
        pod(spec(_mounts("/data"), volumes=[{"name": "a", "emptyDir": {}}]), {"example.com/cdi.k8s.io": "a"}),
    ),
    "runtime-class": (pod(gpu_spec(runtimeClassName="nvidia")), pod(spec(runtimeClassName="gvisor"))),
    "image-version": tuple(
        map(_image, ("a:1", "example.com:5000/a:v2.3", f"a@sha256:{'0' * 64}", f"a:latest@sha256:{'0' * 64}"))
    ),
    "runner-level": (
        _space("runners-new", **_level("restricted")),
        _space("runners-new", **_level("baseline")),
        _space("team-b", **_level("privileged")),
    ),
    "runner-network": (
        _network(),
        wall("own", HOME, network_policy()),
        wall(
            "own",
            HOME,
            network_policy(opened=["10.20.0.0/24", "169.254.170.23/32"], private_ports=[443, 6443], builders=["builders"]),
        ),
        changed(_network(ingress=[{}]), "metadata", "namespace", TEAM),
    ),
    "runner-quota": (
        thing("v1", "ResourceQuota", {"hard": {"pods": "4", "requests.nvidia.com/gpu": "4"}}, "more", HOME),
        thing("v1", "ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "99"}}, "more", TEAM),
    ),
    "runner-rights": (_binding("view"), _binding("edit", TEAM), _binding("own", kind="Role")),
    "priority": (_class(1_000_000), _class(-5)),
}


def token(what: Object) -> str:
    """The type of an object as the policies have it."""
    api = what["apiVersion"]
    return f"kubernetes:{api if '/' in api else f'core/{api}'}:{what['kind']}"


def broken(what: Object) -> set[str]:
    """The rules that an object breaks, as the policies judge it."""
    return {rule.id for rule in RULES if list(refused((rule,), token(what), what, NUMBERS, Later()))}


def pods_of_suites() -> tuple[Object, ...]:
    """The pods of suites and evasions, of every kind that has some, each once and in a namespace that the rules judge."""
    found: dict[str, Object] = {}
    for kind, props in (*_of_suites(), *_of_evasions()):
        for one in pod_specs(kind, props, Later()):
            if isinstance(one.spec, dict) and isinstance(one.spec.get("containers"), list):
                made = pod({"restartPolicy": "Always", **_whole(one.spec)}, dict(one.annotations or {}))
                found.setdefault(json.dumps(made, sort_keys=True, default=str), made)
    return tuple(found.values())


def _of_suites() -> Iterator[tuple[str, Object]]:
    for policy in POLICIES:
        suite = suite_of(policy)
        for case in (*suite.passing, *suite.violating):
            members = [case] if isinstance(case, Case) else case.members if isinstance(case, StackCase) else []
            yield from ((member.token, dict(member.props)) for member in members)


def _of_evasions() -> Iterator[tuple[str, Object]]:
    for evasion in (*EVASIONS, *KINDS):
        yield from ((token(one), one) for one in (() if isinstance(evasion.objects, str) else evasion.objects))


def _whole(body: Object) -> Object:
    """A spec with the names and images that any container has, and a limit behind each request of GPUs."""
    made = dict(body)
    for field in ("initContainers", "containers"):
        given = made.get(field)
        if isinstance(given, list) and all(isinstance(one, dict) for one in given):
            made[field] = [{"image": "a:1", **one, "name": f"{field[:4].lower()}-{at}"} for at, one in enumerate(given)]
    return made


assert TEAM not in SYSTEM
