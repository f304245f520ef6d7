"""runner-namespace-isolated: a job in a runner pod has walls around it.

Asked of the namespace of every runner set (the chart's release, or ARC's custom resource):

- It is not the controller's, whose account may read every secret of its cluster.
- A Namespace of the stack has that name, and the label that holds its pods to the Pod Security Standard `baseline` or
  `restricted`.
- A NetworkPolicy for all its pods denies what none allows, in and out, and no rule out of any policy there reaches the
  instance metadata by TCP 80.
- The cluster's network enforces NetworkPolicies. On EKS the add-on vpc-cni shows it. Nothing shows it of a cluster that exists
  already. On OKE no resource of a stack shows it:
  Oracle's plugins enforce none, and Calico is installed by hand. The rule is therefore undeterminable where a pod of an OKE
  cluster runs jobs. Launchers of machines run none.
- It has a ResourceQuota and a LimitRange.
- The runner pod mounts no token of a service account. A launcher that needs one, such as this project's for OKE's workload
  identity, has an account that the config names. Runners that make a pod for each job need it too, and are left out of this
  one demand.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleet.facts.scheduling import POD_SECURITY_LABEL

from . import kinds, schema
from .clusters import clustered
from .machine_types import booted
from .network_policies import DIRECTIONS, Address, denies, ways_out
from .places import setting
from .read import Later, UndeterminableError, count, keys, shown, strings, text, walk
from .releases import Release, releases
from .rule import PolicyResource, Section, Severity, Stack, StackRule, Violation, unseen
from .runner_sets import RUNNER_SETS, ByPlace, Place, RunnerSet, cluster_of, place_of, place_of_release, runner_sets

METADATA = ("169.254.169.254", "fd00:ec2::254")
TOKEN_ACCOUNTS = ("launcher",)
"""Of this project's launchers."""

_LEVELS = ("restricted", "baseline")
_CNI = "vpc-cni"
_ENFORCED = re.compile(r"[\"']?enableNetworkPolicy[\"']?\s*:\s*[\"']?true\b")
"""In the add-on's values, which EKS takes as JSON or YAML."""
_LONGEST = 65536


@dataclass(frozen=True, slots=True)
class _Walls:
    """A stack's resources by namespace; `held` maps a kind to its resources."""

    controllers: ByPlace[tuple[PolicyResource, Release]]
    namespaces: ByPlace[PolicyResource]
    held: Mapping[str, ByPlace[PolicyResource]]


def _check(stack: Stack, later: Later) -> Iterator[Violation]:
    metadata = tuple(
        address for item in strings(stack.config, "metadataAddresses", METADATA) if (address := _address(item)) is not None
    )
    accounts = frozenset(strings(stack.config, "tokenServiceAccounts", TOKEN_ACCOUNTS))
    walls = _Walls(
        ByPlace(_controllers(stack, later), lambda found: place_of_release(*found)),
        ByPlace(stack.of(kinds.NAMESPACE), _named),
        {each: ByPlace(stack.of(each), place_of) for each in (kinds.NETWORK_POLICY, kinds.RESOURCE_QUOTA, kinds.LIMIT_RANGE)},
    )
    judged: set[Place] = set()
    sets = list(runner_sets(stack.resources, later))
    for runner_set in sets:
        yield from _check_token(runner_set, accounts, later)
        yield from _check_controller(runner_set, walls, later)
        # Several sets may share a namespace. Report its faults once.
        if runner_set.place not in judged:
            judged.add(runner_set.place)
            yield from _check_walls(runner_set, walls, metadata, later)
    yield from _check_enforced(stack, sets, later)
    # Report this before unknown values: an update does not resolve it.
    unsure = Later()
    _check_existing(stack, sets, accounts, unsure)
    _check_oke(stack, sets, accounts, unsure)
    unsure.settle()


def _controllers(stack: Stack, later: Later) -> Iterator[tuple[PolicyResource, Release]]:
    for resource in stack.of(kinds.HELM):
        for release in releases(resource.resource_type, resource.props, later):
            with later:
                if release.chart_name == kinds.CONTROLLER_CHART:
                    yield resource, release


def _named(namespace: PolicyResource) -> Place:
    return Place(cluster_of(namespace), text(walk(namespace.props, "metadata", "name")))


# -- the runner set ----------------------------------------------------------------------------------------------------


def _check_controller(runner_set: RunnerSet, walls: _Walls, later: Later) -> Iterator[Violation]:
    hidden = Later()
    shares = bool(walls.controllers.at(runner_set.place, hidden))
    with hidden:
        told = walk(runner_set.values, "controllerServiceAccount", "namespace")
        shares = shares or text(told) == runner_set.place.name
    if shares:
        fault = (
            f"{runner_set.place}: runners of {runner_set.name} share it with ARC's controller, whose account may read every "
            "secret of the cluster; give the runner set a namespace of its own"
        )
        yield fault, runner_set.resource.urn
    else:
        later.join(hidden)


def _check_token(runner_set: RunnerSet, accounts: frozenset[str], later: Later) -> Iterator[Violation]:
    unsure = Later()
    pod = runner_set.pod(unsure)
    if pod is None or runner_set.makes_pods(unsure):
        later.join(unsure)
        return
    with unsure:
        mounts = walk(pod.spec, "automountServiceAccountToken")
        if mounts is False or text(walk(pod.spec, "serviceAccountName")) in accounts:
            return
        if not unsure:
            fault = (
                f"{pod.path}.automountServiceAccountToken is {shown(mounts)}: a job would hold a token for the Kubernetes API; "
                f"write false, or name the account in {setting('tokenServiceAccounts')} if the pod runs no job"
            )
            yield fault, runner_set.resource.urn
    later.join(unsure)


def _check_oke(stack: Stack, sets: Sequence[RunnerSet], accounts: frozenset[str], later: Later) -> None:
    """OKE enforces no NetworkPolicy without Calico (docs.oracle.com, installing Calico and setting up network policies)."""
    hidden = Later()
    clusters = tuple(clustered(stack.of(kinds.OKE_CLUSTER), hidden))
    if not (sets and (clusters or hidden)):
        return
    jobs = [each for each in sets if _runs_jobs(each, accounts)]
    there = [each.name for each in jobs for at in clustered([each.resource], hidden) if any(map(at.near, clusters))]
    if there:
        later.note(
            UndeterminableError(
                f"nothing in the stack shows whether jobs of {', '.join(there)} are isolated: OKE enforces no NetworkPolicy "
                "until Calico is installed in the cluster"
            )
        )
    if jobs:
        later.join(hidden)


def _check_existing(stack: Stack, sets: Sequence[RunnerSet], accounts: frozenset[str], later: Later) -> None:
    """The network of a cluster that exists already is not the stack's."""
    for each in sets:
        for at in clustered([each.resource], Later()) if _runs_jobs(each, accounts) else ():
            if there := stack.may_be(at.cluster):
                later.note(unseen(there, "whether its network enforces NetworkPolicies"))


def _runs_jobs(runner_set: RunnerSet, accounts: frozenset[str]) -> bool:
    """Whether jobs run in the set's pods, as far as is known: launchers boot machines, or have an account that runs no job."""
    unsure = Later()
    if runner_set.release is not None and any(booted(runner_set.release, unsure)):
        return False
    pod = runner_set.pod(unsure)
    with unsure:
        return pod is None or text(walk(pod.spec, "serviceAccountName")) not in accounts
    return True


def _check_enforced(stack: Stack, sets: Sequence[RunnerSet], later: Later) -> Iterator[Violation]:
    """EKS' own network takes NetworkPolicies without a word and enforces none, unless it is told to (EKS user guide)."""
    homes = {each.cluster for each in clustered((found.resource for found in sets), later)}
    for addon in stack.of(kinds.EKS_ADDON):
        with later:
            if text(walk(addon.props, "addonName")) != _CNI or text(walk(addon.props, "clusterName")) not in homes - {""}:
                continue
            values = walk(addon.props, "configurationValues")
            if _ENFORCED.search(text(values)[:_LONGEST]) is None:
                fault = (
                    f"configurationValues of {_CNI} does not turn enableNetworkPolicy on: the cluster takes NetworkPolicies and "
                    'enforces none; write {"enableNetworkPolicy": "true"}'
                )
                yield fault, addon.urn


# -- its namespace -----------------------------------------------------------------------------------------------------


def _check_walls(runner_set: RunnerSet, walls: _Walls, metadata: tuple[Address, ...], later: Later) -> Iterator[Violation]:
    place, urn = runner_set.place, runner_set.resource.urn
    yield from _check_standard(runner_set, walls.namespaces, later)
    for direction in DIRECTIONS:
        if _lacks(walls.held[kinds.NETWORK_POLICY], place, partial(denies, direction=direction), later):
            fault = (
                f"{place}: no NetworkPolicy for all its pods denies {direction} by default; add one with podSelector {{}} and "
                f"policyTypes [{', '.join(DIRECTIONS)}]"
            )
            yield fault, urn
    # One whose namespace is unknown may open what these close.
    for policy in walls.held[kinds.NETWORK_POLICY].at(place, later):
        for fault in ways_out(policy.props, metadata, later):
            yield f"{place}: {fault}", policy.urn
    if _lacks(walls.held[kinds.RESOURCE_QUOTA], place, lambda props: bool(keys(walk(props, "spec", "hard"))), later):
        yield f"{place}: no ResourceQuota bounds what its pods take together; add one with spec.hard", urn
    if _lacks(walls.held[kinds.LIMIT_RANGE], place, lambda props: count(walk(props, "spec", "limits")) > 0, later):
        yield f"{place}: no LimitRange bounds what a container takes that names no limit; add one with spec.limits", urn


def _lacks(held: ByPlace[PolicyResource], place: Place, fits: Callable[[Any], bool], later: Later) -> bool:
    """Whether nothing of a kind in the namespace fits, for sure. Where something unknown may, that is put off."""
    hidden = Later()
    for each in held.at(place, hidden):
        with hidden:
            if fits(each.props):
                return False
    later.join(hidden)
    return not hidden


def _check_standard(runner_set: RunnerSet, namespaces: ByPlace[PolicyResource], later: Later) -> Iterator[Violation]:
    place, hidden = runner_set.place, Later()
    held = namespaces.at(place, hidden)
    for namespace in held:
        with later:
            level = walk(namespace.props, "metadata", "labels", POD_SECURITY_LABEL)
            if text(level) not in _LEVELS:
                fault = (
                    f"{place}: metadata.labels[{shown(POD_SECURITY_LABEL)}] is {shown(level)}: runner pods are held to "
                    f"{' or '.join(_LEVELS)}; write {_LEVELS[0]}"
                )
                yield fault, namespace.urn
    if held:
        return
    if not hidden:
        fault = (
            f"{place}: no Namespace of this stack has that name, so nothing holds runner pods of {runner_set.name} to a Pod "
            f"Security Standard; declare it with label {POD_SECURITY_LABEL}: {_LEVELS[0]}"
        )
        yield fault, runner_set.resource.urn
    later.join(hidden)


def _address(value: Any) -> Address | None:
    try:
        return ipaddress.ip_address(text(value))
    except ValueError:
        return None


RULE = StackRule(
    id="runner-namespace-isolated",
    order=(Section.HARDENING, 100),
    title="Runners have namespaces of their own with walls",
    severity=Severity.HIGH,
    types=RUNNER_SETS
    | {kinds.NAMESPACE, kinds.NETWORK_POLICY, kinds.RESOURCE_QUOTA, kinds.LIMIT_RANGE, kinds.EKS_ADDON, kinds.OKE_CLUSTER},
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    config={
        "metadataAddresses": schema.strings(
            METADATA, "Addresses at which nodes find their instance metadata; no egress rule may reach one."
        ),
        "tokenServiceAccounts": schema.strings(
            TOKEN_ACCOUNTS, "Service accounts whose pods run no job and need their token, as launchers with workload identity do."
        ),
    },
    rationale="Whoever opens a pull request writes what a runner pod runs; it must not reach the node's rights or other jobs.",
    source="https://docs.github.com/en/actions/reference/security/secure-use",
    fix=(
        "Give runners a namespace with the Pod Security label, a NetworkPolicy that denies by default and closes instance "
        "metadata, a ResourceQuota and a LimitRange; set automountServiceAccountToken to false."
    ),
    check=_check,
)
