"""The text of a new stack file, from the templates beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template

from fleet.facts import versions
from fleet.facts.errors import InputError
from fleet.facts.hardware import Machine
from fleet.facts.yaml_text import scalar
from fleet.providers.oke.ocid import key_of
from fleet.providers.talos.cluster import TalosCluster
from fleet.settings.runner import GENERIC_LABELS
from gpu_ci.offline.init.answers import CLOUDS, READS, Answers, joined
from gpu_ci.offline.init.found import Found, Group
from gpu_ci.offline.init.parts import Jobs, Part, pools, runner_sets, slug, small
from gpu_ci.offline.probe import in_braces

_TEMPLATES = Path(__file__).parent / "templates"
_BLOCK = re.compile(r"( *)\$([a-z_]+)")
_WHERE = {"aws": "on EKS", "oci": "on OKE", "owned": "on own machines with Talos", "": "on a cluster that exists already"}
_DRIVER = "580.159.03"
"""An example of the driver in an image of OCI. Branch 580 drives every NVIDIA GPU of the hardware table."""
_NVME = (
    "# Images, logs and scratch are on the machine's NVMe disk: docs/eks-nodes.md#faster-starts.",
    "nodeConfig: {instance: {localStorage: {strategy: RAID0}}}",
)
_ACCEPTED = (
    "# REPLACE: OKE enforces no NetworkPolicy. Say why you accept that: docs/isolation.md#who-enforces-it.",
    "acceptUnenforcedNetwork: Only members of the organization start jobs here.",
)
_PROTECT = ("# `pulumi destroy` refuses to delete the control plane: docs/operate.md.", "protect: true")
_MACHINES = (
    "# REPLACE: a compartment for the VMs of jobs, so that their launchers have no access to the nodes.",
    "machineCompartment: ocid1.compartment.oc1..examplemachines",
    "machineCompartmentPath: ci:machines",
)
_ASKED = (
    "# REPLACE: what the cluster has already, and the labels of the nodes for controllers: docs/existing-clusters.md.",
    "installed: []",
    "systemSelector: {}",
)


def text(answers: Answers, found: Found | None, most: int, monthly: int) -> str:
    """The stack file. `most` bounds the nodes for tests, `monthly` is the budget of the alarm in USD a month.

    `found` is what a cluster that exists already shows of itself. Raises InputError for jobs that no machine can run.
    """
    cloud = CLOUDS[answers.provider]
    in_cloud = cloud in ("aws", "oci")
    title = " ".join(filter(None, (answers.gpu, "GPU runners", _WHERE[cloud], f"in {answers.region}" * in_cloud)))
    talos = answers.provider == "talos"
    return (
        "\n".join(
            _filled(
                "stack",
                title=title,
                stack=answers.stack,
                last="`make render` writes what ArgoCD reads" if talos else f"`pulumi up -s {answers.stack}` builds it",
                organization=answers.organization,
                tags=_filled("tags", stack=answers.stack) if in_cloud else (),
                name=scalar(_name(answers, found)),
                cluster=_filled(answers.provider, **_values(answers, found, most, monthly)),
            )
        )
        + "\n"
    )


def _filled(template: str, **values: str | Iterable[str]) -> Iterator[str]:
    """The lines of a template. A value alone on its line is a block: all its lines get the indentation, and none may be left."""
    for line in (_TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8").splitlines():
        if block := _BLOCK.fullmatch(line):
            held = values[block[2]]
            yield from (block[1] + each for each in ([held] if isinstance(held, str) and held else held))
        else:
            yield Template(line).substitute(values)


def _name(answers: Answers, found: Found | None) -> str:
    """A short name of the cluster: usw2 for us-west-2, sjc for us-sanjose-1, home for own machines, or the context's."""
    if answers.provider == READS and found is not None:
        return found.name
    if CLOUDS[answers.provider] == "aws":
        area, side, number = answers.region.split("-")
        return f"{area}{side[0]}{number}"
    return "home" if answers.provider == "talos" else key_of(answers.region)


def _values(answers: Answers, found: Found | None, most: int, monthly: int) -> dict[str, str | Iterable[str]]:
    """What the templates of clusters name, as far as the provider has it."""
    if found is not None and answers.provider == READS:
        return _described(answers, found)
    if answers.provider == "talos":
        return _owned(answers)
    aws, containers = CLOUDS[answers.provider] == "aws", "containers" in answers.jobs
    held = pools(answers, most, _NVME if aws else ())
    zones = joined(answers.zones if aws else (f'"{zone}"' for zone in answers.zones))[1:-1]
    runners = [line for each in runner_sets(answers, held, () if aws else _ACCEPTED) for line in each.lines()]
    runners += _machines(answers, zones, most) if containers else []
    oke = found.version if found else _newest_oke()
    row = versions.OKE_KUBERNETES.get(oke)
    eks: str = max(versions.KUBERNETES, key=versions.minor)
    return {
        "region": answers.region,
        "key": "" if aws else key_of(answers.region),
        "zones": zones,
        "eks_version": found.version if found else eks,
        "oke_version": oke,
        "monthly": str(monthly),
        "protect": _PROTECT if answers.kind == "prod" else (),
        "pools": _below("pools", (part for parts in held.values() for part in parts)),
        "runners": runners,
        "context": scalar(found.context) if found else "platform",
        "cluster_name": scalar(found.cluster) if found and found.cluster else "platform",
        "subnets": [
            f"{scalar(zone)}: subnet-0aaaaaaaaaaaaaaa{number}"
            for number, zone in enumerate((found.zones if found else ()) or answers.zones[:2], 1)
        ],
        "installed": _installed(found) if found else _ASKED,
        "enablement": found.enablement if found else "device-plugin",
        "machine_compartment": _MACHINES if containers else (),
        "watched": ", compartment: ocid1.compartment.oc1..exampleci" if containers else "",
        "gpu_image": f"oke-gpu: {{id: ocid1.image.oc1.{answers.region}.examplegpu, driver: {_DRIVER}}}" if held else (),
        "addons": f"addonVersions: {{ClusterAutoscaler: {row.autoscaler}}}" if held and row and row.autoscaler else (),
    }


def _below(key: str, parts: Iterable[Part | Group]) -> list[str]:
    """The parts below a key; nothing at all if there is none."""
    lines = [f"  {line}" for part in parts for line in part.lines()]
    return [f"{key}:", *lines] if lines else []


def _newest_oke() -> str:
    """The newest minor whose autoscaler a source names."""
    return max((name for name, row in versions.OKE_KUBERNETES.items() if row.autoscaler), key=versions.minor)


def _machines(answers: Answers, zones: str, most: int) -> Iterator[str]:
    shape = small(answers)[0]
    if shape.bare_metal:
        raise InputError(f"--jobs: containers needs a VM shape, and OCI has none with {answers.gpu}; choose another --gpu")
    return _filled(
        "vm",
        name=f"vm-{slug(answers.gpu)}",
        shape=shape.name,
        region=answers.region,
        driver=_DRIVER,
        zones=zones,
        most=str(min(most, 4)),
    )


def _owned(answers: Answers) -> dict[str, str | Iterable[str]]:
    """A pool for each machine of the owner, and its runner sets."""
    is_repository = answers.organization.count("/") > 3
    talos: str = TalosCluster.model_fields["talos_version"].default
    newest = versions.minor(versions.TALOS[talos].kubernetes[1])
    kubernetes: str = max((each for each in versions.TALOS_KUBERNETES if versions.minor(each) <= newest), key=versions.minor)
    own = {name: machine.as_machine(name) for name, machine in answers.machines.items()}
    return {
        "talos_version": talos,
        "kubernetes_version": kubernetes,
        "stack": answers.stack,
        "repository": answers.organization if is_repository else f"{answers.organization}/gpu-ci",
        "machines": (
            f"{name}: {in_braces(machine.model_dump(by_alias=True, exclude_unset=True))}"
            for name, machine in answers.machines.items()
        ),
        "pools": [line for number, machine in enumerate(own.values()) for line in _own_pool(number, machine)],
        "runners": _sets(answers, [Part(name, (machine,), "", "", 1) for name, machine in own.items()]),
    }


def _own_pool(number: int, machine: Machine) -> Iterator[str]:
    """The pool of one machine. Talos' own partitions take less than the tenth of the disk that stays free."""
    blackwell = machine.gpu is not None and machine.gpu.architecture == "blackwell"
    yield f"{machine.name}:"
    yield f"  instanceTypes: [{machine.name}]"
    yield "  role: burst"
    yield f"  disk: {machine.nvme_gb * 9 * 10**8 // 2**30}Gi"
    yield from ["  driver: {kernelModules: open}"] * blackwell
    yield "  nodes:"
    yield "    hosts:"
    yield f"      {machine.name}: {{address: 192.0.2.{20 + number}, installDisk: /dev/nvme0n1}}"


def _described(answers: Answers, found: Found) -> dict[str, str | Iterable[str]]:
    """A cluster whose GPU nodes are there."""
    return {
        "context": scalar(found.context),
        "installed": _installed(found),
        "enablement": found.enablement,
        "pools": _below("pools", found.groups),
        "runners": _sets(answers, [Part(group.name, (group.machine,), "", "", group.count) for group in found.groups]),
    }


def _sets(answers: Answers, parts: Iterable[Part]) -> list[str]:
    """A runner set for each pool of machines that are there, and for its nodes with several GPUs."""
    runners: list[str] = []
    for part in parts:
        labels, gpus = () if runners else GENERIC_LABELS, part.machines[0].gpus
        if "tests" in answers.jobs:
            about = "The default set: any subset of its labels selects it." if labels else "Has no labels: jobs name it."
            runners += Jobs(f"gpu-{part.name}", (part,), 1, about, labels).lines()
        if "training" in answers.jobs and gpus > 1:
            runners += Jobs(f"gpu-{part.name}-training", (part,), gpus, f"Each job gets the {gpus} GPUs of one node.").lines()
    if not runners:
        raise InputError("--jobs: training needs a node with several GPUs, and the cluster has none; write --jobs tests")
    return runners


def _installed(found: Found) -> Iterator[str]:
    yield "# What the cluster has already. The program installs the rest."
    yield f"installed: {joined(found.installed)}"
    if found.controller is not None:
        yield "# Its version must be that of the runner sets: docs/existing-clusters.md."
        namespace, account = map(scalar, found.controller)
        yield f"controller: {{namespace: {namespace}, serviceAccount: {account}}}"
