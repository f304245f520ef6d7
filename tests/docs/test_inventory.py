"""docs/inventory-<stack>.md is what the settings and the program's own manifests give, and its numbers are those of the plan."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.scheduling import pool_selector
from fleet.facts.versions import IMAGES, KUBERNETES, OPERATOR_DRIVER, RUNNER_IMAGE
from fleet.jobs.stack import place_stack_job
from fleet.jobs.volumes import SHM
from fleet.loading.config import load as load_fleet
from fleet.loading.load import fleet_of
from fleet.loading.stackfile import load, stacks
from fleet.prove import placement
from fleet.prove.placement import Fit, fit, pool_host
from fleet.prove.room import Asked
from fleet.providers.fleet import Fleet
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.model import memory_text
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import CoralWorkload, PoolWorkload
from offline.inventory.page import document
from offline.inventory.pods import pod_of
from offline.inventory.sets import set_charts
from offline.inventory.users import users
from offline.plan import make_plan
from tests.builders import ROOT, cluster, config, oke_cluster, oke_pool, oke_runner, pool, runner, vm, vm_per_job
from tests.docs.inventory import Table, table, tables
from tests.docs.markdown import links
from tests.fleet.conformance import STACKS
from tests.offline.staging import few_policies

DOCS = ROOT / "docs"
GPU_WORK = "gpu-work"


@cache
def fleet_named(stack: str) -> Fleet:
    """The fleet of a stack file or an example, in the order in which the command has it."""
    return fleet_of(load(stack, ROOT, stack_file=STACKS[stack]))


@cache
def page_of(stack: str) -> str:
    return document(stack, fleet_named(stack))


def made(**clusters: dict[str, Any]) -> tuple[Fleet, str]:
    """A fleet of these clusters, and its page."""
    fleet = load_fleet(config(clusters=clusters))
    return fleet, document("made", fleet)


# -- the pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", stacks(ROOT))
def test_the_page_of_each_stack_is_current(stack: str) -> None:
    assert (DOCS / f"inventory-{stack}.md").read_text() == page_of(stack), "run `make docs`"


def test_there_is_no_page_of_a_stack_that_is_gone() -> None:
    assert {path.name for path in DOCS.glob("inventory-*.md")} == {f"inventory-{stack}.md" for stack in stacks(ROOT)}


@pytest.mark.parametrize("page", ["README.md", "docs/workloads.md"])
def test_every_page_is_linked(page: str) -> None:
    path = ROOT / page
    found = {(path.parent / target).resolve() for target in links(path) if ":" not in target}
    assert found >= set(DOCS.glob("inventory-*.md"))


EVERYTHING = "one node holds, limited by"


def everything(page: str, name: str) -> Table:
    return table(page, f"What takes GPUs in `{name}`", EVERYTHING)


@pytest.mark.parametrize("stack", STACKS)
def test_all_that_the_settings_have_is_on_the_page(stack: str) -> None:
    page = page_of(stack)
    for name, held in fleet_named(stack).clusters_by_name():
        teams = held.queues.teams if held.queues is not None else {}
        names = [f"`{each}`" for each in (*held.runners, *held.workloads, *held.jobs, *teams)]
        assert sorted(set(everything(page, name).names)) == sorted(names)
        assert table(page, f"Runner sets of `{name}`", "runs-on").names == [f"`{each}`" for each in held.runners]
        for column in ("a node advertises", "root disk"):
            assert table(page, f"Pools of `{name}`", column).names == [f"`{each}`" for each in held.pools]
        assert table(page, f"What takes GPUs in `{name}`", "the pool holds").names == [f"`{each}`" for each in held.pools]
        pods = [
            f"`{each}`" + (", its launcher" if isinstance(held.runners.get(each), MachineRunner) else "")
            for each in (*held.runners, *held.workloads, *held.jobs)
        ]
        for column in ("image", "node selector"):
            assert table(page, f"Pods of `{name}`", column).names == pods
        machines = [f"`{each}`" for each, runs in held.runners.items() if isinstance(runs, MachineRunner)]
        if machines:
            assert table(page, f"Machines of `{name}`", "driver").names == machines


def holds(fits: tuple[Fit, ...]) -> str:
    return "<br>".join(f"`{found.machine.name}`: {found.count}, {found.limited_by}" for found in fits)


@pytest.mark.parametrize("stack", STACKS)
def test_one_node_holds_what_placement_says(stack: str) -> None:
    page, fleet = page_of(stack), fleet_named(stack)
    for found in placement.place(fleet):
        assert everything(page, found.cluster).row(found.runner_set)[EVERYTHING] == holds(found.fits)
    for name, held in fleet.clusters_by_name():
        for job in held.jobs:
            assert everything(page, name).row(job)[EVERYTHING] == holds(place_stack_job(fleet, name, job).chosen.fits)
        for workload, each in held.workloads.items():
            if isinstance(each, PoolWorkload):
                asked, host = Asked(each.units, each.cpu, each.memory, each.scratch), pool_host(held, each.pool)
                told = holds(tuple(fit(asked, machine, host) for machine in host.machines))
                assert everything(page, name).row(workload)[EVERYTHING] == told


@pytest.mark.parametrize("stack", STACKS)
def test_what_a_set_asks_is_what_its_settings_say(stack: str) -> None:
    page = page_of(stack)
    for name, set_name, runs in fleet_named(stack).runner_sets():
        row = everything(page, name).row(set_name)
        pods = table(page, f"Pods of `{name}`", "image")
        if isinstance(runs, PodRunner):
            pool_settings = fleet_named(stack).clusters[name].pools[runs.pool]
            assert row["takes"] == f"{runs.gpus} x `{pool_settings.resource}`"
            assert row["pool"] == f"`{runs.pool}`"
            assert pods.row(set_name)["scratch disk"] == memory_text(runs.scratch)
            assert pods.row(set_name)[SHM] == (memory_text(runs.shm) if pool_settings.mounts_shm else "-")
        elif isinstance(runs, MachineRunner) and runs.machines[0].gpu is not None:
            assert row["takes"].startswith(f"{runs.machines[0].gpus} x {runs.machines[0].gpu.name}")
        least, most = runs.span.min, runs.span.max
        assert row["how many"] == (str(most) if least == most else f"{least}-{most}")


OF_THE_OPERATOR = "operator: {driver: {version: 580.173.02}"


@pytest.mark.parametrize("stack", ["prod", GPU_WORK, "oci-machines"])
def test_the_charts_that_the_page_reads_are_those_that_the_program_declares(stack: str, tmp_path: Path) -> None:
    # Where the runtime is not the default one, pods name it.
    text = STACKS[stack].read_text().replace(OF_THE_OPERATOR, f"{OF_THE_OPERATOR}, containerd: {{defaultRuntime: false}}")
    assert ("defaultRuntime" in text) is (stack == "oci-machines")
    path = tmp_path / f"Pulumi.{stack}.yaml"
    path.write_text(text)
    with few_policies():
        plan = make_plan(stack, ROOT, path)
    declared = {
        (str(each.inputs["namespace"]), str(each.inputs["name"])): each.inputs
        for each in plan.resources
        if each.type == "kubernetes:helm.sh/v3:Release"
    }
    levels = {
        each.inputs["metadata"]["name"]: each.inputs["metadata"]["labels"]
        for each in plan.resources
        if each.type == "kubernetes:core/v1:Namespace"
    }
    seen = 0
    for name, _ in plan.fleet.clusters_by_name():
        for chart in set_charts(plan.fleet, name).values():
            assert plain(declared[chart.namespace, chart.name]["values"]) == plain(chart.values)
            assert levels[chart.namespace]["pod-security.kubernetes.io/enforce"] == chart.pod_security
            seen += 1
    assert seen == sum(1 for _ in plan.fleet.runner_sets())


def plain(value: object) -> Any:
    """As JSON has it: what was recorded has floats and other mappings."""
    return json.loads(json.dumps(value, default=dict), parse_int=float)


# -- made fleets ---------------------------------------------------------------------------------------------------------

STORED = {"storage": {"size": "100Gi", "storageClass": "fast"}}
"""A volume of a class that somebody else makes."""


def shared() -> dict[str, Any]:
    """An EKS cluster whose pools share by turns and by MPS, with a Coral."""
    return cluster(
        pools={
            "sliced": pool(sharing={"strategy": "time-slicing", "replicas": 4}, nodes={"min": 1, "max": 2}),
            "mps": pool(instanceTypes=["g5.4xlarge"], sharing={"strategy": "mps", "replicas": 2}),
        },
        runners={
            "quarter": runner(pool="sliced", cpu={"request": 1, "limit": 2}, memory={"request": "4Gi", "limit": "6Gi"}),
            "half": runner(pool="mps", scale={"min": 1, "max": 5}),
        },
        workloads={
            "models": {"kind": "ollama", "pool": "sliced", **STORED},
            "check": {"kind": "nvidia-smi", "pool": "sliced"},
            "stick": {"kind": "coral", "node": {"example.com/coral": "true"}},
            "stick-at-gpu": {"kind": "coral", "node": {"example.com/other": "yes"}, "pool": "mps"},
        },
    )


def test_shares_are_counted_as_shares() -> None:
    _, page = made(usw2=shared())
    pools = table(page, "Pools of `usw2`", "a node advertises")
    assert pools.row("sliced")["a node advertises"] == "4 x `nvidia.com/gpu.shared`"
    assert pools.row("sliced")["shared"] == "time-slicing, 1/4 GPU each"
    assert pools.row("mps")["a node advertises"] == "2 x `nvidia.com/gpu.shared`"
    assert pools.row("sliced")["GPUs of a node"] == "1 x T4, 16 GiB each"
    found = everything(page, "usw2")
    assert found.row("quarter")[EVERYTHING] == "`g4dn.2xlarge`: 4, shares"
    assert found.row("models")[EVERYTHING] == "`g4dn.2xlarge`: 1, CPU", "its four CPU fit once, though there are four shares"
    assert found.row("models")["how many"] == "1, always"
    assert found.row("check")["how many"] == "1, once"


def test_what_is_asked_of_a_pool_stands_beside_what_it_holds() -> None:
    _, page = made(usw2=shared())
    taken = table(page, "What takes GPUs in `usw2`", "the pool holds")
    # 2 runners, Ollama and the one-time check of 2 nodes of 4 shares; Ollama stays.
    assert list(taken.row("sliced").values()) == ["`sliced`", "2", "2", "0", "0", "4", "8", "1"]
    assert list(taken.row("mps").values()) == ["`mps`", "5", "0", "0", "0", "**5**", "4", "1"], "more than it holds is in bold"


def test_under_mps_no_pod_mounts_a_shm_of_its_own() -> None:
    _, page = made(usw2=shared())
    pods = table(page, "Pods of `usw2`", SHM)
    assert pods.row("half")[SHM] == "-"
    assert pods.row("quarter")[SHM] == "2Gi"


def test_a_coral_takes_no_gpu_and_has_its_node_s_usb_bus() -> None:
    _, page = made(usw2=shared())
    row = everything(page, "usw2").row("stick")
    assert row["takes"] == "no GPU, but the device `/dev/bus/usb` of its node"
    assert (row["pool"], row[EVERYTHING]) == ("-", "-")
    assert table(page, "Pods of `usw2`", "volumes").row("stick")["volumes"] == "**host path** `/dev/bus/usb` at `/dev/bus/usb`"
    landing = table(page, "Pods of `usw2`", "node selector")
    assert landing.row("stick")["node selector"] == "`example.com/coral=true`"
    assert landing.row("stick")["tolerations"] == "-"
    assert landing.row("stick")["Pod Security"] == "**privileged**"
    assert landing.row("stick-at-gpu")["tolerations"] == "`nvidia.com/gpu:NoSchedule`"
    wanted = table(page, "What nodes must have", "of the host")
    (alone,) = [row for row in wanted.rows if row["for"] == "`stick`"]
    assert (alone["nodes"], alone["GPU"], alone["driver"]) == ("`usw2`, with `example.com/coral=true`", "none", "-")
    assert (alone["CPU"], alone["memory"], alone["disk"], alone["of the host"]) == ("1", "1Gi", "5Gi", "**`/dev/bus/usb`**")
    (pooled,) = [row for row in wanted.rows if row["for"] == "`stick-at-gpu`"]
    assert pooled["nodes"] == "`usw2/mps`, with `example.com/other=yes`"
    assert pooled["memory"].startswith("1Gi of ")


def test_parts_of_mig_have_their_own_name_and_driver_and_toolkit_are_the_image_s() -> None:
    mig = pool(instanceTypes=["p4d.24xlarge"], sharing={"strategy": "mig", "profile": "1g.5gb"})
    _, page = made(
        use1=cluster(enablement="gpu-operator", pools={"parts": mig}, runners={"part": runner(pool="parts")}),
    )
    assert table(page, "Pools of `use1`", "shared").row("parts")["a node advertises"] == "56 x `nvidia.com/mig-1g.5gb`"
    assert everything(page, "use1").row("part")["takes"] == "1 x `nvidia.com/mig-1g.5gb`"
    assert table(page, "Pools of `use1`", "root disk").row("parts")["driver and toolkit"] == (
        f"driver `{KUBERNETES['1.34'].driver}` and toolkit in image `al2023-nvidia`"
    )


def machines() -> dict[str, Any]:
    """An OKE cluster whose driver the operator installs, with preemptible nodes and machines of both kinds."""
    return oke_cluster(
        enablement="gpu-operator",
        operator={"driver": {"version": "580.173.02"}, "containerd": {"defaultRuntime": False}},
        pools={"v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot", image="ubuntu", nodes={"min": 0, "max": 3})},
        runners={"pods": oke_runner(pool="v100"), "one-job": vm_per_job(labels=["big"]), "standing": vm(count=2)},
        workloads={"torch": {"kind": "pytorch", "pool": "v100"}},
    )


def test_machines_are_told_with_their_places_and_launchers() -> None:
    _, page = made(sjc=machines())
    row = everything(page, "sjc").row("one-job")
    assert (row["kind"], row["namespace"], row["how many"]) == ("runner set of machines", "`runners-one-job`", "0-2")
    assert row["takes"] == "1 x A10, 22 GiB each, a whole `VM.GPU.A10.1`"
    assert everything(page, "sjc").row("standing")["how many"] == "2"
    told = table(page, "Machines of `sjc`", "driver")
    assert told.row("one-job")["where, in this order"] == "`us-sanjose-1`: `abcd:US-SANJOSE-1-AD-1`"
    assert (told.row("standing")["driver"], told.row("standing")["kind"]) == ("`580.159.03`", "standing VMs")
    sets = table(page, "Runner sets of `sjc`", "runs-on")
    assert sets.row("one-job")["runs-on"] == "`one-job`, `big`"
    launchers = table(page, "Pods of `sjc`", "node selector").rows
    (launcher,) = [row for row in launchers if row["pod of"] == "`one-job`, its launcher"]
    assert launcher["node selector"] == "`gpu-ci/pool=system`"


def test_what_an_operator_installs_and_its_pods_must_say_is_told() -> None:
    _, page = made(sjc=machines())
    row = table(page, "Pools of `sjc`", "root disk").row("v100")
    assert row["driver and toolkit"] == "driver `580.173.02` and toolkit by the operator, on image `ubuntu`"
    assert row["taints"] == "`nvidia.com/gpu=present:NoSchedule`<br>`oci.oraclecloud.com/oke-is-preemptible=present:NoSchedule`"
    landing = table(page, "Pods of `sjc`", "node selector")
    for name in ("pods", "torch"):
        assert landing.row(name)["RuntimeClass"] == "`nvidia`"
        tolerated = "`nvidia.com/gpu:NoSchedule`<br>`oci.oraclecloud.com/oke-is-preemptible:NoSchedule`"
        assert landing.row(name)["tolerations"] == tolerated


def test_a_driver_is_bounded_by_images_and_by_the_gpu() -> None:
    _, page = made(sjc=machines())
    (row,) = table(page, "What nodes must have", "driver").rows
    assert row["for"] == "`pods`, `torch`"
    assert row["driver"] == f"R{IMAGES['pytorch'].least_driver} at least, R580 at most<br>has 580.173.02"
    assert row["GPU"] == "1 x `nvidia.com/gpu`, compute capability 7.0 at least (has 7.0)"
    assert row["processor"] == "`x86_64`"
    assert "Of these images no source says" in page, "the runner's image brings no CUDA"
    assert RUNNER_IMAGE.partition("@")[0] in page.rpartition("Of these images")[2]


def test_images_that_name_their_cuda_want_the_driver_that_troubleshooting_tells() -> None:
    told = re.search(r"Least driver by CUDA: (.*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    assert told is not None
    branches = dict(re.findall(r"(\d+) needs (\d+)", told[1]))
    tagged = {each: re.search(r"cuda:?(\d+)\.|cu(\d\d)\d-", each.reference) for each in IMAGES.values()}
    wanted = {image.reference: int(branches[found[1] or found[2]]) for image, found in tagged.items() if found}
    assert len(wanted) == 4, "CUDA's own, deviceQuery, PyTorch, ComfyUI"
    assert {image.reference: image.least_driver for image, found in tagged.items() if found} == wanted


def test_what_the_operator_installs_unless_told_otherwise_is_known() -> None:
    _, page = made(sjc=oke_cluster(enablement="gpu-operator", pools={"a10": oke_pool(image="ubuntu")}))
    (row,) = table(page, "What nodes must have", "driver").rows
    assert row["driver"] == f"no bound is known<br>has {OPERATOR_DRIVER}"


def test_a_driver_that_nobody_told_is_not_made_up() -> None:
    images = {"system": {"id": "ocid1.image.oc1..examplesystem"}, "oke-gpu": {"id": "ocid1.image.oc1..examplegpu"}}
    _, page = made(sjc=oke_cluster(nodeImages=images))
    (row,) = table(page, "What nodes must have", "driver").rows
    assert row["driver"] == "no bound is known<br>which it has is not known"
    assert table(page, "Pools of `sjc`", "root disk").row("a10")["driver and toolkit"] == "driver and toolkit in image `oke-gpu`"


def test_teams_are_told_with_what_goes_with_their_gpus() -> None:
    page = page_of(GPU_WORK)
    row = everything(page, "usw2").row("research")
    assert (row["kind"], row["pool"], row["takes"]) == ("team queue", "`a10g`", "2 x `nvidia.com/gpu` of its own")
    assert (row["CPU"], row["memory"]) == ("15.4", "57Gi")
    assert everything(page, "usw2").row("baseline")["how many"] == "1, once, in queue `research`"
    taken = table(page, "What takes GPUs in `usw2`", "the pool holds").row("a10g")
    assert (taken["jobs"], taken["queues"], taken["together at most"]) == ("0", "4", "4"), "a queued Job takes of the queue's"


def test_claims_are_told_with_their_sizes_and_classes() -> None:
    volumes = table(page_of(GPU_WORK), "Pods of `usw2`", "volumes")
    assert volumes.row("ollama")["volumes"] == "claim `ollama-models` at `/ollama` (100Gi, class `cache-models`, ReadWriteOnce)"
    assert volumes.row("baseline")["volumes"] == (
        "claim `models` at `/models` (500Gi, class `cache-models`, ReadWriteMany), read only"
    )
    disks = {row["nodes"]: row["disk"] for row in table(page_of(GPU_WORK), "What nodes must have", "disk").rows}
    assert disks["`usw2/t4-sliced`"] == "20Gi of 179Gi<br>claims of 100Gi, class `cache-models`"
    assert disks["`usw2/a10g`"] == "20Gi of 179Gi", "a cache is not the job's own"


def test_a_claim_of_the_provider_s_class_says_so() -> None:
    notebook = {"kind": "tf-notebook", "pool": "a10", "storage": {"size": "20Gi"}}
    _, page = made(sjc=oke_cluster(workloads={"notebook": notebook}))
    assert "(20Gi, the default class, ReadWriteOnce)" in table(page, "Pods of `sjc`", "volumes").row("notebook")["volumes"]


def test_a_team_s_limits_and_preemption_are_told() -> None:
    queues = {
        "cohort": "gpu",
        "teams": {
            "a": {
                "namespaces": ["a"],
                "quotas": [{"pool": "t4", "nominal": 2, "borrow": 0, "lend": 1}],
                "preemption": {"reclaimWithinCohort": "Any"},
            },
            "b": {"namespaces": ["b"], "quotas": [{"pool": "t4", "nominal": 0}]},
        },
    }
    _, page = made(usw2=cluster(queues=queues))
    found = table(page, "Queues of `usw2`", "own")
    assert list(found.row("a").values())[4:] == ["2 x `nvidia.com/gpu`", "0", "1", "reclaimWithinCohort: Any"]
    assert list(found.row("b").values())[4:] == ["0 x `nvidia.com/gpu`", "all that is lent", "all", "none"]


def test_a_cluster_without_pools_and_one_without_users_have_a_page() -> None:
    _, page = made(sjc=oke_cluster(pools={}, runners={"one-job": vm_per_job()}), iad=cluster(runners={}))
    assert everything(page, "sjc").names == ["`one-job`"]
    assert "| advertises GPUs | nothing, there is no pool |" in page
    assert not [each for each in tables(page) if each.headings[-1] == "What takes GPUs in `iad`" and EVERYTHING in each.columns]
    assert table(page, "Pools of `iad`", "root disk").names == ["`t4`"]


# -- the reader of pods --------------------------------------------------------------------------------------------------


def test_every_pod_of_a_pool_selects_it() -> None:
    for stack in STACKS:
        fleet = fleet_named(stack)
        for name, held in fleet.clusters_by_name():
            for user in users(fleet, name):
                if user.pool and not isinstance(held.workloads.get(user.name), CoralWorkload):
                    assert user.pod.selector.items() >= pool_selector(user.pool).items()


def test_a_pod_of_two_kinds_of_gpus_is_not_told_as_one_of_one() -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1, "cpu": "1", "memory": "1Gi"}
    spec = {"containers": [{"name": "odd", "image": "x", "resources": {"requests": limits, "limits": limits}}]}
    with pytest.raises(ValueError, match=r"odd: takes nvidia\.com/gpu, nvidia\.com/mig-1g\.5gb"):
        pod_of(spec)
