"""Evasions in manifests of Kubernetes' own kinds, of charts and of CRDs without pods, by the harm that they do."""

from __future__ import annotations

import base64
from typing import Any

import yaml

from tests.builders import ROOT
from tests.policies.evasions.objects import (
    GPU,
    IMAGE,
    Manifest,
    Object,
    application,
    case,
    chart,
    container,
    deployment,
    gpu_spec,
    job,
    on_gpu,
    pod,
    spec,
    thing,
)
from tests.policies.harness import changed
from tests.test_credentials import HEX, PEM, WORD

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
ALL_DEVICES = {"name": VISIBLE, "value": "all"}
PAT = f"ghp_{WORD[:36]}"
OURS = "runners-gpu-t4"
RUNNER_SET = ROOT / "homelab/gpu-ci-homelab-home/infrastructure/runners/gpu-3090"
UNNOTICED, S4, HELD = "what still passes unnoticed", "S4", "what held"
PLUGIN = {"name": "nvidia-device-plugin", "namespace": "nvidia-device-plugin"}
EVERY: Object = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}
"""A NetworkPolicy that lets everything through."""


def volume(source: Object) -> Object:
    """A pod with a volume."""
    return spec(container(volumeMounts=[{"name": "data", "mountPath": "/data"}]), volumes=[{"name": "data"} | source])


def secured(**fields: Any) -> Object:
    """A pod whose container has these fields in its security context."""
    return spec(container(securityContext=container()["securityContext"] | fields))


def namespace(name: str, level: str) -> Object:
    """A namespace with a level of Pod Security."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    return thing("v1", "Namespace", None, name, None) | {"metadata": {"name": name, "labels": labels}}


def secret(data: Object, **fields: Any) -> Object:
    """A Secret with these texts."""
    return thing("v1", "Secret", None, stringData=data, **fields)


def persistent(source: Object) -> tuple[Object, Object, Object]:
    """A volume of the cluster, the claim of it, and a pod with the claim."""
    size, modes = {"storage": "10Gi"}, ["ReadWriteOnce"]
    claim = {"accessModes": modes, "storageClassName": "", "volumeName": "node", "resources": {"requests": size}}
    return (
        thing("v1", "PersistentVolume", {"capacity": size, "accessModes": modes, "storageClassName": ""} | source, "node", None),
        thing("v1", "PersistentVolumeClaim", claim, "node"),
        pod(volume({"persistentVolumeClaim": {"claimName": "node"}})),
    )


def queue(version: str, quota: Any) -> Object:
    """A ClusterQueue of Kueue with so many GPUs."""
    flavor = {"name": "gpu", "resources": [{"name": GPU, "nominalQuota": quota}]}
    groups = [{"coveredResources": [GPU], "flavors": [flavor]}]
    if version.endswith("v1alpha2"):
        groups = [{"name": GPU, "flavors": [{"name": "gpu", "quota": {"min": quota, "max": quota}}]}]
        return thing(version, "ClusterQueue", {"resources": groups, "namespaceSelector": {}}, "research", None)
    return thing(version, "ClusterQueue", {"resourceGroups": groups, "namespaceSelector": {}}, "research", None)


def bound(role: str, subject: Object) -> Object:
    """A ClusterRoleBinding."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return thing("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None, "open", None, roleRef=reference, subjects=[subject])


def karpenter(version: str) -> Object:
    """A pool of Karpenter for the most expensive machines, without a taint and without a limit."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    return thing(
        version, "NodePool", {"template": {"spec": {"nodeClassRef": reference, "requirements": [requirement]}}}, "gpu", None
    )


def runner_set(path: tuple[str, ...], value: Any) -> tuple[Object, ...]:
    """A runner set of our own in Git, whose Application has another value at a path."""
    files = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(RUNNER_SET.glob("*.yaml"))}
    return tuple((files | {"application": changed(files["application"], *path, value)}).values())


UNCOUNTED = (
    case(
        "exporter-by-name",
        "names its container exporter, so that no policy asks it for a GPU limit, and sees every GPU of the node",
        UNNOTICED,
        pod(gpu_spec(container(name="exporter", env=[ALL_DEVICES]), runtimeClassName="nvidia")),
    ),
    case(
        "env-from",
        "reads NVIDIA_VISIBLE_DEVICES from a ConfigMap",
        UNNOTICED,
        thing("v1", "ConfigMap", None, "settings", data={VISIBLE: "all"}),
        pod(spec(container(envFrom=[{"configMapRef": {"name": "settings"}}]))),
    ),
    case(
        "node-name",
        "names a GPU node itself, past the scheduler, and runs an image of CUDA",
        UNNOTICED,
        pod(spec(nodeName="ip-10-0-1-7.us-west-2.compute.internal")),
    ),
    case(
        "device-list-by-mounts",
        "mounts the device list of NVIDIA's runtime: a folder of this name asks for every GPU",
        UNNOTICED,
        pod(
            spec(
                container(volumeMounts=[{"name": "all", "mountPath": "/var/run/nvidia-container-devices/all"}]),
                volumes=[{"name": "all", "emptyDir": {}}],
            )
        ),
    ),
    case(
        "cdi-annotation",
        "asks for every GPU by an annotation of the Container Device Interface",
        UNNOTICED,
        pod(spec(), {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}),
    ),
    case(
        "smarter-devices",
        "takes the device files by the resource name of a plugin for devices of any kind",
        UNNOTICED,
        pod(spec(container(resources=changed(container()["resources"], "limits", "smarter-devices/nvidia0", 1)))),
    ),
    case(
        "own-device-class",
        "claims GPUs by a DeviceClass of its own, whose name has nothing of NVIDIA",
        UNNOTICED,
        thing(
            "resource.k8s.io/v1",
            "DeviceClass",
            {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
            "fast",
            None,
        ),
        thing(
            "resource.k8s.io/v1",
            "ResourceClaimTemplate",
            {"spec": {"devices": {"requests": [{"name": "all", "exactly": {"deviceClassName": "fast", "count": 64}}]}}},
            "fast",
        ),
        pod(
            spec(
                container(resources=container()["resources"] | {"claims": [{"name": "fast"}]}),
                resourceClaims=[{"name": "fast", "resourceClaimTemplateName": "fast"}],
            )
        ),
    ),
    case(
        "autoscaler-of-pods",
        "lets a HorizontalPodAutoscaler raise one pod with a GPU to 500",
        UNNOTICED,
        deployment(gpu_spec()),
        thing(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"},
                "minReplicas": 500,
                "maxReplicas": 1000,
            },
        ),
    ),
    case(
        "scaled-object",
        "lets KEDA raise one pod with a GPU to 1,000",
        UNNOTICED,
        deployment(gpu_spec()),
        thing(
            "keda.sh/v1alpha1",
            "ScaledObject",
            {
                "scaleTargetRef": {"name": "train"},
                "minReplicaCount": 1000,
                "maxReplicaCount": 1000,
                "triggers": [{"type": "cron", "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 20 * * *"}}],
            },
        ),
    ),
    case(
        "many-deployments",
        "asks for 100 GPUs in 100 Deployments of one each",
        UNNOTICED,
        *(deployment(gpu_spec(), name=f"train-{number}") for number in range(100)),
    ),
    case(
        "chart-with-replicas",
        "asks for 400 GPUs by the values of a chart: 50 replicas of 8",
        UNNOTICED,
        chart("train", {"replicaCount": 50, "resources": {"limits": {GPU: 8}}}),
    ),
    case(
        "chart-with-its-own-word",
        "asks for 64 GPUs by a value that only this chart knows",
        UNNOTICED,
        chart("vllm-stack", {"servingEngineSpec": {"modelSpec": [{"name": "big", "replicaCount": 8, "requestGPU": 64}]}}),
    ),
    case(
        "queue-quota",
        "gives a queue of Kueue 500 GPUs",
        UNNOTICED,
        queue("kueue.x-k8s.io/v1beta2", 500),
    ),
    case(
        "queue-quota-of-an-old-version",
        "gives a queue of Kueue 500 GPUs in an API version that no policy reads",
        UNNOTICED,
        queue("kueue.x-k8s.io/v1alpha2", 500),
    ),
    case(
        "cohort-quota",
        "gives a cohort of queues 500 GPUs in an API version that no policy reads",
        UNNOTICED,
        changed(queue("kueue.x-k8s.io/v1alpha1", 500), "kind", "Cohort"),
    ),
    case(
        "resources-of-the-pod",
        "writes the GPU limit for the whole pod and none for a container",
        UNNOTICED,
        pod(gpu_spec(container(), resources={"limits": {GPU: 8}}, tolerations=[], nodeSelector={})),
    ),
    case(
        "affinity-by-numbers",
        "reaches GPU nodes by a number: more than 0 GPUs of the label nvidia.com/gpu.count",
        UNNOTICED,
        pod(
            spec(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "nvidia.com/gpu.count", "operator": "Gt", "values": ["0"]}]}
                            ]
                        }
                    }
                }
            )
        ),
    ),
)

OPENED = (
    case(
        "namespace-privileged",
        "takes the Pod Security of its namespace off",
        UNNOTICED,
        namespace("team-a", "privileged"),
    ),
    case(
        "runner-namespace-privileged",
        "takes the Pod Security of a namespace of our runners off",
        UNNOTICED,
        namespace(OURS, "privileged"),
    ),
    case(
        "network-policy-by-our-name",
        "replaces our NetworkPolicy by one of its name that selects no pod",
        UNNOTICED,
        thing(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"podSelector": {"matchLabels": {"none": "such"}}, "policyTypes": ["Egress"]},
            "runners",
            OURS,
        ),
    ),
    case(
        "network-policy-beside-ours",
        "adds a NetworkPolicy that lets our runners reach everything: policies are summed",
        UNNOTICED,
        thing("networking.k8s.io/v1", "NetworkPolicy", EVERY, "more", OURS),
    ),
    case(
        "quota-by-our-name",
        "replaces the ResourceQuota of our runners by one of 100,000 GPUs",
        UNNOTICED,
        thing("v1", "ResourceQuota", {"hard": {"pods": "100000", f"requests.{GPU}": "100000"}}, "runners", OURS),
    ),
    case(
        "controllers-account",
        "runs a pod in a runner's namespace as the account of ARC's controller, with its token",
        UNNOTICED,
        pod(spec(serviceAccountName="arc-controller", automountServiceAccountToken=True), namespace=OURS),
    ),
    case(
        "projected-token",
        "mounts a token by a projected volume, though automounting is off",
        UNNOTICED,
        pod(volume({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}), namespace=OURS),
    ),
    case("host-port", "opens a port of the node", UNNOTICED, pod(spec(container(ports=[{"containerPort": 80, "hostPort": 80}])))),
    case(
        "sysctls",
        "changes settings of the node's kernel",
        UNNOTICED,
        pod(
            spec(
                securityContext={
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                    "sysctls": [{"name": "kernel.msgmax", "value": "65536"}],
                }
            )
        ),
    ),
    case("proc-mount", "takes the masks of /proc off", UNNOTICED, pod(secured(procMount="Unmasked"))),
    case("seccomp", "turns the filter of system calls off", UNNOTICED, pod(secured(seccompProfile={"type": "Unconfined"}))),
    case("app-armor", "turns AppArmor off", UNNOTICED, pod(secured(appArmorProfile={"type": "Unconfined"}))),
    case(
        "app-armor-by-annotation",
        "turns AppArmor off by the annotation of older versions",
        UNNOTICED,
        pod(spec(), {"container.apparmor.security.beta.kubernetes.io/train": "unconfined"}),
    ),
    case(
        "system-pod-by-name",
        "takes the name and the namespace of a system pod that is exempt, and runs its own image privileged",
        "issue 37, 5",
        changed(deployment(gpu_spec(on_gpu(securityContext={"privileged": True}), hostNetwork=True)), "metadata", PLUGIN),
    ),
    case(
        "selinux",
        "runs with an SELinux type of the host",
        "Pod Security: baseline",
        pod(secured(seLinuxOptions={"type": "spc_t", "level": "s0"})),
    ),
    case(
        "host-path-by-claim",
        "mounts the node's root by a PersistentVolume and its claim",
        UNNOTICED,
        *persistent({"hostPath": {"path": "/"}}),
    ),
    case(
        "local-volume-by-claim",
        "mounts a folder of the node by a local PersistentVolume and its claim",
        UNNOTICED,
        *persistent(
            {
                "local": {"path": "/var/lib/kubelet"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
                    }
                },
            }
        ),
    ),
    case(
        "inline-csi",
        "mounts a volume of any CSI driver without a claim",
        UNNOTICED,
        pod(volume({"csi": {"driver": "image.csi.example.com", "volumeAttributes": {"path": "/"}}})),
    ),
    case("nfs", "mounts an export of an NFS server", UNNOTICED, pod(volume({"nfs": {"server": "10.0.0.9", "path": "/"}}))),
    case(
        "ephemeral-container",
        "adds a privileged debug container",
        UNNOTICED,
        pod(spec(ephemeralContainers=[container(name="debug", securityContext={"privileged": True})])),
    ),
    case(
        "shared-processes", "lets a container read the memory of its neighbors", UNNOTICED, pod(spec(shareProcessNamespace=True))
    ),
    case("own-scheduler", "lets a scheduler of its own place the pod", UNNOTICED, pod(gpu_spec(schedulerName="mine"))),
    case(
        "windows-host-process",
        "runs as a process of a Windows host",
        UNNOTICED,
        pod(spec(securityContext={"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}})),
    ),
    case(
        "rights-for-all",
        "makes everybody without a login an administrator of the cluster",
        S4,
        bound("cluster-admin", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}),
    ),
    case(
        "rights-for-runners",
        "makes the accounts of a runner namespace administrators of the cluster",
        S4,
        bound(
            "cluster-admin", {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"system:serviceaccounts:{OURS}"}
        ),
    ),
    case(
        "load-balancer",
        "opens a pod to the world by a load balancer",
        S4,
        thing("v1", "Service", {"type": "LoadBalancer", "selector": {"app": "train"}, "ports": [{"port": 80}]}),
    ),
    case(
        "external-addresses",
        "takes over an address of the network by a Service",
        S4,
        thing("v1", "Service", {"externalIPs": ["10.0.0.2"], "selector": {"app": "train"}, "ports": [{"port": 443}]}),
    ),
    case(
        "slice-to-metadata",
        "reaches the metadata of a node by the endpoints of a Service",
        S4,
        thing("v1", "Service", {"ports": [{"port": 80}]}, "metadata"),
        changed(
            thing(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                None,
                "metadata",
                addressType="IPv4",
                endpoints=[{"addresses": ["169.254.169.254"]}],
                ports=[{"port": 80}],
            ),
            "metadata",
            "labels",
            {"kubernetes.io/service-name": "metadata"},
        ),
    ),
    case(
        "node-without-taint",
        "replaces the object of a GPU node by one without a taint",
        S4,
        changed(thing("v1", "Node", {"taints": []}, "gpu", None), "metadata", "labels", {"gpu-ci/pool": "t4-spot"}),
    ),
)

CREDENTIALS = (
    case("token-in-annotation", "writes a GitHub token in an annotation", UNNOTICED, pod(spec(), {"ci/token": PAT})),
    case(
        "token-for-another-chart",
        "gives a GitHub token to a chart that is not named gha-runner-scale-set",
        UNNOTICED,
        chart("my-runners", {"githubConfigSecret": {"github_token": PAT}}),
    ),
    case(
        "hugging-face-token",
        "writes a token of Hugging Face",
        UNNOTICED,
        pod(spec(container(env=[{"name": "HF_TOKEN", "value": f"hf_{WORD[:34]}"}]))),
    ),
    case(
        "forty-hex-digits",
        "writes a token of the old form: 40 hexadecimal digits",
        UNNOTICED,
        pod(spec(container(env=[{"name": "GITHUB_TOKEN", "value": HEX}]))),
    ),
    case(
        "opaque-token",
        "writes a password of no known form in a variable named TOKEN",
        UNNOTICED,
        pod(spec(container(env=[{"name": "DEPLOY_TOKEN", "value": WORD[:24]}]))),
    ),
    case(
        "split-token",
        "writes a GitHub token in two variables and joins them",
        UNNOTICED,
        pod(
            spec(
                container(
                    env=[
                        {"name": "A", "value": PAT[:20]},
                        {"name": "B", "value": PAT[20:]},
                        {"name": "C", "value": "$(A)$(B)"},
                    ]
                )
            )
        ),
    ),
    case(
        "app-key-in-a-file",
        "commits the private key of the GitHub App in a Secret",
        UNNOTICED,
        secret(
            {"github_app_id": "123456", "github_app_installation_id": "12345678", "github_app_private_key": PEM},
            name="github-app",
            namespace="arc-systems",
        ),
    ),
)

SUPPLIED = (
    case(
        "chart-of-our-name",
        "installs a chart with the name of our chart from another registry",
        UNNOTICED,
        *runner_set(("spec", "source", "repoURL"), "ghcr.io/evil/charts"),
    ),
    case(
        "chart-from-anywhere",
        "installs any chart from any repository",
        UNNOTICED,
        chart("miner", {}, "https://evil.example/charts"),
    ),
    case(
        "repository-of-others",
        "lets ArgoCD apply the newest commit of another owner's repository",
        UNNOTICED,
        application({"repoURL": "https://github.com/evil/manifests", "path": ".", "targetRevision": "HEAD"}),
    ),
    case(
        "karpenter-of-an-old-version",
        "writes a pool of Karpenter in an API version that no policy reads",
        UNNOTICED,
        karpenter("karpenter.sh/v1beta1"),
    ),
    case("pull-policy", "keeps an image that the node already has", UNNOTICED, pod(spec(container(imagePullPolicy="Never")))),
)


def _hidden_gpus(text: str) -> str:
    """YAML of a pod whose GPU limit is written in another form."""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: train, namespace: team-a}}
spec:
  priorityClassName: gpu-ci-runner
  nodeSelector: {{gpu-ci/pool: t4-spot}}
  tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
  containers:
    - name: train
      image: {IMAGE}
      resources:
        requests: {{cpu: 2, memory: 8Gi, ephemeral-storage: 20Gi}}
        limits: {{memory: 8Gi, nvidia.com/gpu: {text}}}
"""


_TOLERANT = gpu_spec(container())
"""A pod for GPU nodes without a GPU."""
KEPT = (
    case("privileged", "runs a privileged container", HELD, pod(secured(privileged=True))),
    case("privileged-job", "runs a privileged container in a Job", HELD, job(secured(privileged=True))),
    case("host-network", "uses the network of the node", HELD, deployment(spec(hostNetwork=True))),
    case("host-processes", "sees the processes of the node", HELD, pod(spec(hostPID=True))),
    case("host-memory", "shares memory with the node", HELD, pod(spec(hostIPC=True))),
    case("host-path", "mounts the root of the node", HELD, pod(volume({"hostPath": {"path": "/"}}))),
    case(
        "docker-socket",
        "mounts the socket of the container runtime",
        HELD,
        pod(volume({"hostPath": {"path": "/var/run/docker.sock"}})),
    ),
    case("capability", "adds a capability", HELD, pod(secured(capabilities={"add": ["SYS_ADMIN"]}))),
    case("root-user", "runs as root", HELD, pod(secured(runAsUser=0))),
    case(
        "init-privileged",
        "is root in an init container that goes on running",
        HELD,
        pod(spec(initContainers=[container(name="side", restartPolicy="Always", securityContext={"privileged": True})])),
    ),
    case("tolerates-without-gpu", "lives on GPU nodes and takes no GPU", HELD, pod(_TOLERANT)),
    case("tolerates-everything", "tolerates every taint", HELD, deployment(spec(tolerations=[{"operator": "Exists"}]))),
    case("visible-devices", "sees every GPU by NVIDIA_VISIBLE_DEVICES", HELD, pod(spec(container(env=[ALL_DEVICES])))),
    case("too-many-gpus", "asks for 64 GPUs in one pod", HELD, pod(gpu_spec(on_gpu(64)))),
    case("too-many-replicas", "asks for 64 GPUs in 64 pods", HELD, deployment(gpu_spec(), 64)),
    case("parallel-job", "asks for 64 GPUs in the pods of a Job", HELD, job(gpu_spec(), parallelism=64, completions=64)),
    case("job-without-end", "keeps a GPU without end", HELD, changed(job(gpu_spec()), "spec", "activeDeadlineSeconds", 10**9)),
    case("image-of-anybody", "runs an image of any registry", HELD, pod(spec(container(image="docker.io/evil/miner:1.0")))),
    case("moving-tag", "runs an image whose tag moves", HELD, pod(spec(container(image="nvcr.io/nvidia/cuda:latest")))),
    case(
        "token-in-variable", "writes a GitHub token in a variable", HELD, pod(spec(container(env=[{"name": "T", "value": PAT}])))
    ),
    case("token-in-secret", "commits a GitHub token in a Secret", HELD, secret({"token": PAT})),
    case(
        "token-in-base64",
        "writes a GitHub token in base64",
        HELD,
        thing("v1", "ConfigMap", None, data={"t": base64.b64encode(PAT.encode()).decode()}),
    ),
    case(
        "chart-with-privileged",
        "asks for a privileged pod by the values of a chart",
        HELD,
        chart("train", {"securityContext": {"privileged": True}}),
    ),
    case("chart-of-any-version", "installs the newest version of a chart", HELD, chart("train", {}, version="*")),
    case("karpenter-pool", "writes a pool of Karpenter for the most expensive machines", HELD, karpenter("karpenter.sh/v1")),
    case(
        "list-in-list",
        "hides a pod in a list of a list",
        HELD,
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "List", "items": [pod(secured(privileged=True))]}],
        },
    ),
    case(
        "old-version",
        "runs privileged by an API version of long ago",
        HELD,
        changed(deployment(secured(privileged=True)), "apiVersion", "extensions/v1beta1"),
    ),
    case(
        "controller-of-long-ago",
        "runs privileged by a ReplicationController",
        HELD,
        thing("v1", "ReplicationController", {"replicas": 1, "template": {"spec": secured(privileged=True)}}),
    ),
    Manifest("gpus-in-octal", "writes 64 GPUs in octal", HELD, _hidden_gpus("0o100")),
    Manifest("gpus-by-exponent", "writes 64 GPUs with an exponent", HELD, _hidden_gpus("6.4e1")),
    Manifest("gpus-by-suffix", "writes 64 GPUs as thousandths", HELD, _hidden_gpus("64000m")),
)

CASES = (*UNCOUNTED, *OPENED, *CREDENTIALS, *SUPPLIED, *KEPT)
