"""Runners that are OCI machines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.facts import versions
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner
from tests.builders import SAN_JOSE, vm, vm_per_job
from tests.cases import cases

DIGEST = "registry.example.com/launcher@sha256:" + "0" * 64
OTHER = {"region": "us-ashburn-1", "availabilityDomains": ["abcd:US-ASHBURN-AD-2"]}


def standing(**changes: Any) -> VmRunner:
    """One standing VM.GPU.A10.1; `changes` replace keys."""
    return VmRunner.model_validate_json(json.dumps(vm(**changes)))


def per_job(**changes: Any) -> VmPerJobRunner:
    """Up to two VM.GPU.A10.1, one a job; `changes` replace keys."""
    return VmPerJobRunner.model_validate_json(json.dumps(vm_per_job(**changes)))


def cncf(**changes: Any) -> VmPerJobRunner:
    """The same by CNCF's launcher, in one place with a subnet."""
    place = {"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE], "subnet": "ocid1.subnet.oc1..example"}
    settings = {key: value for key, value in vm_per_job().items() if key != "image"}
    return VmPerJobRunner.model_validate_json(json.dumps(settings | {"launcher": "cncf", "places": [place]} | changes))


def test_a_standing_machine_is_a_runner_from_the_first_minute() -> None:
    runner = standing(count=3)
    assert (runner.span.min, runner.span.max) == (3, 3)
    assert (runner.called, runner.asks) == ("standing VMs", "1 GPU, a whole machine")


def test_a_machine_a_job_follows_its_scale() -> None:
    runner = per_job(shapes=["VM.GPU.A10.2"], scale={"max": 20})
    assert (runner.span.min, runner.span.max) == (0, 20)
    assert (runner.called, runner.asks) == ("VM per job", "2 GPU, a whole machine")


@pytest.mark.parametrize("runner", [standing(), per_job()])
def test_what_is_not_said_of_a_machine(runner: MachineRunner) -> None:
    assert runner.disk == 400 * 1024
    assert (runner.toolkit, runner.nvkind, runner.launcher_image) == (versions.VM_TOOLKIT, True, None)
    assert runner.toolkit.startswith("1.17."), "the version of seed 002"


def test_shapes_and_places_keep_their_order() -> None:
    own = {"subnet": "ocid1.subnet.oc1.iad.example", "image": "ocid1.image.oc1.iad.example"}
    here = {"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE]}
    runner = per_job(shapes=["BM.GPU.B4.8", "BM.GPU4.8"], places=[OTHER | own, here])
    assert [machine.name for machine in runner.machines] == ["BM.GPU.B4.8", "BM.GPU4.8"]
    assert [place.region for place in runner.places] == ["us-ashburn-1", "us-sanjose-1"]


# -- what goes together ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("toolkit", ["1.17.8-1", "1.17.0-1", "1.19.1-1"])
def test_nvkind_works_with_toolkits_of_two_minors(toolkit: str) -> None:
    assert standing(toolkit=toolkit).toolkit == toolkit


@cases("toolkit", ["1.18.0-1", "1.20.0-1", "1.16.2-1", "1.170.0-1", "11.17.0-1"])
def test_a_toolkit_that_nvkind_does_not_work_with_needs_nvkind_off(toolkit: str) -> None:
    assert standing(toolkit=toolkit, nvkind=False).toolkit == toolkit
    for runner in (standing, per_job):
        with pytest.raises(ValidationError, match="the pinned nvkind works with toolkit 1"):
            runner(toolkit=toolkit)


@pytest.mark.parametrize("shape", ["VM.GPU2.1", "VM.GPU3.1"])
def test_old_gpus_take_an_image_with_an_old_driver(shape: str) -> None:
    image = {"id": "ocid1.image.oc1..example"}
    for runner in (standing, per_job):
        assert runner(shapes=[shape], image=image | {"driver": "580.159.03"}).machines[0].gpu is not None
        with pytest.raises(ValidationError, match="works with driver branch R580 or older"):
            runner(shapes=[shape], image=image | {"driver": "595.58.03"})


def test_preemptible_machines_are_of_older_shapes_and_never_for_releases() -> None:
    assert per_job(shapes=["VM.GPU3.1"], capacity="spot").capacity == "spot"
    with pytest.raises(ValidationError, match="OCI has no preemptible capacity of this shape; use on-demand"):
        per_job(capacity="spot")
    with pytest.raises(ValidationError, match="OCI has no preemptible bare metal; use on-demand"):
        per_job(shapes=["BM.GPU3.8"], capacity="spot")
    with pytest.raises(ValidationError, match="a release job must not run on preemptible capacity"):
        per_job(shapes=["VM.GPU3.1"], capacity="spot", role="release")


def test_any_shape_that_a_job_may_land_on_has_the_same_gpus() -> None:
    assert per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"]).machines[1].gpus == 8
    with pytest.raises(ValidationError, match="shapes of one set must have the same GPU model and count, and these are VM"):
        per_job(shapes=["VM.GPU.A10.1", "VM.GPU.A10.2"])
    with pytest.raises(ValidationError, match="a shape is given twice; remove one"):
        per_job(shapes=["VM.GPU.A10.1", "VM.GPU.A10.1"])


@cases("seconds", ["10m", "600s", "24h", "120h"])
def test_a_machine_lives_ten_minutes_to_five_days(seconds: str) -> None:
    assert 600 <= per_job(lifetime=seconds).lifetime <= 432_000


@pytest.mark.parametrize("text", ["599s", "9m", "121h"])
def test_a_lifetime_outside_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="a lifetime is from 10m to 120h"):
        per_job(lifetime=text)


def test_a_place_has_domains_and_ids_of_its_region() -> None:
    whole = OTHER | {
        "subnet": "ocid1.subnet.oc1.iad.example",
        "securityGroup": "ocid1.networksecuritygroup.oc1.us-ashburn-1.example",
        "image": "ocid1.image.oc1..example",
    }
    assert per_job(places=[whole]).places[0].security_group == whole["securityGroup"]
    for key, kind in (("subnet", "subnet"), ("securityGroup", "networksecuritygroup"), ("image", "image")):
        with pytest.raises(ValidationError, match="this OCID belongs to region us-phoenix-1; use one of us-ashburn-1"):
            per_job(places=[whole | {key: f"ocid1.{kind}.oc1.phx.example"}])
    with pytest.raises(ValidationError, match="not an availability domain of us-ashburn-1; use that region's"):
        per_job(places=[whole | {"availabilityDomains": [SAN_JOSE]}])


def test_no_place_is_tried_twice() -> None:
    two = OTHER | {"availabilityDomains": ["abcd:US-ASHBURN-AD-1", "abcd:US-ASHBURN-AD-2"]}
    with pytest.raises(ValidationError) as caught:
        per_job(places=[OTHER, two])
    (error,) = caught.value.errors()
    assert error["ctx"] == {
        "message": "an earlier place has that availability domain; remove one",
        "at": ("places", "1", "availabilityDomains"),
        "value": "abcd:US-ASHBURN-AD-2",
    }


# -- launchers ---------------------------------------------------------------------------------------------------------


def test_cncfs_launcher_takes_shapes_places_disk_and_scale_and_nothing_that_it_has_no_argument_for() -> None:
    assert cncf(disk="300Gi", group="GPUs", scale={"max": 10}).launcher == "cncf"
    for changes in ({"toolkit": versions.VM_TOOLKIT}, {"nvkind": False}, {"lifetime": "2h"}):
        (key,) = changes
        with pytest.raises(ValidationError, match=f"CNCF's launcher has no setting for {key}; remove it"):
            cncf(**changes)


def test_the_launchers_images_are_pinned_by_digest() -> None:
    assert "@sha256:" in versions.LAUNCHER_IMAGE
    assert "@sha256:" in versions.CNCF_LAUNCHER_IMAGE
    assert tuple(standing().remarks()) == tuple(per_job().remarks()) == ()


@pytest.mark.parametrize("build", [standing, per_job, cncf])
def test_a_launcher_image_by_tag_is_a_remark_until_it_has_a_digest(build: Any) -> None:
    tagged = "launcher image registry.example.com/launcher:1 is a tag, which can change; set launcherImage with a digest"
    plain = tuple(build().remarks())
    assert tuple(build(launcherImage="registry.example.com/launcher:1").remarks()) == (tagged, *plain)
    assert tuple(build(launcherImage=DIGEST).remarks()) == plain


def test_what_cncfs_launcher_cannot_do_is_told() -> None:
    assert [remark.partition(" ")[0] for remark in cncf().remarks()] == ["CNCF's"] * 3
    assert "port 22" in next(cncf().remarks())


def test_bare_metal_sends_its_disks_traffic_in_clear_and_the_owner_is_told() -> None:
    assert tuple(standing(shapes=["BM.GPU.A10.4"]).remarks()) == (
        "OCI cannot encrypt the disk traffic of bare-metal GPU shapes (BM.GPU.A10.4); use VM shapes if you need that",
    )


@cases("runner", [standing(), per_job(), cncf(), per_job().places[0], standing().image])
def test_settings_of_machines_are_frozen(runner: Any) -> None:
    for field in type(runner).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(runner, field, None)
