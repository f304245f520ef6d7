"""The cases of every rule's suite as resources of one stack: what the engine is asked about all rules at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import struct_pb2

from gpu_ci.offline.recording import STACK_TYPE, Recording, Resource
from policies.rules import RULES, AnyRule, Rule
from policies.rules.record import SIGNATURE
from tests.policies.cases import Case, StackCase
from tests.policies.suite import few, suite_of

PROJECT, STACK = "suites", "dev"
"""Names of the project and of its stack."""
LEVELS = ("mandatory", "advisory", "remediate")

# A program that registers what cases.json lists.
PROGRAM = """
import json
from pathlib import Path

import pulumi


def options(case):
    package, name = case["type"].partition(":")[0], case["name"]
    above = pulumi.ComponentResource(case["parent"], f"{name}-above") if case["parent"] else None
    cloud = case["provider"] and pulumi.ProviderResource(package, f"{name}-cloud", case["provider"])
    return pulumi.ResourceOptions(parent=above, provider=cloud, protect=case["protect"])


for case in json.loads(Path(__file__).with_name("cases.json").read_text()):
    pulumi.CustomResource(case["type"], case["name"], case["props"], options(case))
"""


def settings(levels: Mapping[str, str]) -> dict[str, Any]:
    """A policy config with each rule at its level, and as the cases below want it."""
    configs = {rule.id: next((case.config for case in suite_of(rule).violating), {}) for rule in RULES}
    return {rule.id: {"enforcementLevel": levels[rule.id], **configs[rule.id]} for rule in RULES}


def mixed_levels() -> dict[str, str]:
    """Every level in turn, so that each is met."""
    return {rule.id: LEVELS[index % len(LEVELS)] for index, rule in enumerate(RULES)}


def broken(rule: AnyRule) -> list[Case | StackCase]:
    """Cases that break the rule, all under the config of the first one; of a resource's rule one for each kind."""
    cases = [case for case in few(suite_of(rule).violating) if case.config == suite_of(rule).violating[0].config]
    stacks = [case for case in cases if isinstance(case, StackCase)]
    return [*stacks, *_first_of_each_kind(case for case in cases if isinstance(case, Case) and not _has_secret(case))]


def mendable(rules: Iterable[Rule]) -> str:
    """cases.json with resources that break these rules and that their remedies fix."""
    cases = ((f"{rule.id}-{index}", case) for rule in rules for index, case in enumerate(broken(rule)))
    return json.dumps([_told(name, case) for name, case in cases if isinstance(case, Case) and not case.unremedied])


def _first_of_each_kind(cases: Iterable[Case]) -> Iterator[Case]:
    seen: set[str] = set()
    for case in cases:
        if case.token not in seen:
            seen.add(case.token)
            yield case


def _has_secret(case: Case) -> bool:
    """A state file would hold it encrypted."""
    return SIGNATURE in json.dumps(case.props)


def recording(rules: Iterable[AnyRule]) -> Recording:
    """What breaks these rules, as one stack."""
    resources = [_resource(STACK_TYPE, f"{PROJECT}-{STACK}", {}, custom=False)]
    for rule in rules:
        for index, case in enumerate(broken(rule)):
            name = f"{rule.id}-{index}"
            resources += _of_case(name, case) if isinstance(case, Case) else _of_stack(name, case)
    return Recording(PROJECT, STACK, False, tuple(resources), {})


def _told(name: str, case: Case) -> dict[str, Any]:
    return {
        "name": name,
        "type": case.token,
        "props": dict(case.props),
        "parent": case.parent,
        "provider": case.provider,
        "protect": case.protect,
    }


def _of_case(name: str, case: Case) -> Iterator[Resource]:
    parent = ""
    if case.parent:
        above = _resource(case.parent, f"{name}-above", {}, custom=False)
        parent = above.urn
        yield above
    yield from _with_provider(case.token, name, case.props, case.provider, parent=parent, protect=case.protect)


def _of_stack(prefix: str, case: StackCase) -> Iterator[Resource]:
    members = {member.name: member for member in case.members}

    def urn(name: str) -> str:
        member = members.get(name)
        return _urn(member.token, f"{prefix}-{name}", urn(member.parent)) if member is not None else ""

    def urns(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(filter(None, map(urn, names)))

    for member in case.members:
        yield from _with_provider(
            member.token,
            f"{prefix}-{member.name}",
            member.props,
            member.provider,
            parent=urn(member.parent),
            protect=member.protect,
            dependencies=urns(member.depends_on),
            property_dependencies={field: urns(names) for field, names in member.property_depends.items()},
        )


def _with_provider(
    token: str, name: str, props: Mapping[str, Any], provider: Mapping[str, Any] | None, **more: Any
) -> Iterator[Resource]:
    if provider is not None:
        cloud = _resource(f"pulumi:providers:{token.partition(':')[0]}", f"{name}-cloud", provider)
        more |= {"provider": f"{cloud.urn}::{cloud.id}", "provider_resource": cloud}
        yield cloud
    yield _resource(token, name, props, **more)


def _resource(token: str, name: str, props: Mapping[str, Any], *, custom: bool = True, parent: str = "", **more: Any) -> Resource:
    properties = struct_pb2.Struct()
    properties.update(dict(props))
    return Resource(
        urn=_urn(token, name, parent),
        type=token,
        name=name,
        parent=parent,
        custom=custom,
        remote=False,
        read=False,
        id=f"{name}-id" if custom else "",
        wire=properties,
        **more,
    )


def _urn(token: str, name: str, parent: str) -> str:
    above = f"{parent.split('::')[2]}$" if parent else ""
    return f"urn:pulumi:{STACK}::{PROJECT}::{above}{token}::{name}"
