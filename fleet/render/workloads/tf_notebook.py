"""TensorFlow in a Jupyter notebook (seed 003)."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.manifest import Manifest
from fleet.facts.pods import Mount, claimed
from fleet.facts.scheduling import MEDIUM_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import NotebookWorkload

PORT = 8888
_FOLDER = "/work"
TOKEN_KEY = "token"  # noqa: S105 - a key of a Kubernetes Secret, not a secret


def tf_notebook(meta: parts.Meta, workload: NotebookWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Deployment and its Service, port 80 to 8888. Anyone who can open a notebook can run code, so a Secret holds its token."""
    container = parts.gpu_container(
        workload,
        target,
        # Jupyter keeps its own files in the home, and `pip install --user` installs packages there.
        {"HOME": _FOLDER, "USER": "notebook"},
        # The same as the image's own command, which runs as root. It serves the folder that it starts in.
        command=["jupyter", "notebook", "--ip=0.0.0.0", f"--port={PORT}", "--no-browser"],
        workingDir=_FOLDER,
        # This path needs no token: it returns only the version.
        **parts.serves(PORT, "/api", startup_seconds=300),
    )
    secret = {"secretKeyRef": {"name": workload.token_secret, "key": TOKEN_KEY}}
    container["env"].append({"name": "JUPYTER_TOKEN", "valueFrom": secret})
    claim = workload.claim(meta.name)
    folder = claimed("work", _FOLDER, claim) if workload.storage else Mount("work", _FOLDER, {"emptyDir": {"sizeLimit": "10Gi"}})
    pod = parts.gpu_pod(target, container, [folder, *parts.shared_memory(workload, target)], MEDIUM_PRIORITY)
    return (
        *((parts.claim(meta, workload.KEPT, workload.storage),) if workload.storage else ()),
        _service(meta, workload),
        *_allowed(meta, workload),
        parts.deployment(meta, pod),
    )


def _service(meta: parts.Meta, workload: NotebookWorkload) -> Manifest:
    service = parts.service(meta, 80)
    if workload.node_port is not None:
        # With Local the pod sees the client's own address, which the network policy checks.
        service["spec"] |= {"type": "NodePort", "externalTrafficPolicy": "Local"}
        service["spec"]["ports"][0]["nodePort"] = workload.node_port.port
    return service


def _allowed(meta: parts.Meta, workload: NotebookWorkload) -> Iterator[Manifest]:
    """The NetworkPolicy that allows clients of a node port. Without it a workload's namespace accepts no connection."""
    if workload.node_port is not None:
        clients = [{"ipBlock": {"cidr": cidr}} for cidr in workload.node_port.cidrs]
        spec = {
            "podSelector": {"matchLabels": meta.labels},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": clients, "ports": [{"protocol": "TCP", "port": PORT}]}],
        }
        yield meta.object("networking.k8s.io/v1", "NetworkPolicy", spec, "-node-port")
