"""Node groups of other tools: eksctl, kops, the AWS CLI's answers, and plans and states of Terraform.

`groups.toml` says where each tool has the fields of a pool.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, RESERVED, SPOT
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import TEMPLATE, Effect, Taint
from fleet.facts.tables import beside
from gpu_ci.audit.formats import machines
from gpu_ci.audit.formats.types import ARCH_LABEL, cheapest, meeting, region_of
from gpu_ci.audit.model import Keys, Pool, Seen

_TABLE = beside(__file__, "groups.toml")
_RESOURCES = {row["resource"]: row["pools"][0] for row in _TABLE["document"] if "resource" in row}
_SELECTED = {"gpus": "instance-gpu-count", "vCPUs": "instance-cpu", "cpuArchitecture": ARCH_LABEL}
"""Keys of eksctl's `instanceSelector` and the labels of a node that they ask for."""


def read(keys: Keys, seen: Seen) -> bool:
    """Read a document of one of the tools."""
    if isinstance(keys.value, Mapping) and keys.value.keys() >= {"format_version", "terraform_version"}:
        keys.skip(*_TABLE["terraform"]["skip"])
        for values in ("planned_values", "values"):
            keys.get(values).skip("outputs")
            _terraform(keys.get(values, "root_module"), seen)
        variables = keys.get("variables")
        variables.skip(*(name for name in variables.entries() if name != machines.MULTI))
        machines.many(variables.get(machines.MULTI, "value"), seen)
        for call in keys.entries("configuration", "root_module", "module_calls").values():
            machines.many(call.get("expressions", machines.MULTI, "constant_value"), seen)
        return True
    for key, kind in _TABLE["answers"].items():
        for item in keys.items(key):
            seen.add(kind, item)
            item.whole()
        if keys.items(key):
            return True
    kind, api = keys.get("kind").value, str(keys.get("apiVersion").value).partition("/")[0]
    for row in _TABLE["document"]:
        if ("kind" in row and (kind, api) == (row["kind"], row["api"])) or row.get("key", ...) in keys:
            keys.skip("kind", *row["skip"])
            for form in row["pools"]:
                form_ = next((one for one in row["pools"] if one["at"] == form.get("like")), {}) | form
                for at in keys.each(form["at"]) if form["at"] else [keys]:
                    seen.pools.append(pool(at, form_, keys, row))
            return True
    return False


def _terraform(module: Keys, seen: Seen) -> None:
    """The groups among the resources of a module and of its modules, and the tags that are resources of their own."""
    module.skip("address")
    tags: dict[str, dict[str, str]] = {}
    for resource in module.items("resources"):
        values, type_ = resource.get("values"), resource.text("type")
        if type_ in _RESOURCES and resource.text("mode") != "data":
            seen.pools.append(pool(values, _RESOURCES[type_], values, {}))
            resource.skip(
                "address", "depends_on", "index", "mode", "name", "provider_name", "schema_version", "sensitive_values", "tainted"
            )
        elif type_ == "aws_autoscaling_group_tag" and values.text("autoscaling_group_name"):
            tags.setdefault(values.text("autoscaling_group_name"), {}).update(_pairs(values.get("tag")))
            resource.whole()
        else:
            # Of other resources an audit knows nothing.
            resource.whole()
    for number, one in enumerate(seen.pools):
        if one.name in tags:
            seen.pools[number] = replace(one, **_tagged(one, tags[one.name]))
    for inner in module.items("child_modules"):
        _terraform(inner, seen)


def pool(at: Keys, form: Mapping[str, Any], top: Keys, document: Mapping[str, Any]) -> Pool:
    """The pool of a tool's entry: `form` is a row of the table, `top` the document that has its cluster and region."""

    def first(field: str, of: Keys = at) -> Any:
        paths = form.get(field, document.get(field, ()))
        found = [one.whole() for path in ([paths] if isinstance(paths, str) else paths) if path for one in of.each(path)]
        return next((value for value in found if value is not None), None)

    def texts(field: str) -> tuple[str, ...]:
        found = (one.text() for path in form.get(field, ()) for one in at.each(path))
        return tuple(dict.fromkeys(text for text in found if text and text != "mixed"))

    at.pass_over(*form["skip"])
    name, size = str(first("name") or ""), form.get("default-size")
    zones, arn = texts("zones"), first("region", top) or first("region")
    region = re.split(":", str(arn))[3] if str(arn).startswith("arn:") else str(arn or region_of(*zones))
    reservations, share, base = texts("reservations"), quantity(first("share")), quantity(first("base"))
    market = str(first("market") or "").lower().replace("_", "-")
    capacities: tuple[str, ...] = (ON_DEMAND,)
    if market == CAPACITY_BLOCK or reservations:
        capacities = (CAPACITY_BLOCK if market == CAPACITY_BLOCK else RESERVED,)
    elif market == SPOT or first("spot") is True or first("price") or (share == 0 and not base):
        capacities = (SPOT,)
    elif share is not None and share < 100:
        capacities = (ON_DEMAND, SPOT) if base else (SPOT, ON_DEMAND)
    selector = at.get(form.get("selector", "selector"))
    asked = [(label, "In", selector.texts(key)) for key, label in _SELECTED.items() if key in selector]
    types = cheapest(meeting(form["cloud"], asked), region, capacities[0]) if asked else texts("types")
    minimum, maximum = first("minimum"), first("maximum")
    made = Pool(
        at=at,
        name=name,
        scaler=form["scaler"],
        types=types or tuple(filter(None, (form.get("default-type"),))),
        labels=_pairs(at.get(*form["labels"].split("."))) if "labels" in form else {},
        taints=_taints(at.get(*form["taints"].split("."))) if "taints" in form else (),
        minimum=int(quantity(minimum if minimum is not None else size) or 0),
        maximum=int(number) if (number := quantity(maximum if maximum is not None else size)) is not None else None,
        capacities=capacities,
        region=region,
        zones=zones,
        kubernetes=str(first("version", top) or first("version") or ""),
        group=str(first("group", top) or first("group") or ""),
        disk=int(quantity(first("disk")) or form.get("default-disk", 0)),
        kubelet=(kubelet := at.mapping(*form["kubelet"].split(".")) if "kubelet" in form else {}),
        topology=str(kubelet.get("topologyManagerPolicy") or ""),
        reservations=reservations,
        image=str(first("image") or ""),
        repairs=repairs if isinstance(repairs := first("repairs"), bool) else None,
        nodes=len(at.items(form["nodes"])) if "nodes" in form else 0,
    )
    own = _pairs(at.get(*form["tags"].split(".")))
    labels = {form["name-label"]: name} if "name-label" in form else {}
    labels |= {form["capacity-label"]: market.upper().replace("-", "_") or "ON_DEMAND"} if "capacity-label" in form else {}
    if form.get("tagged") or first("propagates") is True:
        own |= {f"{TEMPLATE}label/{key}": value for key, value in made.labels.items()}
        own |= {f"{TEMPLATE}taint/{one.key}": f"{one.value}:{one.effect}" for one in made.taints}
    made = replace(made, labels={**made.labels, **labels}, tags=own)
    return replace(made, **_tagged(made, own)) if form.get("from-tags") else made


def _tagged(one: Pool, tags: Mapping[str, str]) -> dict[str, Any]:
    """Tags of a group beside those that it has, and the labels and taints that they say its nodes have."""
    labels = {key.partition("/label/")[2]: value for key, value in tags.items() if key.startswith(f"{TEMPLATE}label/")}
    written = [f"{key.partition('/taint/')[2]}={value}" for key, value in tags.items() if key.startswith(f"{TEMPLATE}taint/")]
    found = [taint for taint in map(_taint, written) if taint]
    return {
        "tags": {**one.tags, **tags},
        "labels": {**one.labels, **labels},
        "taints": tuple(dict.fromkeys((*one.taints, *found))),
    }


def _taint(text: str) -> Taint | None:
    try:
        return Taint.read(text)
    except ValueError:
        return None


def _taints(keys: Keys) -> tuple[Taint, ...]:
    """Taints as a list of mappings in Kubernetes' or EKS' spelling, a list of texts, or eksctl's mapping of texts."""
    return tuple(taint for text in _written(keys) if (taint := _taint(text)))


def _written(keys: Keys) -> Iterator[str]:
    for key, value in keys.entries().items():
        yield f"{key}={value.text()}"
    for item in keys.items():
        if isinstance(item.value, str):
            yield item.text()
            continue
        effect = item.text("effect")
        yield f"{item.text('key')}={item.text('value')}:{Effect.__members__.get(effect, effect)}"


def _pairs(keys: Keys) -> dict[str, str]:
    """A mapping of texts, or a list of keys with values."""
    pairs = [(item.text("key") or item.text("Key"), item.text("value") or item.text("Value")) for item in keys.items()]
    return dict(pairs) if isinstance(keys.whole(), list) else {key: _plain(value) for key, value in keys.mapping().items()}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
