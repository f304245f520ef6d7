"""What every cluster has, whatever its provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from fleet.budget import Budget
from fleet.egress import closed_networks, may_open
from fleet.model import Cidr, DnsLabel, Model, QuotedText, problem
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
    private_egress: tuple[Cidr, ...] = ()
    """Private networks that jobs in pods reach besides the internet: a cache, a package mirror, a VPC's endpoints."""
    budget: Budget | None = None
    declare_quotas: bool = False
    """Whether the cloud is told how many GPUs the fleet takes at most: AWS is asked for that much, OCI to allow no more."""
    protect: bool = False
    """Whether Pulumi refuses to delete the control plane, until this is off again."""
    pools: dict[DnsLabel, Any]
    runners: dict[SetName, Any]

    @property
    def own_cidr(self) -> str | None:
        """Range of the network that the program makes for the cluster; None where it stands in a given one."""
        return None

    @property
    def closed_networks(self) -> tuple[str, ...]:
        """Networks that jobs in pods do not reach, but for `private_egress`."""
        return closed_networks(self.own_cidr)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an owner should know though the settings are a fleet."""
        return tuple(self._remarks())

    @property
    def watched(self) -> str:
        """What the cluster's budget counts, in words that tell one budget's from another's."""
        return ""

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        """Where the quotas hold that the cluster would declare."""
        return ()

    def _remarks(self) -> Iterator[str]:
        """What is paid for or kept ready and gets no job, and an alarm that nobody hears."""
        if self.budget is not None and self.budget.nobodys:
            yield f"budget.emails: no mail reaches {', '.join(self.budget.nobodys)}; set your own before pulumi up"
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
        """Refuse a pool with the system pool's name, a runner that names no pool, and to open what jobs reach or never may."""
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
        for index, cidr in enumerate(self.private_egress):
            if not may_open(cidr, self.closed_networks):
                raise problem(
                    "private_egress",
                    "no private IPv4 network; jobs reach public ones anyway, and link-local ones (instance metadata) never; "
                    "write one such as 10.20.0.0/16",
                    at=("privateEgress", str(index)),
                    value=cidr,
                )
        return self
