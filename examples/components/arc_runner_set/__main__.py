"""A scale set of GPU runners on a cluster that exists already. The cluster has ARC's controller and the device plugin."""

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_ci.components.kubernetes import ArcRunnerSet

config = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
runners = ArcRunnerSet(
    "gpu-l4",
    {
        "github_url": "https://github.com/example",
        "github_app": {"app_id": "123456", "installation_id": "456789"},
        "github_private_key": config.require_secret("githubPrivateKey"),
        "runner_group": "GPUs",
        "max_runners": 4,
        "cpu": {"request": "3", "limit": "3"},
        "memory": {"request": "12Gi", "limit": "12Gi"},
        "node_selector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
    },
    pulumi.ResourceOptions(providers=[cluster]),
)

pulumi.export("runsOn", runners.runs_on)
