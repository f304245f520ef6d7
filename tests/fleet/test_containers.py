"""Templates that the API server would refuse, so that no runner of the class starts: each is one error of the settings."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from tests.builders import cluster, config, pool, runner, runner_of
from tests.cases import cases
from tests.charts import runner_set
from tests.fleet.values import pod_of

SIZES = {"cpu": "500m", "memory": "1Gi"}
BESIDE = {"name": "cache", "image": "registry.example.com/cache:1", "resources": {"requests": SIZES, "limits": SIZES}}


def beside(**fields: Any) -> dict[str, Any]:
    return {"containers": [BESIDE | fields]}


def secured(**fields: Any) -> dict[str, Any]:
    return beside(securityContext=fields)


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


def class_with(template: dict[str, Any], **more: Any) -> None:
    load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(template=template, **more)})}))


@cases(
    ("template", "message"),
    [
        (secured(runAsUser=0), "securityContext.runAsUser: the namespace admits no pod with root"),
        (secured(runAsNonRoot=False), "securityContext.runAsNonRoot"),
        (secured(privileged=True), "securityContext.privileged"),
        (secured(allowPrivilegeEscalation=True), "securityContext.allowPrivilegeEscalation"),
        (secured(capabilities={"add": ["SYS_ADMIN"]}), "securityContext.capabilities.add"),
        (secured(capabilities={"drop": ["NET_RAW"]}), "admits no pod without ALL"),
        (secured(seccompProfile={"type": "Unconfined"}), "securityContext.seccompProfile.type"),
        (secured(procMount="Unmasked"), "securityContext.procMount is not a field"),
        (beside(ports=[{"containerPort": 80, "hostPort": 80}]), "ports.0.hostPort is not a field"),
        (beside(livenessProbe={"tcpSocket": {"port": 80, "host": "10.0.0.1"}}), "livenessProbe.tcpSocket.host is not a field"),
        (volume(hostPath={"path": "/var"}), "the namespace admits no volume hostPath"),
        (volume(nfs={"server": "a", "path": "/"}), "the namespace admits no volume nfs"),
    ],
)
def test_the_standard_restricted(template: dict[str, Any], message: str) -> None:
    refused(template, message)


@cases(
    ("template", "message"),
    [
        (beside(resources={"requests": SIZES | {"cpu": 2}, "limits": SIZES}), "resources.requests.cpu is above its limit"),
        (beside(volumeMounts=[{"name": "nowhere", "mountPath": "/data"}]), "mounts a volume that the pod lacks"),
        (beside(volumeMounts=[{"name": "shm", "mountPath": "/a"}] * 2), "volumeMounts has a mountPath twice"),
        ({"volumes": [{"name": "data", "emptyDir": {}}] * 2}, "two volumes have the same name"),
        (beside(name="My_Cache"), "name: a name here has lower-case letters"),
        ({"volumes": [{"name": "Data", "emptyDir": {}}]}, "name: a name here has lower-case letters"),
        (beside(securityContext="x"), "securityContext: an object of fields belongs here; correct it"),
        (beside(env="x"), "env: input should be a valid list"),
        (beside(env=[{"name": "A", "value": 1}]), "env.0.value: input should be a valid string"),
        (beside(env=[{"name": "A", "value": "1", "valueFrom": {}}]), "has not one of value and a source"),
        (beside(ports=5), "ports: input should be a valid list"),
        (beside(ports=[{"containerPort": 99999}]), "ports.0.containerPort"),
        (beside(command="sh -c"), "command: input should be a valid list"),
        (beside(resources=5), "resources: "),
        (beside(stdin=True), "stdin is not a field"),
        (beside(restartPolicy="Always"), "only init containers have a restartPolicy"),
        ({"initContainers": [BESIDE | {"livenessProbe": {"exec": {"command": ["a"]}}}]}, "add restartPolicy: Always"),
        (volume(emptyDir={"sizeLimit": "much"}), "emptyDir.sizeLimit is not a quantity"),
        (volume(persistentVolumeClaim={}), "needs claimName"),
        ({"hostAliases": [{"hostnames": ["a"]}]}, "ip: field required"),
        ({"hostAliases": [{"ip": "10.0.0.1"}]}, "hostnames: field required"),
        ({"hostAliases": [{"ip": "mirror", "hostnames": ["a"]}]}, "ip: not an IP address"),
        ({"dnsPolicy": "None"}, "None needs a resolver"),
        ({"dnsPolicy": "Default"}, "the node's resolver is at a private address"),
        ({"dnsConfig": {"nameservers": ["a"]}}, "nameservers.0: not an IP address"),
        ({"dnsConfig": {"options": [{"name": "ndots", "value": 1}]}}, "options.0.value: input should be a valid string"),
    ],
)
def test_fields_as_kubernetes_has_them(template: dict[str, Any], message: str) -> None:
    refused(template, message)


@cases("name", ["NVIDIA_VISIBLE_DEVICES", "RUNNER_X", "GPU_CI_X"])
def test_a_sidecar_cannot_name_the_gpus_of_the_node(name: str) -> None:
    refused(beside(env=[{"name": name, "value": "all"}]), "sets variables that begin with NVIDIA_")


def refused(template: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        class_with(template)
    (problem,) = caught.value.problems
    assert message in problem.message


def test_under_mps_there_is_no_shm_to_mount() -> None:
    template = beside(volumeMounts=[{"name": "shm", "mountPath": "/a"}])
    class_with(template)
    pools = {"t4": pool(sharing={"strategy": "mps", "replicas": 2})}
    with pytest.raises(FleetError, match="so the runner has no volume shm"):
        load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": runner(template=template)})}))


def test_what_the_api_server_takes_is_taken() -> None:
    full = BESIDE | {
        "restartPolicy": "Always",
        "args": ["--save", ""],
        "env": [
            {"name": "LEVEL", "value": "1"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "conf"}}],
        "ports": [{"containerPort": 6379, "name": "redis"}],
        "startupProbe": {"httpGet": {"path": "/", "port": "redis"}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "securityContext": {"runAsUser": 999, "readOnlyRootFilesystem": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a mount point
            {"name": "models", "mountPath": "/models", "readOnly": True},
        ],
    }
    template = volume(emptyDir={"sizeLimit": "1Gi"}) | {
        "initContainers": [full],
        "hostAliases": [{"ip": "fd00::1", "hostnames": ["mirror.example.com"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.com"], "options": [{"name": "edns0"}]},
    }
    volumes = {"models": {"path": "/models", "claim": "models"}}
    class_with(template, volumes=volumes)
    chart = runner_set("gpu-t4", runner_of(template=template, volumes=volumes), "https://github.com/example", "gpu")
    kubernetes_validate.validate(pod_of(chart), "1.34", strict=True)
