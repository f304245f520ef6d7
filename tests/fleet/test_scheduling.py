"""Labels, taints and tolerations: Kubernetes' rules, what the five source guides select on, and what EKS and EC2 accept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader
from hypothesis import given, settings, strategies as st

from fleet.facts import scheduling
from fleet.facts.offer import allocatable, least
from fleet.facts.scheduling import (
    EKS_EFFECT,
    EKS_PROFILE,
    FLAVOR_LABEL,
    GPU_RESOURCE,
    GPU_TOLERATION,
    IDLE_DELAY_TAG,
    MIG_CONFIG_LABEL,
    MPS_LABEL,
    OKE_NO_PLUGIN_LABEL,
    OKE_PROFILE,
    PLUGIN_CONFIG_CDI,
    PLUGIN_CONFIG_LABEL,
    POOL_LABEL,
    RESERVED_NODES_TAG,
    RUNNER_PRIORITY,
    VOCABULARY,
    Effect,
    Priority,
    SchedulingProfile,
    Standing,
    Taint,
    Toleration,
    is_gpu_resource,
    machine_annotations,
    pool_labels,
    pool_selector,
    resource_tags,
    system_labels,
    term,
)
from fleet.providers.registry import PROVIDERS
from fleet.providers.tags import AWS_TAGS, STACK_TAG
from fleet.settings.pool import Pool
from tests.builders import ROOT, pool_of, reference, staging
from tests.cases import cases
from tests.examples import examples

# -- tolerations -------------------------------------------------------------------------------------------------------

GPU_TRUE = Taint("nvidia.com/gpu", "true", Effect.NO_SCHEDULE)
GPU_PRESENT = Taint("nvidia.com/gpu", "present", Effect.NO_SCHEDULE)
EVICTING = Taint("nvidia.com/gpu", "true", Effect.NO_EXECUTE)


@cases(
    ("toleration", "taint", "covered"),
    [
        (Toleration("nvidia.com/gpu"), GPU_TRUE, True),
        (Toleration("nvidia.com/gpu"), GPU_PRESENT, True),
        (Toleration("nvidia.com/gpu"), EVICTING, False),
        (Toleration("nvidia.com/gpu", effect=""), EVICTING, True),
        (Toleration("nvidia.com/gpu", "Equal", "true"), GPU_TRUE, True),
        (Toleration("nvidia.com/gpu", "Equal", "true"), GPU_PRESENT, False),
        (Toleration("nvidia.com/gpu", "Equal", "True"), GPU_TRUE, False),
        (Toleration("nvidia.com/gpu", "", "true"), GPU_TRUE, True),
        (Toleration("nvidia.com/gpu", "Equal", ""), Taint("nvidia.com/gpu", "", Effect.NO_SCHEDULE), True),
        (Toleration("nvidia.com/gpu", "Like", "true"), GPU_TRUE, False),
        (Toleration("nvidia.com"), GPU_TRUE, False),
        (Toleration("sku", "Equal", "gpu"), GPU_TRUE, False),
        (Toleration("", effect=""), GPU_TRUE, True),
        (Toleration("", effect=""), EVICTING, True),
        (Toleration(""), EVICTING, False),
        (Toleration("", "Equal", "true"), GPU_TRUE, False),
    ],
)
def test_a_toleration_covers_a_taint_as_in_kubernetes(toleration: Toleration, taint: Taint, covered: bool) -> None:
    assert toleration.covers(taint) is covered


_KEYS, _VALUES, _EFFECTS = ("nvidia.com/gpu", "spot"), ("", "true", "present"), tuple(Effect)
_TAINTS = st.builds(Taint, st.sampled_from(_KEYS), st.sampled_from(_VALUES), st.sampled_from(_EFFECTS))
# The API server takes no other: Exists has no value, and only Exists has no key.
_TOLERATIONS = st.one_of(
    st.builds(Toleration, st.sampled_from(("", *_KEYS)), st.just("Exists"), st.just(""), st.sampled_from(("", *_EFFECTS))),
    st.builds(Toleration, st.sampled_from(_KEYS), st.just("Equal"), st.sampled_from(_VALUES), st.sampled_from(("", *_EFFECTS))),
)


@settings(max_examples=examples(200), database=None)
@given(_TOLERATIONS, _TAINTS)
def test_covers_agrees_with_the_four_conditions_of_the_reference(toleration: Toleration, taint: Taint) -> None:
    """kubernetes.io, "Taints and Tolerations": key and effect equal or left out, and Exists or an equal value."""
    conditions = (
        toleration.key in ("", taint.key),
        toleration.effect in ("", taint.effect),
        toleration.operator == "Exists" or toleration.value == taint.value,
    )
    assert toleration.covers(taint) is all(conditions)


def test_our_toleration_covers_the_taint_of_every_provider() -> None:
    taints = [row.profile.gpu_taint for row in PROVIDERS.values()] + [GPU_PRESENT]
    assert [str(taint) for taint in taints if not GPU_TOLERATION.covers(taint)] == []


def test_pods_of_spot_pools_tolerate_what_the_provider_puts_on_spot_nodes_besides() -> None:
    for row in PROVIDERS.values():
        spot = row.profile.spot_taint
        assert row.profile.pod_tolerations("on-demand") == row.profile.pod_tolerations("reserved") == (GPU_TOLERATION,)
        assert len(row.profile.pod_tolerations("spot")) == (1 if spot is None else 2)
        for taint in filter(None, (row.profile.gpu_taint, spot)):
            assert any(toleration.covers(taint) for toleration in row.profile.pod_tolerations("spot")), str(taint)
            assert any(toleration.covers(taint) for toleration in row.profile.tolerations), f"{taint}: DaemonSets run on any node"
    assert OKE_PROFILE.spot_taint is not None
    assert not GPU_TOLERATION.covers(OKE_PROFILE.spot_taint), "a GPU pod of another pool is kept off preemptible nodes"


def test_a_toleration_is_written_without_empty_fields() -> None:
    assert GPU_TOLERATION.manifest() == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert Toleration("", effect="").manifest() == {"operator": "Exists"}
    assert Toleration("spot", "Equal", "true").manifest() == {
        "key": "spot",
        "operator": "Equal",
        "value": "true",
        "effect": "NoSchedule",
    }


def test_effects_have_the_spelling_of_the_eks_api() -> None:
    shapes = Loader().load_service_model("eks", "service-2")["shapes"]
    assert set(EKS_EFFECT.values()) == set(shapes["TaintEffect"]["enum"])
    assert set(EKS_EFFECT) == set(Effect), "every effect has one"


# -- vocabulary --------------------------------------------------------------------------------------------------------

# Every label that a source guide sets or selects on and every taint that it sets or tolerates: guide, line, kind, text.
USED = [
    ("seed 000", 33, "taint", "nvidia.com/gpu=true"),
    ("seed 000", 64, "label", "nvidia.com/gpu=true"),
    ("seed 000", 71, "taint", "nvidia.com/gpu=true:NoSchedule"),
    ("seed 000", 72, "label", "nvidia.com/gpu=true"),
    ("seed 000", 72, "label", "role=gpu"),
    ("seed 000", 169, "taint", "nvidia.com/gpu=true:NoSchedule"),
    ("seed 000", 192, "label", "nvidia.com/gpu=true"),
    ("seed 000", 204, "label", "nvidia.com/gpu=true"),
    ("seed 000", 204, "taint", "nvidia.com/gpu=true:NoSchedule"),
    ("seed 000", 311, "taint", "nvidia.com/gpu=true:NoSchedule"),
    ("seed 001", 33, "label", "accelerator=nvidia-tesla-v100"),
    ("seed 001", 36, "label", "accelerator=nvidia-tesla-a100"),
    ("seed 001", 42, "taint", "nvidia.com/gpu=true:NoSchedule"),
    ("seed 001", 142, "label", "node.kubernetes.io/instance-type=p3.2xlarge"),
    ("seed 001", 150, "label", "node.kubernetes.io/instance-type=p4d.24xlarge"),
    ("seed 001", 162, "label", "accelerator=nvidia-tesla-a100"),
    ("seed 001", 253, "label", "node.kubernetes.io/lifecycle=spot"),
    ("seed 001", 255, "taint", "spot=true:NoSchedule"),
    ("seed 003", 124, "taint", "sku=gpu:NoSchedule"),
    ("seed 004", 66, "label", "node-type=gpu-worker"),
    ("seed 004", 216, "label", "gpu=true"),
    ("seed 004", 278, "taint", "nvidia.com/gpu"),
]


@cases(("guide", "line", "kind", "text"), USED)
def test_what_the_guides_use_is_in_the_vocabulary(guide: str, line: int, kind: str, text: str) -> None:
    key, _, value = text.partition("=")
    entry = term(kind, key)
    assert entry is not None, f"{guide}, line {line}: {kind} {text} has no entry"
    ours = entry.text.partition("=")[2]
    same = ours.partition(":")[0] == value.partition(":")[0]
    assert same or ours.startswith("<") or not value, f"{entry.text} is not {text}"
    if entry.standing in (Standing.REFUSED, Standing.ALIAS):
        assert entry.instead, f"{entry.text} is {entry.standing}: say what to use instead"


def test_the_vocabulary_has_each_key_once_a_kind_but_for_the_two_spellings_of_the_gpu_taint() -> None:
    keys = [(entry.kind, entry.key) for entry in VOCABULARY]
    repeated = {key for key in keys if keys.count(key) > 1}
    assert repeated == {("taint", "nvidia.com/gpu")}


def test_every_entry_has_a_source_and_every_refused_one_a_replacement() -> None:
    assert [entry.text for entry in VOCABULARY if not entry.source] == []
    assert [entry.text for entry in VOCABULARY if entry.standing is Standing.REFUSED and not entry.instead] == []
    assert {entry.kind for entry in VOCABULARY} == {"label", "taint", "annotation"}


def test_a_label_that_nobody_claims_has_no_entry() -> None:
    assert term("label", "example.com/team") is None
    assert term("taint", "role") is None, "labels and taints are apart"
    assert term("label", "gpu-ci/machine-shapes") is None, "and annotations"


def test_the_vocabulary_has_the_annotations_of_a_machine() -> None:
    said = machine_annotations(
        shapes=["BM.GPU.B4.8", "BM.GPU4.8"],
        capacity="on-demand",
        disk_gb=400,
        regions=["us-ashburn-1", "us-phoenix-1", "us-ashburn-1"],
    )
    assert said == {
        "gpu-ci/machine-shapes": "BM.GPU.B4.8,BM.GPU4.8",
        "gpu-ci/machine-capacity": "on-demand",
        "gpu-ci/machine-disk-gb": "400",
        "gpu-ci/machine-regions": "us-ashburn-1,us-phoenix-1",
    }, "in the order in which they are tried, each once"
    ours = {entry.key for entry in VOCABULARY if entry.kind == "annotation"}
    assert ours == {
        *said,
        "gpu-ci/health",
        "gpu-ci/per-node",
        "gpu-ci/job-hash",
        "gpu-ci/region",
        "gpu-ci/task-id",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
    }


def test_runners_end_no_pod_and_are_ended_for_none_of_ours() -> None:
    """Kubernetes, "Pod Priority and Preemption": only a greater value preempts, and those above a billion are its own."""
    classes = [held for held in vars(scheduling).values() if isinstance(held, Priority)]
    assert RUNNER_PRIORITY in classes
    assert max(each.value for each in classes) == RUNNER_PRIORITY.value < 1_000_000_000
    assert not RUNNER_PRIORITY.preempts
    assert not [each.name for each in classes if each.name.startswith("system-")], "Kubernetes keeps these names"
    assert len({each.name for each in classes}) == len(classes)


LABELS = pool_labels(
    cluster="usw2", pool="t4-spot", role="burst", capacity="spot", accelerator="nvidia-tesla-t4", profile=EKS_PROFILE
)


PROMISED = {entry.key for entry in VOCABULARY if entry.kind == "label" and entry.standing in (Standing.OURS, Standing.ALIAS)}
# Not on every pool: configs of charts, what the autoscaler on AWS looks for, OKE's switch for its own plugin, a queue flavor.
SOMETIMES = {
    PLUGIN_CONFIG_LABEL,
    EKS_PROFILE.accelerator_label,
    OKE_NO_PLUGIN_LABEL,
    MIG_CONFIG_LABEL,
    MPS_LABEL,
    FLAVOR_LABEL,
}


@cases(
    ("profile", "cdi", "besides"),
    [
        (EKS_PROFILE, False, {EKS_PROFILE.accelerator_label}),
        (EKS_PROFILE, True, {EKS_PROFILE.accelerator_label, PLUGIN_CONFIG_LABEL}),
        (OKE_PROFILE, False, set()),
        (OKE_PROFILE, True, {PLUGIN_CONFIG_LABEL}),
    ],
)
def test_pool_labels_carry_every_label_that_is_ours_or_an_alias_and_no_other(
    profile: SchedulingProfile, cdi: bool, besides: set[str]
) -> None:
    labels = pool_labels(
        cluster="usw2",
        pool="t4-spot",
        role="burst",
        capacity="spot",
        accelerator="nvidia-tesla-t4",
        profile=profile,
        plugin_config=PLUGIN_CONFIG_CDI if cdi else "",
    )
    assert set(labels) == (PROMISED - SOMETIMES) | besides
    assert labels.get(PLUGIN_CONFIG_LABEL, PLUGIN_CONFIG_CDI) == PLUGIN_CONFIG_CDI


def test_a_pool_of_shares_says_how_and_hides_from_the_autoscalers_search_for_whole_gpus() -> None:
    def labels(**shared: Any) -> dict[str, str]:
        return pool_labels(
            cluster="c", pool="p", role="burst", capacity="spot", accelerator="nvidia-a10g", profile=EKS_PROFILE, **shared
        )

    plain, key = labels(), EKS_PROFILE.accelerator_label
    sliced = labels(resource="nvidia.com/gpu.shared", plugin_config="time-slicing-4")
    assert sliced == {name: value for name, value in plain.items() if name != key} | {PLUGIN_CONFIG_LABEL: "time-slicing-4"}
    assert labels(resource=GPU_RESOURCE, plugin_config="time-slicing-4-unrenamed")[key] == "nvidia-a10g", "whole GPUs by name"
    assert labels(mps=True) == plain | {MPS_LABEL: "true"}
    assert labels(mig_config="all-1g.5gb") == plain | {MIG_CONFIG_LABEL: "all-1g.5gb"}


def test_pool_labels_have_the_values_that_the_vocabulary_gives() -> None:
    meant = {
        "<pool>": "t4-spot",
        "<role>": "burst",
        "<capacity type>": "spot",
        "<cluster>": "usw2",
        "<accelerator>": "nvidia-tesla-t4",
    }
    for entry in VOCABULARY:
        if entry.key in LABELS and entry.kind == "label":
            value = entry.text.partition("=")[2]
            assert LABELS[entry.key] == meant.get(value, value), entry.text


def test_the_selector_of_a_pool_matches_its_nodes_and_not_the_system_pools() -> None:
    assert pool_selector("t4-spot").items() <= LABELS.items()
    assert not pool_selector("t4-spot").items() <= system_labels("usw2").items()
    assert pool_selector("system").items() <= system_labels("usw2").items()
    assert "nvidia.com/gpu.present" not in system_labels("usw2"), "no device plugin on a node without a GPU"


@cases(
    ("key", "reserved"),
    [
        ("kubernetes.io/role", True),
        ("node-role.kubernetes.io/gpu", True),
        ("topology.kubernetes.io/zone", True),
        ("k8s.io/team", True),
        ("node.k8s.io/capacity-type", True),
        ("eks.amazonaws.com/nodegroup", True),
        ("k8s.amazonaws.com/accelerator", False),
        ("notkubernetes.io/team", False),
        ("example.com/kubernetes.io", False),
        ("kubernetes.io", False),
        ("team", False),
    ],
)
def test_reserved_domains_and_those_below_them_are_refused_to_users(key: str, reserved: bool) -> None:
    """Kubelet exits on an unknown label of kubernetes.io or k8s.io in --node-labels (kubernetes/kubernetes#85503)."""
    assert EKS_PROFILE.reserves(key) is reserved


@cases("name", PROVIDERS)
def test_our_own_labels_are_none_that_the_provider_refuses(name: str) -> None:
    assert [key for key in (*LABELS, *system_labels("usw2")) if PROVIDERS[name].profile.reserves(key)] == []


def test_okes_own_domains_are_refused_to_users_of_oke_alone() -> None:
    for key in (OKE_NO_PLUGIN_LABEL, "oci.oraclecloud.com/oke-is-preemptible", "oke.oraclecloud.com/pool.name"):
        assert OKE_PROFILE.reserves(key)
        assert not EKS_PROFILE.reserves(key)
    assert not OKE_PROFILE.reserves("eks.amazonaws.com/nodegroup")
    assert not OKE_PROFILE.reserves("example.com/oraclecloud.com")


# -- what EKS and EC2 accept -------------------------------------------------------------------------------------------

LONGEST = "n" * 63
LONGEST_RESOURCE = "nvidia.com/mig-1g.10gb.me.all.shared"
POOLS = [(name, held) for _, cluster in staging().clusters_by_name() for name, held in cluster.pools.items()]
POOLS += [(LONGEST, pool_of(labels={f"example.com/{'k' * 51}": "v" * 63}, idleDelay="24h"))]


def _labels(name: str, pool: Pool) -> dict[str, str]:
    return pool.node_labels(LONGEST, name, EKS_PROFILE)


def _tags(pool: Pool) -> dict[str, str]:
    offer = least(allocatable(machine, pool.disk) for machine in pool.machines)
    resources = {"cpu": f"{offer.cpu}m", "memory": f"{offer.memory}Mi", "ephemeral-storage": f"{offer.storage}Mi"}
    resources |= {GPU_RESOURCE: "0", LONGEST_RESOURCE: str(offer.gpus)}
    return resource_tags(resources) | {RESERVED_NODES_TAG: "1000"}


@cases(("name", "pool"), POOLS)
def test_labels_of_real_pools_are_valid_for_kubernetes_and_the_eks_api(name: str, pool: Pool) -> None:
    shapes = Loader().load_service_model("eks", "service-2")["shapes"]
    name_part = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
    for key, value in _labels(name, pool).items():
        assert shapes["labelKey"]["min"] <= len(key) <= shapes["labelKey"]["max"], key
        assert shapes["labelValue"]["min"] <= len(value) <= shapes["labelValue"]["max"], f"{key}={value}"
        assert name_part.fullmatch(key.rpartition("/")[2]), key
        assert name_part.fullmatch(value), f"{key}={value}"


@cases("pool", [pool for _, pool in POOLS])
def test_tags_of_a_node_group_are_within_the_limits_of_eks_with_the_most_tags_of_a_stack(pool: Pool) -> None:
    shapes = Loader().load_service_model("eks", "service-2")["shapes"]
    tags = _tags(pool)
    assert max(map(len, tags)) <= shapes["TagKey"]["max"]
    assert max(map(len, tags.values())) <= shapes["TagValue"]["max"]
    assert len(tags) + len({STACK_TAG}) + AWS_TAGS.most <= shapes["TagMap"]["max"]


def test_tags_of_an_auto_scaling_group_are_within_its_limits_with_the_most_tags_of_a_stack() -> None:
    shapes = Loader().load_service_model("autoscaling", "service-2")["shapes"]
    assert len(IDLE_DELAY_TAG) <= shapes["TagKey"]["max"]
    # EKS puts five of its own on the group; Auto Scaling allows 50 (user guide, tags for Auto Scaling groups).
    assert 5 + len({IDLE_DELAY_TAG}) + AWS_TAGS.most <= 50


def test_resource_tags_are_spelled_as_the_autoscaler_reads_them() -> None:
    assert resource_tags({"cpu": "1", GPU_RESOURCE: "0"}) == {
        "k8s.io/cluster-autoscaler/node-template/resources/cpu": "1",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "0",
    }


# -- resources ---------------------------------------------------------------------------------------------------------


@cases(
    "name",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-7g.80gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/mig-1g.24gb.me.all",
        "nvidia.com/mig-2g.48gb-me",
        "nvidia.com/mig-4g.96gb.gfx",
        "nvidia.com/mig-1g.5gb.shared",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "aws.amazon.com/neurondevice",
    ],
)
def test_accelerators_are_gpu_resources(name: str) -> None:
    assert is_gpu_resource(name)


@cases(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "gpu",
        "nvidia.com/gpu.present",
        "nvidia.com/gpus",
        "nvidia.com/mig",
        "nvidia.com/mig-1g",
        "amd.com/cpu",
        "vpc.amazonaws.com/efa",
        "requests.nvidia.com/gpu",
        "nvidia.com/gpu\n",
        "",
    ],
)
def test_what_is_no_accelerator_is_no_gpu_resource(name: str) -> None:
    assert not is_gpu_resource(name)


@pytest.mark.reference
def test_every_mig_profile_of_the_gpu_operator_is_a_gpu_resource() -> None:
    files = sorted(reference("mig").glob("*.yaml"))
    profiles = {found for file in files for found in re.findall(r"\d+g\.\d+gb[+.a-z-]*", file.read_text(encoding="utf-8"))}
    assert len(profiles) > 50, "the profiles were found"
    # The device plugin writes a plus as a dot: a resource's name has none.
    names = [f"nvidia.com/mig-{profile.replace('+', '.')}" for profile in profiles]
    assert sorted(name for name in names if not is_gpu_resource(name)) == []


# -- the policy pack's part --------------------------------------------------------------------------------------------


def test_the_modules_that_the_policy_pack_ships_need_the_standard_library_alone() -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "import fleet.facts.credentials, fleet.facts.hardware, fleet.facts.pricing, fleet.facts.scheduling\n"
        "fleet.facts.hardware.machine('g4dn.xlarge')\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(json.dumps([sorted(new), sorted(name for name in sys.modules if name.startswith('fleet'))]))"
    )
    # -S: no site-packages, so an import of anything installed would fail here.
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    foreign, ours = json.loads(run.stdout)
    assert foreign == ["fleet"]
    carried = ["credentials", "disks", "hardware", "manifest", "pricing", "record", "scheduling", "tables"]
    assert ours == ["fleet", "fleet.facts", *(f"fleet.facts.{name}" for name in carried)]


def test_our_labels_are_spelled_in_one_module_only() -> None:
    """Anything else takes the constant, so that a renamed label cannot be missed."""
    spelled = re.compile(r"[\"']gpu-ci/(pool|role|capacity|cluster|machine-\w+)\b")
    others = [path for path in (ROOT / "fleet").rglob("*.py") if path != Path(scheduling.__file__)]
    others += (ROOT / "components").rglob("*.py")
    assert [str(path.relative_to(ROOT)) for path in others if spelled.search(path.read_text(encoding="utf-8"))] == []
    assert POOL_LABEL == "gpu-ci/pool"
