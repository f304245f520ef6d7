"""Resource tokens and GPU signs against packages of others: the providers' SDKs, botocore, moto."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import botocore.session
import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from fleet.facts.hardware import machines
from fleet.facts.scheduling import CLUSTER_LABEL, EKS_PROFILE, OKE_PROFILE, SchedulingProfile, pool_labels, system_labels
from policies.rules import RULES, kinds
from policies.rules.monitoring_complete import POD_MONITOR, PROMETHEUS_RULE, SERVICE_MONITOR
from policies.rules.pools import GPU_TAINTS, PLACEMENT_LABELS, gpu_sign, key_means_gpu, machine_sign, marks_gpus, means_gpu
from policies.rules.read import Later
from policies.rules.runner_ephemeral import LEGACY
from tests.cases import naming
from tests.components.recorded import ROOT

CUSTOM = re.compile(
    r"kubernetes:(argoproj\.io|actions\.github\.com|actions\.summerwind\.dev|karpenter\.sh|karpenter\.k8s\.aws|kueue\.x-k8s\.io|monitoring\.coreos\.com|nvidia\.com)/v1(alpha1|beta[12])?:\w+"
)


@cache
def package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def test_every_token_is_one_of_the_providers() -> None:
    ours = "".join(file.read_text() for file in (ROOT / "components").rglob("*.py"))
    for token in sorted({token for rule in RULES for token in rule.types if not CUSTOM.fullmatch(token)}):
        with naming(token):
            provider, module, kind = token.split(":")
            if provider == "kubernetes":
                folder = package("pulumi_kubernetes").joinpath(*(part.partition(".")[0] for part in module.split("/")))
                assert (folder / f"{kind}.py").is_file(), "the SDK has no such resource"
            elif provider == "gpu-ci":
                assert f'"{token}"' in ours, "no component has the token"
            elif provider == "pulumi":
                assert module == "providers"
                text = (package(f"pulumi_{kind}") / "provider.py").read_text()
                assert f'type_token("{token}")' in text, "no SDK has the provider"
            else:
                # The module index has no folder of its own.
                folder = package(f"pulumi_{provider}") / module.partition("/")[0].lower().replace("index", "")
                file = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
                assert f"'{token}'" in (folder / f"{file}.py").read_text(), "the SDK has no such token"


def test_custom_resources_are_judged_by_the_kinds_of_their_api() -> None:
    custom = {token for rule in RULES for token in rule.types if CUSTOM.fullmatch(token)}
    assert custom == {
        *kinds.RUNNER_SET,
        *kinds.QUEUES,
        *kinds.CLUSTER_POLICY,
        kinds.KARPENTER_NODE_POOL,
        kinds.EC2_NODE_CLASS,
        "kubernetes:karpenter.sh/v1:NodeClaim",
        kinds.APPLICATION,
        kinds.APPLICATION_SET,
        *POD_MONITOR,
        *SERVICE_MONITOR,
        *PROMETHEUS_RULE,
        *LEGACY,
    }


def test_no_component_is_judged_beside_its_children() -> None:
    tokens = {token for rule in RULES for token in rule.types}
    found = {token for token in tokens if token.startswith(("eks:", "gpu-ci:", "kubernetes:yaml", "kubernetes:helm.sh/v4"))}
    by_inputs = {kinds.EKS_COMPONENT, "eks:index:Addon"}
    childless = {kinds.TALOS_NODE}
    assert found == by_inputs | childless, "two are judged by their inputs and their children are not, one has no children"


def test_every_workload_has_its_patch_and_its_list() -> None:
    plain = {token for token in kinds.POD if not token.endswith(("Patch", "List"))}
    assert {f"{token}{twin}" for token in plain for twin in ("", "Patch", "List")} == kinds.POD
    assert len(plain) == 9 + 11, "nine kinds today, eleven tokens of API versions gone by"


def test_an_ec2_type_has_a_sign_exactly_when_ec2_says_it_has_gpus() -> None:
    wrong = [name for name, about in INSTANCE_TYPES.items() if bool(machine_sign(name)) != bool(about.get("GpuInfo"))]
    assert not wrong
    assert len(INSTANCE_TYPES) > 1000, "moto's copy of DescribeInstanceTypes"


def test_every_machine_of_the_table_has_a_sign_exactly_when_it_has_gpus() -> None:
    for machine in machines():
        assert bool(machine_sign(machine.name)) == (machine.gpus > 0), machine.name


@pytest.mark.parametrize("name", ["VM.GPU.B900.1", "BM.GPU4.9", "VM.GPU3.9"])
def test_an_oci_gpu_shape_that_is_not_in_the_table_is_one_all_the_same(name: str) -> None:
    assert machine_sign(name) == f'"{name}" is of an accelerated family, though not in the hardware table'


def test_every_gpu_image_of_eks_is_a_sign_and_no_other_is() -> None:
    types = botocore.session.get_session().get_service_model("eks").shape_for("AMITypes").enum
    signed = {each for each in types if gpu_sign(kinds.EKS_NODE_GROUP, {"amiType": each}, Later())}
    assert signed == {each for each in types if "NVIDIA" in each or each.endswith("_GPU")}


@pytest.mark.parametrize("profile", [EKS_PROFILE, OKE_PROFILE])
def test_labels_of_gpu_pools_mean_gpus_and_labels_of_the_system_pool_do_not(profile: SchedulingProfile) -> None:
    labels = pool_labels(cluster="usw2", pool="t4", role="burst", capacity="spot", accelerator="nvidia-tesla-t4", profile=profile)
    assert [key for key, value in labels.items() if not means_gpu(key, value)] == [CLUSTER_LABEL]
    assert not [key for key, value in system_labels("usw2").items() if means_gpu(key, value)]
    assert all(marks_gpus(key) for key in labels if key != CLUSTER_LABEL), "else the value would not be read"
    assert all(key in labels for key in PLACEMENT_LABELS)
    assert not [key for key in system_labels("usw2") if key_means_gpu(key)], "CPU nodes have the key too"


def test_the_taints_of_gpu_nodes_are_those_of_the_vocabulary() -> None:
    assert [str(taint) for taint in GPU_TAINTS] == [
        f"nvidia.com/gpu={value}:{effect}" for value in ("true", "present") for effect in ("NoSchedule", "NoExecute")
    ]
