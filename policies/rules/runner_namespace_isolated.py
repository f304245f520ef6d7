"""runner-namespace-isolated: the namespaces of runner pods isolate their jobs.

Judged for the namespace of every runner set (the chart's release, or ARC's custom resource), and for the one in which its runners
create the pods of jobs in containers:

- It is not the namespace of the controller, whose account may read every secret of the cluster.
- The stack declares this Namespace, with the label that enforces the Pod Security Standard `baseline` or `restricted`. That of
  jobs in containers has `baseline` unless the class says otherwise, because many images run as root.
- A NetworkPolicy for all its pods denies all traffic by default, in and out. No egress rule of a policy there reaches the
  instance metadata by TCP 80, or all ports of a whole private network. No Patch changes these objects. The same holds for the
  policies of a runner set's namespace that other files have.
- The cluster's network enforces NetworkPolicies. On EKS the add-on vpc-cni shows it. Nothing shows it of a cluster that exists
  already. On OKE no resource of a stack shows it: Oracle's plugins enforce none, and Calico is installed by hand. The rule is
  therefore undeterminable in a cluster that exists already, and if a pod of an OKE cluster runs jobs. Launchers of machines run
  no jobs.
- It has a ResourceQuota and a LimitRange.
- The runner pod and the pods of jobs in containers mount no service account token. A launcher that needs a token, such as this
  project's for OKE's workload identity, has an account that the config names. Runners that create a pod for each job need a
  token, too. The rule does not judge it: `runner-no-app-key` judges its rights.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fleet.facts.scheduling import POD_SECURITY_LABEL, RUNNERS

from . import kinds
from .admission import held
from .clusters import clustered
from .networks import DIRECTIONS, Address, IPNetwork, denies, network, ways_out
from .pods import PodSpec
from .pools import booted
from .read import Later, UndeterminableError, count, keys, parsed, strings, text, walk
from .releases import Release, releases
from .rule import Resource, Stack, StackRule, Violations, facts, said, unseen
from .runner_sets import RUNNER_SETS, ByPlace, Place, RunnerSet, lacks, place_of, place_of_release, runner_sets

_LEVELS = ("restricted", "baseline")
_OWN = "runners"
"""The name of a runner set's own NetworkPolicy."""
_CNI = "vpc-cni"
_ENFORCED = re.compile(r"[\"']?enableNetworkPolicy[\"']?\s*:\s*[\"']?true\b")
"""In the add-on's values, which EKS takes as JSON or YAML."""
_OF_NAMESPACE = (kinds.NAMESPACE, kinds.NETWORK_POLICY, kinds.RESOURCE_QUOTA, kinds.LIMIT_RANGE)
"""The namespace, and the kinds whose objects are in one."""
PATCHES = frozenset(f"{kind}Patch" for kind in _OF_NAMESPACE)
_ByKind = Mapping[str, ByPlace[Resource]]
"""A kind to its resources by namespace."""


def _check(stack: Stack, later: Later) -> Violations:
    addresses = (parsed(item, ipaddress.ip_address) for item in strings(stack.config, "metadataAddresses"))
    metadata: tuple[Address, ...] = tuple(address for address in addresses if address is not None)
    accounts = frozenset(strings(stack.config, "tokenServiceAccounts"))
    private = [home for home in map(network, strings(stack.config, "privateNetworks")) if home is not None]
    controllers = ByPlace(_controllers(stack, later), lambda release: place_of_release(*release))
    by_kind = {kind: ByPlace(stack.of(kind), place_of) for kind in _OF_NAMESPACE}
    judged: set[Place] = set()
    sets = list(runner_sets(stack.resources, later))
    for runner_set in sets:
        yield from _check_token(runner_set, accounts, later)
        for place in dict.fromkeys((runner_set.place, runner_set.job_place(later))):
            of_place = replace(runner_set, place=place)
            yield from _check_controller(of_place, controllers, later)
            # Several sets may share a namespace. Report its faults once.
            if place not in judged:
                judged.add(place)
                yield from _check_namespace(of_place, by_kind, metadata, private, later)
    # Files may have a policy of a namespace whose runner set is elsewhere.
    for policy in stack.of(kinds.NETWORK_POLICY):
        with later:
            place, name = place_of(policy), text(walk(policy.props, "metadata", "name"))
            if place not in judged and place.name.startswith(RUNNERS):
                yield from ((f"{place}: {fault}", policy.urn) for fault in ways_out(policy.props, metadata, private, later))
                if name == _OWN and not all(denies(policy.props, direction) for direction in DIRECTIONS):
                    yield said("isolation_changed", place=place, name=name), policy.urn
    ours = ByPlace(stack.of(kinds.NAMESPACE), place_of)
    for patch in stack.of(PATCHES):
        with later:
            if (place := place_of(patch)) in judged or ours.at(place, later):
                yield said("isolation_patch", place=place, kind=kinds.kind_of(patch.type)), patch.urn
    yield from _check_enforced(stack, sets, later)
    # Report this before unknown values: an update does not resolve it.
    jobs = [runner_set for runner_set in sets if _runs_jobs(runner_set, accounts)]
    unsure = Later()
    # The network of a cluster that exists already is not the stack's.
    for at in clustered((runner_set.resource for runner_set in jobs), Later()):
        if there := stack.may_be(at.cluster):
            unsure.note(unseen(there, "whether its network enforces NetworkPolicies"))
    _check_oke(stack, jobs, unsure)
    unsure.settle()


def _controllers(stack: Stack, later: Later) -> Iterator[tuple[Resource, Release]]:
    for resource in stack.of(kinds.HELM):
        for release in releases(resource.type, resource.props, later):
            with later:
                if release.chart_name == kinds.CONTROLLER_CHART:
                    yield resource, release


# -- the runner set ----------------------------------------------------------------------------------------------------


def _check_controller(runner_set: RunnerSet, controllers: ByPlace[tuple[Resource, Release]], later: Later) -> Violations:
    hidden = Later()
    shares = bool(controllers.at(runner_set.place, hidden))
    with hidden:
        controller = walk(runner_set.values, "controllerServiceAccount", "namespace")
        shares = shares or text(controller) == runner_set.place.name
    if shares:
        yield said("beside_controller", runner_set=runner_set), runner_set.resource.urn
    else:
        later.join(hidden)


def _check_token(runner_set: RunnerSet, accounts: frozenset[str], later: Later) -> Violations:
    unsure, hidden = Later(), Later()
    if (pod := runner_set.pod(unsure)) is None or runner_set.makes_pods(unsure):
        later.join(unsure)
    else:
        yield from _token_faults(runner_set, pod, accounts, unsure, later)
    for job in runner_set.job_pods(hidden):
        yield from _token_faults(runner_set, job, accounts, Later(), later)
    later.join(hidden)


def _token_faults(runner_set: RunnerSet, pod: PodSpec, accounts: frozenset[str], unsure: Later, later: Later) -> Violations:
    with unsure:
        mounts = walk(pod.spec, "automountServiceAccountToken")
        if mounts is False or text(walk(pod.spec, "serviceAccountName")) in accounts:
            return
        if not unsure:
            yield said("mounted_token", pod=pod, mounts=mounts), runner_set.resource.urn
    later.join(unsure)


def _check_oke(stack: Stack, jobs: Sequence[RunnerSet], later: Later) -> None:
    """OKE enforces no NetworkPolicy without Calico (docs.oracle.com, installing Calico and setting up network policies)."""
    hidden = Later()
    clusters = tuple(clustered(stack.of(kinds.OKE_CLUSTER), hidden))
    if not (jobs and (clusters or hidden)):
        return
    there = [
        runner_set.name for runner_set in jobs for at in clustered([runner_set.resource], hidden) if any(map(at.near, clusters))
    ]
    if there:
        later.note(UndeterminableError(said("no_calico", sets=", ".join(there))))
    later.join(hidden)


def _runs_jobs(runner_set: RunnerSet, accounts: frozenset[str]) -> bool:
    """Whether jobs run in the set's pods, as far as known: launchers boot machines, or have an account whose pods run no job."""
    unsure = Later()
    if runner_set.release is not None and any(booted(runner_set.release, unsure)):
        return False
    pod = runner_set.pod(unsure)
    with unsure:
        return pod is None or text(walk(pod.spec, "serviceAccountName")) not in accounts
    return True


def _check_enforced(stack: Stack, sets: Sequence[RunnerSet], later: Later) -> Violations:
    """EKS' own network accepts NetworkPolicies but does not enforce them unless the add-on enables it (EKS user guide)."""
    homes = {at.cluster for at in clustered((runner_set.resource for runner_set in sets), later)}
    for addon in stack.of(kinds.EKS_ADDON):
        with later:
            if text(walk(addon.props, "addonName")) != _CNI or text(walk(addon.props, "clusterName")) not in homes - {""}:
                continue
            if _ENFORCED.search(text(walk(addon.props, "configurationValues"))[:65536]) is None:
                yield said("policies_unenforced", cni=_CNI), addon.urn


# -- the namespace -----------------------------------------------------------------------------------------------------


def _check_namespace(
    runner_set: RunnerSet, by_kind: _ByKind, metadata: tuple[Address, ...], private: Sequence[IPNetwork], later: Later
) -> Violations:
    place, urn = runner_set.place, runner_set.resource.urn
    yield from _check_standard(runner_set, by_kind[kinds.NAMESPACE], later)
    for direction in DIRECTIONS:
        if lacks(by_kind[kinds.NETWORK_POLICY], place, partial(denies, direction=direction), later):
            yield said("no_default_deny", place=place, direction=direction, directions=", ".join(DIRECTIONS)), urn
    # A policy whose namespace is unknown may allow what these deny.
    for policy in by_kind[kinds.NETWORK_POLICY].at(place, later):
        yield from ((f"{place}: {fault}", policy.urn) for fault in ways_out(policy.props, metadata, private, later))
    if lacks(by_kind[kinds.RESOURCE_QUOTA], place, lambda props: bool(keys(walk(props, "spec", "hard"))), later):
        yield f"{place}: no ResourceQuota limits the sum of its pods; add one with spec.hard", urn
    if lacks(by_kind[kinds.LIMIT_RANGE], place, lambda props: count(walk(props, "spec", "limits")) > 0, later):
        yield f"{place}: no LimitRange sets limits for containers without limits; add one with spec.limits", urn


def _check_standard(runner_set: RunnerSet, namespaces: ByPlace[Resource], later: Later) -> Violations:
    place, hidden = runner_set.place, Later()
    declared = namespaces.at(place, hidden)
    for namespace in declared:
        with later:
            if text(level := walk(namespace.props, "metadata", "labels", POD_SECURITY_LABEL)) not in _LEVELS:
                words = " or ".join(_LEVELS)
                fault = said("weak_level", place=place, label=POD_SECURITY_LABEL, level=level, words=words, allowed=_LEVELS)
                yield fault, namespace.urn
    if not declared and later.clear(hidden):
        fault = said("undeclared_namespace", place=place, runner_set=runner_set, label=POD_SECURITY_LABEL, levels=_LEVELS)
        yield fault, runner_set.resource.urn


_TYPES = RUNNER_SETS | PATCHES | {*_OF_NAMESPACE, kinds.CONFIG_MAP, kinds.EKS_ADDON, kinds.OKE_CLUSTER}
RULE = held(StackRule(**facts(__name__), types=_TYPES, check=_check))
