"""Writes the rows of fleet/facts/data/cloud_limits.csv that a model has: `.venv/bin/python .ci/cloud_limits.py`.

Models: the AWS APIs in botocore, Kubernetes' JSON schemas in kubernetes-validate, and EC2's zones in moto. A row is written for
an input that a stack or an example of this repository sets. A person writes all other rows, and this script keeps them.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.session
import kubernetes_validate
import pulumi_aws
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from fleet.facts.tables import rows  # noqa: E402 - after the path of the repository
from offline import wire  # noqa: E402
from tests.components.recorded import STACKS, recorded  # noqa: E402

TABLE = ROOT / "fleet" / "facts" / "data" / "cloud_limits.csv"
COLUMNS = ("type", "path", "kind", "least", "most", "values", "says", "source", "date")
GENERATED = ("botocore ", "kubernetes-validate ", "moto ", "zones.csv")
"""How the source of a row begins that this script writes."""
KUBERNETES = "v1.36.0-local"
_PODS = {"containers", "initContainers", "securityContext"}
"""Steps of paths inside pods, whose numbers no setting has."""

# The service of a module of pulumi-aws, and the shape that creates a resource, where they have other names.
_SERVICES = {"cloudwatch": "logs", "vpc": "ec2", "efs": "efs", "servicequotas": "service-quotas"}
_SHAPES = {
    "aws:autoscaling/schedule:Schedule": "PutScheduledUpdateGroupActionType",
    "aws:autoscaling/tag:Tag": "Tag",
    "aws:budgets/budget:Budget": "Budget",
    "aws:ec2/launchTemplate:LaunchTemplate": "RequestLaunchTemplateData",
    "aws:eks/nodeGroup:NodeGroup": "CreateNodegroupRequest",
    "aws:iam/rolePolicy:RolePolicy": "PutRolePolicyRequest",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "AttachRolePolicyRequest",
    "aws:servicequotas/serviceQuota:ServiceQuota": "RequestServiceQuotaIncreaseRequest",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "IpPermission",
    "eks:index:Cluster": "CreateClusterRequest",
}
# The members that have the name of a resource, where they are not called so. Pulumi makes a name that no program gives.
_NAMES = {
    "aws:budgets/budget:Budget": "BudgetName",
    "aws:cloudwatch/logGroup:LogGroup": "logGroupName",
    "aws:ecr/repository:Repository": "repositoryName",
    "aws:iam/instanceProfile:InstanceProfile": "InstanceProfileName",
    "aws:iam/role:Role": "RoleName",
    "aws:iam/rolePolicy:RolePolicy": "PolicyName",
}
_INTEGERS = {"integer": 2**31 - 1, "long": 2**63 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Path and value of each scalar; a list is "[]" in a path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list | tuple):
        yield path, value
        for inner in value:
            yield from leaves(inner, (*path, "[]"))
    else:
        yield path, value


Inputs = Mapping[str, Mapping[tuple[str, ...], object]]


def inputs() -> Inputs:
    """The inputs that stacks and examples set, by type and path, with a value: UNKNOWN if the cloud decides it in any."""
    found: dict[str, dict[tuple[str, ...], object]] = {}
    for stack in STACKS:
        for resource in recorded(stack).resources:
            known = found.setdefault(resource.type, {})
            for path, value in leaves(wire.view(wire.raw(resource.wire))):
                # What the cloud decides in one stack is unknown to the rule.
                known[path] = known[path] if path in known and unknown(known[path]) else value
    return dict(sorted(found.items()))


def unknown(value: object) -> bool:
    """Whether only the cloud decides a value, or an item of it."""
    return value is wire.UNKNOWN or (isinstance(value, list | tuple) and any(map(unknown, value)))


# -- AWS ---------------------------------------------------------------------------------------------------------------


_SESSION = botocore.session.get_session()


@cache
def _model(service: str) -> Any:
    return _SESSION.get_service_model(service)


def shape_of(token: str) -> Any:
    """The shape that creates a resource, None if no model has one."""
    module, kind = token.split(":")[1].partition("/")[0], token.rpartition(":")[2]
    service = "eks" if token.startswith("eks:") else _SERVICES.get(module, module)
    model = _model(service)
    names = {name.lower(): name for name in model.shape_names}
    for name in (_SHAPES.get(token, ""), f"Create{kind}Request", f"Put{kind}Request", f"Create{kind}Type"):
        if name.lower() in names:
            return model.shape_for(names[name.lower()])
    return None


def member(shape: Any, name: str) -> Any:
    """The member of a structure that an input sets: the same name, in any case and with or without a plural s."""
    wanted = name.lower().rstrip("s")
    found = {key.lower().rstrip("s"): inner for key, inner in getattr(shape, "members", {}).items()}
    return found.get(wanted)


def at(shape: Any, path: tuple[str, ...]) -> Any:
    """The shape at the path of an input; None if the model has no such member."""
    for step in path:
        if shape is None:
            return None
        if shape.type_name == "list" and step != "[]":
            shape = shape.member
        shape = member(shape, step) if step != "[]" else shape.member if shape.type_name == "list" else None
    return shape


def of_aws(inputs: Inputs) -> Iterator[dict[str, object]]:
    """Bounds of the AWS inputs."""
    source = f"botocore {version('botocore')}"
    for token, set_here in inputs.items():
        if not token.startswith(("aws:", "eks:")):
            continue
        top = shape_of(token)
        for path, value in sorted(set_here.items()):
            shape = at(top, path)
            # A value of the cloud's own is right, and EC2 has new types of machines each month.
            if shape is not None and not unknown(value) and path[-1:] != ("instanceType",):
                for row in bounds(shape, value):
                    yield {"type": token, "path": ".".join(path), **row, "source": f"{source} {top.name}"}
        yield from ({**row, "source": f"{source} {top.name}"} for row in auto_name(token, top))


def bounds(shape: Any, value: object) -> Iterator[dict[str, object]]:
    """The bounds of a shape for an input with such a value."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if shape.type_name in _INTEGERS and isinstance(value, int | float) and not isinstance(value, bool):
        top = _INTEGERS[shape.type_name]
        yield {"kind": "whole", "least": -top - 1 if least is None else least, "most": top if most is None else most}
    elif shape.type_name == "string" and isinstance(value, str):
        if shape.enum:
            yield {"kind": "words", "values": " ".join(sorted(shape.enum))}
        elif "pattern" in shape.metadata or most is not None:
            yield {"kind": "text", "least": least, "most": most, "values": shape.metadata.get("pattern")}
    elif shape.type_name == "list" and isinstance(value, list | tuple) and most is not None:
        yield {"kind": "count", "least": least, "most": most}


def auto_name(token: str, top: Any) -> Iterator[dict[str, object]]:
    """The bound of a name that Pulumi makes: pulumi-aws has 255 for most of them, and the API fewer."""
    module, kind = token.split(":")[1].partition("/")[0], token.rpartition(":")[2]
    found = getattr(top, "members", {}).get(_NAMES.get(token, "")) or member(top, "name")
    if (
        found is not None
        and found.metadata.get("max")
        and hasattr(getattr(getattr(pulumi_aws, module, None), kind, None), "name")
    ):
        yield {"type": token, "path": "name", "kind": "name", "least": found.metadata.get("min"), "most": found.metadata["max"]}


# -- Kubernetes --------------------------------------------------------------------------------------------------------


@cache
def schemas() -> Mapping[str, Any]:
    """Kubernetes' definitions by name."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / KUBERNETES
    found: Mapping[str, Any] = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))
    definitions: Mapping[str, Any] = found.get("definitions") or found["$defs"]
    return definitions


def of_kubernetes(inputs: Inputs) -> Iterator[dict[str, object]]:
    """Whole numbers of Kubernetes' own kinds."""
    kinds = {
        (group["group"], group["version"], group["kind"]): schema
        for schema in schemas().values()
        for group in schema.get("x-kubernetes-group-version-kind", ())
    }
    source = f"kubernetes-validate {version('kubernetes-validate')} {KUBERNETES.removesuffix('-local')}"
    for token, set_here in inputs.items():
        provider, _, rest = token.partition(":")
        group_version, _, kind = rest.partition(":")
        group, _, minor = group_version.rpartition("/")
        schema = kinds.get(("" if group == "core" else group, minor, kind)) if provider == "kubernetes" else None
        for path, value in sorted(set_here.items() if schema else ()):
            if _PODS & set(path):
                continue
            found = below(schema, path)
            if found.get("format") in _INTEGERS and isinstance(value, int | float) and not isinstance(value, bool):
                top = _INTEGERS[found["format"]]
                bound = {"least": found.get("minimum", -top - 1), "most": found.get("maximum", top)}
                yield {"type": token, "path": ".".join(path), "kind": "whole", **bound, "source": source}


def below(schema: Mapping[str, Any] | None, path: tuple[str, ...]) -> Mapping[str, Any]:
    """The schema at a path; empty if there is none."""
    for step in path:
        schema = resolved(schema or {})
        schema = schema.get("items") if step == "[]" else schema.get("properties", {}).get(step)
    return resolved(schema or {})


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema instead of a reference to it."""
    return schemas()[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


# -- zones and the table -----------------------------------------------------------------------------------------------


def of_zones() -> Iterator[dict[str, object]]:
    """The zones of EC2 and the availability domains of OCI.

    AWS gives accounts other letters of the same zones, so each region has those up to its last one, and at least a to c.
    """
    zones = {region: max("c", *(zone.name[-1] for zone in listed)) for region, listed in RegionsAndZonesBackend.zones.items()}
    letters = (f"{region}{chr(code)}" for region, last in sorted(zones.items()) for code in range(ord("a"), ord(last) + 1))
    yield {
        "type": "aws:ec2/subnet:Subnet",
        "path": "availabilityZone",
        "kind": "zone",
        "values": " ".join(letters),
        "source": f"moto {version('moto')}: EC2's zones in a record of AWS; at least a to c",
    }
    domains = [zone for row in rows("zones.csv") if row["cloud"] == "oci" for zone in row["zones"].split()]
    yield {
        "type": "oci:ContainerEngine/nodePool:NodePool",
        "path": "nodeConfigDetails.placementConfigs.[].availabilityDomain",
        "kind": "zone",
        "values": " ".join(domains),
        "source": "zones.csv",
    }


def table(kept: list[dict[str, str]], inputs: Inputs) -> str:
    """The whole table: the rows that a person wrote as they are, and those of the models."""
    mine = [row for row in kept if not row["source"].startswith(GENERATED)]
    theirs = {(row["type"], row["path"], row["kind"]) for row in mine}
    dates = {(row["type"], row["path"], row["kind"], row["source"]): row["date"] for row in kept}
    found = []
    for row in (*of_aws(inputs), *of_kubernetes(inputs), *of_zones()):
        name = (row["type"], row["path"], row["kind"])
        if name not in theirs:
            date = dates.get((*name, row["source"]), "2026-11-26")  # type: ignore[arg-type]
            found.append(
                {
                    **dict.fromkeys(COLUMNS, ""),
                    **{key: "" if value is None else str(value) for key, value in row.items()},
                    "date": date,
                }
            )
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted((*mine, *found), key=lambda row: (row["type"], row["path"], row["kind"])))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(table(rows(TABLE.name), inputs()), encoding="utf-8")
