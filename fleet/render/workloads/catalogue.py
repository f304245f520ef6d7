"""The manifests of every kind of workload: a pure function for each, from its settings, and where it runs, to whole objects.

The servers keep their models in a volume. `run/` has what some containers run. Smoke tests have their own namespace: a pod on
each GPU pool must get a working GPU.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from fleet.charts.chart import part
from fleet.facts.manifest import Manifest
from fleet.facts.pods import Mount, claimed
from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import HIGH_PRIORITY, MEDIUM_PRIORITY, RUNNER_PRIORITY, Toleration, per_node_annotation
from fleet.prove.image_fit import with_pinned_image
from fleet.prove.room import fits, refusal
from fleet.providers.installed import Target, pool_target
from fleet.providers.registry import PROVIDERS
from fleet.render import isolation
from fleet.render.isolation import in_namespace
from fleet.render.workloads import parts
from fleet.render.workloads.parts import Meta
from fleet.settings import workloads
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import SMOKE_NAMESPACE, runner_namespace
from fleet.settings.workloads import SmokeWorkload

_RUN = Path(__file__).parent / "run"

# -- smoke tests: nvidia-smi and PyTorch (seed 000), and CUDA's deviceQuery (seed 003) ---------------------------------

PYTORCH_SCRIPT = (_RUN / "pytorch_smoke.py").read_text(encoding="utf-8")
_SAMPLE = "/cuda-samples/sample"
"""CUDA's deviceQuery. It prints the GPU's properties and `Result = PASS`."""
COMMANDS = {"nvidia-smi": ["nvidia-smi"], "pytorch": ["python3", "-c", PYTORCH_SCRIPT], "device-query": [_SAMPLE]}
"""The command of each test by kind of workload. It fails without a driver or a GPU. The container runtime mounts nvidia-smi."""


def smoke_job(meta: parts.Meta, workload: workloads.SmokeWorkload, target: Target) -> tuple[Manifest, ...]:
    """The Job of one test.

    PyTorch's libraries look for a home and a user name, and the image has no user with our UID. So the Job sets both.
    """
    env = {"HOME": parts.HOME, "USER": "smoke"} if (is_pytorch := workload.kind == "pytorch") else {}
    container = parts.gpu_container(workload, target, env, command=COMMANDS[workload.kind])
    mounts = parts.shared_memory(workload, target) if is_pytorch else ()
    return (parts.job(meta, parts.gpu_pod(target, container, mounts, RUNNER_PRIORITY)),)


# -- TensorFlow (seed 003) ---------------------------------------------------------------------------------------------


def tf_mnist(meta: parts.Meta, workload: workloads.MnistWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Job that learns handwritten digits in `max_steps` steps: the example of Azure's documentation, on any cluster.

    It downloads the digits from the internet into a scratch folder of the pod.
    """
    container = parts.gpu_container(workload, target, {"HOME": parts.HOME}, args=["--max_steps", str(workload.max_steps)])
    mounts = [Mount("scratch", parts.HOME, {"emptyDir": {"sizeLimit": "2Gi"}}), *parts.shared_memory(workload, target)]
    return (parts.job(meta, parts.gpu_pod(target, container, mounts, MEDIUM_PRIORITY), restart="OnFailure", retries=3),)


_NOTEBOOK_PORT = 8888
_FOLDER = "/work"


def tf_notebook(meta: parts.Meta, workload: workloads.NotebookWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Deployment and its Service, port 80 to 8888. Anyone who can open a notebook can run code, so a Secret holds its token."""
    more = part(__file__, "tf-notebook") | parts.serves(_NOTEBOOK_PORT, "/api", startup_seconds=300)
    container = parts.gpu_container(workload, target, more.pop("variables"), **more)
    secret = {"secretKeyRef": {"name": workload.token_secret, "key": "token"}}
    container["env"].append({"name": "JUPYTER_TOKEN", "valueFrom": secret})
    claim = workload.claim(meta.name)
    folder = claimed("work", _FOLDER, claim) if workload.storage else Mount("work", _FOLDER, {"emptyDir": {"sizeLimit": "10Gi"}})
    pod = parts.gpu_pod(target, container, [folder, *parts.shared_memory(workload, target)], MEDIUM_PRIORITY)
    return (
        *((parts.claim(meta, workload.KEPT, workload.storage),) if workload.storage else ()),
        *_notebook_service(meta, workload),
        parts.deployment(meta, pod),
    )


def _notebook_service(meta: parts.Meta, workload: workloads.NotebookWorkload) -> tuple[Manifest, ...]:
    """The Service, and for a node port the NetworkPolicy that allows its clients. A workload's namespace accepts no others."""
    service = parts.service(meta, 80)
    if workload.node_port is None:
        return (service,)
    # With Local the pod sees the client's own address, which the network policy checks.
    service["spec"] |= {"type": "NodePort", "externalTrafficPolicy": "Local"}
    service["spec"]["ports"][0]["nodePort"] = workload.node_port.port
    clients = [{"ipBlock": {"cidr": cidr}} for cidr in workload.node_port.cidrs]
    return service, parts.admission(meta, clients, _NOTEBOOK_PORT, "-node-port")


# -- the homelab's workloads (seed 004) --------------------------------------------------------------------------------


def ollama(meta: parts.Meta, workload: workloads.OllamaWorkload, target: Target) -> tuple[Manifest, ...]:
    """Language models for the workloads of the same namespace: a Deployment, its Service and the volume of its models.

    Ollama asks for no password, so only its own namespace can reach it. It does not run as root, so its home is the volume
    instead of /root.
    """
    more = part(__file__, "ollama") | parts.serves(11434, "/", startup_seconds=120)
    container = parts.gpu_container(workload, target, more.pop("variables"), **more)
    return _model_server(meta, workload, target, container, claimed("models", "/ollama", workload.claim(meta.name)))


def comfyui(meta: parts.Meta, workload: workloads.ComfyuiWorkload, target: Target) -> tuple[Manifest, ...]:
    """Images by a graph of models: a Deployment, its Service and the volume with models, inputs, outputs and custom nodes.

    The pod does not run the image's own script. That script copies the program to /root once, as root, so a newer image would
    still run the old program. It also starts the manager of nodes, which installs code from the internet while ComfyUI runs.
    """
    more = part(__file__, "comfyui") | parts.serves(8188, "/system_stats", startup_seconds=600)
    container = parts.gpu_container(workload, target, more.pop("variables"), **more)
    return _model_server(meta, workload, target, container, claimed("data", "/data", workload.claim(meta.name)))


_Server = workloads.OllamaWorkload | workloads.ComfyuiWorkload


def _model_server(
    meta: parts.Meta, workload: _Server, target: Target, container: Manifest, volume: Mount
) -> tuple[Manifest, ...]:
    """The claim, Service and Deployment of a server that keeps its models in a volume."""
    pod = parts.gpu_pod(target, container, [volume, *parts.shared_memory(workload, target)], HIGH_PRIORITY)
    service = parts.service(meta, container["ports"][0]["containerPort"])
    return parts.claim(meta, workload.KEPT, workload.storage), service, parts.deployment(meta, pod)


USB = "/dev/bus/usb"
CORAL_CHECK = (_RUN / "coral_check.py").read_text(encoding="utf-8")


def coral(meta: parts.Meta, workload: workloads.CoralWorkload, tolerations: tuple[Toleration, ...] = ()) -> tuple[Manifest, ...]:
    """A Google Coral at a USB port: a Deployment of one pod on the node that has the stick.

    `tolerations` are those of the node's pool, if it is in a pool.
    The container is root and privileged, and mounts a folder of the host, so it needs the Pod Security level `privileged`. The
    kernel's device cgroup lets no other container open a USB device that a hostPath shows (kubernetes/kubernetes#105761,
    google-coral/edgetpu#488), and the device files belong to root. The pod mounts the whole folder because the stick gets another
    device file when it loads its firmware.
    """
    command = list(workload.command or ("python3", "-u", "-c", CORAL_CHECK))
    container = part(__file__, "coral", command=command, **parts.of_kind(workload, {}))
    mounts = [Mount("usb", USB, {"hostPath": {"path": USB, "type": "Directory"}})]
    return (parts.deployment(meta, parts.pod(workload.node, tolerations, container, mounts)),)


# -- builds of container images ----------------------------------------------------------------------------------------

_CACHE = "/home/user/.local/share/buildkit"
"""Folder of the image's variant `rootless` (moby/buildkit v0.32.2, Dockerfile)."""


def buildkit(meta: parts.Meta, workload: workloads.BuildkitWorkload, target: Target) -> tuple[Manifest, ...]:
    """BuildKit without root: a Deployment, its Service, and the NetworkPolicy that admits the jobs of its runner sets.

    Only a client with a certificate can build. A build's processes are in the container's own process namespace, because
    Kubernetes shows no unmasked /proc to a pod without a user namespace of its own (moby/buildkit v0.32.2, docs/rootless.md).
    """
    # Reserved, free and most disk space, in MB.
    kept = f"--oci-worker-gc-keepstorage=0,0,{workload.scratch * 2**20 * 8 // 10**7}"
    container = part(__file__, "buildkit", kept=kept, **parts.of_kind(workload, {}))
    security = container.pop("security")
    mounts = [
        Mount("cache", _CACHE, {"emptyDir": {"sizeLimit": memory_text(workload.scratch)}}),
        Mount("certificates", "/certs", {"secret": {"secretName": workload.certificates}}, read_only=True),
    ]
    pod = parts.pod(target.selector, target.tolerations, container, mounts, securityContext=security)
    clients = [in_namespace(runner_namespace(name)) for name in workload.runners]
    admission = parts.admission(meta, clients, workloads.BUILDKIT_PORT, "-clients")
    return parts.service(meta, workloads.BUILDKIT_PORT, "tls"), admission, parts.deployment(meta, pod)


_OTHERS = (tf_mnist, tf_notebook, ollama, comfyui, coral, buildkit)
MAKERS: Mapping[str, Callable[..., tuple[Manifest, ...]]] = {
    **dict.fromkeys(COMMANDS, smoke_job),
    **{make.__name__.replace("_", "-"): make for make in _OTHERS},
}
"""The function that makes the manifests of each kind: `make(meta, settings, target)`."""


def workload_objects(cluster: Cluster, name: str) -> tuple[Manifest, ...]:
    """The manifests of one workload of a cluster, without its namespace, in the order to apply them in."""
    workload: workloads.Workload = cluster.workloads[name]
    meta = parts.Meta(name, workload.namespace, workload.kind)
    make = MAKERS[workload.kind]
    if isinstance(workload, workloads.PoolWorkload):
        documents = make(meta, with_pinned_image(cluster, workload), pool_target(cluster, workload.pool))
        if workload.stands and (annotation := per_node_annotation(fits(cluster, workload))):
            for document in documents:
                if document["kind"] == "Deployment":
                    document["spec"]["template"]["metadata"]["annotations"] = annotation
        return documents
    if isinstance(workload, workloads.CoralWorkload) and workload.pool is not None:
        return make(meta, workload, PROVIDERS[cluster.provider].profile.pod_tolerations(cluster.pools[workload.pool].capacity))
    return make(meta, workload)


TESTS = {"nvidia-smi": "driver and GPU", "pytorch": "PyTorch computes", "device-query": "CUDA's runtime reports it"}
"""The tests by kind of workload, and what each proves."""

_LONGEST = 57
"""Characters of a Job's name. Its pods add a hyphen and five characters, and a pod's name has at most 63."""
_HASH = 8


class UnknownPoolError(ValueError):
    """The cluster has no pool of this name. The message lists its pools."""


class Smoke(Record):
    """One test of one pool: its Job, or the reason why the pool cannot run it."""

    pool: str
    test: str
    job: Manifest | None
    refused: str = ""


def smoke_home() -> tuple[Manifest, Manifest]:
    """The namespace of the tests, and its NetworkPolicy. The tests need no network, so the policy allows no connection."""
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return isolation.namespace(SMOKE_NAMESPACE, "restricted"), isolation.wall("workloads", SMOKE_NAMESPACE, closed)


def smoke_tests(cluster: Cluster, pools: Collection[str] = ()) -> tuple[Smoke, ...]:
    """The tests of a cluster's pools, or of some of them, in the order of the settings.

    Each test requests one unit of its pool's resource. Raises UnknownPoolError.
    """
    if unknown := [name for name in pools if name not in cluster.pools]:
        pool_list = f"; it has {', '.join(cluster.pools)}" if cluster.pools else "; it has none"
        raise UnknownPoolError(f"the cluster has no pool {', '.join(unknown)}{pool_list}")
    return tuple(_test(cluster, pool, test) for pool in cluster.gpu_pools if not pools or pool in pools for test in TESTS)


def _test(cluster: Cluster, pool: str, test: str) -> Smoke:
    workload = SmokeWorkload.model_validate({"kind": test, "pool": pool})
    refused = refusal(cluster, workload)
    meta = Meta(smoke_name(pool, test), SMOKE_NAMESPACE, test)
    job = None if refused else smoke_job(meta, with_pinned_image(cluster, workload), pool_target(cluster, pool))[0]
    return Smoke(pool, test, job, refused)


def smoke_name(pool: str, test: str) -> str:
    """Name of a test's Job: smoke-<pool>-<test>. If it is too long, it has the beginning of the pool's name and a hash."""
    name = f"smoke-{pool}-{test}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(pool.encode()).hexdigest()[:_HASH]
    room = _LONGEST - len(f"smoke---{test}") - _HASH
    return f"smoke-{pool[:room].rstrip('-')}-{digest}-{test}"
