"""Node groups that leave with a change count beside the new ones: until their jobs have ended, the stack has both."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from fleet.facts.pricing import Money
from fleet.facts.remark import costs, todo
from fleet.facts.scheduling import LEAVING, MOST_NODES_TAG
from fleet.providers.fleet import Fleet
from fleet.settings.model import Nodes
from gpu_ci.offline.judge import resources_of
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import raw
from policies.rules.groups import LEFT, groups
from policies.rules.read import Later
from policies.rules.stack_cost_ceiling import RULE as COST, bill, sums


def beside(after: Recording, before: Recording, urns: Collection[str]) -> Recording:
    """The resources after a change, and the groups of `urns` as they are before it, with their launch templates.

    These have other URNs, and are marked as the program marks them, with all the nodes that they may have.
    """
    above = {urn for group in urns for urn in before.by_urn[group].property_dependencies.get("launchTemplate", ())}
    names = {urn: f"{urn} (before)" for urn in (*above, *urns)}
    return replace(after, resources=(*after.resources, *(_left(before.by_urn[urn], names) for urn in names)))


def _left(resource: Resource, names: Mapping[str, str]) -> Resource:
    wire: dict[str, Any] = raw(resource.wire)  # a copy, as it comes from a Struct
    if "taints" in wire:
        wire["taints"].append({"key": LEAVING.key, "value": LEAVING.value, "effect": LEAVING.effect.name})
    if most := resource.inputs.get("freeformTags", {}).get(MOST_NODES_TAG):
        wire["nodeConfigDetails"]["size"], wire["freeformTags"][MOST_NODES_TAG] = float(most), "0"
    above = {name: tuple(names.get(urn, urn) for urn in urns) for name, urns in resource.property_dependencies.items()}
    return replace(resource, urn=names[resource.urn], wire=wire, property_dependencies=above)


def remarks(fleet: Fleet, before: Fleet, after: Recording, both: Recording, worst: Money, day: date) -> Iterator[str]:
    """What the worst hour costs while both are there, and the quotas that are too small for both.

    `worst` is the worst hour of `fleet`, whose resources are `after`. `both` has those of `before` that leave, too.
    """
    hours = [sums(bill(resources_of(COST, recording), day, Later()))[1] for recording in (after, both)]
    more = replace(hours[1], usd=hours[1].usd - hours[0].usd, unknown=hours[1].unknown - hours[0].unknown)
    yield costs(f"while old node groups have nodes, the worst hour is {worst} + {more} = {worst + more} USD")
    left = {group.name.removesuffix(LEFT): group.most for group in groups(resources_of(COST, both), Later()) if group.leaves}
    for provider, clusters in fleet.by_provider():
        full = {}
        for name, cluster in clusters.items():
            old = before.clusters[name].pools if name in before.clusters else {}
            sizes = {key: Nodes(max=most) for key in old if (most := left.get(f"{name}/{key}"))}
            pools = {f"{key}{LEFT}": old[key].model_copy(update={"nodes": nodes}) for key, nodes in sizes.items()}
            full[name] = cluster.model_copy(update={"pools": {**cluster.pools, **pools}})
        alone, both_remarks = ([*provider.quota_remarks(some.values())] for some in (clusters, full))
        if len(both_remarks) > len(alone):  # else the plan says already that a quota is too small, or not known
            new = (remark for remark in both_remarks if remark not in alone)
            yield from (todo(f"while old node groups have nodes: {remark}") for remark in new)
