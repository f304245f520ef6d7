"""What nodes must have for the pods that land on them: the most that any asks, and what the pinned images are built for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.hardware import Machine
from fleet.facts.versions import IMAGES, Image
from fleet.settings.cluster import Cluster
from offline.inventory.quantities import mebibytes
from offline.inventory.users import Group, User

_BY_REFERENCE = {image.reference: image for image in IMAGES.values()}


@dataclass(frozen=True, slots=True)
class Need:
    """What every node of a pool must have, or the node that a user without GPU chooses by labels (`selector`).

    The most that one pod asks is `units` of `resource` (0 and empty without GPU), `cpu` in millicores, the rest in MiB.
    `capability` is the least of NVIDIA's compute capabilities, empty where no image says. The driver's branch is `driver_from` or
    newer and `driver_to` or older, None where nothing bounds it. `unsaid` are images of which neither is known. `claims` is what
    all claims of its workloads add up to in MiB, by storage class: one of the node's own disk takes that from it.
    """

    pool: str
    selector: Mapping[str, str]
    users: tuple[str, ...]
    resource: str
    units: int
    capability: str
    driver_from: int | None
    driver_to: int | None
    architectures: tuple[str, ...]
    cpu: int
    memory: int
    scratch: int
    shm: int
    claims: Mapping[str, int]
    devices: tuple[str, ...]
    unsaid: tuple[str, ...]


def needs(settings: Cluster, found: Iterable[User]) -> Iterator[Need]:
    """Each pool that has a user, then the node of each user without GPU; launchers aside, which the system pool holds."""
    here = list(found)
    for name, pool in settings.pools.items():
        if mine := [user for user in here if user.pool == name and user.pod.gpus]:
            yield _need(name, {}, mine, pool.machines)
    for user in here:
        if user.pod.devices:
            yield _need(user.pool, user.pod.selector, [user], ())


def _need(pool: str, selector: Mapping[str, str], mine: list[User], machines: Iterable[Machine]) -> Need:
    pods = [user.pod for user in mine]
    references = dict.fromkeys(pod.image for pod in pods)
    images = [_BY_REFERENCE[each] for each in references if each in _BY_REFERENCE]
    gpus = [machine.gpu for machine in machines if machine.gpu is not None]
    oldest = [image.least_driver for image in images] + [gpu.min_driver_branch for gpu in gpus]
    newest = [gpu.max_driver_branch for gpu in gpus if gpu.max_driver_branch is not None]
    return Need(
        pool=pool,
        selector=selector,
        users=tuple(user.name for user in mine),
        resource=pods[0].resource,
        units=max(pod.gpus for pod in pods),
        capability=max((image.least_capability for image in images), key=_version, default=""),
        driver_from=max((branch for branch in oldest if branch is not None), default=None),
        driver_to=min(newest, default=None),
        architectures=_architectures(images),
        cpu=max(pod.cpu.request for pod in pods),
        memory=max(pod.memory.request for pod in pods),
        scratch=max(pod.scratch for pod in pods),
        shm=max(pod.shm or 0 for pod in pods),
        claims=_claims(mine),
        devices=tuple(dict.fromkeys(device for pod in pods for device in pod.devices)),
        unsaid=tuple(each for each in references if pods[0].gpus and not _says(each)),
    )


def _claims(mine: Iterable[User]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for user in mine:
        if user.group is Group.WORKLOAD:
            found.update({claim.storage_class: mebibytes(claim.size) for claim in user.claims.values()})
    return dict(found)


def _says(reference: str) -> bool:
    image = _BY_REFERENCE.get(reference)
    return image is not None and bool(image.least_capability or image.least_driver)


def _architectures(images: Iterable[Image]) -> tuple[str, ...]:
    """Those that every image is known to be built for; none where no image says."""
    said = [image.architectures for image in images if image.architectures]
    return tuple(each for each in said[0] if all(each in other for other in said)) if said else ()


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if text else ()
