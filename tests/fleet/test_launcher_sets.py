"""Runner sets whose runners are OCI machines: launcher pods that Kubernetes takes, with the rights they need and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest
from pydantic import TypeAdapter

from fleet.charts.arc import CONTROLLER
from fleet.charts.chart import Chart
from fleet.facts import hardware, pricing
from fleet.facts.scheduling import (
    MACHINE_CAPACITY,
    MACHINE_DISK,
    MACHINE_REGIONS,
    MACHINE_SHAPES,
    RUNNER_PRIORITY,
    system_labels,
)
from fleet.facts.versions import CNCF_LAUNCHER_IMAGE, LAUNCHER_IMAGE
from fleet.loading.config import load
from fleet.prove.bill import bill, lines as lines_of
from fleet.providers.fleet import Fleet
from fleet.providers.oke.launcher_set import LAUNCHER
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner
from tests.builders import SAN_JOSE, read_stack, vm, vm_per_job
from tests.charts import launcher_set
from tests.day import AS_OF
from tests.fleet.conformance import STACKS, cluster_charts
from tests.fleet.values import mebibytes, pod_of, runner_of_pod

KUBERNETES = "1.34"
COMPARTMENT = "ocid1.compartment.oc1..example"
HERE = {"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE], "subnet": "ocid1.subnet.oc1.us-sanjose-1.example"}
THERE = {
    "region": "us-ashburn-1",
    "availabilityDomains": ["abcd:US-ASHBURN-AD-2", "abcd:US-ASHBURN-AD-3"],
    "subnet": "ocid1.subnet.oc1.iad.example",
}


def cncf(**changes: Any) -> VmPerJobRunner:
    settings = vm_per_job(launcher="cncf", **{"places": [HERE]} | changes)
    # It finds its image by name.
    del settings["image"]
    return TypeAdapter(VmPerJobRunner).validate_json(json.dumps(settings))


STANDING = TypeAdapter(VmRunner).validate_json(json.dumps(vm(count=2, labels=["a10"])))
PER_JOB = TypeAdapter(VmPerJobRunner).validate_json(json.dumps(vm_per_job(launcherImage="registry.example.com/oci:1")))
RUNNERS: dict[str, MachineRunner] = {"standing": STANDING, "per-job": PER_JOB, "cncf": cncf(group="GPUs")}
OWN = ("standing", "per-job")

each_runner = pytest.mark.parametrize("name", RUNNERS)
each_own = pytest.mark.parametrize("name", OWN)


def chart(name: str, runner: MachineRunner | None = None) -> Chart:
    return launcher_set(
        name,
        runner or RUNNERS[name],
        "https://github.com/example",
        "GPUs",
        region="us-sanjose-1",
        compartment=COMPARTMENT,
    )


def spec(name: str) -> dict[str, Any]:
    return dict(pod_of(chart(name))["spec"])


def container(name: str) -> dict[str, Any]:
    return runner_of_pod(pod_of(chart(name)))


def arguments(runner: MachineRunner) -> list[str]:
    found: list[str] = runner_of_pod(pod_of(chart("cncf", runner)))["args"]
    return found


# -- every launcher ----------------------------------------------------------------------------------------------------


@each_runner
def test_a_launcher_is_a_valid_pod(name: str) -> None:
    kubernetes_validate.validate(pod_of(chart(name)), KUBERNETES, strict=True)


@each_runner
def test_a_set_of_machines_is_named_and_sized_as_its_class(name: str) -> None:
    values, runner = chart(name).values, RUNNERS[name]
    assert values["runnerScaleSetName"] == name
    assert values["scaleSetLabels"] == list(runner.labels)
    assert values["runnerGroup"] == "GPUs"
    assert (values["minRunners"], values["maxRunners"]) == (runner.span.min, runner.span.max)
    assert chart(name).needs == (CONTROLLER,)


def test_as_many_launchers_as_machines_stand_ready() -> None:
    values = chart("standing").values
    assert values["minRunners"] == values["maxRunners"] == STANDING.count


@each_runner
def test_a_launcher_stays_on_the_system_pool_and_takes_no_gpu(name: str) -> None:
    assert spec(name)["nodeSelector"].items() <= system_labels("sjc").items()
    assert "tolerations" not in spec(name)
    resources = container(name)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert mebibytes(resources["limits"]["memory"]) > mebibytes(resources["requests"]["memory"])


@each_runner
def test_a_launcher_is_left_alone_and_has_time_to_terminate_its_machine(name: str) -> None:
    assert noted(chart(name))["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false", "a machine without launcher leaks"
    assert spec(name)["terminationGracePeriodSeconds"] == 600
    assert spec(name)["priorityClassName"] == RUNNER_PRIORITY.name, "a job ends with its launcher as with its runner"


# -- what a launcher says of its machine -------------------------------------------------------------------------------


def noted(of: Chart) -> dict[str, str]:
    """Annotations of the pod of a set."""
    return dict(pod_of(of)["metadata"]["annotations"])


@pytest.mark.parametrize("launcher", ["gpu-ci", "cncf"])
def test_a_launcher_says_what_it_boots_as_the_bill_names_it(launcher: str) -> None:
    places = [HERE, THERE | {"securityGroup": "ocid1.networksecuritygroup.oc1.iad.a", "image": "ocid1.image.oc1.iad.a"}]
    changes: dict[str, Any] = {"shapes": ["VM.GPU3.1"], "capacity": "spot", "disk": "512Gi"}
    if launcher == "cncf":
        runner = cncf(places=[HERE, THERE], **changes)
    else:
        runner = TypeAdapter(VmPerJobRunner).validate_json(json.dumps(vm_per_job(places=places, **changes)))
    found = noted(chart("set", runner))
    assert {key: value for key, value in found.items() if key.startswith("gpu-ci/")} == {
        "gpu-ci/machine-shapes": "VM.GPU3.1",
        "gpu-ci/machine-capacity": "spot",
        "gpu-ci/machine-disk-gb": "512",
        "gpu-ci/machine-regions": "us-sanjose-1,us-ashburn-1",
    }
    assert all(isinstance(value, str) for value in found.values()), "Kubernetes takes no other annotation"


def test_standing_machines_are_an_instance_pool_and_are_not_said_twice() -> None:
    assert set(noted(chart("standing"))) == {"cluster-autoscaler.kubernetes.io/safe-to-evict"}


def _per_job_sets() -> list[tuple[Fleet, str, str, VmPerJobRunner]]:
    fleets = [load(read_stack(path)) for path in STACKS.values()]
    return [
        (fleet, cluster, name, runner)
        for fleet in fleets
        for cluster, name, runner in fleet.runner_sets()
        if isinstance(runner, VmPerJobRunner)
    ]


def _said_line(fleet: Fleet, cluster: str, name: str) -> tuple[pricing.Line, float]:
    """The bill's line of a set and the GB of its disks at worst, from nothing but the chart's values."""
    values = cluster_charts(fleet, cluster)[name].values
    said = values["template"]["metadata"]["annotations"]
    least, most = values["minRunners"], values["maxRunners"]
    shapes, item = said[MACHINE_SHAPES].split(","), f"machines {name}"
    lines = [
        pricing.nodes(cluster, item, shapes, region, said[MACHINE_CAPACITY], least, most)
        for region in said[MACHINE_REGIONS].split(",")
    ]
    return max(lines, key=lambda line: (line.dear.unknown, line.dear.usd)), most * float(said[MACHINE_DISK])


def test_from_what_launchers_say_their_lines_of_the_bill_follow() -> None:
    sets = _per_job_sets()
    assert len(sets) >= 3, "prod and the example have some"
    for fleet, cluster, name, _ in sets:
        line, _ = _said_line(fleet, cluster, name)
        assert replace(line, average=line.least) in bill(fleet, AS_OF)


@pytest.mark.parametrize(("here", "there"), [(1.0, 3.0), (3.0, 1.0), (2.0, None), (None, 2.0)])
def test_machines_cost_what_they_do_in_the_dearest_of_their_regions(
    monkeypatch: pytest.MonkeyPatch, here: float | None, there: float | None
) -> None:
    """Oracle's list prices are the same everywhere, so the table cannot show it."""
    asked = {"us-sanjose-1": here, "us-ashburn-1": there}

    def price(_: str, region: str, __: str) -> hardware.Price | None:
        usd = asked[region]
        return None if usd is None else hardware.Price(usd, at_most=False, source="a test", date="2026-11-21")

    monkeypatch.setattr(hardware, "price", price)
    sets = [each for each in _per_job_sets() if {place.region for place in each[3].places} == set(asked)]
    assert len(sets) >= 3, "prod and the example have some"
    for fleet, cluster, name, _ in sets:
        line, _ = _said_line(fleet, cluster, name)
        assert replace(line, average=line.least) in list(lines_of(cluster, fleet.clusters[cluster], AS_OF))
        assert line.dear == (pricing.Money(unknown=1) if None in (here, there) else pricing.Money(3.0))


def test_from_what_launchers_say_their_disks_follow() -> None:
    for fleet, cluster, name, runner in _per_job_sets():
        without = fleet.clusters[cluster].model_copy(
            update={"runners": {key: value for key, value in fleet.clusters[cluster].runners.items() if key != name}}
        )
        (whole,), (rest,) = (
            [line for line in lines_of(cluster, held, AS_OF) if line.item == "disks"]
            for held in (fleet.clusters[cluster], without)
        )
        assert whole.most - rest.most == pytest.approx(_said_line(fleet, cluster, name)[1])
        assert runner.disk == 1024 * (whole.most - rest.most) / runner.scale.max


# -- our own -----------------------------------------------------------------------------------------------------------


@each_own
def test_our_launcher_runs_the_program_of_its_config_map(name: str) -> None:
    found = container(name)
    assert found["command"] == ["python3", "/etc/gpu-ci/launcher.py"], "the image's own entry point is the oci command"
    assert "args" not in found
    (mount,) = [mount for mount in found["volumeMounts"] if mount["mountPath"] == "/etc/gpu-ci"]
    assert mount["readOnly"] is True
    (volume,) = [volume for volume in spec(name)["volumes"] if volume["name"] == mount["name"]]
    assert volume == {"name": "launcher", "configMap": {"name": LAUNCHER}}


def test_the_launchers_image_is_pinned_unless_the_settings_name_one() -> None:
    assert container("standing")["image"] == LAUNCHER_IMAGE
    assert container("per-job")["image"] == "registry.example.com/oci:1"
    assert container("cncf")["image"] == CNCF_LAUNCHER_IMAGE
    assert all("@sha256:" in image for image in (LAUNCHER_IMAGE, CNCF_LAUNCHER_IMAGE))


@each_own
def test_our_launcher_signs_as_its_own_workload(name: str) -> None:
    assert spec(name)["serviceAccountName"] == LAUNCHER, "the statement in OCI names this account"
    assert spec(name)["automountServiceAccountToken"] is True, "OKE exchanges the token for rights in OCI"
    pod, *rest = container(name)["env"]
    assert pod == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, "host names are cut at 63"
    variables = {entry["name"]: entry["value"] for entry in rest}
    assert variables == {
        "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
        "OCI_RESOURCE_PRINCIPAL_REGION": "us-sanjose-1",
        "PYTHONUNBUFFERED": "1",
    }


@each_own
def test_our_launcher_writes_to_a_small_scratch_folder_alone(name: str) -> None:
    assert container(name)["securityContext"]["readOnlyRootFilesystem"] is True
    writable = [mount["name"] for mount in container(name)["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["tmp"]
    (volume,) = [volume for volume in spec(name)["volumes"] if volume["name"] == "tmp"]
    assert mebibytes(volume["emptyDir"]["sizeLimit"]) == 64


@each_own
def test_no_id_of_the_cloud_enters_the_values_of_our_set(name: str) -> None:
    """They are known late, and are in the ConfigMap."""
    assert "ocid1." not in json.dumps(chart(name).values)


# -- CNCF's ------------------------------------------------------------------------------------------------------------


def test_cncfs_launcher_has_its_own_entry_point_and_an_api_key_by_name() -> None:
    found = container("cncf")
    assert "command" not in found, "its entry point chooses the cloud"
    assert found["env"] == [{"name": "OCI_CONFIG_FILE", "value": "/etc/oci/config"}]
    mounts = {mount["mountPath"]: (mount["name"], mount["readOnly"]) for mount in found["volumeMounts"]}
    assert mounts == {"/etc/oci": ("oci-config", True), "/oci": ("oci-api-key", True)}
    assert spec("cncf")["volumes"] == [
        {"name": "oci-config", "secret": {"secretName": "oci-config"}},
        {"name": "oci-api-key", "secret": {"secretName": "oci-api-key"}},
    ]


def test_cncfs_launcher_has_no_rights_in_the_cluster() -> None:
    assert chart("cncf").values["template"]["spec"].get("serviceAccountName") is None, "the chart's own account has none"
    assert spec("cncf")["automountServiceAccountToken"] is False


def test_cncfs_launcher_gets_these_arguments() -> None:
    runner = cncf(shapes=["VM.GPU.A10.1"], places=[HERE, THERE])
    assert arguments(runner) == [
        "--arch=amd64",
        "--shape=VM.GPU.A10.1",
        f"--compartment-id={COMPARTMENT}",
        "--region=us-sanjose-1",
        "--availability-domain=abcd:US-SANJOSE-1-AD-1",
        "--subnet-id=ocid1.subnet.oc1.us-sanjose-1.example",
        "--fallback-region=us-ashburn-1",
        "--fallback-availability-domain=abcd:US-ASHBURN-AD-2,abcd:US-ASHBURN-AD-3",
        "--fallback-subnet-id=ocid1.subnet.oc1.iad.example",
        "--preemptible=false",
        "--preemption-queue-configmap=",
        "--boot-volume-size-gb=400",
    ]


@pytest.mark.parametrize("places", [1, 2, 3])
def test_cncfs_three_fallback_lists_are_of_one_length_and_never_its_own_defaults(places: int) -> None:
    third = THERE | {"region": "us-phoenix-1", "availabilityDomains": ["abcd:PHX-AD-1"], "subnet": "ocid1.subnet.oc1.phx.example"}
    runner = cncf(places=[HERE, THERE, third][:places])
    lists = [
        [argument for argument in arguments(runner) if argument.startswith(f"--fallback-{kind}=")]
        for kind in ("region", "availability-domain", "subnet-id")
    ]
    assert [len(found) for found in lists] == [max(places - 1, 1)] * 3, "left out, they are places of CNCF's own tenancy"
    domains = [argument.partition("=")[2] for argument in lists[1]]
    assert all(domains) is (places > 1), "a place without domains is never tried"


def test_cncfs_launcher_is_told_whether_its_machine_is_preemptible() -> None:
    spot = cncf(shapes=["VM.GPU3.1"], capacity="spot")
    assert "--preemptible=true" in arguments(spot), "its default is true, so both are said"
    assert "--preemptible=false" in arguments(cncf())


def test_cncfs_launcher_tries_the_shapes_in_the_given_order() -> None:
    assert "--shape=BM.GPU.B4.8,BM.GPU4.8" in arguments(cncf(shapes=["BM.GPU.B4.8", "BM.GPU4.8"]))


def test_the_size_of_the_boot_volume_is_in_gibibytes() -> None:
    assert "--boot-volume-size-gb=512" in arguments(cncf(disk="512Gi"))
