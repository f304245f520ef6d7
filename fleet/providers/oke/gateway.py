"""The gateway to which OCI machines push metrics: a Prometheus agent for each runner set, and what it lets through.

An agent has no query API: it answers "unavailable with Prometheus Agent" (prometheus/prometheus web/api/v1/api.go). So a job
reads no series of others. The agent does show its own configuration and metrics, and both hold no secret.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fleet.charts.chart import requests
from fleet.charts.dcgm_exporter import counters
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.scheduling import POD_SECURITY_LABEL, SYSTEM_SELECTOR
from fleet.facts.versions import PROMETHEUS_IMAGE
from fleet.providers.oke.push import SET, Gateway

NAMESPACE = NAME = "metrics-gateway"
"""The program owns the namespace, also where Argo CD installs the rest: the Service names ids of the cloud."""
_LABELS = {"app.kubernetes.io/name": NAME}
_NOBODY = 65534
"""User of the image (prometheus/prometheus Dockerfile: `USER nobody`)."""
_BALANCER = "oci-network-load-balancer.oraclecloud.com"
"""Prefix of annotations that OKE reads (oracle/oci-cloud-controller-manager v1.35.0 load_balancer_spec.go)."""

METRICS = tuple(name for name, kind in counters() if kind != "label")
"""Names of the series that a machine may push: those that the exporter collects."""
VALUES = {
    "__name__": "|".join(METRICS),
    "instance": "[A-Za-z0-9-]{1,63}",
    "gpu": "[0-9]{1,2}",
    "xid": "[0-9]{0,3}",
    "err_code": "[0-9]{0,3}",
    "clock_event": "[a-z_]{0,24}",
    "health_watch": "[A-Za-z_]{0,32}",
    "health_error_code": "[A-Za-z0-9_]{0,64}",
    "GPU_I_ID": "[0-9]{0,2}",
    "GPU_I_PROFILE": "[0-9a-z.+]{0,12}",
}
"""What a machine may say in each label. All other labels are dropped, so a job invents no series but with names of machines."""


def agent_config(set_name: str, cluster: str, target: str) -> dict[str, Any]:
    """The configuration of the agent of one set. `cluster` is the physical name of the cluster, `target` Prometheus' URL.

    The label `kubernetes_node` is `<set>/<machine>`. No node has a slash in its name, so no machine passes for a node.
    """
    accepted = ";".join(f"({values})" for values in VALUES.values())
    written = {"cluster": cluster, "runner_class": set_name, "job": NAME}
    relabel = [
        {"action": "keep", "source_labels": list(VALUES), "regex": accepted},
        {"action": "labelkeep", "regex": "|".join(VALUES)},
        {"source_labels": ["instance"], "regex": "(.+)", "target_label": "kubernetes_node", "replacement": f"{set_name}/$1"},
        *({"target_label": label, "replacement": value} for label, value in written.items()),
    ]
    # One request at a time: Prometheus gets no more than one agent sends, however many machines push.
    queue = {"max_shards": 1}
    return {"remote_write": [{"url": target, "queue_config": queue, "write_relabel_configs": relabel}]}


def _container(set_name: str, port: int) -> dict[str, Any]:
    """The agent of one set. A set that pushes too much has its own agent killed, and no other."""
    return {
        "name": set_name,
        "image": PROMETHEUS_IMAGE,
        "args": [
            "--agent",
            f"--config.file=/etc/gateway/{set_name}.json",
            f"--storage.agent.path=/data/{set_name}",
            "--web.enable-remote-write-receiver",
            f"--web.listen-address=:{port}",
            "--web.max-connections=64",
            "--web.read-timeout=30s",
        ],
        "ports": [{"containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": port}},
        # The limits bound how much a job can push.
        "resources": requests(SET) | {"limits": {"cpu": "250m", "memory": "256Mi"}},
        "securityContext": CONFINED | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/gateway", "readOnly": True},
            {"name": "data", "mountPath": "/data"},
        ],
    }


def gateway_objects(gateway: Gateway, cluster: str) -> dict[str, Manifest]:
    """The objects of a gateway by role. `cluster` is the cluster's physical name.

    The Service lacks its annotations: they have ids that the cloud assigns.
    """
    configs = {
        f"{name}.json": json.dumps(agent_config(name, cluster, gateway.target), indent=2, sort_keys=True)
        for name in gateway.ports
    }
    # An agent reads its file only when it starts.
    changed = hashlib.sha256("".join(configs.values()).encode()).hexdigest()[:10]
    pod = {
        "automountServiceAccountToken": False,
        "nodeSelector": dict(SYSTEM_SELECTOR),
        "securityContext": CONFINED_POD | {"runAsUser": _NOBODY, "runAsGroup": _NOBODY, "fsGroup": _NOBODY},
        "containers": [_container(name, port) for name, port in gateway.ports.items()],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}, {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
    }
    agents = {
        "replicas": 1,
        # Two agents would write the same samples twice.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS, "annotations": {"gpu-ci/config": changed}}, "spec": pod},
    }
    # The load balancer's packets come from nodes, so the policy names no source.
    admitted = [{"ports": [{"protocol": "TCP", "port": port} for port in gateway.ports.values()]}]
    network = {"podSelector": {"matchLabels": _LABELS}, "policyTypes": ["Ingress"], "ingress": admitted}
    service = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Cluster",
        "selector": _LABELS,
        "ports": [
            {"name": f"set-{port}", "protocol": "TCP", "port": port, "targetPort": port, "nodePort": port}
            for port in gateway.ports.values()
        ],
    }
    return {
        "namespace": manifest("v1", "Namespace", NAMESPACE, labels={POD_SECURITY_LABEL: "restricted"}),
        "config": manifest("v1", "ConfigMap", NAME, NAMESPACE) | {"data": configs},
        "network": manifest("networking.k8s.io/v1", "NetworkPolicy", NAME, NAMESPACE, network),
        "agents": manifest("apps/v1", "Deployment", NAME, NAMESPACE, agents),
        "service": manifest("v1", "Service", NAME, NAMESPACE, service),
    }


def gateway_annotations(gateway: Gateway, subnet_id: str, group_id: str) -> dict[str, str]:
    """Annotations of the Service: a private network load balancer in this subnet and security group, at the gateway's address.

    OKE manages no security list here. With `externalTrafficPolicy: Cluster` the load balancer does not keep the source address,
    so nodes see its own, which is in the security group. OCI takes no money for it (oracle.com, Flexible Network Load Balancer:
    "no-cost"), so the bill has no line.
    """
    return {
        "oci.oraclecloud.com/load-balancer-type": "nlb",
        f"{_BALANCER}/internal": "true",
        f"{_BALANCER}/subnet": subnet_id,
        f"{_BALANCER}/oci-network-security-groups": group_id,
        f"{_BALANCER}/assigned-private-ipv4": gateway.address,
        f"{_BALANCER}/security-list-management-mode": "None",
        f"{_BALANCER}/node-label-selector": ",".join(f"{key}={value}" for key, value in SYSTEM_SELECTOR.items()),
    }
