"""Which actor reaches which secret, role, state and cache of a stack, and by which resource.

All of it comes from recordings of the stack, of `bootstrap` and of `deployments`. An update knows the texts of documents, and a
preview from which resource each property comes, so each program is recorded as both. `who_can.toml` names what it inspects.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.iam import Document, allows, listed
from fleet.loading import stackfile
from fleet.loading.config import read_stack
from fleet.providers.fleet import NAMESPACE
from fleet.providers.tags import STACK_TAG
from gpu_ci.offline.judge import resources_of
from gpu_ci.offline.plan import CLOUD, declared
from gpu_ci.offline.recording import Recording, Resource, joined
from gpu_ci.offline.wire import Secret
from policies.rules.pools import booted
from policies.rules.read import Later
from policies.rules.runner_no_app_key import RULE as NO_KEY
from policies.rules.runner_sets import runner_sets

_TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ACTORS: Mapping[str, Sequence[str]] = _TABLE["actors"]
"""The actors, with parts of the claim `sub` that their tokens may have."""
_JOBS, _ROLE, _RUN, _NETWORK = (_TABLE["types"][kind] for kind in ("jobs", "role", "run", "network"))


class Reach(NamedTuple):
    """What an actor can do with a thing, and the resource by which it can."""

    thing: str
    actor: str
    can: str
    by: str


class _Thing(NamedTuple):
    """A secret, role, state or cache: its ARN, actions by what they give, and the condition keys of a request about it."""

    name: str
    resource: Resource
    arn: str
    actions: Mapping[str, str]
    request: dict[str, str]


def who_can(stack: str, root: Path, file: Path | None = None) -> list[Reach]:
    """Who reaches each thing of a stack; a thing that no actor reaches has the actor "none". Raises InputError and FleetError."""
    config, fleet = read_stack(stack, file, root)
    config = stackfile.with_stand_ins(config, [f"{NAMESPACE}:{key}" for key in fleet.secrets.values()])
    program = _known(*(joined(*declared(root, config, fleet, preview=preview, answers=CLOUD)) for preview in (False, True)))
    others = [each for folder in ("bootstrap", "deployments") for each in _program(root / folder)]
    account = next((text for each in others for text in json.loads(each.inputs.get("allowedAccountIds", "[]"))), "")
    of_stack = [*program.resources, *(each for each in others if each.type != _ROLE or each.name.startswith(f"{config.stack}-"))]
    things = [*_things(of_stack, account, config.stack)]
    found = [*_by_pods(program, things), *_by_tokens(things), *_by_runs(things)]
    holders = {each.resource.urn: {one.actor for one in found if one.thing == each.name} for each in things} | {"": {*_JOBS}}
    for actor, end in _TABLE["roles"].items():
        holders |= {each.urn: {actor} for each in others if each.type == _ROLE and each.inputs["name"].endswith(end)}
    found += _by_rights((*program.resources, *others), things, holders)
    by_name = {thing.name: dict.fromkeys(one for one in found if one.thing == thing.name) for thing in things}
    return [one for name, reaches in by_name.items() for one in reaches or (Reach(name, "none", "-", "-"),)]


def _program(folder: Path) -> tuple[Resource, ...]:
    """The resources of a program of its own; none if the folder has no settings for it."""
    from gpu_ci.offline.record import record  # noqa: PLC0415 - it loads Pulumi's SDK, which may not be installed

    if not (folder / "Pulumi.main.yaml").is_file():
        return ()
    config = stackfile.load("main", folder)
    key = next(key for key in config.values if key.endswith(":stacks"))
    secrets = (name for row in json.loads(config.values[key]).values() for name in row.get("secrets", {}).values())
    config = stackfile.with_stand_ins(config, [f"{key.partition(':')[0]}:{name}" for name in secrets])
    return _known(*(record(folder / "__main__.py", config, preview=preview) for preview in (False, True))).resources


def _known(made: Recording, shown: Recording) -> Recording:
    sources = {each.urn: each.property_dependencies for each in shown.resources}
    return replace(made, resources=tuple(replace(each, property_dependencies=sources[each.urn]) for each in made.resources))


def _things(resources: Sequence[Resource], otherwise: str, stack: str) -> Iterator[_Thing]:
    for each in (each for each in resources if each.inputs.get("stack", stack) == stack):
        if (row := _TABLE.get(each.urn.split("::")[1], _TABLE["things"]).get(each.type)) is None:
            continue
        inputs, provider = each.inputs, each.provider_resource.inputs if each.provider_resource is not None else {}
        region, cluster = provider.get("region", ""), provider.get("clusterIdentifier", "")
        account = next(iter(json.loads(provider.get("allowedAccountIds", "[]"))), otherwise)
        # Pulumi adds a random end to a name that the program leaves out.
        name, home = inputs.get("name") or inputs.get("bucket") or f"{each.name}-0", inputs.get("metadata")
        called = f"{home['namespace']}/{home['name']} of {cluster}" if home else name.removesuffix("-0")
        arn = row["arn"].format(account=account, region=region, name=name, cluster=cluster, stack=stack)
        request = {"aws:RequestedRegion": region, f"aws:ResourceTag/{STACK_TAG}": stack, "aws:SecureTransport": "true"}
        request["iam:PassedToService"] = "".join(row["Principal"].get("Service", "") for row in _trust(each))
        request["iam:PermissionsBoundary"] = inputs.get("permissionsBoundary", "")
        yield _Thing(f"{row['kind']} {called}", each, arn, row["actions"], request)


def _trust(role: Resource) -> Any:
    return json.loads(role.inputs.get("assumeRolePolicy", '{"Statement": []}'))["Statement"]


def _by_pods(program: Recording, things: Sequence[_Thing]) -> Iterator[Reach]:
    """What the pods of jobs name of their namespace, the rights of their account, and the keys that a policy finds open."""
    resources, later = resources_of(NO_KEY, program), Later()
    leaks = [message for message, _ in NO_KEY.judge(resources, {}, date.max).violations]
    for each in runner_sets(resources, later):
        pod, place = each.job_pod(later), each.job_place(later)
        # A launcher's pod runs no job: the machine that it boots does.
        if pod is None or (each.release is not None and [*booted(each.release, later)]):
            continue
        account, text = pod.spec.get("serviceAccountName") or "default", json.dumps(pod.spec)
        given = [
            (one.urn, *one.property_dependencies.get("roleArn", ()))
            for one in program.resources
            if (one.inputs.get("namespace"), one.inputs.get("serviceAccount")) == (place.name, account)
            or all(f"'{name}'" in str(one.inputs.get("statements")) for name in (place.name, account))
        ]
        for thing, actor in product(things, _JOBS):
            home = thing.resource.inputs.get("metadata", {})
            here = home.get("namespace") == place.name and thing.name.endswith(f" of {place.cluster}")
            if any(thing.resource.urn in urns for urns in given) or (here and f'"{home["name"]}"' in text):
                yield Reach(thing.name, actor, "has it in its pod", each.name)
            if here and any(f'in namespace "{place.name}"' in message for message in leaks):
                yield Reach(thing.name, actor, "reads it by its account", NO_KEY.id)


def _by_tokens(things: Sequence[_Thing]) -> Iterator[Reach]:
    """Roles that trust tokens of GitHub or of Pulumi Deployments."""
    for thing, statement in ((each, statement) for each in things for statement in _trust(each.resource)):
        claims = {key: listed(value) for of in statement.get("Condition", {}).values() for key, value in of.items()}
        workflow = "".join(f" by {values[0]}" for key, values in claims.items() if key.endswith(":job_workflow_ref"))
        for key, subject in ((key, text) for key, values in claims.items() if key.endswith(":sub") for text in values):
            request = {name: values[0] for name, values in claims.items()} | {key: subject}
            action, document = listed(statement["Action"])[0], {"Statement": [statement]}
            for actor, forms in ACTORS.items():
                if any(form in subject for form in forms) and allows([document], action, None, request, statement["Principal"]):
                    yield Reach(thing.name, actor, f"takes it as {subject}{workflow}", thing.resource.name)


def _by_runs(things: Sequence[_Thing]) -> Iterator[Reach]:
    """What an update writes, what a run of Pulumi Deployments has, and who starts one."""
    for thing, inputs in ((thing, thing.resource.inputs) for thing in things):
        can = {("the deployer", "writes")} if inputs.get("stringData") else set()
        if thing.resource.type == _RUN:
            variables, source = inputs["operationContext"].get("environmentVariables", {}), inputs["sourceContext"]["git"]
            held = (f"has {name} in its environment" for name, value in variables.items() if isinstance(value, Secret))
            starts = (text.format(**source) for key, text in _TABLE["starts"].items() if inputs["vcs"].get(key))
            can |= {*_TABLE["runs"].items(), *product(_TABLE["runs"], held), *product(("an insider",), starts)}
        yield from (Reach(thing.name, actor, what, thing.resource.name) for actor, what in sorted(can))


def _by_rights(resources: Sequence[Resource], things: Sequence[_Thing], holders: Mapping[str, set[str]]) -> Iterator[Reach]:
    """What documents of roles and buckets allow. `holders` are the actors that have a role, by its URN; "": no role."""
    network = {"aws:SourceVpc": next((each.id for each in resources if each.type == _NETWORK), "")}
    arns = {thing.resource.urn: {"aws:PrincipalArn": thing.arn} for thing in things}
    for thing, (urn, actors) in product(things, ((urn, actors) for urn, actors in holders.items() if actors)):
        documents = _documents(resources, "role", urn) | _documents(resources, "bucket", thing.resource.urn)
        request = thing.request | (arns.get(urn, {}) if urn else network)
        for can, action in thing.actions.items():
            if allows(documents.values(), action, thing.arn, request):
                by = ", ".join(name for name, one in documents.items() if allows([one], action, thing.arn, request))
                yield from (Reach(thing.name, actor, can, by) for actor in sorted(actors))


def _documents(resources: Sequence[Resource], key: str, urn: str) -> dict[str, Document]:
    """The documents of a role or a bucket, by the resource that has each."""
    of_it = [each for each in resources if urn in each.property_dependencies.get(key, ())]
    attached = {policy for each in of_it for policy in each.property_dependencies.get("policyArn", ())}
    held = (*of_it, *(each for each in resources if each.urn in attached))
    return {each.name: json.loads(each.inputs["policy"]) for each in held if "policy" in each.inputs}
