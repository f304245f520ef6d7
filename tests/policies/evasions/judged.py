"""What the checks say of an evasion: refused, remarked or unnoticed, and which policies say so."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from google.protobuf import struct_pb2

from fleet.facts.errors import FleetError, InputError
from gpu_ci.offline import judge as judging, plan as planning
from gpu_ci.offline.judge import Verdict, judge
from gpu_ci.offline.manifests import check as command
from gpu_ci.offline.manifests.check import Check, make_check
from gpu_ci.offline.plan import Plan, blocked_of, make_plan
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import raw
from policies.rules import Rule
from tests.builders import ROOT
from tests.components.recorded import recorded
from tests.day import AS_OF
from tests.policies.evasions.cloud import Add, Cloud, Edit
from tests.policies.evasions.objects import Manifest, Object
from tests.policies.evasions.settings import Settings, innocent
from tests.policies.test_own_stacks import BY_DAY, configured

REFUSED, REMARKED, UNNOTICED = "refused", "remarked", "unnoticed"
VERDICTS = (UNNOTICED, REMARKED, REFUSED)
"""From the worst to the best."""
STACK = "staging"
"""The stack by whose policies manifests are judged."""
CLUSTERS = {"staging": "usw2", "prod": "use1"}
"""The EKS cluster of each stack by which programs are judged."""
_OF_STACKS = ("read_fleet", "require_current", "policy_values", "policy_settings", "configured_for")


class Judged(NamedTuple):
    """A verdict and the policies that gave it, sorted; "remark" stands for a line of the report that no policy gave."""

    verdict: str
    by: tuple[str, ...] = ()


@contextmanager
def read_once() -> Iterator[None]:
    """What a check reads of the project's own stacks is read once: no case changes it."""
    patches: dict[str, Any] = {name: _kept(name) for name in _OF_STACKS}
    with patch.multiple(command, **patches):
        yield


@cache
def _kept(name: str) -> object:
    read, results = getattr(command, name), {}

    def kept(*arguments: object, **options: object) -> object:
        if name not in results:
            results[name] = read(*arguments, **options)
        return results[name]

    return kept


def of_manifest(case: Manifest, folder: Path) -> Judged:
    """What `gpu-ci check --strict` says of the case, written into this folder."""
    text = (
        case.objects if isinstance(case.objects, str) else json.dumps({"apiVersion": "v1", "kind": "List", "items": case.objects})
    )
    (folder / "case.yaml").write_text(text)
    return of_check(make_check(str(folder), STACK, ROOT, as_of=AS_OF))


def of_check(check: Check) -> Judged:
    """The verdict of a check: whether it fails, else whether its report has a line about anything."""
    if not check.passes(strict=True):
        blocked = {verdict.rule for verdict in check.blocked(strict=True)}
        return Judged(REFUSED, tuple(sorted(blocked or {"remark"})))
    # What a day has ended is of our own files, and no case is about it.
    told = {finding.verdict.rule for finding in check.findings} - {BY_DAY}
    if check.remarks or any(kind.works for kind in check.unjudged):
        told.add("remark")
    return Judged(REMARKED, tuple(sorted(told))) if told else Judged(UNNOTICED)


@cache
def declared(stack: str) -> frozenset[Verdict]:
    """Every verdict on a stack of our own as it is."""
    return frozenset(judge(recorded(stack), configured(stack)))


@cache
def _properties(resource: Resource) -> dict[str, Any]:
    return _read_properties(resource)


_read_properties = judging.properties_of


def of_cloud(case: Cloud, stack: str) -> Judged:
    """What the plan of a stack of our own says of the change.

    A policy of one resource judges the new resources alone; one of the stack judges again if it reads a type of the change.
    """
    recording, new = changed_by(case, stack)
    alone = replace(recording, resources=new)
    types = {resource.type for resource in new}
    verdicts: set[Verdict] = set()
    with patch.object(judging, "properties_of", _properties):
        for configuration in configured(stack):
            rule = configuration.policy
            if any(map(rule.sees, types)):
                verdicts.update(judge(alone if isinstance(rule, Rule) else recording, (configuration,)))
    return of_verdicts(verdicts - declared(stack))


def of_verdicts(verdicts: Collection[Verdict]) -> Judged:
    """The verdict of a plan that says all this beside what it says of the stack as it is."""
    if blocked := blocked_of(verdicts):
        return Judged(REFUSED, tuple(sorted({verdict.rule for verdict in blocked})))
    told = {verdict.rule for verdict in verdicts if verdict.kind != "not-applicable"}
    return Judged(REMARKED, tuple(sorted(told))) if told else Judged(UNNOTICED)


def changed_by(case: Cloud, stack: str) -> tuple[Recording, tuple[Resource, ...]]:
    """The recording of a stack with the change of a case, and the resources that it adds or edits."""
    recording = recorded(stack)
    resources = list(recording.resources)
    new: list[Resource] = []
    for part in case.parts:
        if isinstance(part, Add):
            resources.append(_added(part, resources, stack))
            new.append(resources[-1])
        else:
            index = next(at for at, one in enumerate(resources) if one.type == part.token and re.search(part.named, one.name))
            props = with_value(raw(resources[index].wire), part.path, _filled(part.value, stack))
            sources = {**resources[index].property_dependencies, **_sources(part, resources)}
            resources[index] = replace(resources[index], wire=_wired(props), property_dependencies=sources)
            new.append(resources[index])
    return replace(recording, resources=tuple(resources)), tuple(new)


def with_value(props: Any, path: Sequence[str | int], value: Any) -> Any:
    """The properties with a value at a path; an object that the path needs is made."""
    if not path:
        return value
    (step, *rest) = path
    copied = list(props) if isinstance(props, list) else dict(props or {})
    copied[step] = with_value(copied[step] if isinstance(copied, list) else copied.get(step), rest, value)  # type: ignore[index]
    return copied


def _added(part: Add, resources: Sequence[Resource], stack: str) -> Resource:
    sources = _sources(part, resources)
    # A pattern of no parent finds the stack, which is the first.
    parent = next(one for one in resources if re.search(part.below, one.name) and not (part.below and one.custom))
    lineage = f"{parent.urn.split('::')[2]}$" if part.below else ""
    urn = f"{parent.urn.partition('::gpu-ci::')[0]}::gpu-ci::{lineage}{part.token}::{part.name}"
    # Objects of Kubernetes are of the EKS cluster of the stack.
    of_cluster = (one for one in resources if one.type.startswith("kubernetes:") and one.name.startswith(CLUSTERS[stack]))
    like = next(of_cluster) if part.token.startswith("kubernetes:") else None
    return Resource(
        urn,
        part.token,
        part.name,
        parent=parent.urn,
        custom=True,
        remote=False,
        read=False,
        id="",
        wire=_wired(_filled(part.props, stack)),
        provider=like.provider if like else "",
        provider_resource=like.provider_resource if like else None,
        dependencies=tuple(urn for urns in sources.values() for urn in urns),
        property_dependencies=sources,
    )


def _sources(part: Add | Edit, resources: Sequence[Resource]) -> dict[str, tuple[str, ...]]:
    """The URN of the resource from which each property comes."""
    return {
        name: (next(one.urn for one in resources if re.search(pattern, one.name)),) if pattern else ()
        for name, pattern in part.comes_from.items()
    }


def _wired(props: Object) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(props)
    return struct


def _filled(value: Any, stack: str) -> Any:
    """The value with the names of the stack and of its EKS cluster."""
    if isinstance(value, Mapping):
        return {key: _filled(inner, stack) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, stack) for inner in value]
    return value.replace("{stack}", stack).replace("{cluster}", CLUSTERS[stack]) if isinstance(value, str) else value


def of_settings(case: Settings, folder: Path) -> Judged:
    """What the plan of the staging stack says of the edited stack file and policy config, and not of the innocent change."""
    try:
        said = _planned(case, folder)
    except (InputError, FleetError) as error:
        return Judged(REFUSED, (type(error).__name__,))
    if blocked := blocked_of(said.verdicts):
        return Judged(REFUSED, tuple(sorted({verdict.rule for verdict in blocked})))
    before = _planned(case.innocent or innocent({}), folder)
    told = {rule for rule, *_ in Counter(_kinds(said)) - Counter(_kinds(before))}
    if len(said.remarks) > len(before.remarks):
        told.add("remark")
    return Judged(REMARKED, tuple(sorted(told))) if told else Judged(UNNOTICED)


def _kinds(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Verdicts without their words, which have names of the change."""
    return ((verdict.rule, verdict.kind, verdict.urn) for verdict in plan.verdicts)


def _planned(case: Settings, folder: Path) -> Plan:
    path = folder / "Pulumi.staging.yaml"
    path.write_text(case.text)
    with patch.object(planning, "policy_settings", lambda *_: _with(policy_settings(STACK, ROOT), case.policies)):
        return make_plan(STACK, ROOT, path, as_of=AS_OF)


def _with(settings: Mapping[str, Any], policies: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, **{name: {**settings.get(name, {}), **entry} for name, entry in policies.items()}}
