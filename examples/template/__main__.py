"""GPU runners on a Kubernetes cluster: NVIDIA's device plugin, and a runner scale set whose name is a job's `runs-on`."""

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_ci.components.kubernetes import ArcRunnerSet, DevicePluginStack

config = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
on_cluster = pulumi.ResourceOptions(providers=[cluster])
nodes = {"node.kubernetes.io/instance-type": config.require("instanceType")}

# Remove it if your cluster has NVIDIA's device plugin or GPU operator already.
DevicePluginStack("gpu", {"node_selector": nodes}, on_cluster)
runners = ArcRunnerSet(
    "gpu",
    {
        "github_url": config.require("githubUrl"),
        "github_app": {"app_id": config.require("appId"), "installation_id": config.require("installationId")},
        "github_private_key": config.require_secret("githubPrivateKey"),
        "runner_group": config.require("runnerGroup"),
        "max_runners": config.require_int("maxRunners"),
        "cpu": {"request": "3", "limit": "3"},
        "memory": {"request": "12Gi", "limit": "12Gi"},
        "node_selector": nodes,
    },
    on_cluster,
)

pulumi.export("runsOn", runners.runs_on)
