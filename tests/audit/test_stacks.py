"""Our own stack files become pools and classes as the plan has them."""

import subprocess
import sys
from datetime import date

import pytest

from fleet.loading.config import read_fleet
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings
from tests.audit.reading import seen
from tests.builders import ROOT

FILES = [ROOT / "Pulumi.prod.yaml", ROOT / "Pulumi.homelab.yaml", *sorted((ROOT / "examples").glob("Pulumi.*.yaml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_stack_file_is_its_pools_and_classes(file):
    found = audit(file)
    clusters = dict(read_fleet(file.name.split(".")[1], file).clusters_by_name())
    assert {(one.group, one.name) for one in found.pools} == {
        (name, pool) for name, each in clusters.items() for pool in each.pools
    }
    classes = {(name, runner) for name, each in clusters.items() for runner in each.runners}
    assert {(one.cluster, one.name) for one in found.classes} == classes
    assert (found.unread, found.not_read) == ([], [])


def test_pools_have_the_sizes_labels_and_taints_of_their_nodes():
    found = audit(ROOT / "Pulumi.prod.yaml")
    pool = next(one for one in found.pools if one.name == "t4-ondemand")
    assert (pool.scaler, pool.types, pool.maximum, pool.disk, pool.capacities) == (
        "managed group",
        ("g4dn.2xlarge",),
        4,
        200,
        ("on-demand",),
    )
    assert pool.labels["gpu-ci/pool"] == "t4-ondemand"
    assert [taint.key for taint in pool.taints] == ["nvidia.com/gpu"]
    assert pool.at.place.endswith("Pulumi.prod.yaml:50")


def test_classes_have_the_pod_of_a_runner_or_of_a_job_or_a_machine():
    containers, machines = (
        audit(ROOT / "examples" / f"Pulumi.{name}.yaml").classes for name in ("container-jobs", "oci-machines")
    )
    job = next(one for one in containers if one.job is not None)
    assert "nvidia.com/gpu" in (job.job or {})["containers"][0]["resources"]["limits"]
    assert (job.by, job.needs_container, job.version != "") == ("gpu-ci", True, True)
    assert {one.machines for one in machines} >= {("VM.GPU.A10.1",)}


def test_pools_that_share_gpus_offer_their_shares_and_all_classes_have_a_home():
    found = audit(ROOT / "examples" / "Pulumi.gpu-work.yaml")
    assert "nvidia.com/gpu.shared" in next(one for one in found.pools if one.name == "t4-sliced").allocatable
    assert [one.subject for one in findings(found, date(2026, 11, 20)) if one.rule == "no-pool"] == []


def test_a_broken_stack_file_is_a_line_with_its_place(tmp_path):
    text = (ROOT / "examples" / "Pulumi.small.yaml").read_text().replace("instanceTypes:", "instanceType:", 1)
    assert "instanceType:" in text
    values = "githubConfigUrl: https://github.com/acme\n"
    (line, *_) = seen(tmp_path, values=values, **{"Pulumi.small": text}).not_read
    assert "Pulumi.small.yaml:" in line
    assert "instanceType" in line


def test_reading_a_stack_file_imports_no_pulumi():
    code = "import sys; from pathlib import Path; from gpu_ci.audit.reading import audit; audit(Path('Pulumi.prod.yaml'))"
    check = f"{code}; sys.exit(any(name.split('.')[0] == 'pulumi' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0
