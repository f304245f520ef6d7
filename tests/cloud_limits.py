"""Writes the rows of fleet/facts/data/cloud_limits.csv that a model has: `.venv/bin/python -m tests.cloud_limits`.

Models: the AWS APIs in botocore, Kubernetes' JSON schemas in kubernetes-validate, and EC2's zones in moto. A row is written for
an input that a stack or an example of this repository sets. A person writes all other rows, and this script keeps them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.session
import kubernetes_validate
import pulumi_aws
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from fleet.facts.tables import rows
from gpu_ci.offline import wire
from tests.builders import ROOT
from tests.components.recorded import STACKS, recorded

TABLE = ROOT / "fleet" / "facts" / "data" / "cloud_limits.csv"
COLUMNS = ("type", "path", "kind", "least", "most", "values", "says", "source", "date")
GENERATED = ("botocore ", "kubernetes-validate ", "moto ", "zones.csv")
"""How the source of a row begins that this script writes."""
KUBERNETES = "v1.36.0"
_PODS = {"containers", "initContainers", "securityContext"}
"""Steps of paths inside pods, whose numbers no setting has."""

# The service of a module of pulumi-aws, and the shape that creates a resource, where they have other names.
_SERVICES = {"cloudwatch": "logs", "vpc": "ec2", "servicequotas": "service-quotas"}
_SHAPES = {
    "aws:autoscaling/schedule:Schedule": "PutScheduledUpdateGroupActionType",
    "aws:budgets/budget:Budget": "Budget",
    "aws:ec2/launchTemplate:LaunchTemplate": "RequestLaunchTemplateData",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "AttachRolePolicyRequest",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "IpPermission",
}
_INTEGERS = {"integer": 31, "int32": 31, "long": 63, "int64": 63}
"""Bits of the numbers of a type, without the sign."""

Steps = tuple[str, ...]
Inputs = Mapping[str, Mapping[Steps, object]]
Row = Mapping[str, object]


def leaves(value: object, path: Steps = ()) -> Iterator[tuple[Steps, object]]:
    """Path and value of each scalar and list; an item of a list is "[]" in a path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
        return
    yield path, value
    for inner in value if isinstance(value, list) else ():
        yield from leaves(inner, (*path, "[]"))


def inputs() -> Inputs:
    """The inputs that stacks and examples set, by type and path, with a value: UNKNOWN if the cloud decides it in any."""
    found: dict[str, dict[Steps, object]] = {}
    for stack in STACKS:
        for resource in recorded(stack).resources:
            known = found.setdefault(resource.type, {})
            # What the cloud decides in one stack is unknown to the rule.
            for path, value in leaves(resource.inputs):
                if not unknown(known.get(path)):
                    known[path] = value
    return dict(sorted(found.items()))


def unknown(value: object) -> bool:
    """Whether only the cloud decides a value, or an item of it."""
    return value is wire.UNKNOWN or (isinstance(value, list) and any(map(unknown, value)))


def whole(type_: str, least: int | None, most: int | None, value: object) -> Row | None:
    """The bound of a whole number whose type has a size."""
    if type_ not in _INTEGERS or not isinstance(value, int | float) or isinstance(value, bool):
        return None
    top = 2 ** _INTEGERS[type_]
    return {"kind": "whole", "least": -top if least is None else least, "most": top - 1 if most is None else most}


# -- AWS ---------------------------------------------------------------------------------------------------------------

_model = cache(botocore.session.get_session().get_service_model)


def shape_of(token: str) -> Any:
    """The shape that creates a resource, None if no model has one."""
    package, module, kind = token.split(":")
    service = "eks" if package == "eks" else module.partition("/")[0]
    model = _model(_SERVICES.get(service, service))
    names = {name.lower(): name for name in model.shape_names}
    wanted = (_SHAPES.get(token, ""), f"Create{kind}Request", f"Put{kind}Request", f"Create{kind}Type")
    return next((model.shape_for(names[name.lower()]) for name in wanted if name.lower() in names), None)


def member(shape: Any, name: str) -> Any:
    """The member of a structure that an input sets: the same name, in any case and with or without a plural s."""
    found = {key.lower().rstrip("s"): inner for key, inner in getattr(shape, "members", {}).items()}
    return found.get(name.lower().rstrip("s"))


def at(shape: Any, path: Steps) -> Any:
    """The shape at the path of an input; None if the model has no such member."""
    for step in path:
        listed = shape.member if shape is not None and shape.type_name == "list" else None
        shape = listed if step == "[]" else member(listed or shape, step)
    return shape


def of_aws(inputs: Inputs) -> Iterator[Row]:
    """Bounds of the AWS inputs."""
    for token, set_here in inputs.items():
        top = shape_of(token) if token.startswith(("aws:", "eks:")) else None
        if top is None:
            continue
        about = {"type": token, "source": f"botocore {version('botocore')} {top.name}"}
        for path, value in set_here.items():
            # A value of the cloud's own is right, and EC2 has new types of machines each month.
            if path[-1] != "instanceType" and not unknown(value) and (row := bound(at(top, path), value)):
                yield {**about, "path": ".".join(path), **row}
        if (name := auto_name(token, top)) is not None:
            yield {**about, "path": "name", "kind": "name", "least": name.get("min"), "most": name["max"]}


def bound(shape: Any, value: object) -> Row | None:
    """The bound of a shape for an input with such a value."""
    if shape is None:
        return None
    about, type_ = shape.metadata, shape.type_name
    least, most = about.get("min"), about.get("max")
    if type_ == "string" and isinstance(value, str):
        if shape.enum:
            return {"kind": "words", "values": " ".join(sorted(shape.enum))}
        if "pattern" in about or most is not None:
            return {"kind": "text", "least": least, "most": most, "values": about.get("pattern")}
    if type_ == "list" and isinstance(value, list) and most is not None:
        return {"kind": "count", "least": least, "most": most}
    return whole(type_, least, most, value)


def auto_name(token: str, top: Any) -> Mapping[str, int] | None:
    """The bounds of a name that Pulumi makes: pulumi-aws has 255 for most of them, and the API fewer."""
    module, kind = token.split(":")[1].partition("/")[0], token.rpartition(":")[2]
    if not hasattr(getattr(getattr(pulumi_aws, module, None), kind, None), "name"):
        return None
    # A member such as Name, RepositoryName, or PolicyName of a role's policy.
    names = (inner.metadata for key, inner in top.members.items() if f"{kind}Name".lower().endswith(key.lower()))
    return next((about for about in names if "max" in about), None)


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def of_kubernetes(inputs: Inputs) -> Iterator[Row]:
    """Whole numbers of Kubernetes' own kinds."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{KUBERNETES}-local"
    schemas = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    kinds = {
        f"kubernetes:{group['group'] or 'core'}/{group['version']}:{group['kind']}": schema
        for schema in schemas.values()
        for group in schema.get("x-kubernetes-group-version-kind", ())
    }
    source = f"kubernetes-validate {version('kubernetes-validate')} {KUBERNETES}"
    for token in inputs.keys() & kinds.keys():
        for path, value in inputs[token].items():
            found = kinds[token]
            for step in path:
                found = found.get("items", {}) if step == "[]" else found.get("properties", {}).get(step, {})
                found = schemas[found["$ref"].rpartition("/")[2]] if "$ref" in found else found
            row = whole(found.get("format", ""), found.get("minimum"), found.get("maximum"), value)
            if row and not _PODS & set(path):
                yield {"type": token, "path": ".".join(path), **row, "source": source}


# -- zones and the table -----------------------------------------------------------------------------------------------


def of_zones() -> Iterator[Row]:
    """The zones of EC2 and the availability domains of OCI.

    AWS gives accounts other letters of the same zones, so each region has those up to its last one, and at least a to c.
    """
    last = {region: max("c", *(zone.name[-1] for zone in zones)) for region, zones in RegionsAndZonesBackend.zones.items()}
    yield {
        "type": "aws:ec2/subnet:Subnet",
        "path": "availabilityZone",
        "kind": "zone",
        "values": " ".join(f"{region}{letter}" for region in sorted(last) for letter in "abcdefgh" if letter <= last[region]),
        "source": f"moto {version('moto')}: EC2's zones in a record of AWS; at least a to c",
    }
    yield {
        "type": "oci:ContainerEngine/nodePool:NodePool",
        "path": "nodeConfigDetails.placementConfigs.[].availabilityDomain",
        "kind": "zone",
        "values": " ".join(row["zones"] for row in rows("zones.csv") if row["cloud"] == "oci"),
        "source": "zones.csv",
    }


def table(kept: list[dict[str, str]], inputs: Inputs) -> str:
    """The whole table: the rows of the models, dated anew if their source changed, and those that a person wrote as they are."""
    dates = {(row["type"], row["path"], row["kind"], row["source"]): row["date"] for row in kept}
    found = {}
    for model in (*of_aws(inputs), *of_kubernetes(inputs), *of_zones()):
        row = {name: "" if model.get(name) is None else str(model[name]) for name in COLUMNS}
        name = row["type"], row["path"], row["kind"]
        found[name] = {**row, "date": dates.get((*name, row["source"]), date.today().isoformat())}
    found |= {(row["type"], row["path"], row["kind"]): row for row in kept if not row["source"].startswith(GENERATED)}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found[name] for name in sorted(found))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(table(rows(TABLE.name), inputs()), encoding="utf-8")
