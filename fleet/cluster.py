"""What every cluster has, whatever its provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from fleet.model import DnsLabel, Model, QuotedText, problem
from fleet.operator import OperatorSettings
from fleet.runner import PodRunner, SetName
from fleet.scheduling import SYSTEM_POOL


class Cluster(Model):
    """One Kubernetes cluster with GPU pools and runner sets. A provider's model adds its cloud's settings."""

    provider: str
    region: Annotated[str, Field(min_length=1)]
    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    kubernetes_version: QuotedText
    enablement: Any
    """What advertises the GPUs of its nodes: the name of a chart, or of what the provider brings."""
    operator: OperatorSettings | None = None
    pools: dict[DnsLabel, Any]
    runners: dict[SetName, Any]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an owner should know though the settings are a fleet."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        """What is paid for or kept ready and gets no job."""
        if not self.runners:
            yield "runners: the cluster has none, so it runs no job; add one"
            return
        named = {runner.pool for runner in self.runners.values() if isinstance(runner, PodRunner)}
        for name in self.pools:
            if name not in named:
                yield f"pool {name}: no runner set names it, so it gets no job; name it in one, or remove it"

    def tenancies(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(path, name) of what its cloud writes with the account in it, such as "abcd:" before OCI's availability domains."""
        yield from ()

    @model_validator(mode="after")
    def _cluster_rules(self) -> Self:
        """Refuse a pool with the system pool's name and a runner that names no pool."""
        if SYSTEM_POOL in self.pools:
            raise problem(
                "pool_name",
                f"'{SYSTEM_POOL}' is the untainted pool's name; give the GPU pool another",
                at=("pools", SYSTEM_POOL),
                value=SYSTEM_POOL,
            )
        for name, runner in self.runners.items():
            if isinstance(runner, PodRunner) and runner.pool not in self.pools:
                known = ", ".join(self.pools)
                raise problem(
                    "runner_pool",
                    f"no pool of that name in this cluster; name one of: {known}"
                    if known
                    else "the cluster has no pool; add one",
                    at=("runners", name, "pool"),
                    value=runner.pool,
                )
        return self
