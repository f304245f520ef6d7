"""What a machine that runs jobs gets as cloud-init user data: `bootstrap.sh`, its settings, and the order to run it once.

There is no secret in it and no SSH key: whoever may read the instance may read this. The job's registration comes later, by
another metadata key.
"""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

from fleet.facts import versions
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner

BOOTSTRAP = "/usr/local/sbin/gpu-ci-bootstrap"
SETTINGS = "/etc/gpu-ci/bootstrap.env"
STARTED = "/var/lib/gpu-ci/started"
"""The bootstrap makes this file first: where it exists, the machine has been booted before."""

METADATA_LIMIT = 32_000
"""Bytes of an instance's metadata and extended metadata together (OCI SDK for Python, LaunchInstanceDetails.metadata)."""
REGISTRATION_ROOM = 8_192
"""Bytes kept free for the job's registration."""

_SCRIPT = (Path(__file__).parent / "bootstrap.sh").read_text(encoding="ascii")


def settings(runner: MachineRunner) -> dict[str, str]:
    """The bootstrap's settings by name. Raises ValueError for a runner without an image of ours: CNCF's launcher boots others."""
    if runner.image is None:
        raise ValueError("a machine without an image has no bootstrap; give image with id and driver")
    found = {
        "DRIVER": runner.image.driver,
        "GPUS": str(runner.machines[0].gpus),
        "TOOLKIT": runner.toolkit,
        "RUNNER_IMAGE": versions.RUNNER_IMAGE,
        "NVKIND": versions.NVKIND.version if runner.nvkind else "",
        # Such a machine waits for its job without end, the other kind has it from the start.
        "STANDING": "" if isinstance(runner, VmPerJobRunner) else "yes",
    }
    if runner.nvkind:
        kubectl, helm, kind = (versions.DOWNLOADS[name] for name in ("kubectl", "helm", "kind"))
        found |= {
            "GO": versions.NVKIND.go,
            "KUBECTL_URL": kubectl.url,
            "KUBECTL_SHA256": kubectl.sha256,
            "HELM_URL": helm.url,
            "HELM_SHA256": helm.sha256,
            "KIND_URL": kind.url,
            "KIND_SHA256": kind.sha256,
        }
    return found


def user_data(runner: MachineRunner) -> str:
    """The cloud-config of a runner's machines as plain ASCII: what a reviewer reads. Raises ValueError as `settings` does."""
    env = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings(runner).items())
    # bootcmd runs at every boot, runcmd at the first one only.
    again = f"test ! -e {STARTED} || exec {BOOTSTRAP}"
    text = f"""#cloud-config
disable_root: true
ssh_pwauth: false
bootcmd:
  - [/bin/sh, -c, "{again}"]
write_files:
  - path: {SETTINGS}
    permissions: "0644"
    content: |
{_indented(env)}
  - path: {BOOTSTRAP}
    permissions: "0755"
    content: |
{_indented(_SCRIPT)}
runcmd:
  - [{BOOTSTRAP}]
"""
    if not text.isascii():
        raise ValueError("user data has a character outside ASCII, which cloud-init can drop whole; remove it")
    return text


def encoded(runner: MachineRunner) -> str:
    """The user data as OCI takes it, in base64. Raises ValueError where it leaves no room for the job's registration."""
    data = base64.b64encode(user_data(runner).encode("ascii")).decode("ascii")
    if len(data) + REGISTRATION_ROOM > METADATA_LIMIT:
        raise ValueError(
            f"user data has {len(data)} bytes in base64, and OCI takes {METADATA_LIMIT} with {REGISTRATION_ROOM} for the job; "
            "shorten bootstrap.sh"
        )
    return data


def _indented(text: str) -> str:
    """Lines of a YAML block; an empty line stays empty."""
    return "\n".join(f"      {line}" if line else "" for line in text.rstrip("\n").split("\n"))
