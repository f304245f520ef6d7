"""Writes stack files: one with any number of pools and runner sets, those on which the proofs are measured, and a hostile one.

The first violates the stack's cost limits and no other policy.
"""

from __future__ import annotations

from collections.abc import Iterable
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


_Class = tuple[Iterable[int], str]
"""The numbers of a class's pools, and more keys of it."""


def _shape(clusters: Iterable[tuple[int, int, list[_Class]]]) -> str:
    """A stack file: for each cluster the number of its pools, the nodes of each, and its classes."""
    head, _, cluster = _HEAD.partition("    big:\n")
    text = head
    for number, (pools, nodes, classes) in enumerate(clusters):
        text += f"    c{number}:\n" + cluster.replace("      budget: {monthlyUsd: 1000, emails: [ci@example.com]}\n", "")
        text += "      pools:\n"
        for pool in range(pools):
            kind = "instanceTypes: [g4dn.2xlarge, g4dn.4xlarge], capacity: spot, role: burst"
            text += f"        p{pool}: {{{kind}, nodes: {{max: {nodes}}}}}\n"
        text += "      runners:\n"
        for index, (of, more) in enumerate(classes):
            names = ", ".join(f"p{pool}" for pool in of)
            size = "cpu: {request: 4, limit: 8}, memory: {request: 16Gi, limit: 28Gi}"
            text += f"        r{number}x{index}: {{pools: [{names}], {size}, scale: {{max: 2}}{more}}}\n"
    return text


def _same(cluster: int, index: int) -> str:
    """A label, and for the second cluster the class of the first that has it."""
    return f", labels: [any{index}]" + (f", sameAs: c0/r0x{index}" if cluster else "")


def write_shapes(folder: Path) -> dict[str, Path]:
    """The fleets on which a proof that is not polynomial, or a slow one, takes long, by what they have."""
    shapes = {
        "60 pools in one class": _shape((60, 4, [(range(60), _same(c, 0)), *(((p,), "") for p in range(60))]) for c in range(2)),
        "40 classes, 40 pools": _shape([(40, 3, [(sorted({(c * s + s) % 40 for s in range(20)}), "") for c in range(40)])]),
        "200 classes": _shape((2, 400, [((0, 1), _same(c, index)) for index in range(200)]) for c in range(2)),
        "50 clusters": _shape((4, 3, [((pool,), "") for pool in range(4)]) for _ in range(50)),
    }
    paths = {}
    for number, (what, text) in enumerate(shapes.items()):
        paths[what] = folder / f"Pulumi.shape-{number}.yaml"
        paths[what].write_text(text)
    return paths


def write_hostile(folder: Path) -> Path:
    """Write 89 KB in which each of 92 levels has an anchor, so that a reader that copies an anchor's values makes gigabytes."""
    levels = "".join("  " * level + f"k: &a{level}\n" for level in range(1, 93))
    path = folder / "Pulumi.hostile.yaml"
    path.write_text(f"config:\n{levels}{'  ' * 93}v: [{'1,' * 40_000}1]\n")
    return path


def write_foreign(folder: Path) -> Path:
    """A repository of somebody else: twenty files of ARC's values, and as many workflows with a job for each."""
    root = folder / "foreign"
    workflows = root / ".github" / "workflows"
    workflows.mkdir(parents=True)
    image = "{containers: [{name: runner, image: 'ghcr.io/actions/actions-runner:2.335.1'}]}"
    for number in range(20):
        values = f"githubConfigUrl: https://github.com/acme\nrunnerScaleSetName: gpu-{number}\ntemplate: {{spec: {image}}}\n"
        (root / f"values-{number}.yaml").write_text(values)
        steps = "steps: [{run: nvidia-smi}]"
        (workflows / f"{number}.yml").write_text(f"on: push\njobs:\n  test:\n    runs-on: gpu-{number}\n    {steps}\n")
    return root
