"""Settings of the network of an OKE cluster, and the addresses that its nodes use and a new VCN has.

Pods have addresses of the VCN. A node reserves one for each pod that it may have when it joins, whether the pods run or not
(docs.oracle.com, OCI VCN-native pod networking: "pre-allocated in the pod subnet").
"""

import ipaddress
import math
from typing import Annotated

from fleet.providers.oke.ocid import CompartmentId, SubnetId, VcnId
from fleet.settings.model import Cidr, Model
from fleet.settings.refusals import limited, problem, refusal, refuse

_PODS_PER_CARD = 31
"""Pod addresses per network card (the same page)."""
_OCI_KEEPS = 3
"""Addresses that OCI reserves in each subnet: the first two and the last (docs.oracle.com, networking overview)."""
_SMALL = 28
"""Prefix of the subnets of the API endpoint and of the metrics gateway. The endpoint needs a handful of addresses
(docs.oracle.com, example network configurations), the gateway one."""
OF_MOUNT_TARGET = 3
"""Addresses of a mount target of File Storage (docs.oracle.com, creating mount targets)."""


def of_node(pods: int) -> int:
    """Addresses of a node for `pods` pods: one for the node, one per pod, one per network card with pod addresses.

    The cards are counted as OKE's controller does (dfoster-oracle/oci-cloud-controller-manager@5f6d2207,
    controllers/nativepodnetwork_controller.go).
    """
    return 1 + pods + math.ceil(pods / _PODS_PER_CARD)


def node_subnet(cidr: str) -> tuple[str, int]:
    """(range, usable addresses) of the node subnet of a new VCN, which is the first half of it."""
    half = next(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=1))
    return str(half), half.num_addresses - _OCI_KEEPS


def endpoint_subnet(cidr: str) -> str:
    """Range of the endpoint's subnet of a new VCN: its last sixteen addresses."""
    return _from_end(cidr, 1)


def gateway_subnet(cidr: str) -> tuple[str, str]:
    """(range, address of the load balancer) of the metrics gateway of a new VCN: the sixteen addresses before the endpoint's."""
    subnet = _from_end(cidr, 2)
    return subnet, str(ipaddress.IPv4Network(subnet)[2])


def _from_end(cidr: str, number: int) -> str:
    network = ipaddress.IPv4Network(cidr)
    size: int = 2 ** (32 - _SMALL)
    return f"{ipaddress.IPv4Address(int(network.broadcast_address) + 1 - number * size)}/{_SMALL}"


class OkeNetwork(Model):
    """The cluster's VCN: a new one, or existing subnets. Nodes and machines always have private addresses."""

    cidr: Annotated[Cidr, limited("oci:Core/vcn:Vcn", "cidrBlocks.[]")] | None = None
    """Address range of a new VCN, from /16 to /20. Default: 10.0.0.0/16. Not allowed with `vcn`. Example: `10.64.0.0/16`"""
    vcn: VcnId | None = None
    """OCID of an existing VCN. It needs `endpointSubnet` and `nodeSubnet` too. Default: a new VCN. Example:
    `ocid1.vcn.oc1.us-sanjose-1.examplevcn`"""
    endpoint_subnet: SubnetId | None = None
    """OCID of the existing subnet of the Kubernetes API. Example: `ocid1.subnet.oc1.us-sanjose-1.exampleendpoint`"""
    node_subnet: SubnetId | None = None
    """OCID of the existing subnet of the nodes and their pods: regional and private, with a NAT gateway and a service gateway.
    Example: `ocid1.subnet.oc1.us-sanjose-1.examplenodes`"""
    compartment: CompartmentId | None = None
    """OCID of the compartment of an existing network. Default: the cluster's. Example: `ocid1.compartment.oc1..examplenetwork`"""

    @refusal
    def _network_rules(self) -> None:
        """Refuse settings that mix a new VCN with an existing one, and an existing one without both subnets."""
        ids = {"vcn": self.vcn, "endpointSubnet": self.endpoint_subnet, "nodeSubnet": self.node_subnet}
        missing = [key for key, ocid in ids.items() if ocid is None]
        if 0 < len(missing) < len(ids):
            raise problem("given_vcn", at=(missing[0],))
        refuse("compartment", network_compartment=self.vcn is None and self.compartment is not None)
        refuse("cidr", given_vcn__cidr=self.vcn is not None and self.cidr is not None)
        if self.vcn is None and (":" in self.new_cidr or not 16 <= int(self.new_cidr.partition("/")[2]) <= 20):
            raise problem("vcn_cidr", at=("cidr",), value=self.new_cidr)

    @property
    def new_cidr(self) -> str:
        """Address range of a new VCN."""
        return self.cidr or "10.0.0.0/16"
