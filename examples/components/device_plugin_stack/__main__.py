"""NVIDIA's device plugin on a cluster that exists already. Its GPU nodes have the driver and the container toolkit."""

import gpu_ci_gpu_ci as gpu_ci
import pulumi
import pulumi_kubernetes as kubernetes

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
plugin = gpu_ci.DevicePluginStack(
    "gpu",
    # Nodes with the label nvidia.com/device-plugin.config=time-slicing-4 offer each GPU four times.
    access=[{"sharing": {"strategy": "time-slicing", "replicas": 4}}],
    opts=pulumi.ResourceOptions(providers=[cluster]),
)

pulumi.export("namespace", plugin.namespace_name)
pulumi.export("configNames", plugin.config_names)
