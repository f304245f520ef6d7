"""docs/inventory-<stack>.md is what the settings and the program's own manifests give, and its numbers are those of the plan."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.scheduling import is_gpu_resource, node_choice, pool_selector
from fleet.facts.versions import IMAGES, KUBERNETES, LAUNCHER_IMAGE, OPERATOR_DRIVER
from fleet.loading.config import fleet_of, load as load_fleet
from fleet.loading.stackfile import load, stacks
from fleet.prove.placement import place
from fleet.providers.fleet import Fleet
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import CoralWorkload
from gpu_ci.offline.inventory.page import JOBS, document, set_charts, users
from gpu_ci.offline.plan import make_plan
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


@pytest.mark.parametrize("page", ["docs/all-pages.md", "docs/workloads.md"])
def test_every_page_is_linked(page: str) -> None:
    path = ROOT / page
    found = {(path.parent / target).resolve() for target in links(path) if ":" not in target}
    assert found >= set(DOCS.glob("inventory-*.md"))


EVERYTHING = "takes"
VOLUMES = "host paths, claims and secrets"


def everything(page: str, name: str) -> Table:
    return table(page, f"GPU users of `{name}`", EVERYTHING)


def without_gpus(page: str, name: str) -> list[str]:
    """The users of pools without GPUs, as the page names them."""
    return [
        row for found in tables(page) if found.headings[-1] == f"Users of pools without GPUs of `{name}`" for row in found.names
    ]


def _of_cpus(cluster: Cluster) -> list[str]:
    """The runner classes and workloads of pools without GPUs."""
    classes = (name for name, runner in cluster.pod_runners.items() if not runner.gpus or runner.runner_pool is not None)
    pooled = ((name, getattr(workload, "pool", None)) for name, workload in cluster.workloads.items())
    return [*classes, *(name for name, its_pool in pooled if its_pool and its_pool not in cluster.gpu_pools)]


@pytest.mark.parametrize("stack", STACKS)
def test_all_that_the_settings_have_is_on_the_page(stack: str) -> None:
    page = page_of(stack)
    for name, held in fleet_named(stack).clusters_by_name():
        of_all = (*held.runners, *held.workloads, *held.jobs)
        of_cpus = _of_cpus(held)
        assert sorted(without_gpus(page, name)) == sorted(f"`{each}`" for each in of_cpus)
        # Jobs in containers have GPUs, and their runners are elsewhere.
        of_gpus = [each for each in of_all if each not in of_cpus or (each in held.pod_runners and held.pod_runners[each].gpus)]
        assert sorted(set(everything(page, name).names)) == sorted(f"`{each}`" for each in of_gpus)
        for heading, column in (("Pools", "a node advertises"), ("Pools", "the pool has"), ("Nodes", "container toolkit")):
            if held.gpu_pools:
                assert table(page, f"{heading} of `{name}`", column).names == [f"`{each}`" for each in held.gpu_pools]
            else:
                assert f"## {heading} of `{name}`" not in page
        pods = [f"`{each}`" + (", its launcher" if isinstance(held.runners.get(each), MachineRunner) else "") for each in of_all]
        pods += [f"`{each}`, its runner" for each, runs in held.pod_runners.items() if runs.in_containers]
        for column in ("image", "Pod Security"):
            assert sorted(table(page, f"Pods of `{name}`", column).names) == sorted(pods)


@pytest.mark.parametrize("stack", STACKS)
def test_what_a_set_asks_is_what_its_settings_say(stack: str) -> None:
    page = page_of(stack)
    for name, set_name, runs in fleet_named(stack).runner_sets():
        of_cpus = isinstance(runs, PodRunner) and not runs.gpus
        heading = f"{'Users of pools without GPUs' if of_cpus else 'GPU users'} of `{name}`"
        row = table(page, heading, EVERYTHING).row(set_name)
        if isinstance(runs, PodRunner):
            pool_settings = fleet_named(stack).clusters[name].pools[runs.ordered[0]]
            assert row["takes"] == (f"{runs.gpus} x `{pool_settings.resource}`" if runs.gpus else "no GPU")
            assert row["pool"] == ", then ".join(f"`{each}`" for each in runs.ordered)
            assert row["disk"] == memory_text(runs.scratch)
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
    assert found.row("quarter")["takes"] == "1 x `nvidia.com/gpu.shared`"
    assert found.row("models")["how many"] == "1, always"
    assert found.row("check")["how many"] == "1, once"


def test_what_is_asked_of_a_pool_stands_beside_what_it_holds() -> None:
    _, page = made(usw2=shared())
    taken = table(page, "Pools of `usw2`", "the pool has")
    # 2 runners, Ollama and the one-time check of 2 nodes of 4 shares; Ollama stays.
    assert list(taken.row("sliced").values())[-3:] == ["4", "8", "1"]
    assert list(taken.row("mps").values())[-3:] == ["**5**", "4", "1"], "more than it has is in bold"


def test_a_coral_takes_no_gpu_and_has_its_node_s_usb_bus() -> None:
    _, page = made(usw2=shared())
    row = everything(page, "usw2").row("stick")
    assert row["takes"] == "no GPU, but the device `/dev/bus/usb` of a node with `example.com/coral=true`"
    assert row["pool"] == "-"
    assert (row["CPU"], row["memory"], row["disk"]) == ("1", "1Gi", "5Gi")
    pods = table(page, "Pods of `usw2`", VOLUMES)
    assert pods.row("stick")[VOLUMES] == "**host path** `/dev/bus/usb` at `/dev/bus/usb`"
    assert pods.row("stick")["Pod Security"] == "**privileged**"
    pooled = everything(page, "usw2").row("stick-at-gpu")
    assert pooled["pool"] == "`mps`"
    assert pooled["takes"].endswith(" of a node with `example.com/other=yes`")
    assert table(page, "Nodes of `usw2`", "used by").row("mps")["used by"] == "`half`, `stick-at-gpu`"


def test_what_uses_no_gpu_stands_apart_and_names_no_device() -> None:
    pools = {"t4": pool(), **{name: pool(instanceTypes=["m6i.2xlarge"], nodes={"max": 2}) for name in ("b2", "b3")}}
    classes = {"gpu-t4": runner(), "cpu": runner(pool="b2", gpus=0)}
    _, page = made(
        usw2=cluster(
            pools=pools, runners=classes, workloads={"builder": {"kind": "buildkit", "pool": "b3", "runners": ["gpu-t4"]}}
        )
    )
    assert everything(page, "usw2").names == ["`gpu-t4`"]
    found = table(page, "Users of pools without GPUs of `usw2`", EVERYTHING)
    assert [(row["what"], row["takes"], row["pool"]) for row in found.rows] == [
        ("`cpu`", "no GPU", "`b2`"),
        ("`builder`", "no GPU", "`b3`"),
    ]


SIDECAR = {
    "name": "cache",
    "image": "example/cache:1",
    "resources": {size: {"cpu": "500m", "memory": "1Gi"} for size in ("requests", "limits")},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}


@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_a_sidecar_counts_in_what_a_pod_requests_and_its_image_and_claims_are_told(key: str) -> None:
    template = {
        key: [SIDECAR | ({"restartPolicy": "Always"} if key == "initContainers" else {})],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    fleet, page = made(usw2=cluster(runners={"gpu-t4": runner(template=template)}))
    plain_fleet, plain_page = made(usw2=cluster(runners={"gpu-t4": runner()}))
    row, alone = everything(page, "usw2").row("gpu-t4"), everything(plain_page, "usw2").row("gpu-t4")
    assert (alone["CPU"], alone["memory"], alone["takes"]) == ("4", "16Gi", row["takes"])
    assert (row["CPU"], row["memory"]) == ("4500m", "17Gi")
    assert [placement.asks for made_fleet in (plain_fleet, fleet) for placement in place(made_fleet)] == [
        "1 GPU, 4 CPU, 16Gi",
        "1 GPU, 4.5 CPU, 17Gi",
    ]
    pods = table(page, "Pods of `usw2`", VOLUMES).row("gpu-t4")
    assert pods["image"].endswith("<br>`example/cache:1`")
    assert pods[VOLUMES] == "claim `data` at `/data`"


def test_parts_of_mig_have_their_own_name_and_driver_and_toolkit_are_the_image_s() -> None:
    mig = pool(instanceTypes=["p4d.24xlarge"], sharing={"strategy": "mig", "profile": "1g.5gb"})
    _, page = made(
        use1=cluster(enablement="gpu-operator", pools={"parts": mig}, runners={"part": runner(pool="parts")}),
    )
    assert table(page, "Pools of `use1`", "shared").row("parts")["a node advertises"] == "56 x `nvidia.com/mig-1g.5gb`"
    assert everything(page, "use1").row("part")["takes"] == "1 x `nvidia.com/mig-1g.5gb`"
    nodes = table(page, "Nodes of `use1`", "used by").row("parts")
    assert nodes["driver"] == f"`{KUBERNETES['1.34'].driver}` in image `al2023-nvidia`"
    assert nodes["container toolkit"] == "in image `al2023-nvidia`"


def machines() -> dict[str, Any]:
    """An OKE cluster whose driver the operator installs, with preemptible nodes and machines of both kinds."""
    return oke_cluster(
        enablement="gpu-operator",
        operator={"driver": {"version": "580.173.02"}, "containerd": {"defaultRuntime": False}},
        pools={"v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot", image="ubuntu", nodes={"min": 0, "max": 3})},
        runners={"pods": oke_runner(pool="v100"), "one-job": vm_per_job(labels=["big"]), "standing": vm(count=2)},
        workloads={"torch": {"kind": "pytorch", "pool": "v100"}},
    )


def test_machines_are_told_with_their_launchers() -> None:
    _, page = made(sjc=machines())
    row = everything(page, "sjc").row("one-job")
    assert (row["kind"], row["namespace"], row["how many"]) == ("runner set of machines", "`runners-one-job`", "0-2")
    assert row["takes"] == "1 x A10, 22 GiB each, a whole `VM.GPU.A10.1`"
    assert everything(page, "sjc").row("standing")["how many"] == "2"
    launchers = table(page, "Pods of `sjc`", "image").rows
    (launcher,) = [row for row in launchers if row["pod of"] == "`one-job`, its launcher"]
    assert launcher["image"].startswith(f"`{LAUNCHER_IMAGE.partition('@')[0]}`, `sha256:")


def test_what_an_operator_installs_is_told() -> None:
    _, page = made(sjc=machines())
    row = table(page, "Nodes of `sjc`", "used by").row("v100")
    assert row["driver"] == "`580.173.02` by the GPU operator, on image `ubuntu`"
    assert row["container toolkit"] == "by the GPU operator, on image `ubuntu`"


def test_a_driver_is_bounded_by_images_and_by_the_gpu() -> None:
    _, page = made(sjc=machines())
    (row,) = table(page, "Nodes of `sjc`", "driver needed").rows
    assert row["used by"] == "`pods`, `torch`"
    assert row["driver needed"] == f"R{IMAGES['pytorch-cuda12.6'].least_driver} at least, R580 at most"
    assert row["compute capability needed"] == "5.0 at least (the GPU has 7.0)"
    assert row["processor needed"] == "`x86_64`"


def test_images_that_name_their_cuda_want_the_driver_that_troubleshooting_tells() -> None:
    told = re.search(r"Least driver by CUDA: (.*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    assert told is not None
    branches = dict(re.findall(r"(\d+) needs (\d+)", told[1]))
    tagged = {each: re.search(r"cuda:?(\d+)\.|cu(\d\d)\d-", each.reference) for each in IMAGES.values()}
    wanted = {image.reference: int(branches[found[1] or found[2]]) for image, found in tagged.items() if found}
    assert len(wanted) == 6, "CUDA's own, deviceQuery, three of PyTorch, ComfyUI"
    assert {image.reference: image.least_driver for image, found in tagged.items() if found} == wanted


def test_what_the_operator_installs_unless_told_otherwise_is_known() -> None:
    _, page = made(sjc=oke_cluster(enablement="gpu-operator", pools={"a10": oke_pool(image="ubuntu")}))
    (row,) = table(page, "Nodes of `sjc`", "driver needed").rows
    assert row["driver"].startswith(f"`{OPERATOR_DRIVER}` by the GPU operator")
    assert row["driver needed"] == "not known"


def test_a_driver_that_nobody_told_is_not_made_up() -> None:
    images = {"system": {"id": "ocid1.image.oc1..examplesystem"}, "oke-gpu": {"id": "ocid1.image.oc1..examplegpu"}}
    _, page = made(sjc=oke_cluster(nodeImages=images))
    (row,) = table(page, "Nodes of `sjc`", "driver needed").rows
    assert row["driver needed"] == "not known"
    assert row["driver"] == "version not known, in image `oke-gpu`"
    assert row["container toolkit"] == "in image `oke-gpu`"


def test_a_job_of_several_pools_uses_each_of_them() -> None:
    pools = {"spot": pool(capacity="spot"), "t4": pool(), "other": pool()}
    jobs = {"train": {"namespace": "research", "image": "example:1", "pools": ["spot", "t4"]}}
    _, page = made(usw2=cluster(pools=pools, runners={}, jobs=jobs))
    assert everything(page, "usw2").row("train")["pool"] == "`spot`, then `t4`"
    taken = table(page, "Pools of `usw2`", "the pool has")
    assert [taken.row(name)["at most"] for name in pools] == ["1", "1", "0"]


def test_claims_are_told_with_their_sizes_and_classes() -> None:
    pods = table(page_of(GPU_WORK), "Pods of `usw2`", VOLUMES)
    assert pods.row("ollama")[VOLUMES] == "claim `ollama-models` at `/ollama` (100Gi, class `cache-models`, ReadWriteOnce)"
    assert pods.row("baseline")[VOLUMES] == (
        "claim `models` at `/models`, read only (500Gi, class `cache-models`, ReadWriteMany)"
    )


def test_a_claim_of_the_provider_s_class_says_so() -> None:
    notebook = {"kind": "tf-notebook", "pool": "a10", "storage": {"size": "20Gi"}}
    _, page = made(sjc=oke_cluster(workloads={"notebook": notebook}))
    assert "(20Gi, the default class, ReadWriteOnce)" in table(page, "Pods of `sjc`", VOLUMES).row("notebook")[VOLUMES]


def test_a_cluster_without_pools_and_one_without_users_have_a_page() -> None:
    _, page = made(sjc=oke_cluster(pools={}, runners={"one-job": vm_per_job()}), iad=cluster(runners={}))
    assert everything(page, "sjc").names == ["`one-job`"]
    assert "GPUs are advertised by nothing: the cluster has no GPU pool." in page
    assert not [each for each in tables(page) if each.headings[-1] == "GPU users of `iad`"]
    assert table(page, "Pools of `iad`", "the pool has").names == ["`t4`"]


# -- the users -----------------------------------------------------------------------------------------------------------


def test_every_pod_of_a_pool_selects_it() -> None:
    for stack in STACKS:
        fleet = fleet_named(stack)
        for name, held in fleet.clusters_by_name():
            for user in users(fleet, name):
                if not user.pools or isinstance(held.workloads.get(user.name), CoralWorkload):
                    continue
                selectors = [held.pools[pool].node_selector(pool) for pool in user.pools]
                assert held.provider == "kubernetes" or selectors == list(map(pool_selector, user.pools))
                if len(selectors) > 1:
                    assert user.spec["affinity"] == node_choice(selectors)["affinity"]
                else:
                    assert user.spec["nodeSelector"].items() >= selectors[0].items()


@pytest.mark.parametrize("stack", STACKS)
def test_what_a_pod_requests_is_what_its_manifest_requests(stack: str) -> None:
    fleet = fleet_named(stack)
    for name, held in fleet.clusters_by_name():
        for user in users(fleet, name):
            if user.ask is None:
                continue
            asked = user.container["resources"]
            if user.kind == JOBS:
                # Its services and a container action are beside it (tests/fleet/test_container_jobs.py).
                assert user.ask.cpu.request > 1000 * float(asked["requests"]["cpu"])
                continue
            units = {key: int(count) for key, count in asked["limits"].items() if is_gpu_resource(key)}
            assert units == ({held.pools[user.pools[0]].resource: user.gpus} if user.gpus else {})
            requests = {key: asked["requests"][key] for key in ("cpu", "memory", "ephemeral-storage")}
            assert requests == {
                "cpu": cpu_text(user.ask.cpu.request),
                "memory": memory_text(user.ask.memory.request),
                "ephemeral-storage": memory_text(user.ask.scratch),
            }
