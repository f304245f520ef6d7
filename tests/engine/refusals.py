"""What EKS refuses of a changed cluster, as far as our program relies on it. A text is EKS's; issues at GitHub show it.

The text of a refused deletion is ours: `deletionProtection` of EKS clusters and `deletionProtectionEnabled` of log groups
(botocore 1.44.5, eks and logs) have no published one.

- Sizes of a node group: terraform-aws-modules/terraform-aws-eks#3521, ministryofjustice/cloud-platform-infrastructure#4595,
  sassoftware/viya4-iac-aws#298 (at creation).
- Version of a control plane that exists: rancher/rancher#28939 (down), terraform-aws-modules/terraform-aws-eks#2607 (two minors).
- Subnets of a control plane that exists: aws/containers-roadmap#2258. It stays in its VPC and in the zones of its creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SUBNET = "aws:ec2/subnet:Subnet"
_GROUP, _PLANE = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster"
_PROTECTION = {_PLANE: "deletionProtection", "aws:cloudwatch/logGroup:LogGroup": "deletionProtectionEnabled"}
_Inputs = Mapping[str, Any]


def refusal(kind: str, inputs: _Inputs, before: _Inputs | None, subnets: Mapping[str, _Inputs]) -> str:
    """Why the cloud refuses these inputs of a resource that had others `before`, if it does. `subnets` are all, by id."""
    if kind == _GROUP:
        return _sizes(inputs.get("scalingConfig") or {}, is_new=before is None)
    if kind != _PLANE or before is None:
        return ""
    return _skip(inputs.get("version"), before.get("version")) or _move(_subnets(inputs, subnets), _subnets(before, subnets))


def protection(kind: str, inputs: _Inputs) -> str:
    """Why the cloud does not delete a resource with these inputs, if it does not."""
    key = _PROTECTION.get(kind, "")
    return f"InvalidRequestException: {key} is on; turn it off first" if inputs.get(key) is True else ""


def _sizes(sizes: _Inputs, *, is_new: bool) -> str:
    least, desired, most = (int(sizes.get(f"{name}Size", 0)) for name in ("min", "desired", "max"))
    if most < 1:
        return "InvalidParameterException: maxSize must be greater than or equal to 1"
    if least > desired:
        if is_new:
            return "InvalidParameterException: minSize can't be greater than desiredSize"
        return f"InvalidParameterException: Minimum capacity {least} can't be greater than desired size {desired}"
    return "InvalidParameterException: desiredSize can't be greater than maxSize" if desired > most else ""


def _skip(after: Any, before: Any) -> str:
    minors = [int(str(version).rpartition(".")[2]) for version in (before, after) if version]
    if len(minors) < 2 or minors[1] - minors[0] in (0, 1):
        return ""
    return f"InvalidParameterException: Unsupported Kubernetes minor version update from {before} to {after}"


def _subnets(plane: _Inputs, subnets: Mapping[str, _Inputs]) -> list[_Inputs]:
    return [subnets[each] for each in (plane.get("vpcConfig") or {}).get("subnetIds", ()) if each in subnets]


def _move(after: list[_Inputs], before: list[_Inputs]) -> str:
    if not before or not after:
        return ""
    (vpcs, zones), (old_vpcs, old_zones) = (
        ({each["vpcId"] for each in side}, {each["availabilityZone"] for each in side}) for side in (after, before)
    )
    if vpcs != old_vpcs:
        return f"InvalidParameterException: Subnets specified must belong to the VPC {', '.join(sorted(old_vpcs))} of the cluster"
    if zones != old_zones:
        now, exact = (", ".join(sorted(side)) for side in (zones, old_zones))
        return (
            f"InvalidParameterException: Provided subnets belong to the AZs '{now}'. But they should belong to the exact set of "
            f"AZs '{exact}' in which subnets were provided during cluster creation."
        )
    return ""
