"""Parts of manifests that several kinds of workload share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet.charts.chart import amounts, manifests, part
from fleet.facts import pods
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID, Mount
from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import SAFE_TO_EVICT, Priority, Toleration, workload_labels
from fleet.providers.installed import Target
from fleet.render.isolation import admits
from fleet.settings.workloads import WORKLOAD_IMAGES, Storage, UnitWorkload, Workload

UID = RUNNER_UID
"""User and group of all containers here. An MPS server serves one user at a time, and the pool's runners are user 1001.

No image here needs its user to have a name, so each container gets its own home folder.
"""

HOME = "/tmp"  # noqa: S108 - a folder of the container, where every user can write


class Meta(Record):
    """The name and namespace of an object, and the kind of its workload."""

    name: str
    namespace: str
    kind: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of all objects of the workload. Selectors find its pods by them."""
        return workload_labels(self.kind, self.name)

    def object(self, api: str, kind: str, spec: Manifest, suffix: str = "") -> Manifest:
        """One object of the workload, with this spec."""
        return manifest(api, kind, self.name + suffix, self.namespace, spec, labels=self.labels)


def shared_memory(workload: UnitWorkload, target: Target) -> list[Mount]:
    """A /dev/shm of the workload's size, where the pod may have its own."""
    return [pods.shared_memory(memory_text(workload.shm))] if target.mounts_shm else []


def gpu_container(workload: UnitWorkload, target: Target, env: Mapping[str, str], **more: Any) -> Manifest:
    """A container that takes the workload's units of the pool's resource, without its mounts. `more` are further fields.

    Its name is the kind of the workload. The settings may replace the kind's image.
    """
    variables = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility", **env}
    env_of = [{"name": key, "value": value} for key, value in variables.items()]
    return (
        part(__file__, "container", env=env_of, confined=CONFINED, **of_kind(workload, {target.resource: workload.units})) | more
    )


def of_kind(workload: Workload, units: Mapping[str, int]) -> dict[str, Any]:
    """The name, the image and the sizes of a workload's container. `units` are what it takes of extended resources."""
    sizes = amounts(workload.cpu, workload.memory, workload.scratch, units)
    return {"name": workload.kind, "image": workload.image or WORKLOAD_IMAGES[workload.kind].reference, "sizes": sizes}


def gpu_pod(target: Target, container: Manifest, mounts: Sequence[Mount], priority: Priority) -> Manifest:
    """Spec of a pod on the target with one container. It meets the Pod Security Standard `restricted`."""
    fields = {"runtimeClassName": target.runtime_class} if target.runtime_class else {}
    security = CONFINED_POD | user(UID) | {"fsGroupChangePolicy": "OnRootMismatch"}
    return pod(target.selector, target.tolerations, container, mounts, priority, **fields, securityContext=security)


def user(uid: int) -> dict[str, int]:
    """Fields of a pod's security context: everything in it is of this user and of the group with the same number."""
    return dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), uid)


def pod(
    selector: Mapping[str, str],
    tolerations: Iterable[Toleration],
    container: Manifest,
    mounts: Sequence[Mount],
    priority: Priority | None = None,
    **more: Any,
) -> Manifest:
    """Spec of a pod with one container, which gets its mounts. `more` are further fields."""
    mounted = {"volumeMounts": [mount.mount for mount in mounts]} if mounts else {}
    volumes = [mount.volume for mount in mounts] or None
    placed = {"priority": None if priority is None else priority.name, "tolerations": manifests(tolerations)}
    made = part(__file__, "pod", selector=dict(selector), **placed)
    return made | more | {"containers": [container | mounted]} | ({"volumes": volumes} if volumes else {})


def job(meta: Meta, pod: Manifest, *, restart: str = "Never", retries: int = 1) -> Manifest:
    """A Job of one pod. Its time and its retries are limited, and Kubernetes deletes it after it has ended."""
    # The autoscaler must not remove the node while the Job's pod runs.
    stays, spec = {SAFE_TO_EVICT: "false"}, {"restartPolicy": restart} | pod
    return meta.object("batch/v1", "Job", part(__file__, "job", labels=meta.labels, pod=spec, retries=retries, stays=stays))


def deployment(meta: Meta, pod: Manifest, replicas: int = 1) -> Manifest:
    """A Deployment. The old pod ends before the new one starts, because both need the same GPU and volume."""
    return meta.object("apps/v1", "Deployment", part(__file__, "deployment", labels=meta.labels, pod=pod, replicas=replicas))


def service(meta: Meta, port: int, name: str = "http") -> Manifest:
    """A Service inside the cluster, for the container's port of that name."""
    return meta.object("v1", "Service", part(__file__, "service", labels=meta.labels, name=name, port=port))


def admission(meta: Meta, clients: Sequence[Manifest], port: int, suffix: str) -> Manifest:
    """The NetworkPolicy by which these clients reach the workload. Its namespace accepts no others."""
    return meta.object("networking.k8s.io/v1", "NetworkPolicy", admits(meta.labels, clients, port), suffix)


def claim(meta: Meta, suffix: str, storage: Storage) -> Manifest:
    """A claim of a volume for one node at a time."""
    spec = part(__file__, "claim", size=memory_text(storage.size), storage_class=storage.storage_class)
    return meta.object("v1", "PersistentVolumeClaim", spec, suffix)


def serves(port: int, path: str, *, startup_seconds: int) -> Manifest:
    """Fields of a container that serves HTTP: its port `http`, and probes of `path`.

    The server has `startup_seconds` to start. After that each probe runs every ten seconds.
    """
    return part(__file__, "serves", path=path, port=port, tries=startup_seconds // 10)
