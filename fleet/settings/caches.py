"""Caches: volumes of a cluster that outlive the jobs that mount them, for models and data sets.

A cache is a storage class of its own, and a claim of the cache's name in each of its namespaces. Each claim is a volume of its
own: namespaces share no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet.settings.model import Memory, Model, memory_text, problem
from fleet.settings.namespaces import TeamNamespace

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany"]
"""`ReadWriteOnce` is one node at a time, with any number of its pods."""
Binding = Literal["WaitForFirstConsumer", "Immediate"]


def _whole(mebibytes: int) -> int:
    if mebibytes % 1024:
        raise problem("cache_size", "a volume is a whole number of Gi; write for example 500Gi")
    return mebibytes


@dataclass(frozen=True, slots=True)
class Volumes:
    """What a storage class says of how volumes are made, but for ids that are known once the cloud's part stands."""

    provisioner: str
    binding: Binding
    parameters: Mapping[str, str]
    grows: bool
    """Whether a larger claim makes its volume larger, while it is in use too."""


class Cache(Model):
    """A cache. A provider's model says which storages it has; `shared` are those that many nodes mount at once."""

    SHARED: ClassVar[frozenset[str]] = frozenset()

    storage: str
    size: Annotated[Memory, AfterValidator(_whole)]
    """Of each namespace's volume. Shared file systems have no size: there it is what the bill reckons with at worst."""
    namespaces: Annotated[tuple[TeamNamespace, ...], Field(min_length=1)]
    """Those of the jobs that mount it. They are made, unless a queue's team has them anyway."""
    retain: bool = True
    """Whether a volume stays, with what is in it and what it costs, when its claim is deleted."""

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
        """How its claims are mounted."""
        return "ReadWriteMany" if self.shared else "ReadWriteOnce"

    def parts(self, gib: int) -> Mapping[str, float]:
        """What is paid by the hour for a volume of its class that is full: how many of each unit of the price table."""
        return {}

    @model_validator(mode="after")
    def _one_claim_each(self) -> Self:
        """Refuse a namespace given twice."""
        for index, name in enumerate(self.namespaces):
            if name in self.namespaces[:index]:
                raise problem(
                    "cache_namespace_twice", "the cache has this namespace already; remove one", at=("namespaces", str(index))
                )
        return self


def class_name(cache: str) -> str:
    """Name of a cache's storage class, which is the whole cluster's."""
    return f"cache-{cache}"


def require_size(cache: Cache, least: int, most: int, what: str) -> None:
    """Refuse a size outside of what a storage has, in GiB. Raises a settings problem."""
    if not least <= cache.gib <= most:
        raise problem(
            "cache_range", f"{what} has {least} to {most} GiB; write a size between", at=("size",), value=memory_text(cache.size)
        )
