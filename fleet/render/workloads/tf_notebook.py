"""TensorFlow in a Jupyter notebook (seed 003)."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.scheduling import MEDIUM_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, NotebookWorkload

IMAGE = WORKLOAD_IMAGES["tf-notebook"]
PORT = 8888
_FOLDER = "/work"
TOKEN_KEY = "token"  # noqa: S105 - a key of a Kubernetes Secret, not a secret


def tf_notebook(meta: parts.Meta, workload: NotebookWorkload, target: Target) -> tuple[parts.Manifest, ...]:
    """A Deployment and its Service, port 80 to 8888; who opens a notebook runs code, so its token comes from a Secret."""
    container = parts.gpu_container(
        workload,
        target,
        "tf-notebook",
        IMAGE.reference,
        # Jupyter keeps its own files, and pip what is installed with --user, in the home.
        {"HOME": _FOLDER, "USER": "notebook"},
        # The image's own command is the same, for root. It serves the folder that it starts in.
        command=["jupyter", "notebook", "--ip=0.0.0.0", f"--port={PORT}", "--no-browser"],
        workingDir=_FOLDER,
        ports=[{"name": "http", "containerPort": PORT}],
        # Open without a token: it tells the version alone.
        **parts.probes("/api", startup_seconds=300),
    )
    secret = {"secretKeyRef": {"name": workload.token_secret, "key": TOKEN_KEY}}
    container["env"].append({"name": "JUPYTER_TOKEN", "valueFrom": secret})
    folder = (
        parts.claimed("work", _FOLDER, workload.claim(meta.name)) if workload.storage else parts.scratch("work", _FOLDER, "10Gi")
    )
    pod = parts.gpu_pod(target, container, [folder, *parts.shared_memory(workload, target)], MEDIUM_PRIORITY)
    return (
        *((parts.claim(meta, workload.KEPT, workload.storage),) if workload.storage else ()),
        _service(meta, workload),
        *_opened(meta, workload),
        parts.deployment(meta, pod),
    )


def _service(meta: parts.Meta, workload: NotebookWorkload) -> parts.Manifest:
    service = parts.service(meta, 80, "http")
    if workload.node_port is not None:
        # Local keeps the client's own address, by which the network policy knows it.
        service["spec"] |= {"type": "NodePort", "externalTrafficPolicy": "Local"}
        service["spec"]["ports"][0]["nodePort"] = workload.node_port.port
    return service


def _opened(meta: parts.Meta, workload: NotebookWorkload) -> Iterator[parts.Manifest]:
    """What lets clients of a node port in: nothing comes into a workload's namespace by itself."""
    if workload.node_port is not None:
        yield {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": meta.named("-node-port"),
            "spec": {
                "podSelector": {"matchLabels": meta.labels},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "from": [{"ipBlock": {"cidr": cidr}} for cidr in workload.node_port.cidrs],
                        "ports": [{"protocol": "TCP", "port": PORT}],
                    }
                ],
            },
        }
