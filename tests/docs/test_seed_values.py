"""The values that the seeds spell out: 000 against staging and the right-size example, 001, and 002 and 003 against prod."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.charts.device_plugin import device_plugin
from fleet.facts import hardware, versions
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import EKS_PROFILE, GPU_RESOURCE, GPU_TOLERATION, Effect, Taint
from fleet.jobs.profiles import PROFILES
from fleet.loading.config import load
from fleet.prove import placement
from fleet.providers.eks.nodes import EksPool
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.compatibility import branch, require_driver
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from tests.builders import ROOT, config, oke_cluster, pool_of, read_stack, reserved, runner_of, staging, vm, vm_per_job
from tests.charts import gpu_operator, launcher_set, runner_set
from tests.docs.inside import stack
from tests.docs.markdown import anchors, fences
from tests.fleet.conformance import STACKS

EXAMPLE = ROOT / "examples" / "Pulumi.right-size.yaml"


@cache
def usw2() -> Any:
    return staging().clusters["usw2"]


def gpu_t4() -> PodRunner:
    runner = usw2().runners["gpu-t4"]
    assert isinstance(runner, PodRunner)
    return runner


def runner_pod() -> Any:
    return runner_set("gpu-t4", gpu_t4(), "https://github.com/example", "gpu").values["template"]["spec"]


def right_size() -> dict[str, Pool]:
    pools: dict[str, Pool] = load(read_stack(EXAMPLE)).clusters["usw2"].pools
    return pools


def test_the_default_set_is_reached_by_the_guides_labels():
    guide = ["self-hosted", "linux", "x64", "gpu", "cuda"]
    assert list(gpu_t4().labels) == guide
    assert runner_set("gpu-t4", gpu_t4(), "https://github.com/example", "gpu").values["scaleSetLabels"] == guide


def test_a_runner_lives_for_one_job():
    chart = runner_set("gpu-t4", gpu_t4(), "https://github.com/example", "gpu")
    assert chart.chart == "gha-runner-scale-set", "the runners of the older controller's charts may have several"


def test_a_runner_asks_and_is_limited_as_in_the_guide():
    resources = runner_pod()["containers"][0]["resources"]
    guide = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"cpu": "8", "memory": "32Gi"}}
    for kind, amounts in guide.items():
        held = {name: str(amount) for name, amount in resources[kind].items()}
        assert held.items() >= {**amounts, GPU_RESOURCE: "1"}.items(), kind
    (usual,) = load(config()).clusters["usw2"].runners.values()
    assert usual.gpus == 1, "also where the settings give no number"


def test_the_default_image_is_pinned_by_digest_and_a_set_may_have_its_own():
    assert runner_pod()["containers"][0]["image"] == versions.RUNNER_IMAGE
    assert "@sha256:" in versions.RUNNER_IMAGE, "a tag may change under a running fleet"
    own = runner_of(image="123456789012.dkr.ecr.us-west-2.amazonaws.com/runner-gpu:1")
    values = runner_set("own", own, "https://github.com/example", "gpu").values
    assert values["template"]["spec"]["containers"][0]["image"] == own.image


def test_a_runner_tolerates_the_guides_taint():
    assert runner_pod()["tolerations"] == [GPU_TOLERATION.manifest()]
    assert GPU_TOLERATION.covers(Taint("nvidia.com/gpu", "true", Effect.NO_SCHEDULE))


def test_runners_and_nodes_scale_between_the_guides_bounds():
    nodes = usw2().pools["t4-spot"].nodes
    assert (gpu_t4().scale.min, gpu_t4().scale.max) == (0, 10)
    assert (nodes.min, nodes.max) == (0, 5)


def test_an_idle_node_may_wait_as_long_as_either_delay_of_the_guide():
    assert usw2().pools["t4-spot"].idle_delay == 300
    assert pool_of(idleDelay="1m").idle_delay == 60


def test_the_burst_pool_is_spot_over_two_sizes_of_g4dn():
    pool = usw2().pools["t4-spot"]
    assert pool.capacity == "spot"
    assert pool.instance_types == ("g4dn.2xlarge", "g4dn.4xlarge")


def test_the_guides_runner_needs_more_than_the_guides_default_type():
    host = placement.pool_host(usw2(), "t4-spot")
    assert placement.fit(gpu_t4(), hardware.machine("g4dn.xlarge"), host).count == 0, "or the guide's default would do after all"
    assert placement.fit(gpu_t4(), hardware.machine("g4dn.2xlarge"), host).count == 1


@pytest.mark.parametrize(
    ("pool", "machine", "gpus", "gpu", "vcpus", "memory", "use"),
    [
        ("t4-small", "g4dn.xlarge", 1, "T4", 4, 16, "Small builds, testing"),
        ("t4-medium", "g4dn.2xlarge", 1, "T4", 8, 32, "Medium builds"),
        ("v100", "p3.2xlarge", 1, "V100", 8, 61, "Training, large builds"),
        ("a100", "p4d.24xlarge", 8, "A100", 96, 1152, "Large-scale training"),
    ],
)
def test_the_example_has_the_guides_table_of_types(pool, machine, gpus, gpu, vcpus, memory, use):
    (found,) = right_size()[pool].machines
    assert (found.name, found.gpus, found.vcpus) == (machine, gpus, vcpus)
    assert found.gpu is not None
    assert found.gpu.name == gpu
    assert found.memory_mib == memory * 1024
    assert f"# {use}" in EXAMPLE.read_text(), "the example says what the pool is for"


def test_the_example_has_the_guides_image():
    cluster: Any = load(read_stack(EXAMPLE)).clusters["usw2"]
    assert [name for name, pool in cluster.pools.items() if pool.ami == "gpu"] == ["t4-medium", "v100"]
    assert cluster.amis["gpu"].built is None, "it was never built"


@pytest.mark.parametrize("prefix", ["g4dn.", "p3.", "p4d."])
def test_the_guides_families_are_known(prefix):
    assert [machine for machine in hardware.machines("aws") if machine.name.startswith(prefix)]


def test_every_pool_has_a_gpu_that_the_driver_of_the_node_image_drives():
    driver = usw2().image_driver("t4-spot")
    assert driver is not None
    assert branch(driver) >= 535, "the guide's branch"
    for pool in chain(usw2().pools.values(), right_size().values()):
        for machine in pool.machines:
            require_driver(machine, driver, at=())


def test_no_release_is_older_than_the_guides():
    assert [int(part) for part in device_plugin().version.split(".")] >= [0, 14, 5]


# -- seed 002: CNCF's runners on OCI -----------------------------------------------------------------------------------

A10 = ("oracle-vm-gpu-a10-1", "oracle-vm-gpu-a10-2")
OLD_LABEL = "oracle-vm-16cpu-a10gpu-240gb"


@cache
def sjc() -> Any:
    return stack("prod").clusters["sjc"]


def part(page: str, title: str) -> str:
    """The text below a heading with this start, up to the next heading."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    found = re.search(rf"^(#+) {re.escape(title)}.*?\n(.*?)(?=^#{{1,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no part {title}"
    return found[2]


def machines(**runners: dict[str, Any]) -> dict[str, MachineRunner]:
    """Runner sets of machines on a cluster of their own."""
    fleet = load(config(clusters={"sjc": oke_cluster(runners=runners)}))
    return dict(fleet.clusters["sjc"].machine_runners())


@pytest.mark.parametrize(("name", "gpus"), list(zip(A10, (1, 2), strict=True)))
def test_cncfs_label_reaches_a_set_of_machines_of_as_many_a10_in_cncfs_group(name, gpus):
    runner = sjc().runners[name]
    assert isinstance(runner, MachineRunner)
    chart = launcher_set(
        name,
        runner,
        "https://github.com/example",
        stack("prod").group_of("sjc", runner),
        region=sjc().region,
        compartment=sjc().compartment,
    )
    assert chart.values["runnerScaleSetName"] == name, "the set's name is the label"
    assert chart.values["runnerGroup"] == stack("prod").github.group == "GPUs"
    assert [(machine.gpus, machine.gpu and machine.gpu.name) for machine in runner.machines] == [(gpus, "A10")]
    assert (runner.span.min, runner.span.max) == (0, 20)


def test_the_machine_is_the_guides_but_for_what_oracle_says_otherwise():
    machine = hardware.machine("VM.GPU.A10.1")
    assert machine.vcpus == 2 * 15, "OCPUs"
    assert machine.memory_mib == 240 * 1024
    assert machine.gpu_memory_mib == 24 * 10**9 // 2**20
    assert machine.network_gbps == 24
    assert hardware.machine("VM.GPU3.4").network_gbps == 24.6, "the guide's number is one line above in Oracle's table"


def test_the_pages_workflow_reaches_a_set_of_prod_by_label_and_group():
    (workflow,) = [
        fence.text
        for fence in fences()
        if fence.page.stem == "oci-runners" and fence.language == "yaml" and "runs-on" in fence.text
    ]
    (job,) = YAML(typ="safe", pure=True).load(workflow)["jobs"].values()
    assert job["runs-on"].keys() == {"labels", "group"}, "the object form"
    assert job["runs-on"]["labels"] in A10
    assert job["runs-on"]["group"] == stack("prod").group_of("sjc", sjc().runners[job["runs-on"]["labels"]])


def test_the_older_label_is_no_sets_name_and_may_be_added_to_one():
    fleets = [load(read_stack(path)) for path in STACKS.values()]
    assert OLD_LABEL not in {name for fleet in fleets for _, name, _ in fleet.runner_sets()}
    (runner,) = machines(a10=vm_per_job(labels=[OLD_LABEL])).values()
    values = launcher_set("a10", runner, "https://github.com/example", "GPUs", region="r", compartment="c").values
    assert OLD_LABEL in values["scaleSetLabels"]


def test_stack_files_name_the_compartment_and_the_example_has_the_guides_machine():
    example = load(read_stack(ROOT / "examples" / "Pulumi.oci-machines.yaml")).clusters["iad"]
    assert {sjc().compartment, example.compartment} == {"ocid1.compartment.oc1..example"}
    runner = example.runners["a10-standing"]
    assert isinstance(runner, MachineRunner)
    assert (runner.kind, [machine.name for machine in runner.machines]) == ("vm", ["VM.GPU.A10.1"])


@pytest.mark.parametrize("kind", [vm, vm_per_job])
def test_machines_have_the_guides_toolkit_unless_the_settings_say_another(kind):
    (usual,) = machines(a10=kind()).values()
    (other,) = machines(a10=kind(toolkit="1.19.1-1")).values()
    assert (usual.toolkit, other.toolkit) == ("1.17.8-1", "1.19.1-1")


@pytest.mark.parametrize("kind", [vm, vm_per_job])
def test_a_boot_volume_holds_cuda_images(kind):
    (runner,) = machines(a10=kind()).values()
    assert runner.disk == 400 * 1024
    assert all(pool.disk == 400 * 1024 for pool in sjc().pools.values())


def test_the_operator_brings_no_driver_into_a_kind_cluster():
    values = gpu_operator(NODE_IMAGES["nvkind"], OperatorSettings(), cdi=False, tolerations=EKS_PROFILE.tolerations).values
    assert values["driver"] == {"enabled": False}


@pytest.mark.parametrize("symptom", ["Failed to create Kind cluster with GPU support", "nvidia-container-runtime not found"])
def test_the_guides_symptom_is_found_where_it_is_mended(symptom):
    found = part("troubleshooting", "A kind cluster with GPUs fails")
    assert symptom in found
    assert "cdi.md#nvkind" in found


def test_the_issues_that_bar_newer_toolkits_are_tracked_with_their_state():
    nvkind = part("cdi", "nvkind")
    for number in (20, 57, 61):
        assert re.search(
            rf"^\| \[nvkind#{number}\]\(https://github.com/NVIDIA/nvkind/issues/{number}\) \| \w", nvkind, re.MULTILINE
        )


# -- seed 003: the layers ----------------------------------------------------------------------------------------------


def test_every_layer_of_the_guide_has_its_part():
    assert {"host", "container", "vm", "kubernetes"} <= anchors(ROOT / "docs" / "layers.md")


def test_the_guides_ways_into_a_vm_are_kinds_of_node_images_without_a_driver():
    for kind in ("passthrough", "vgpu-guest"):
        assert not NODE_IMAGES[kind].driver
    assert NODE_IMAGES["vgpu-guest"].licensed, "NVIDIA AI Enterprise"


@pytest.mark.parametrize(
    "variable", ["CONTAINERD_CONFIG", "CONTAINERD_SOCKET", "CONTAINERD_RUNTIME_CLASS", "CONTAINERD_SET_AS_DEFAULT"]
)
def test_the_fate_of_each_variable_of_the_guide_is_told_as_it_is(variable):
    (row,) = re.findall(rf"^\| `{variable}` \| ([^|]+) \| ([^|]+) \|$", part("layers", "`toolkit.env`"), re.MULTILINE)
    containerd = {"containerd": {"config": "/etc/containerd/config.toml", "socket": "/run/containerd/containerd.sock"}}
    operator = OperatorSettings.model_validate(containerd)
    values = gpu_operator(NODE_IMAGES["ubuntu"], operator, cdi=False, tolerations=EKS_PROFILE.tolerations).values
    written = variable in {entry["name"] for entry in values["toolkit"]["env"]}
    assert ("not written" in row[1]) is not written
    assert (row[0] == "yes") is written


def test_the_guides_warning_and_its_mend_are_found():
    numa = " ".join(part("layers", "NUMA node").split())
    assert "successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node" in numa
    assert "_PXM" in numa
    assert 'chipset.motherboardLayout = "acpi"' in numa


def test_a_notebook_that_a_proxy_cuts_off_is_told_the_way_past_it():
    found = part("troubleshooting", "A notebook behind a proxy")
    assert "WebSocket" in found
    assert "kubectl port-forward" in found


@pytest.mark.parametrize(
    ("image", "has"),
    [("base", ["libcudart"]), ("runtime", ["math libraries", "NCCL", "cuDNN"]), ("devel", ["headers", "multi-stage"])],
)
def test_the_three_cuda_images_are_told_apart_as_in_the_guide(image, has):
    (row,) = re.findall(rf"^\| `{image}` \|.*$", part("layers", "CUDA images"), re.MULTILINE)
    assert [word for word in has if word not in row] == []


# -- seed 001: GPU workers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["staging", "prod"])
def test_images_and_scratch_of_jobs_are_on_nvme(name: str) -> None:
    pools = [pool for cluster in stack(name).clusters.values() for pool in cluster.pools.values() if isinstance(pool, EksPool)]
    assert pools
    for pool in pools:
        assert pool.images_on_array, pool.instance_types
        assert all(machine.nvme_gb for machine in pool.machines)


@pytest.mark.parametrize("gpu", ["V100", "A100"])
def test_machines_with_the_guides_gpus_have_its_cores_and_memory_for_each(gpu):
    """8 cores and 32Gi a GPU at least, and a job's profile requests no more than a GPU's part of the machine."""
    found = [machine for machine in hardware.machines("aws") if machine.gpu and machine.gpu.name == gpu]
    assert found
    for machine in found:
        assert machine.vcpus >= 8 * machine.gpus, machine.name
        assert machine.memory_mib >= 32 * 1024 * machine.gpus, machine.name
        assert PROFILES[gpu.lower()].cpu.request <= 1000 * machine.vcpus / machine.gpus
        assert PROFILES[gpu.lower()].memory.request <= machine.memory_mib / machine.gpus


def test_the_examples_have_a_pool_of_each_gpu_of_the_guide():
    pools = {"V100": right_size()["v100"], "A100": reserved().clusters["use1"].pools["a100-reserved"]}
    for gpu, pool in pools.items():
        assert {machine.gpu and machine.gpu.name for machine in pool.machines} == {gpu}


def test_every_pinned_kubernetes_is_newer_than_the_guides():
    for minor in (*versions.KUBERNETES, *versions.OKE_KUBERNETES):
        assert tuple(map(int, minor.split("."))) >= (1, 28)


@pytest.mark.parametrize("mend", ["memory.limit", "gradient checkpointing", "smaller batches", "mixed precision"])
def test_each_of_the_guides_mends_of_memory_is_on_the_page(mend):
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert mend in page[page.index("## Out of memory") : page.index("## A node's GPU is broken")]
