"""Removed classes of OCI machines, on the real engine: no job comes, and what jobs need stays until their sets have no pod."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from fleet.facts.scheduling import LEAVING
from tests.engine import staging
from tests.engine.cli import ROOT
from tests.engine.live import Live
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

STACK, CLUSTER = "prod", "sjc"
STANDING, PER_JOB = "a10-standing", "oracle-vm-gpu-a10-1"
RELEASE, QUOTA = "kubernetes:helm.sh/v3:Release", "kubernetes:core/v1:ResourceQuota"
CRON = "kubernetes:batch/v1:CronJob"
POOL, CONFIG = "oci:Core/instancePool:InstancePool", "oci:Core/instanceConfiguration:InstanceConfiguration"
POLICY, GROUP = "oci:Identity/policy:Policy", "oci:Core/networkSecurityGroup:NetworkSecurityGroup"
MACHINES = rf"^runners-({STANDING}|{PER_JOB})/|^The launchers|sjc-({STANDING}|{PER_JOB})|-set\.|-machines$"
"""Words in what the machines of both classes have."""


def edit(site: Site, *, machines: bool) -> None:
    """The OKE cluster of prod alone, with or without a class of standing machines and one with a machine for each job."""
    document = yaml.safe_load(site.file.read_text())
    config = document["config"]
    config.pop("gpu-ci:permissionsBoundary", None)
    cluster = config["gpu-ci:clusters"][CLUSTER]
    config["gpu-ci:clusters"] = {CLUSTER: cluster}
    per_job = yaml.safe_load((ROOT / "Pulumi.prod.yaml").read_text())["config"]["gpu-ci:clusters"][CLUSTER]["runners"][PER_JOB]
    standing = {key: per_job[key] for key in ("shapes", "capacity", "image")} | {"kind": "vm", "role": "burst", "count": 2}
    standing["availabilityDomains"] = per_job["places"][0]["availabilityDomains"]
    cluster["runners"] = {STANDING: standing, PER_JOB: per_job} if machines else {}
    site.file.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with staging.built(tmp_path_factory.mktemp("machines"), STACK, ("kubernetes", "oci")) as built:
        edit(built, machines=True)
        built.up()
        yield built


def live(site: Site) -> dict[tuple[str, str], Live]:
    """All that both classes have, in Kubernetes and in OCI, by type and name."""
    everything = [*site.serving["kubernetes"].cloud.live(), *site.serving["oci"].cloud.live()]
    inputs = ("displayName", "description", "name")
    names = (
        (each, each.id if "/" in each.id else next((each.inputs[key] for key in inputs if key in each.inputs), ""))
        for each in everything
    )
    return {(each.type, name): each for each, name in names if re.search(MACHINES, name)}


def leaving(site: Site) -> set[str]:
    """The sets that are leaving, as an update names them."""
    return set(re.findall(r"runner set (\S+) is leaving", site.up().text))


def count(site: Site, of_class: str, pods: int) -> None:
    """What the controller of quotas counts."""
    quota = live(site)[QUOTA, f"runners-{of_class}/runners"]
    quota.outputs["status"] = {"used": {"pods": str(pods)}}


def test_machines_stay_until_their_set_has_no_pod(site: Site) -> None:
    before = live(site)
    assert {kind for kind, _ in before} >= {RELEASE, QUOTA, POOL, CONFIG, POLICY, GROUP, CRON}
    groups = {key: each.id for key, each in before.items() if key[0] == GROUP}
    assert len(groups) == 3, "one of all machines, and one of each class at the gateway"
    edit(site, machines=False)
    preview = site.cli(*staging.preview(STACK))
    assert preview.status == 0, re.findall(r"\[mandatory\].*\n.*\n.*", preview.text)
    for each in (STANDING, PER_JOB):
        count(site, each, 0)
    assert leaving(site) == {STANDING, PER_JOB}, "a job may have come until this update"
    now = live(site)
    assert {key: each.id for key, each in now.items()} == {key: each.id for key, each in before.items()}
    for key in before.keys() - {(RELEASE, f"runners-{name}/{name}") for name in (STANDING, PER_JOB)}:
        mark = {LEAVING.key: LEAVING.value} if key[0] == POOL else {}
        assert now[key].inputs == before[key].inputs | ({"freeformTags": before[key].tags | mark} if mark else {}), key
    for name in (STANDING, PER_JOB):
        values = now[RELEASE, f"runners-{name}/{name}"].inputs["values"]
        assert (values["minRunners"], values["maxRunners"]) == (0, 0)

    count(site, PER_JOB, 1)
    site.serving["oci"].cloud.asked.clear()
    assert leaving(site) == {PER_JOB}, "the other class has no pod"
    rest = live(site)
    assert {name for kind, name in before.keys() - rest.keys() if kind == POOL} == {f"sjc-{STANDING}"}
    assert groups.keys() <= rest.keys(), "OCI deletes no group of a machine that still ends"
    deleted = [each.type for each in site.serving["oci"].cloud.asked if each.method == "Delete" and not each.preview]
    assert deleted.index(POOL) < deleted.index(CONFIG)
    assert all(PER_JOB not in name for _, name in before.keys() - rest.keys())

    count(site, PER_JOB, 0)
    assert leaving(site) == set()
    assert {kind for kind, _ in live(site)} == {GROUP}
    assert leaving(site) == set()
    assert live(site) == {}
    site.up("--expect-no-changes")
    assert staging.CLEAR not in site.deployment().export


def test_a_class_that_comes_back_takes_jobs_again(site: Site) -> None:
    edit(site, machines=True)
    site.up()
    before = {key: (each.id, each.inputs) for key, each in live(site).items()}
    edit(site, machines=False)
    assert leaving(site) == {STANDING, PER_JOB}
    edit(site, machines=True)
    assert leaving(site) == set()
    assert {key: (each.id, each.inputs) for key, each in live(site).items()} == before
    site.up("--expect-no-changes")
