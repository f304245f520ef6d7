"""Writes a stack file with any number of pools and runner sets. It violates the stack's cost limits and no other policy."""

from __future__ import annotations

from pathlib import Path

_HEAD = """\
config:
  pulumi:disable-default-providers: ["*"]
  gpu-ci:github: {url: https://github.com/example, appId: "1", installationId: "2", group: gpu}
  gpu-ci:tags: {owner: ci, cost-center: ci, stack: bench, ttl: permanent}
  gpu-ci:clusters:
    big:
      provider: eks
      region: us-west-2
      zones: [us-west-2a, us-west-2b]
      kubernetesVersion: "1.36"
      endpoint: {publicCidrs: [203.0.113.0/24]}
      budget: {monthlyUsd: 1000, emails: [ci@example.com]}
      protect: true
"""
_FALLBACK = "        od: {instanceTypes: [g4dn.2xlarge], capacity: on-demand, role: fallback, nodes: {max: 1}}\n"
_POOL = "        p{n}: {{instanceTypes: [g4dn.2xlarge, g4dn.4xlarge], capacity: spot, role: burst, nodes: {{max: 4}}}}\n"
_RUNNER = (
    "        r{n}: {{pools: [p{n}, od], cpu: {{request: 4, limit: 8}}, memory: {{request: 16Gi, limit: 28Gi}}, "
    "scale: {{max: 4}}}}\n"
)


def write_fleet(count: int, folder: Path) -> Path:
    """Write a stack file with `count` pools and one runner set for each, all with the same fallback. Returns its path."""
    path = folder / f"Pulumi.bench-{count}.yaml"
    with path.open("w") as file:
        file.write(_HEAD + "      pools:\n" + _FALLBACK)
        file.writelines(_POOL.format(n=number) for number in range(count))
        file.write("      runners:\n")
        file.writelines(_RUNNER.format(n=number) for number in range(count))
    return path
