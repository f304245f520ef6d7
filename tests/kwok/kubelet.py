"""What a node's kubelet and its monitoring agent report. The simulation writes it as annotations, and the kubelet as status."""

from __future__ import annotations

from typing import Any

from fleet.render.sweeps.api import Object

GPUS, READY, ERROR, BOOT = "sim/gpus", "sim/ready", "sim/error", "sim/boot"
"""Annotations: the GPUs that the node offers, whether its kubelet answers, the reason of its GPU error, the id of its boot."""
PENDING = "sim/pending"
"""Label of nodes whose status is older than their annotations."""


def status_of(node: Object) -> dict[str, Any]:
    """The status that belongs to a node's annotations."""
    said = node["metadata"]["annotations"]
    error = said[ERROR]
    return {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "58", "nvidia.com/gpu": said[GPUS]},
        "conditions": [
            {"type": "Ready", "status": said[READY], "reason": "Simulated"},
            {"type": "AcceleratedHardwareReady", "status": "False" if error else "True", "reason": error or "Fine"},
        ],
        "nodeInfo": {"bootID": said[BOOT]},
    }


STAGE = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "kubelet"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {"matchLabels": {PENDING: "yes"}},
        "next": {
            "statusTemplate": f"""
{{{{ $said := .metadata.annotations }}}}
allocatable: {{cpu: "8", memory: 32Gi, pods: "58", nvidia.com/gpu: {{{{ index $said "{GPUS}" | quote }}}}}}
conditions:
- {{type: Ready, status: {{{{ index $said "{READY}" | quote }}}}, reason: Simulated}}
- type: AcceleratedHardwareReady
  status: {{{{ if index $said "{ERROR}" }}}}"False"{{{{ else }}}}"True"{{{{ end }}}}
  reason: {{{{ or (index $said "{ERROR}") "Fine" | quote }}}}
nodeInfo: {{bootID: {{{{ index $said "{BOOT}" | quote }}}}}}
"""
        },
    },
}
"""The same as a stage of kwok 0.8.0, for nodes that are pending."""
