"""NVIDIA's GPU operator on a cluster that exists already. It installs driver and toolkit, because the node images have none."""

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_ci.components.kubernetes import GpuOperator

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
operator = GpuOperator(
    "gpu",
    {
        "install_driver": True,
        "install_toolkit": True,
        "containerd": {"config": "/etc/containerd/config.toml", "socket": "/run/containerd/containerd.sock"},
        "mig_strategy": "single",
    },
    pulumi.ResourceOptions(providers=[cluster]),
)

pulumi.export("namespace", operator.namespace_name)
