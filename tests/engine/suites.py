"""The cases of every rule's suite as resources of one stack: what the engine is asked about all rules at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import struct_pb2

from offline import wire
from offline.record import STACK_TYPE, Recording, Resource
from policies.rules import RULES, AnyRule, Rule
from tests.policies.suite import Case, Member, StackCase, few, suite_of

PROJECT, STACK = "suites", "dev"
"""Names of the project and of its stack."""
LEVELS = ("mandatory", "advisory", "remediate")

# A program that registers what cases.json lists.
PROGRAM = """
import json
from pathlib import Path

import pulumi


def options(case):
    above = pulumi.ComponentResource(case["parent"], f"{case['name']}-above") if case["parent"] else None
    cloud = case["provider"] and pulumi.ProviderResource(case["type"].partition(":")[0], f"{case['name']}-cloud", case["provider"])
    return pulumi.ResourceOptions(parent=above, provider=cloud, protect=case["protect"])


for case in json.loads(Path(__file__).with_name("cases.json").read_text()):
    pulumi.CustomResource(case["type"], case["name"], case["props"], options(case))
"""


def settings(levels: Mapping[str, str]) -> dict[str, Any]:
    """A policy config with each rule at its level, and as the cases below want it."""
    return {
        rule.id: {"enforcementLevel": levels[rule.id], **dict(suite_of(rule).violating[0].config)} for rule in RULES
    }


def mixed_levels() -> dict[str, str]:
    """Every level in turn, so that each is met."""
    return {rule.id: LEVELS[index % len(LEVELS)] for index, rule in enumerate(RULES)}


def broken(rule: AnyRule) -> list[Case | StackCase]:
    """Cases that break the rule, all under the config of the first one; one for each kind."""
    cases = [case for case in few(suite_of(rule).violating) if case.config == suite_of(rule).violating[0].config]
    by_kind = {case.token if isinstance(case, Case) else str(index): case for index, case in enumerate(cases)}
    return list(by_kind.values())


def program(rules: Iterable[Rule]) -> str:
    """cases.json for what breaks these rules."""
    return json.dumps([_told(name, case) for rule in rules for name, case in _named(rule) if isinstance(case, Case)])


def recording(rules: Iterable[AnyRule]) -> Recording:
    """What breaks these rules, as one stack."""
    resources = [_resource(STACK_TYPE, f"{PROJECT}-{STACK}", {}, custom=False)]
    for rule in rules:
        for name, case in _named(rule):
            resources += _of_case(name, case) if isinstance(case, Case) else _of_stack(name, case)
    return Recording(PROJECT, STACK, False, tuple(resources), {})


def _named(rule: AnyRule) -> Iterator[tuple[str, Case | StackCase]]:
    return ((f"{rule.id}-{index}", case) for index, case in enumerate(broken(rule)))


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
    above = _resource(case.parent, f"{name}-above", {}, custom=False) if case.parent else None
    cloud = _provider(name, case.token, case.provider)
    yield from (each for each in (above, cloud) if each is not None)
    yield _resource(case.token, name, case.props, above=above, cloud=cloud, protect=case.protect)


def _of_stack(name: str, case: StackCase) -> Iterator[Resource]:
    made: dict[str, Resource] = {}
    for member in _parents_first(case.members):
        cloud = _provider(f"{name}-{member.name}", member.token, member.provider)
        made[member.name] = _resource(
            member.token,
            f"{name}-{member.name}",
            member.props,
            above=made.get(member.parent),
            cloud=cloud,
            protect=member.protect,
            depends_on=[made[each].urn for each in member.depends_on if each in made],
            property_depends={
                field: tuple(made[each].urn for each in names if each in made) for field, names in member.property_depends.items()
            },
        )
        yield from (each for each in (cloud, made[member.name]) if each is not None)


def _parents_first(members: Iterable[Member]) -> list[Member]:
    """As an engine registers them: after what they stand below and depend on."""
    waiting, placed = list(members), dict[str, Member]()
    while waiting:
        ready = next(
            (
                each
                for each in waiting
                if all(
                    name in placed or name not in {other.name for other in waiting}
                    for name in (each.parent, *each.depends_on, *(n for names in each.property_depends.values() for n in names))
                )
            ),
            waiting[0],
        )
        waiting.remove(ready)
        placed[ready.name] = ready
    return list(placed.values())


def _provider(name: str, token: str, props: Mapping[str, Any] | None) -> Resource | None:
    if props is None:
        return None
    return _resource(f"pulumi:providers:{token.partition(':')[0]}", f"{name}-cloud", props)


def _resource(
    token: str,
    name: str,
    props: Mapping[str, Any],
    *,
    custom: bool = True,
    above: Resource | None = None,
    cloud: Resource | None = None,
    protect: bool = False,
    depends_on: Iterable[str] = (),
    property_depends: Mapping[str, tuple[str, ...]] | None = None,
) -> Resource:
    chain = f"{above.urn.split('::')[2]}$" if above is not None else ""
    properties = struct_pb2.Struct()
    properties.update(dict(props))
    return Resource(
        urn=f"urn:pulumi:{STACK}::{PROJECT}::{chain}{token}::{name}",
        type=token,
        name=name,
        parent=above.urn if above is not None else "",
        custom=custom,
        remote=False,
        read=False,
        id=f"{name}-id" if custom else "",
        wire=properties,
        provider=f"{cloud.urn}::{cloud.id}" if cloud is not None else "",
        provider_resource=cloud,
        dependencies=tuple(depends_on),
        property_dependencies=property_depends or {},
        protect=protect,
    )
