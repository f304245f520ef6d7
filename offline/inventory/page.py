"""The page `docs/inventory-<stack>.md`: what a stack's clusters have for GPU work, what takes it, what nodes must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from offline.gfm import code, table
from offline.inventory import cells, clusters, tables
from offline.inventory.grants import grants
from offline.inventory.machines import machine_sets
from offline.inventory.needs import needs
from offline.inventory.node_needs import Place, wanted
from offline.inventory.sets import set_charts
from offline.inventory.taken import taken
from offline.inventory.users import Group, User, users

Users = Mapping[str, tuple[User, ...]]
"""What each cluster has, by the cluster's name."""


def document(stack: str, fleet: Fleet) -> str:
    """The page. Every runner set, workload and job of the fleet has a place (`offline.inventory.placed`)."""
    found = {name: users(fleet, name) for name, _ in fleet.clusters_by_name()}
    pieces = [*_head(stack, fleet)]
    for name, settings in fleet.clusters_by_name():
        pieces += _cluster(fleet, name, settings, found[name])
    return "\n\n".join([*pieces, *_nodes(fleet, found)]) + "\n"


def _head(stack: str, fleet: Fleet) -> Iterator[str]:
    yield f"# Inventory of stack {code(stack)}"
    yield f"<!-- Written by `make docs` from Pulumi.{stack}.yaml; do not edit. -->"
    yield _HEAD.replace("NAME", stack)
    rows = (
        (
            code(name),
            code(settings.provider),
            *map(str, map(len, (settings.pools, settings.runners, settings.workloads, settings.jobs))),
            str(len(settings.queues.teams) if settings.queues is not None else 0),
        )
        for name, settings in fleet.clusters_by_name()
    )
    yield table(("cluster", "provider", ">GPU pools", ">runner sets", ">workloads", ">jobs", ">teams with queues"), rows)


_HEAD = """\
What of the stack takes GPUs, or a device of a node, and what it needs of nodes: read from the manifests and chart values that
the program makes, so it is what gets deployed. What the words mean: [workloads](workloads.md), [sharing](sharing.md),
[queues](queues.md), [storage](storage.md), [OCI machines](oci-runners.md). What it costs and which policies hold:
`make plan STACK=NAME`.

CPU (in cores) and memory are what is requested, and the most that is taken. *One node holds* so many of one thing alone, until
the resource beside it runs out; requests alone count, as they do for the scheduler."""


def _cluster(fleet: Fleet, name: str, settings: Cluster, found: tuple[User, ...]) -> Iterator[str]:
    sets, granted = tuple(machine_sets(settings, found)), grants(name, settings)
    yield f"## Cluster {code(name)}"
    yield clusters.about(settings)
    if settings.pools:
        yield f"### Pools of {code(name)}"
        yield clusters.pools(settings)
        yield clusters.nodes(name, settings)
        yield f"All of these nodes have the labels {clusters.common_labels(name, settings)}, too."
    if found or granted:
        yield f"### What takes GPUs in {code(name)}"
        yield tables.everything(found, granted, sets)
    if settings.pools:
        yield _TAKEN
        yield tables.pools_taken(taken(settings, found))
    if settings.runners:
        yield f"### Runner sets of {code(name)}"
        yield tables.runner_sets(set_charts(fleet, name), found, sets)
    if found:
        yield f"### Pods of {code(name)}"
        yield tables.contents(found)
        yield tables.landing(found)
    if sets:
        yield f"### Machines of {code(name)}"
        yield _MACHINES
        yield tables.machines(sets)
    if granted:
        yield f"### Queues of {code(name)}"
        yield tables.queues(granted)
    if settings.caches:
        yield _caches(settings)


_TAKEN = """\
In units of what a pool's nodes advertise, at most. Jobs that wait in a queue are counted with it. In bold: more than the pool
holds, so what comes later waits."""
_MACHINES = "A machine is its job's alone. Its launcher, a pod of the system pool, hands it the job and takes no GPU."


def _caches(settings: Cluster) -> str:
    told = (
        f"{code(name)} ({code(cache.storage)}, {cache.access_mode}) in {cells.codes(cache.namespaces)}"
        for name, cache in settings.caches_by_name()
    )
    return f"Claims for Jobs to mount: {'; '.join(told)}."


def _nodes(fleet: Fleet, found: Users) -> Iterator[str]:
    places = [Place(name, settings, need) for name, settings in fleet.clusters_by_name() for need in needs(settings, found[name])]
    if not places:
        return
    yield "## What nodes must have"
    yield wanted(places)
    notes = [_ASKED, _DRIVER]
    if any(place.need.shm for place in places):
        notes.append(_SHM)
    if any(place.need.devices for place in places):
        notes.append(_DEVICE)
    if any(user.group is Group.LAUNCHER for here in found.values() for user in here):
        notes.append(_BOOTED)
    if unsaid := dict.fromkeys(image for place in places for image in place.need.unsaid):
        notes.append(_UNSAID + ", ".join(map(cells.image, unsaid)) + ".")
    yield "\n".join(f"- {note}" for note in notes)


_ASKED = """\
*CPU*, *memory*, *disk*: the most that one pod requests, of what the pool's smallest node has left after kubelet, system and
  DaemonSets. The disk is the root disk; claims come on top where their class is of the node's own disk."""
_DRIVER = """\
*Driver*: the branch of NVIDIA's, at least as the pinned images and the GPU want it, at most what still drives the GPU. Beside it
  the container toolkit, which hands GPUs to containers: the image's or the operator's."""
_SHM = """\
*/dev/shm* is memory of the node and counts against the pod's limit. Under MPS no pod asks for one: the device plugin mounts its
  own."""
_DEVICE = """\
*Of the host*: a folder of that node, so the pod is privileged. The device is plugged in, and the node labelled, by hand."""
_BOOTED = """\
Machines of runner sets have what their table says: boot checks the driver and installs the toolkit, and where either fails there
  is no runner. With CNCF's launcher the image alone decides."""
_UNSAID = "Of these images no source says which GPU or driver they want; of a runner's that is what the job brings: "
