"""GPU workloads under the pack, as every stack's config sets it: what they break, and which exception is named for it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import install
from fleet.loading.config import load
from fleet.render.workloads.catalogue import smoke_home, smoke_tests
from gpu_ci.offline.judge import Configured, Verdict, configure, judge
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import ROOT, config
from tests.components.recorded import build_alone
from tests.day import TIMELESS
from tests.fleet.workloads.world import CLUSTERS, GPU_KINDS, with_workloads, workload

# A stack with a registry admits no image of another one, and the workloads here are built without one.
CONFIGS = sorted(path.stem for path in (ROOT / "policies" / "config").glob("*.json") if "dkr.ecr" not in path.read_text())
WORKLOADS = {kind: workload(kind) for kind in GPU_KINDS}
CORAL, SPACE = "usw2-coral-deployment", "usw2-namespaces.coral"
# An image without digest, where a stack asks for one; and the one image without version, everywhere.
UNDIGESTED = ("usw2-device-query-job", "usw2-tf-mnist-job", "usw2-tf-notebook-deployment")
HOST = "runner-no-privileged"
PINNED = "images-pinned"
"""Policies that some workload breaks, each needing an exception by name."""


@cache
def recorded(held: str) -> Recording:
    """The inside of a cluster with every kind of workload."""
    given = CLUSTERS[held] | {"workloads": WORKLOADS}
    fleet = load(config(clusters={"usw2": given}))

    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        opts = pulumi.ResourceOptions(providers=[provider])
        ready = [kubernetes.core.v1.ConfigMap("ready", opts=pulumi.ResourceOptions(provider=provider))]
        install(Inside("usw2", fleet.clusters["usw2"], ready, opts), fleet, {"default": pulumi.Output.secret("key")})

    return build_alone(program)


_told: dict[tuple[int, str, str, str], list[Verdict]] = {}
"""What each policy with its config says of a recording that this process keeps. Stacks have most configs in common."""


def told(recording: Recording, policies: Iterable[Configured]) -> list[Verdict]:
    """What policies say of a recording that is kept, without policies that do not apply."""
    keys = {(id(recording), policy.policy.id, policy.level.value, repr(policy.config)): policy for policy in policies}
    verdicts = judge(recording, [policy for key, policy in keys.items() if key not in _told])
    for key, policy in keys.items():
        if key not in _told:
            _told[key] = [verdict for verdict in verdicts if verdict.rule == policy.policy.id]
    return [verdict for key in keys for verdict in _told[key] if verdict.kind != "not-applicable"]


def of_workloads(recording: Recording, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """What is said of workloads, their walls, namespaces and priorities."""
    ours = {
        resource.urn
        for resource in recording.resources
        if any(f"gpu-ci:index:{kind}$" in resource.urn for kind in ("GpuWorkload", "Priorities", "Namespaces"))
    }
    assert len(ours) > len(GPU_KINDS), "the workloads were found"
    return [verdict for verdict in verdicts if verdict.urn in ours]


def judged(held: str, stack: str, without: str = "") -> list[Verdict]:
    """The verdicts on a cluster's workloads under a stack's config, perhaps without one policy's exceptions."""
    return of_workloads(recorded(held), told(recorded(held), policies_of(stack, without)))


@cache
def policies_of(stack: str, without: str = "") -> tuple[Configured, ...]:
    """The policies with a stack's config, perhaps without one policy's exceptions."""
    settings = settings_of(stack)
    if isinstance(entry := settings.get(without), dict):
        settings[without] = {key: value for key, value in entry.items() if key != "exceptions"}
    return configure(RULES, settings, TIMELESS)


def settings_of(stack: str) -> dict[str, object]:
    """A stack's config, which names the MIG profile of the cluster that has one; its exceptions are for the cluster here."""
    found = json.loads(json.dumps(policy_settings(stack, ROOT)).replace("::home-", "::usw2-"))
    return dict(found) | {"gpu-mig-resource-known": {"profiles": ["1g.5gb"]}}


def name_of(verdict: Verdict) -> str:
    return verdict.urn.rpartition("::")[2]


def wanted(stack: str) -> set[tuple[str, str, str]]:
    """(policy, workload, kind) of the messages on the workloads under a stack's config, and of no other."""
    found = policy_settings(stack, ROOT)
    off = {key for key, entry in found.items() if isinstance(entry, dict) and entry.get("enforcementLevel") == "disabled"}
    digest = isinstance(entry := found.get(PINNED, {}), dict) and bool(entry.get("requireDigest"))
    told = {(PINNED, name, "violation") for name in (UNDIGESTED if digest else ("usw2-tf-mnist-job",))}
    told |= {(HOST, name, "excepted" if stack == "homelab" else "violation") for name in (CORAL, SPACE)}
    return {each for each in told if each[0] not in off}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_workloads_pass_every_stacks_policies_but_for_what_is_named(cluster: str) -> None:
    for stack in CONFIGS:
        verdicts = judged(cluster, stack)
        messages = [verdict.message for verdict in verdicts]
        assert {(verdict.rule, name_of(verdict), verdict.kind) for verdict in verdicts} == wanted(stack), (stack, messages)


def test_the_corals_exception_is_needed_and_names_it_alone():
    with_it = [each for each in judged("t4", "homelab") if each.rule == HOST]
    without = [each for each in judged("t4", "homelab", without=HOST) if each.rule == HOST]
    assert {(name_of(each), each.kind) for each in with_it} == {(CORAL, "excepted"), (SPACE, "excepted")}
    assert {(name_of(each), each.kind, each.level) for each in without} == {
        (name, "violation", "mandatory") for name in (CORAL, SPACE)
    }
    assert any('hostPath is "/dev/bus/usb"' in each.message for each in without)
    assert any("privileged" in each.message for each in without)


def test_the_corals_exception_is_for_no_other_workload():
    """An Ollama that mounts a folder of the host is not a Coral, whatever the exception says."""
    recording = recorded("t4")
    (target,) = [each for each in recording.resources if each.name == "usw2-ollama-deployment"]
    wire = json.loads(json.dumps(target.inputs))
    wire["spec"]["template"]["spec"]["volumes"] = [{"name": "usb", "hostPath": {"path": "/dev/bus/usb"}}]
    struct = type(target.wire)()
    struct.update(wire)
    changed = dataclasses.replace(target, wire=struct)
    others = tuple(changed if each is target else each for each in recording.resources)
    policies = configure([rule for rule in RULES if rule.id == HOST], {HOST: policy_settings("homelab", ROOT)[HOST]}, TIMELESS)
    verdicts = judge(dataclasses.replace(recording, resources=others), policies)
    assert ("usw2-ollama-deployment", "violation") in {(name_of(verdict), verdict.kind) for verdict in verdicts}


def test_an_exception_by_name_lets_the_mnist_job_pass():
    entry = {
        "urn": "*kubernetes:batch/v1:Job::usw2-tf-mnist-job",
        "reason": "The image has one tag, gpu, and no source gives a digest",
        "expires": "2027-05-31",
    }
    settings = dict(policy_settings("staging", ROOT)) | {PINNED: {"exceptions": [entry]}}
    verdicts = of_workloads(recorded("t4"), told(recorded("t4"), configure(RULES, settings, TIMELESS)))
    pinned = [(name_of(verdict), verdict.kind) for verdict in verdicts if verdict.rule == PINNED]
    assert pinned == [("usw2-tf-mnist-job", "excepted")]


# -- smoke tests -------------------------------------------------------------------------------------------------------


def as_resources(objects: list[dict[str, Any]]) -> Recording:
    """Plain manifests as the policies see resources."""
    kinds: dict[str, Any] = {
        "Namespace": kubernetes.core.v1.Namespace,
        "NetworkPolicy": kubernetes.networking.v1.NetworkPolicy,
        "Job": kubernetes.batch.v1.Job,
    }

    def program() -> None:
        opts = pulumi.ResourceOptions(provider=kubernetes.Provider("cluster", kubeconfig="{}"))
        for each in objects:
            spec = {"spec": each["spec"]} if "spec" in each else {}
            kinds[each["kind"]](each["metadata"]["name"], metadata=each["metadata"], opts=opts, **spec)

    return build_alone(program)


@cache
def smoke(cluster: str) -> Recording:
    """The smoke tests of a cluster, and where they run."""
    return as_resources([*smoke_home(), *(test.job for test in smoke_tests(with_workloads(cluster)) if test.job)])


@pytest.mark.parametrize("cluster", ["t4", "sliced", "mig", "a10"])
def test_smoke_tests_pass_every_stacks_policies_but_for_a_digest_that_nobody_gives(cluster: str) -> None:
    recording = smoke(cluster)
    for stack in CONFIGS:
        broken = {
            (verdict.rule, name_of(verdict))
            for verdict in told(recording, policies_of(stack))
            if verdict.kind != "excepted" and name_of(verdict).startswith(("smoke-", "gpu-smoke", "workloads"))
        }
        digest = isinstance(entry := policy_settings(stack, ROOT).get(PINNED, {}), dict) and bool(entry.get("requireDigest"))
        assert broken == ({(PINNED, "smoke-t4-device-query")} if digest else set()), stack
