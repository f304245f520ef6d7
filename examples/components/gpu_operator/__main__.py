"""NVIDIA's GPU operator on a cluster that exists already. It installs driver and toolkit, because the node images have none."""

import gpu_ci_gpu_ci as gpu_ci
import pulumi
import pulumi_kubernetes as kubernetes

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
operator = gpu_ci.GpuOperator(
    "gpu",
    install_driver=True,
    install_toolkit=True,
    containerd={"config": "/etc/containerd/config.toml", "socket": "/run/containerd/containerd.sock"},
    mig_strategy="single",
    opts=pulumi.ResourceOptions(providers=[cluster]),
)

pulumi.export("namespace", operator.namespace_name)
