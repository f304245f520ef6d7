"""What a machine that runs jobs and its launcher get: the launcher's program and config, and the machine's cloud-init user data.

The user data is `bootstrap.sh`, its settings, and the command that runs it once. It holds no secret and no SSH key, because
anyone who can read the instance can read it. The job's registration comes later, by another metadata key. The config is a pure
function of a runner and of ids that the cloud assigns.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.charts.dcgm_exporter import counters
from fleet.facts import hardware, versions
from fleet.facts.pricing import quoted, range_text
from fleet.facts.remark import said
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner, VmRunner

BOOTSTRAP = "/usr/local/sbin/gpu-ci-bootstrap"
SETTINGS = "/etc/gpu-ci/bootstrap.env"
COUNTERS = "/etc/gpu-ci/counters.csv"
STARTED = "/var/lib/gpu-ci/started"
"""The bootstrap creates this file first. If it exists, the machine has been booted before."""

METADATA_LIMIT = 32_000
"""Bytes of an instance's metadata and extended metadata together (OCI SDK for Python, LaunchInstanceDetails.metadata)."""
REGISTRATION_ROOM = 8_192
"""Bytes kept free for the job's registration."""

_FILES = (Path(__file__).with_name(name) for name in ("bootstrap.sh", "cloud-config.txt"))
_SCRIPT, _CLOUD_CONFIG = (file.read_text(encoding="ascii") for file in _FILES)


def settings(runner: MachineRunner, *, pushes: bool = False) -> dict[str, str]:
    """The bootstrap's settings by name. `pushes`: whether the machine pushes metrics, if its metadata says where.

    Raises ValueError for a runner without an image: CNCF's launcher boots other images.
    """
    if runner.image is None:
        raise ValueError("a machine without an image has no bootstrap; set image with id and driver")
    variables = {
        "DRIVER": runner.image.driver,
        "GPUS": str(runner.machines[0].gpus),
        "TOOLKIT": runner.toolkit,
        "RUNNER_IMAGE": versions.RUNNER_IMAGE,
        # OCI has one price list for all regions, so one price holds for every place (fleet/facts/data/prices.csv).
        "USD_PER_HOUR": range_text(quoted(hardware.price(shape, "*", runner.capacity)) for shape in runner.shapes),
        "NVKIND": versions.NVKIND.version if runner.nvkind else "",
        # A standing machine waits for its job without a time limit. A machine per job has its job from the start.
        "STANDING": "" if isinstance(runner, VmPerJobRunner) else "yes",
        "EXPORTER_IMAGE": versions.EXPORTER_IMAGE if pushes else "",
    }
    if pushes:
        variables["AGENT_IMAGE"] = versions.PROMETHEUS_IMAGE
    if runner.nvkind:
        variables["GO"] = versions.NVKIND.go
        for name in ("kubectl", "helm", "kind"):
            tool = versions.DOWNLOADS[name]
            variables |= {f"{name.upper()}_URL": tool.url, f"{name.upper()}_SHA256": tool.sha256}
    return variables


def user_data(runner: MachineRunner, *, pushes: bool = False) -> str:
    """The cloud-config of a runner's machines as plain ASCII, for a reviewer. Arguments and ValueError as of `settings`."""
    env = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings(runner, pushes=pushes).items())
    # Without the help texts, which leave the machine no room for its registration.
    fields = "".join(f"{name},{kind},-\n" for name, kind in counters())
    files = [_file(SETTINGS, env, "0644"), _file(BOOTSTRAP, _SCRIPT, "0755"), *([_file(COUNTERS, fields)] if pushes else [])]
    if not (text := _CLOUD_CONFIG.format(started=STARTED, bootstrap=BOOTSTRAP, files="".join(files))).isascii():
        raise ValueError("user data has a character outside ASCII, and cloud-init can then drop all of it; remove it")
    return text


def encoded(runner: MachineRunner, *, pushes: bool = False) -> str:
    """The user data in base64, as OCI takes it. Arguments as of `settings`.

    Raises ValueError if it leaves no room for the job's registration.
    """
    data = base64.b64encode(user_data(runner, pushes=pushes).encode("ascii")).decode("ascii")
    if len(data) + REGISTRATION_ROOM > METADATA_LIMIT:
        raise ValueError(
            said("long_user_data", length=len(data), metadata_limit=METADATA_LIMIT, registration_room=REGISTRATION_ROOM)
        )
    return data


def _file(path: str, text: str, mode: str = "") -> str:
    """A file that cloud-init writes. The text is indented as little as YAML allows, and an empty line stays empty."""
    permissions = f'  permissions: "{mode}"\n' if mode else ""
    lines = (f"   {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
    return f"- path: {path}\n{permissions}  content: |\n{''.join(lines)}"


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
