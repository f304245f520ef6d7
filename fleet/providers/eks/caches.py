"""Caches of an EKS cluster: EBS volumes for one node at a time, EFS file systems for all nodes."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts.disks import GP3_IOPS, GP3_IOPS_PER_GIB, GP3_IOPS_PER_MIBPS, GP3_MIBPS, GP3_MOST_IOPS, GP3_MOST_MIBPS
from fleet.facts.pods import RUNNER_UID
from fleet.facts.pricing import gp3_volume
from fleet.facts.tables import beside
from fleet.settings.caches import Cache, Volumes, require_size
from fleet.settings.refusals import problem, refusal, refuse_if

EBS_DRIVER, EFS_DRIVER = "aws-ebs-csi-driver", "aws-efs-csi-driver"
"""EKS add-ons."""

_PARAMETERS: dict[str, str] = beside(__file__, "efs.toml") | dict.fromkeys(("uid", "gid"), str(RUNNER_UID))
"""Parameters of EFS. An access point makes the user and group of the program's containers the owner of every file."""
_EFS = Volumes(provisioner="efs.csi.aws.com", binding="Immediate", parameters=_PARAMETERS, grows=False)
"""EFS volumes: one access point per claim. A claim that is created again gets the same folder.

Traffic is encrypted by default. kubernetes-sigs/aws-efs-csi-driver v3.4.0, docs/README.md, storage class parameters.
"""


def gp3_class(tags: Mapping[str, str], iops: int = GP3_IOPS, throughput: int = GP3_MIBPS) -> Volumes:
    """gp3 volumes. They bind when the first pod is scheduled: an earlier volume may be in a zone without a node.

    kubernetes-sigs/aws-ebs-csi-driver v1.63.0, docs/parameters.md and docs/tagging.md.
    """
    performance = {"iops": str(iops), "throughput": str(throughput)}
    # The driver splits a tag at its first "=" and reserves the keys of Kubernetes.
    allowed = [(key, value) for key, value in tags.items() if "=" not in key and not key.startswith("kubernetes.io")]
    tagged = {f"tagSpecification_{number}": f"{key}={value}" for number, (key, value) in enumerate(allowed, 1)}
    parameters = {"type": "gp3", "encrypted": "true", **performance, **tagged}
    return Volumes(provisioner="ebs.csi.aws.com", binding="WaitForFirstConsumer", parameters=parameters, grows=True)


class EksCache(Cache):
    """`ebs` is a gp3 volume in one zone, mounted on one node at a time. `efs` is a file system that all nodes mount."""

    SHARED: ClassVar[frozenset[str]] = frozenset(("efs",))

    storage: Literal["ebs", "efs"]
    """`ebs` is a gp3 volume for one node at a time. `efs` is a file system for all nodes (docs/storage.md)."""
    iops: Annotated[int, Field(ge=GP3_IOPS, le=GP3_MOST_IOPS)] = GP3_IOPS
    """IOPS of a gp3 volume. IOPS above 3,000 cost extra. Unit: operations per second. Example: `6000`"""
    throughput: Annotated[int, Field(ge=GP3_MIBPS, le=GP3_MOST_MIBPS)] = GP3_MIBPS
    """Throughput of a gp3 volume. Throughput above 125 costs extra. Unit: MiB/s. Example: `500`"""

    @property
    def driver(self) -> str:
        """The EKS add-on that creates its volumes."""
        return EBS_DRIVER if self.storage == "ebs" else EFS_DRIVER

    def volumes(self, tags: Mapping[str, str]) -> Volumes:
        """The storage class. The drivers set tags from its parameters, because Pulumi's default tags do not reach volumes."""
        return gp3_class(tags, self.iops, self.throughput) if self.storage == "ebs" else _EFS

    def parts(self, gib: int) -> Mapping[str, float]:
        """As in the base class. EFS is priced by what it stores, in its most expensive class; reads and writes cost extra."""
        return gp3_volume(gib, self.iops, self.throughput) if self.storage == "ebs" else {"efs-gb": gib}

    @refusal
    def _gp3_rules(self) -> None:
        """Refuse values that EC2 refuses for a gp3 volume, and iops or throughput with EFS."""
        if self.storage != "ebs":
            for key in sorted({"iops", "throughput"} & self.model_fields_set):
                raise problem("cache_performance", at=(key,))
            return
        # docs.aws.amazon.com, EBS general purpose volumes: gp3 from 1 GiB to 64 TiB.
        require_size(self, 1, 64 * 1024, "a gp3 volume")
        most = max(GP3_IOPS, GP3_IOPS_PER_GIB * self.gib)
        refuse_if("cache_iops", self.iops > most, at=("iops",), gib=self.gib, most=most, per_gib=GP3_IOPS_PER_GIB)
        if self.throughput * GP3_IOPS_PER_MIBPS > self.iops:
            raise problem("cache_throughput", at=("throughput",), per_mibps=GP3_IOPS_PER_MIBPS, iops=self.iops)
