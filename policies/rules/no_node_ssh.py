"""no-node-ssh: nodes have no SSH or remote desktop access from the internet.

Judged: SSH (22) and remote desktop (3389) in security groups and rules of AWS and OCI, and the remote access of an EKS node
group. Without a source group, remote access opens port 22 to the world (EKS API reference, RemoteAccessConfig).
"""

from .kinds import EKS_NODE_GROUP, OCI_NSG_RULE, OCI_SECURITY_LISTS, SECURITY_GROUP_INGRESS, SECURITY_GROUP_RULE, SECURITY_GROUPS
from .networks import exposed
from .read import Faults, Later, count, keys, shown, walk
from .rule import Args, Rule, facts

PORTS = (22, 3389)


def _check(args: Args, later: Later) -> Faults:
    access = walk(args.props, "remoteAccess") if args.type == EKS_NODE_GROUP else None
    if keys(access) and not count(walk(access, "sourceSecurityGroupIds")):
        yield (
            "remoteAccess.sourceSecurityGroupIds is not set: port 22 of the nodes is then open to the world; "
            "remove remoteAccess, or name the security groups that may connect"
        )
    for path, cidr, ports in exposed(args.type, args.props, PORTS, later):
        numbers = " and ".join(map(str, ports))
        yield f"{path} is {shown(cidr)}: port {numbers} would be open to the world; name the networks that may connect"


RULE = Rule(
    **facts(__name__),
    types=frozenset((EKS_NODE_GROUP, SECURITY_GROUP_RULE, SECURITY_GROUP_INGRESS, OCI_NSG_RULE))
    | SECURITY_GROUPS
    | OCI_SECURITY_LISTS,
    check=_check,
)
