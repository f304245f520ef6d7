"""Caches: volumes of a cluster that outlive the jobs that mount them, for models and data sets.

A cache has its own storage class, and a claim with the name of the cache in each of its namespaces. Each claim has its own
volume: namespaces share no data.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.settings.model import DnsLabel, Memory, Model
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.refusals import between, problem, refusal, refuse

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany"]
"""`ReadWriteOnce` allows one node at a time, with any number of pods."""
VolumeSize = Annotated[Memory, between("storage_size", 1024, step=1024)]
"""Size of a volume of one user, in MiB."""
Binding = Literal["WaitForFirstConsumer", "Immediate"]


class Volumes(Record):
    """The settings of a storage class, except ids that are known only after the cloud resources exist."""

    provisioner: str
    binding: Binding
    parameters: Mapping[str, str]
    grows: bool
    """Whether a volume grows with its claim, even while in use."""


class Cache(Model):
    """A cache. A provider's model lists its kinds of storage. `SHARED` has those that many nodes mount at once."""

    SHARED: ClassVar[frozenset[str]] = frozenset()

    storage: str
    """Kind of storage (docs/storage.md)."""
    size: Annotated[Memory, between("cache_size", 1024, step=1024)]
    """Size of each namespace's volume. A shared file system has no size: there it is the worst case of the bill."""
    namespaces: Annotated[tuple[TeamNamespace, ...], Field(min_length=1)]
    """Namespaces of the jobs that mount the cache. The program creates those that no team has."""
    retain: bool = True
    """Whether a volume, its data and its cost remain after its claim is deleted. Example: `false`"""

    was: DnsLabel | None = None
    """First name of a cache that was renamed. Its storage class, claims and files keep it (docs/renaming.md). Default: the cache
    has its first name. Example: `models`"""

    @property
    def gib(self) -> int:
        """Size in GiB."""
        return self.size // 1024

    @property
    def shared(self) -> bool:
        """Whether pods on several nodes mount it at once."""
        return self.storage in self.SHARED

    @property
    def access_mode(self) -> AccessMode:
        """Access mode of its claims."""
        return "ReadWriteMany" if self.shared else "ReadWriteOnce"

    def parts(self, gib: int) -> Mapping[str, float]:
        """The hourly price of a full volume, as the number of each unit of the price table."""
        return {}

    @refusal
    def _one_claim_each(self) -> None:
        """Refuse a namespace given twice."""
        for index, name in enumerate(self.namespaces):
            refuse("namespaces", str(index), cache_namespace_twice=name in self.namespaces[:index])


def class_name(cache: str) -> str:
    """Name of a cache's storage class, which exists once per cluster."""
    return f"cache-{cache}"


def require_size(cache: Cache, least: int, most: int, what: str) -> None:
    """Refuse a size that is not between `least` and `most` GiB. Raises a settings problem."""
    if not least <= cache.gib <= most:
        raise problem("cache_range", at=("size",), value=memory_text(cache.size), what=what, least=least, most=most)
