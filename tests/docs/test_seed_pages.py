"""The pages explain what the seeds explain: each part of a page that `docs/seeds.md` names has these words."""

from __future__ import annotations

import pytest

from tests.docs.markdown import ROOT, section

TROUBLE, OPERATE, OCI = "docs/troubleshooting.md", "docs/operate.md", "docs/oci-runners.md"

PARTS: dict[str, tuple[str, ...]] = {
    "docs/monitoring.md#one-exporter-and-one-engine-per-gpu-node": ("dcgm-counters.csv", "every 15 s"),
    "docs/ami.md#build": ("start-image-pipeline-execution", "built: {id: ami-"),
    "docs/monitoring.md#labels": ("kubernetes_node", "scale_set"),
    "docs/monitoring.md#cloudwatch": (
        "amazon-cloudwatch-observability",
        "CloudWatchAgentServerPolicy",
        "the DCGM exporter that the",
    ),
    "docs/costs.md#the-sums": ("Jobs + start + idle = nodes", "Nodes + shared = the bill"),
    "docs/troubleshooting.md#gpucigpuidle": ("idleFor", "runner without GPU"),
    # Seed 000
    "docs/getting-started.md": ("pulumi login", "pulumi stack init", "make plan STACK=acme"),
    f"{OPERATE}#build-and-change": ("make plan STACK=staging", "pulumi preview -s staging", "pulumi up -s staging"),
    f"{OPERATE}#verify": (
        "kubectl get nodes -L gpu-ci/pool",
        "kubectl get nodes -l nvidia.com/gpu=true",
        "get daemonset/nvidia-device-plugin",
        "get pods -l app.kubernetes.io/name=nvidia-device-plugin",
        "logs -l app.kubernetes.io/name=nvidia-device-plugin",
        "GPUS:.status.allocatable",
    ),
    "docs/operate-prod.md#verify-the-gpu-operator": ("get pods -l app=nvidia-dcgm-exporter",),
    f"{OPERATE}#smoke-tests": ("nvidia-smi", "PyTorch", "deviceQuery", "make smoke STACK=staging CONTEXT="),
    f"{OPERATE}#watch": ("nvidia-smi dmon -s u -c 1", "grep -i -E 'cuda|nvidia'"),
    f"{OPERATE}#reading": (
        "https://github.com/NVIDIA/k8s-device-plugin",
        "ml-eks-optimized-ami.html",
        "https://docs.nvidia.com/deploy/cuda-compatibility/",
        "https://pytorch.org/get-started/locally/",
        "https://aws.amazon.com/ec2/instance-types/#Accelerated_Computing",
    ),
    f"{TROUBLE}#device-plugin-not-running": (
        "describe daemonset/nvidia-device-plugin",
        "get events --sort-by=.lastTimestamp",
        "no GPU node",
        "`nvidia.com/gpu.present` missing",
        "/var/lib/kubelet/device-plugins",
        "kubectl label node",
        "rollout restart daemonset/nvidia-device-plugin",
    ),
    f"{TROUBLE}#a-runner-sees-no-gpu": (
        "nvidia-smi: command not found",
        "No CUDA GPUs are available",
        "{.spec.tolerations}",
        "-o wide",
    ),
    f"{TROUBLE}#cuda-and-driver-do-not-match": ("CUDA driver version is insufficient", "nvcc --version", "driver_version"),
    f"{TROUBLE}#out-of-memory": (
        "CUDA out of memory",
        "--query-gpu=memory.used",
        "A10G 24 GB (g5)",
        "A100 40 GB (p4d)",
        "one job",
    ),
    "docs/ci-workloads.md#call-one": ("/.github/workflows/test-gpu.yml@COMMIT", "`require-nvcc`"),
    "docs/ci-workloads.md#the-actions": ("`ccache -z`", "`--max-size`", "10G", "`ccache -s`", "CC: ", "CXX: "),
    "docs/talos.md#kubelet-certificates": ("--kubelet-insecure-tls", "EKS' add-on", "`KubernetesMetricsServer`"),
    "docs/runner-image.md#what-is-in-it": ("numpy", "pyyaml", "`requirements.txt`"),
    "docs/runner-image.md#build-and-test": ("make image CUDA=12.1", "make image-test", "cache mounts"),
    "docs/runner-image.md#push-and-use": ("make image-push STACK=staging", "@sha256:"),
    # Seed 001
    "docs/storage.md#local-nvme": ("NVMe", "`nodeConfig`", "RAID0", "`localStorage`", "scratch"),
    "docs/jobs.md": ("detect_ml_workload", "receive"),
    "docs/jobs.md#a-job-on-a-v100": ("create_gpu_job(", "ml_task_123", 'gpu_type="v100"', "accelerator: nvidia-tesla-v100"),
    f"{TROUBLE}#a-job-waits": ("no capacity or no quota", "max node group size reached", "Insufficient nvidia.com/gpu"),
    "docs/decisions/0006-runners-and-queues.md": ("Kueue", "Runners enter no queue"),
    # Seed 002
    f"{OCI}#how-a-job-gets-its-machine": ("just-in-time", "runs one job", "terminates the machine"),
    f"{OCI}#why-1178-1-and-which-nvkind": ("1.17.8-1", "NVIDIA/nvkind#61", "NVIDIA/nvkind#57", "runtimeClassName: nvidia"),
    f"{OCI}#seed-002s-machine-and-ours": (
        "`main.tf`",
        "`terraform.tfvars`",
        "`bootstrap.sh`",
        "port 22 from 0.0.0.0/0",
        "driver 535",
    ),
    f"{OCI}#use-one-in-a-workflow": ("oracle-vm-gpu-a10-1", "group: GPUs", "oracle-vm-16cpu-a10gpu-240gb"),
    f"{OCI}#whose-launcher": ("`launcher: cncf`", "`launcher: gpu-ci`"),
    "docs/cdi.md#nvkind": ("umount: /proc/driver/nvidia: not mounted", "nvkind#20", "nvkind#57"),
    "docs/cdi.md#when-it-is-safe": ("containerd 1.7", "hostUsers: false"),
    f"{TROUBLE}#a-kind-cluster-with-gpus-fails": (
        "Failed to create Kind cluster with GPU support",
        "nvidia-container-runtime not found",
    ),
    "docs/ci-workloads.md#ci-workloads": ("gpu-ddp.yml", "DistributedDataParallel"),
    "docs/ci-workloads.md#kubeflow-gpu-cluster": ("driver.enabled=false", "runtimeClassName: nvidia", "runtime-class.jq"),
    "docs/ci-workloads.md#the-blueprints": ("train[:1000]", "128G", "CudaDevice"),
    "docs/decisions/0001-arc-runner-scale-sets.md#decision": ("ephemeral", "one job, one pod"),
    "docs/decisions/0004-machines-take-their-registration-from-arc.md#decision": ("launcher", "terminat"),
    "fleet/facts/data/README.md": ("VM.GPU.A10.1", "8358", "7J13"),
    # Seed 003
    "docs/layers.md#host": ("kernel", "libcuda"),
    "docs/layers.md#what-each-image-includes": ("`passthrough`", "`vgpu-guest`"),
    "docs/layers.md#container": ("NVIDIA_VISIBLE_DEVICES", "never a driver"),
    "docs/layers.md#vm": ("passthrough", "vGPU", "licence"),
    "docs/layers.md#kubernetes": ("device plugin",),
    "docs/layers.md#the-licence-secret-of-a-vgpu-guest": ("gridd.conf", "client_configuration_token.tok"),
    "docs/layers.md#toolkitenv-what-the-toolkit-still-honours": ("CONTAINERD_RUNTIME_CLASS", "NVIDIA_RUNTIME_SET_AS_DEFAULT"),
    "docs/operate-prod.md#secrets": ("vgpu-license", "gridd.conf"),
    f"{TROUBLE}#a-negative-numa-node": ("had negative value (-1)",),
    # Seed 004
    "docs/homelab.md": ("Threadripper", "64 PCIe lanes", "water"),
    "docs/homelab.md#allocation": ("kubectl describe node", "nvidia.com/gpu.shared", "custom-columns"),
    "docs/homelab.md#change-something": ("make render STACK=homelab OUT=homelab", "git push", "kubectl edit"),
    "docs/gitops.md#the-tree": (
        "infrastructure/controllers/<component>/",
        "infrastructure/gpu/",
        "applicationset.yaml",
        "talos/",
    ),
    "docs/gitops.md#drift": ("CHECK=1", "{.status.sync.status}'=Synced", "argocd app diff"),
    ".github/workflows/pull-request.yml": ("make render STACK=homelab OUT=homelab CHECK=1",),
    "docs/sharing.md#keys": ("`replicas`", "`rename`", "`allowSeveral`"),
    "docs/talos.md": ("no shell", "talosctl"),
    "docs/talos.md#releases": ("CRICustomizationConfig",),
    "docs/talos.md#when-a-gpu-is-missing": ("get extensions", "get modules", "/proc/driver/nvidia/version"),
    f"{TROUBLE}#an-operators-part-is-missing": ("get clusterpolicies", "plugin-validation"),
    f"{TROUBLE}#an-application-is-not-synced-or-not-healthy": ("OutOfSync", "ComparisonError"),
    "docs/workloads.md": ("/root/.ollama", "ClusterIP", "30001", "/dev/bus/usb", "two slices"),
}


@pytest.mark.parametrize(("part", "words"), PARTS.items(), ids=PARTS)
def test_a_part_of_a_page_explains_what_the_seed_does(part, words):
    path, _, anchor = part.partition("#")
    text = section(ROOT / path, anchor) if anchor else (ROOT / path).read_text()
    assert [word for word in words if word not in text] == []
