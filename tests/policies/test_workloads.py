"""GPU workloads under the pack, as every stack's config sets it: what they break, and which exception is named for it."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.inside import Inside, install
from fleet.loading.config import load
from fleet.render.workloads.smoke import smoke_home, smoke_tests
from fleet.settings.workloads import KINDS
from gpu_ci.offline.judge import Verdict, configure, judge
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import ROOT, config
from tests.components.recorded import build_alone
from tests.day import TIMELESS
from tests.fleet.workloads.world import CLUSTERS, with_workloads, workload

# A stack with a registry admits no image of another one, and the workloads here are built without one.
CONFIGS = sorted(path.stem for path in (ROOT / "policies" / "config").glob("*.json") if "dkr.ecr" not in path.read_text())
WORKLOADS = {kind: workload(kind) for kind in KINDS}
CORAL = "usw2-coral-deployment"
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
        install(Inside("usw2", fleet.clusters["usw2"], ready, opts), fleet, pulumi.Output.secret("key"))

    return build_alone(program)


def of_workloads(recording: Recording, verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """What is said of workloads, their walls, namespaces and priorities."""
    ours = {
        each.urn
        for each in recording.resources
        if any(f"gpu-ci:index:{kind}$" in each.urn for kind in ("GpuWorkload", "Priorities", "Namespaces"))
    }
    assert len(ours) > len(KINDS), "the workloads were found"
    return [each for each in verdicts if each.urn in ours and each.kind != "not-applicable"]


def judged(held: str, stack: str, without: str = "") -> list[Verdict]:
    """The verdicts on a cluster's workloads under a stack's config, perhaps without one policy's exceptions."""
    found = settings_of(stack)
    if isinstance(entry := found.get(without), dict):
        found[without] = {key: value for key, value in entry.items() if key != "exceptions"}
    return of_workloads(recorded(held), judge(recorded(held), configure(RULES, found, TIMELESS)))


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
    told.add((HOST, CORAL, "excepted" if stack == "homelab" else "violation"))
    return {each for each in told if each[0] not in off}


@pytest.mark.parametrize("stack", CONFIGS)
@pytest.mark.parametrize("held", CLUSTERS)
def test_workloads_pass_every_stacks_policies_but_for_what_is_named(held, stack):
    found = judged(held, stack)
    assert {(each.rule, name_of(each), each.kind) for each in found} == wanted(stack), [each.message for each in found]


def test_the_corals_exception_is_needed_and_names_it_alone():
    with_it = [each for each in judged("t4", "homelab") if each.rule == HOST]
    without = [each for each in judged("t4", "homelab", without=HOST) if each.rule == HOST]
    assert [(name_of(each), each.kind) for each in with_it] == [(CORAL, "excepted")]
    assert {(name_of(each), each.kind, each.level) for each in without} == {(CORAL, "violation", "mandatory")}
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
    found = judge(dataclasses.replace(recording, resources=others), configure(RULES, policy_settings("homelab", ROOT), TIMELESS))
    assert ("usw2-ollama-deployment", "violation") in {(name_of(each), each.kind) for each in found if each.rule == HOST}


def test_an_exception_by_name_lets_the_mnist_job_pass():
    entry = {
        "urn": "*::*-tf-mnist-job",
        "reason": "The image has one tag, gpu, and no source gives a digest",
        "expires": "2027-05-31",
    }
    found = dict(policy_settings("staging", ROOT)) | {PINNED: {"exceptions": [entry]}}
    told = [
        each
        for each in of_workloads(recorded("t4"), judge(recorded("t4"), configure(RULES, found, TIMELESS)))
        if each.rule == PINNED
    ]
    assert [(name_of(each), each.kind) for each in told] == [("usw2-tf-mnist-job", "excepted")]


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


@pytest.mark.parametrize("stack", CONFIGS)
@pytest.mark.parametrize("held", ["t4", "sliced", "mig", "a10"])
def test_smoke_tests_pass_every_stacks_policies_but_for_a_digest_that_nobody_gives(held, stack):
    recording = as_resources([*smoke_home(), *(each.job for each in smoke_tests(with_workloads(held)) if each.job)])
    found = settings_of(stack)
    told = {
        (each.rule, name_of(each))
        for each in judge(recording, configure(RULES, found, TIMELESS))
        if each.kind not in ("not-applicable", "excepted") and name_of(each).startswith(("smoke-", "gpu-smoke", "workloads"))
    }
    digest = isinstance(entry := found.get(PINNED, {}), dict) and bool(entry.get("requireDigest"))
    assert told == ({(PINNED, "smoke-t4-device-query")} if digest else set())
