"""NVIDIA's device plugin on a cluster that exists already. Its GPU nodes have the driver and the container toolkit."""

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_ci.components.kubernetes import DevicePluginStack

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
plugin = DevicePluginStack(
    "gpu",
    {
        # Nodes with the label nvidia.com/device-plugin.config=time-slicing-4 offer each GPU four times.
        "access": [{"sharing": {"strategy": "time-slicing", "replicas": 4}}]
    },
    pulumi.ResourceOptions(providers=[cluster]),
)

pulumi.export("namespace", plugin.namespace_name)
pulumi.export("configNames", plugin.config_names)
