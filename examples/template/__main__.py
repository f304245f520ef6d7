"""GPU runners on a Kubernetes cluster: NVIDIA's device plugin, and a runner scale set whose name is a job's `runs-on`."""

import gpu_ci_gpu_ci as gpu_ci
import pulumi
import pulumi_kubernetes as kubernetes

config = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
on_cluster = pulumi.ResourceOptions(providers=[cluster])

# Remove it if your cluster has a device plugin already.
gpu_ci.DevicePluginStack("gpu", opts=on_cluster)
runners = gpu_ci.ArcRunnerSet(
    "gpu",
    github_url=config.require("githubUrl"),
    github_app={"app_id": config.require("appId"), "installation_id": config.require("installationId")},
    github_private_key=config.require_secret("githubPrivateKey"),
    runner_group=config.require("runnerGroup"),
    max_runners=config.require_int("maxRunners"),
    cpu={"request": "3", "limit": "3"},
    memory={"request": "12Gi", "limit": "12Gi"},
    node_selector={"nvidia.com/gpu.product": config.require("gpuProduct")},
    opts=on_cluster,
)

pulumi.export("runsOn", runners.runs_on)
