"""The hands on a real control plane: a program has the rights of its own ServiceAccount, and kwok leaves its pod alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from fleet.render.sweeps.api import Object
from gpu_ci.world.hands import PYTHON, Hands, Program
from gpu_ci.world.parts import find
from gpu_ci.world.plane import FAKE_NODE, Followed, Plane, control_plane, gone
from gpu_ci.world.processes import Processes
from tests.world.kubelet import IMAGE, need_namespaces, wait

pytestmark = pytest.mark.world

PODS = "/api/v1/namespaces/default/pods"
PROGRAM = """
import json, os, ssl, time, urllib.request, urllib.error
account = "/var/run/secrets/kubernetes.io/serviceaccount"
token = open(f"{account}/token").read()
where = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}/api/v1/namespaces/"
where += open(f"{account}/namespace").read()
trust = ssl.create_default_context(cafile=f"{account}/ca.crt")
for kind in ("configmaps/program", "secrets"):
    request = urllib.request.Request(f"{where}/{kind}", headers={"Authorization": f"Bearer {token}"})
    try:
        print(kind, urllib.request.urlopen(request, context=trust).status)
    except urllib.error.HTTPError as error:
        print(kind, error.code)
print(os.environ["LOGIN"], "is up")
time.sleep(600)
"""
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader", "namespace": "default"}}
METADATA = {"name": "reader", "namespace": "default"}
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "20"}
OBJECTS: list[Object] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "system", "annotations": {FAKE_NODE: "fake"}}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": METADATA},
    {**ROLE, "kind": "Role", "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]},
    {
        **ROLE,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA | {"name": "program"}, "data": {"main.py": PROGRAM}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": METADATA | {"name": "login"}, "stringData": {"key": "the login"}},
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": METADATA,
        "spec": {
            "serviceAccountName": "reader",
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["python3", "-u", "main.py"],
                    "workingDir": "/program",
                    "env": [{"name": "LOGIN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "key"}}}],
                    "volumeMounts": [{"name": "program", "mountPath": "/program"}],
                }
            ],
            "volumes": [{"name": "program", "configMap": {"name": "program"}}],
        },
    },
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Plane, Hands]]:
    parts = find()
    needed = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    if missing := [name for name in needed if name not in parts]:
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    need_namespaces(tmp_path)
    stop = Event()
    with Processes(tmp_path) as processes:
        plane = control_plane(processes, parts)
        hands = Hands(plane, Followed(plane.api, "/api/v1/pods", stop), [Program(PYTHON, "docker.io/library/python")])
        yield plane, hands
        hands.close()
        stop.set()


def test_a_program_has_its_own_rights_and_its_pod_goes_after_it(world: tuple[Plane, Hands]) -> None:
    plane, _ = world
    for manifest in OBJECTS:
        plane.apply(manifest)
    status: Object = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
    plane.api.call("PATCH", "/api/v1/nodes/system/status", status, "application/merge-patch+json")
    log = plane.processes.log("default.reader.main")
    wait(lambda: log.exists() and "is up" in log.read_text())
    assert log.read_text() == "configmaps/program 200\nsecrets 403\nthe login is up\n"
    first = wait(lambda: _rest(plane))
    assert first["status"]["phase"] == "Running"
    assert first["status"]["conditions"], "kwok's conditions stay"
    plane.api.call("DELETE", f"{PODS}/reader")
    wait(lambda: gone(plane.api, f"{PODS}/reader"))
    assert not plane.processes.alive("default.reader.main"), "kwok must not remove the pod before its process has ended"


def _rest(plane: Plane) -> Object | None:
    """The pod, once several passes have written nothing: the API server keeps each field of the status as it was sent."""
    before = plane.api.call("GET", f"{PODS}/reader")
    time.sleep(1)
    after = plane.api.call("GET", f"{PODS}/reader")
    return after if before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"] else None
