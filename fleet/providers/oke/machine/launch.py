"""The launcher's program as text, and its config as a pure function of a runner and of ids that the cloud assigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.providers.oke.disk import disk_gb
from fleet.providers.oke.machine.cloudinit import encoded
from fleet.providers.oke.push import at_home
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner, VmRunner

LAUNCHER_SOURCE = (Path(__file__).parent / "launcher.py").read_text(encoding="ascii")

STANDING_LIFETIME = 7 * 86_400
"""Seconds from when a standing machine gets a registration until it is replaced, even if it is idle. A job may run for five days
(docs.github.com, usage limits for self-hosted runners). A job that starts in the last hours of this time is lost."""


@dataclass(frozen=True, slots=True)
class Push:
    """Where machines push metrics, and the OCID of the security group that admits them there."""

    url: str
    security_group: str


def launcher_config(
    name: str,
    runner: MachineRunner,
    *,
    compartment: str,
    region: str,
    subnet: str | None = None,
    security_group: str | None = None,
    pool: str | None = None,
    tags: Mapping[str, str] | None = None,
    push: Push | None = None,
) -> dict[str, Any]:
    """The launcher's config, in the form of the launcher's docstring.

    Only this set may have `name` in the compartment, because it removes machines with this name. `region`, `subnet` and
    `security_group` are the cluster's, for places that name none. Standing machines need `pool` instead, the OCID of their
    instance pool. `push` is for machines in the cluster's own subnet. Raises ValueError if an id is missing.
    """
    shared = {"set": name, "compartment": compartment, "tags": dict(tags or {})}
    if isinstance(runner, VmRunner):
        if pool is None:
            raise ValueError("standing machines are claimed from an instance pool; pass pool")
        home = {"region": region, "pool": pool, "count": runner.count}
        return {"mode": "standing", **shared, "lifetime": STANDING_LIFETIME, **home}
    if not isinstance(runner, VmPerJobRunner):
        raise TypeError(f"{runner.kind} is not a kind of machine that has a launcher")
    return {
        "mode": "per-job",
        **shared,
        "lifetime": runner.lifetime,
        "shapes": list(runner.shapes),
        "places": [_place(runner, place, subnet, security_group, push) for place in runner.places],
        "disk": disk_gb(runner.disk),
        "preemptible": runner.capacity == "spot",
        "userData": encoded(runner, pushes=push is not None),
    }


def _place(
    runner: VmPerJobRunner, place: Place, subnet: str | None, security_group: str | None, push: Push | None
) -> dict[str, Any]:
    here = push if at_home(place) else None
    image = place.image or (runner.image.id if runner.image else None)
    ids = {"subnet": place.subnet or subnet, "securityGroup": place.security_group or security_group, "image": image}
    for key, value in ids.items():
        if value is None:
            raise ValueError(f"a place in {place.region} has no {key}; set the cluster's or its own")
    return {
        "region": place.region,
        "availabilityDomains": list(place.availability_domains),
        "subnet": ids["subnet"],
        "securityGroups": [ids["securityGroup"], *([here.security_group] if here is not None else [])],
        "image": image,
        "metricsUrl": here.url if here is not None else None,
    }
