"""Definitions of pytorch/ci-infra become pools and classes with what its generators add."""

import csv
import os
from pathlib import Path

import pytest

from tests.audit.reading import seen, unread

FLEET = """\
fleet:
  name: g4dn
  arch: amd64
  gpu: true
  exclude_regions: [us-west-1]
  instances:
  - {type: g4dn.metal, weight: 100, node_disk_size: 600, has_nvme: true, baremetal: true, extra_labels: {team: ml}}
  - {type: g4dn.8xlarge, weight: 80, node_disk_size: 600, user_data_script: a.sh, capacity_type: reserved}
  release:
  - {type: g4dn.8xlarge, weight: 10, node_disk_size: 300, topology_manager_policy: single-numa-node, topology_manager_scope: pod}
"""
RUNNER = """\
runner:
  name: l-29-115-t4
  instance_type: g4dn.8xlarge
  vcpu: 29
  memory: 115Gi
  gpu: 1
  disk_size: 150
  max_burst_capacity: 60
"""
CLUSTERS = """\
defaults:
  eks_version: "1.35"
  arc: {chart_version: 0.14.1}
  node_compactor: {enabled: true}
  nodepools: {gpu_consolidate_after: 10m, baremetal_consolidate_after: 15m, gpu_disruption_budget: "20%"}
  harbor: {core_replicas: 4}
clusters:
  staging:
    region: us-west-1
    modules: [nodepools, arc-runners, bin-pack]
    arc-runners: {github_config_url: "https://github.com/acme", runner_name_prefix: c-mt-, runner_group: staging}
  one:
    region: us-east-1
    modules: [nodepools, arc-runners, bin-pack, hf-cache]
    nodepools: {capacity_reservation_ids: [cr-1]}
    arc-runners:
      {github_config_url: "https://github.com/acme", runner_name_prefix: mt-, runner_group: one, scheduler_name: bin-pack}
  two:
    region: us-east-2
    modules: [nodepools, arc-runners]
    nodepools: {capacity_reservation_ids: [cr-2]}
    arc-runners: {github_config_url: "https://github.com/acme", runner_name_prefix: lf-, runner_group: two, odd: 1}
  empty: {region: us-west-2, modules: [karpenter]}
"""


def read(folder, runner: str = RUNNER, fleet: str = FLEET, clusters: str = CLUSTERS):
    files = {"modules__arc-runners__defs__t4": runner, "modules__nodepools__defs__g4dn": fleet, "clusters": clusters}
    return seen(folder, **{name: text for name, text in files.items() if text})


def test_every_entry_of_a_fleet_is_a_pool(tmp_path):
    metal, large, release = read(tmp_path).pools
    assert [one.name for one in (metal, large, release)] == ["g4dn-metal", "g4dn-8xlarge", "g4dn-8xlarge-release"]
    assert metal.labels == {
        "workload-type": "github-runner",
        "instance-type": "g4dn.metal",
        "node-fleet": "g4dn",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu": "true",
        "team": "ml",
    }
    assert [str(taint) for taint in metal.taints] == [
        "node-fleet=g4dn:NoSchedule",
        "instance-type=g4dn.metal:NoSchedule",
        "nvidia.com/gpu=true:NoSchedule",
    ]
    assert (metal.scaler, metal.types, metal.weight, metal.disk, metal.instance_store) == (
        "karpenter",
        ("g4dn.metal",),
        100,
        600,
        True,
    )
    assert (metal.topology, metal.disruption["consolidateAfter"], metal.consolidates) == ("best-effort", "15m", False)
    assert (metal.kubernetes, metal.reservations) == ("1.35", ("cr-1", "cr-2"))
    assert (metal.used, large.used["memory"]) == ({"cpu": "100m", "memory": "4096Mi"}, "640Mi")
    assert (large.capacities, large.disruption["consolidateAfter"]) == (("reserved",), "10m")
    assert (release.labels["osdc.io/runner-class"], release.topology) == ("release", "single-numa-node")
    assert metal.at.place.endswith("g4dn.yaml:7")


def test_a_fleet_is_in_the_regions_that_have_its_module_and_do_not_exclude_it(tmp_path):
    assert {one.regions for one in read(tmp_path).pools} == {("us-east-1", "us-east-2")}


def test_startup_taints_come_with_their_modules(tmp_path):
    def of(pools):
        return {taint.key.partition("/")[2] for taint in pools[0].startup_taints}

    always = {"registry-mirror", "perf-tuning", "algif-mitigation", "dirtyfrag-mitigation"}
    assert of(read(tmp_path).pools) == always | {"hf-cache"}
    assert of(read(tmp_path, clusters=CLUSTERS.replace("hf-cache", "cache-enforcer")).pools) == always | {"cache-enforcer"}
    last = read(tmp_path, clusters=CLUSTERS.replace("hf-cache", "cache-enforcer")).pools[2]
    assert of([last]) == always


@pytest.mark.parametrize(
    ("name", "types", "names"),
    [
        ("g4dn", ["g4dn.metal"], ["g4dn-metal"]),
        ("runner", ["m7g.12xlarge"], ["runner-12xlarge"]),
        ("runner", ["m7g.12xlarge", "m8g.12xlarge"], ["runner-m7g-12xlarge", "runner-m8g-12xlarge"]),
        ("runner", ["m7g.metal-24xl"], ["runner-metal-24xl"]),
    ],
)
def test_names_of_pools_are_those_of_the_generator(tmp_path, name, types, names):
    entries = ", ".join(f"{{type: {type_}, weight: 1, node_disk_size: 10}}" for type_ in types)
    found = read(tmp_path, fleet=f"fleet:\n  name: {name}\n  arch: arm64\n  instances: [{entries}]\n", runner="")
    assert [one.name for one in found.pools] == names
    assert not any(one.gpus_possible for one in found.pools)


def test_a_list_of_fleets_and_the_old_form_are_read_too(tmp_path):
    old = "nodepool:\n  name: p5-48xlarge\n  instance_type: p5.48xlarge\n  arch: amd64\n  gpu: true\n  node_disk_size: 9\n"
    found = read(tmp_path, fleet=old, runner="")
    (pool,) = found.pools
    assert (pool.name, pool.types, pool.labels["node-fleet"]) == ("p5-48xlarge", ("p5.48xlarge",), "p5")
    assert [key for key in unread(found) if key.startswith("nodepool")] == []
    many = "fleets:\n- name: g5\n  arch: amd64\n  instances: [{type: g5.xlarge, weight: 1, node_disk_size: 1}]\n"
    assert [one.name for one in read(tmp_path, fleet=many, runner="").pools] == ["g5-xlarge"]


def test_a_runner_is_two_pods(tmp_path):
    (one,) = read(tmp_path).classes
    assert one.pod["containers"][0]["resources"]["requests"] == {"cpu": "750m", "memory": "1Gi"}
    assert one.pod["nodeSelector"]["node-fleet"] == "c7i-runner"
    assert one.job["containers"][0]["resources"]["requests"] == {
        "cpu": "29",
        "memory": "115Gi",
        "ephemeral-storage": "150Gi",
        "nvidia.com/gpu": "1",
    }
    assert {(entry["key"], entry.get("value")) for entry in one.job["tolerations"]} == {
        ("node-fleet", "g4dn"),
        ("nvidia.com/gpu", "true"),
        ("instance-type", None),
    }
    assert [(each.cpu, each.memory, each.daemon_sets) for each in one.overheads] == [(320, 522, False), (1355, 10078, True)]
    assert (one.runs_containers, one.needs_container, one.version, one.url) == (True, True, "0.14.1", "https://github.com/acme")


def test_a_class_of_several_clusters_is_one_with_all_their_labels(tmp_path):
    (one,) = read(tmp_path).classes
    assert (one.name, one.labels) == ("mt-l-29-115-t4", {"lf-l-29-115-t4"})
    assert (one.cluster, one.regions, one.group, one.job["schedulerName"]) == (
        "one, two",
        ("us-east-1", "us-east-2"),
        "one",
        "bin-pack",
    )


@pytest.mark.parametrize(
    ("key", "maximum", "group", "fleet"),
    [
        ("gpu: 1", None, "one", "g4dn"),
        ("max_runners: 4", 8, "one", "g4dn"),
        ("max_runners: {default: 2, two: 5}", 7, "one", "g4dn"),
        ("max_runners: {two: 5}", None, "one", "g4dn"),
        ("node_fleet: other", None, "one", "other"),
        ("runner_class: release", None, "one-release-runners", "g4dn"),
    ],
)
def test_keys_of_a_runner(tmp_path, key, maximum, group, fleet):
    (one,) = read(tmp_path, f"{RUNNER}  {key}\n" if key != "gpu: 1" else RUNNER).classes
    assert (one.maximum, one.group, one.job["tolerations"][0]["value"]) == (maximum, group, fleet)
    (term,) = one.job["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["operator"] == ("In" if "release" in key else "DoesNotExist")


def test_warm_capacity_is_capped_by_its_cluster(tmp_path):
    capped = CLUSTERS.replace("  two:\n", "  two:\n    proactive_capacity_max: 1\n")
    (one,) = read(tmp_path, f"{RUNNER}  proactive_capacity: 3\n", clusters=capped).classes
    assert one.minimum == 4


def test_a_folder_without_clusters_has_its_classes(tmp_path):
    (one,) = read(tmp_path, clusters="").classes
    assert (one.name, one.region, one.group, one.version) == ("l-29-115-t4", "", "Default", "")


def test_only_what_cannot_be_used_is_unread(tmp_path):
    assert unread(read(tmp_path)) == [
        "clusters.two.arc-runners.odd",
        "fleet.instances[1].user_data_script",
        "runner.max_burst_capacity",
    ]


_KEYS = Path(os.environ.get("GPU_CI_REFERENCE", "/nonexistent")) / "foresight" / "osdc-keys.csv"


@pytest.mark.skipif(not _KEYS.exists(), reason="needs the reference data")
def test_every_key_on_record_is_read_or_listed(tmp_path):
    with _KEYS.open(encoding="utf-8", newline="") as table:
        keys = [row["key"] for row in csv.DictReader(table)]
    news = {
        "user_data_script",
        "ami_selector_tags",
        "max_burst_capacity",
        "hud_failure_base_capacity",
        "fresh_multiplier",
        "imex_channels",
    }
    values = {"capacity_reservation_ids": "[a]", "extra_labels": "{a: b}", "ami_selector_tags": "{a: b}"}
    own = [key.split(".")[1].removesuffix("[]") for key in keys if key.startswith("runner.")]
    of_entry = [key.split(".")[2].removesuffix("[]") for key in keys if key.startswith("fleet.instances[].")]
    runner = "runner:\n" + "".join(f"  {key}: 1\n" for key in own)
    entry = "".join(f"    {key}: {values.get(key, 1)}\n" for key in of_entry).replace("    type: 1", "    type: g5.xlarge")
    fleet = f"fleet:\n  name: g5\n  arch: amd64\n  gpu: true\n  exclude_regions: [x]\n  instances:\n  -\n{entry}"
    found = read(tmp_path, runner, fleet, "")
    assert {key.rpartition(".")[2] for key in unread(found)} == news
    assert len(own) + len(of_entry) > len(news)
