"""eks-endpoint-private: the Kubernetes API is private, or open to named networks only.

Judged: the control planes of EKS and OKE, and the firewall rules of an OKE endpoint. The EKS endpoint is public by default, and
without `publicAccessCidrs` it is open to the whole internet (EKS API reference, VpcConfigRequest). Network security groups
protect OKE's public endpoint: it must have one, and no rule may open port 6443 to the world. An OKE cluster without
`endpointConfig` has a public endpoint that no security group can protect (OCI documentation, Migrating to VCN-Native Clusters).
"""

from .kinds import EKS_CLUSTER, EKS_COMPONENT, OCI_NSG_RULE, OCI_SECURITY_LISTS, OKE_CLUSTER
from .networks import exposed, network, world
from .read import Data, Faults, Later, count, items, keys, shown, strings, true, walk
from .rule import Args, Rule, entry, facts, said

_API_PORT = 6443


def _check(args: Args, later: Later) -> Faults:
    token, props, allowed = args.type, args.props, strings(args.config, "cidrs")
    if token == EKS_COMPONENT:
        yield from _eks("", props, allowed, later)
    elif token == EKS_CLUSTER:
        yield from _eks("vpcConfig.", walk(props, "vpcConfig"), allowed, later)
    elif token == OKE_CLUSTER:
        yield from _oke(props, later)
    for path, source, _ in exposed(token, props, (_API_PORT,), later):
        yield f"{path} is {shown(source)}: port {_API_PORT} is the Kubernetes API; name your networks"


def _eks(prefix: str, config: Data, allowed: tuple[str, ...], later: Later) -> Faults:
    public = walk(config, "endpointPublicAccess")
    # The endpoint is public by default.
    if public is not None and not true(public):
        return
    if not count(cidrs := walk(config, "publicAccessCidrs")):
        yield said("open_eks_endpoint", prefix=prefix)
    for index, cidr in items(cidrs, later):
        if fault := _named(cidr, allowed):
            yield f"{prefix}publicAccessCidrs[{index}] is {shown(cidr)}: {fault}"


def _named(cidr: Data, allowed: tuple[str, ...]) -> str:
    if (address := network(cidr)) is None:
        return "not a network; write one such as 203.0.113.0/24"
    if world(cidr):
        return "the API is then open to the whole internet; name your networks"
    homes = [home for home in map(network, allowed) if home is not None]
    if homes and not any(home.version == address.version and address.subnet_of(home) for home in homes):  # type: ignore[arg-type]
        listed = ", ".join(map(str, homes[:3]))
        return f"not within the networks allowed here ({listed}); write one of those, or {entry('cidrs', str(address))}"
    return ""


def _oke(props: Data, later: Later) -> Faults:
    if not keys(config := walk(props, "endpointConfig")):
        yield said("open_oke_endpoint")
    if true(walk(config, "isPublicIpEnabled")) and not count(walk(config, "nsgIds")):
        yield said("unprotected_oke_endpoint")


_TYPES = frozenset((EKS_CLUSTER, EKS_COMPONENT, OKE_CLUSTER, OCI_NSG_RULE)) | OCI_SECURITY_LISTS
RULE = Rule(**facts(__name__), types=_TYPES, check=_check)
