"""The launcher's program as text, and its config as a pure function of a runner and of ids that the cloud assigns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.providers.oke.machine.cloudinit import encoded
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner, VmRunner

LAUNCHER_SOURCE = (Path(__file__).parent / "launcher.py").read_text(encoding="ascii")

STANDING_LIFETIME = 7 * 86_400
"""Seconds from when a standing machine gets a registration until it is replaced, even if it is idle. A job may run for five days
(docs.github.com, usage limits for self-hosted runners). A job that starts in the last hours of this time is lost."""


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
    metrics_url: str | None = None,
    metrics_group: str | None = None,
) -> dict[str, Any]:
    """The launcher's config, in the form of the launcher's docstring.

    Only this set may have `name` in the compartment, because it removes machines with this name. `region`, `subnet` and
    `security_group` are the cluster's, for places that name none. Standing machines need `pool` instead, the OCID of their
    instance pool. Machines in the cluster's own subnet push metrics to `metrics_url`, where the security group `metrics_group`
    admits them. Raises ValueError if an id is missing.
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
        "places": [_place(runner, place, (subnet, security_group), (metrics_url, metrics_group)) for place in runner.places],
        "disk": runner.disk // 1024,
        "preemptible": runner.capacity == "spot",
        "userData": encoded(runner, pushes=metrics_url is not None),
    }


def _place(
    runner: VmPerJobRunner, place: Place, home: tuple[str | None, str | None], metrics: tuple[str | None, str | None]
) -> dict[str, Any]:
    """A place of the config. `home` are subnet and security group of the cluster, `metrics` URL and group of its gateway."""
    (subnet, security_group), (url, admitted) = home, metrics if place.subnet is None else (None, None)
    image = place.image or (runner.image.id if runner.image else None)
    ids = {"subnet": place.subnet or subnet, "securityGroup": place.security_group or security_group, "image": image}
    for key, value in ids.items():
        if value is None:
            raise ValueError(f"a place in {place.region} has no {key}; set the cluster's or its own")
    return {
        "region": place.region,
        "availabilityDomains": list(place.availability_domains),
        "subnet": ids["subnet"],
        "securityGroups": [ids["securityGroup"], *([admitted] if url is not None else [])],
        "image": image,
        "metricsUrl": url,
    }
