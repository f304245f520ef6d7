"""Caches of an OKE cluster: block volumes for one node at a time, File Storage for all nodes."""

import json
from collections.abc import Mapping
from typing import ClassVar, Literal

from fleet.facts.pricing import oci_volume
from fleet.facts.tables import beside
from fleet.settings.caches import Cache, Volumes, require_size
from fleet.settings.refusals import problem, refusal, refuse

Attachment = Literal["paravirtualized", "iscsi"]

_SMALLEST, _LARGEST = 50, 32 * 1024
"""GiB of a block volume (docs.oracle.com, block volume: 50 GB to 32 TB)."""
_BLOCK_DRIVER, _FILE_DRIVER = "blockvolume.csi.oraclecloud.com", "fss.csi.oraclecloud.com"
_TAGS = "oci.oraclecloud.com/initial-freeform-tags-override"


def block_class(tags: Mapping[str, str], attachment: Attachment, vpus: int = 10) -> Volumes:
    """Block volumes. They bind when the first pod is scheduled.

    Oracle's key encrypts every volume at rest. Source: oracle/oci-cloud-controller-manager, pkg/csi/driver/bv_controller.go.
    """
    parameters = {"attachment-type": attachment, "vpusPerGB": str(vpus), _TAGS: _json(tags)}
    return Volumes(provisioner=_BLOCK_DRIVER, binding="WaitForFirstConsumer", parameters=parameters, grows=True)


class OkeCache(Cache):
    """`block` is a block volume in one availability domain, for one node at a time. `fss` is a file system for all nodes."""

    SHARED: ClassVar[frozenset[str]] = frozenset(("fss",))

    storage: Literal["block", "fss"]
    """`block` is a block volume for one node at a time. `fss` is a file system of File Storage for all nodes
    (docs/storage.md)."""
    vpus: Literal[10, 20] = 10
    """Performance of a block volume: 10 is balanced, 20 is higher. Unit: volume performance units (VPUs) per GB. Example: `20`"""
    encrypt_in_transit: bool = False
    """Whether mounts of a file system are encrypted. This needs Oracle's package oci-fss-utils on every node. On virtual machines
    the traffic of block volumes is always encrypted. Example: `true`"""

    def parts(self, gib: int) -> Mapping[str, float]:
        """As in the base class. Block volumes are billed by capacity, file systems by usage."""
        return oci_volume(gib, self.vpus) if self.storage == "block" else {"oci-fss-gb": gib}

    def block_volumes(self, tags: Mapping[str, str], attachment: Attachment) -> Volumes:
        """The storage class of block volumes."""
        return block_class(tags, attachment, self.vpus)

    def file_systems(self, tags: Mapping[str, str], domain: str, compartment: str, source: str) -> Volumes:
        """The storage class of file systems: one per claim, with an export to `source` that maps every user to root.

        So jobs without root can write; in a new file system only root can. The program creates the mount target of the class.

        Source: oracle/oci-cloud-controller-manager, pkg/csi/driver/fss_controller.go.
        """
        export = beside(__file__, "export.toml") | {"source": source}
        parameters = {
            "availabilityDomain": domain,
            "compartmentOcid": compartment,
            "encryptInTransit": str(self.encrypt_in_transit).lower(),
            "exportOptions": _json([export]),
            _TAGS: _json(tags),
        }
        # Wait for the first pod: a new IAM policy takes effect late, and `pulumi up` would wait for it.
        return Volumes(provisioner=_FILE_DRIVER, binding="WaitForFirstConsumer", parameters=parameters, grows=False)

    @refusal
    def _oci_rules(self) -> None:
        """Refuse a size that a block volume cannot have, and settings of the other kind of storage."""
        if self.storage == "block":
            require_size(self, _SMALLEST, _LARGEST, "an OCI block volume")
            refuse("encryptInTransit", cache_transit="encrypt_in_transit" in self.model_fields_set)
        elif "vpus" in self.model_fields_set:
            raise problem("cache_vpus", at=("vpus",))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
