"""What the recorder costs beside the SDK's own mocks: time and peak memory of one program of many small resources.

    python bench/bare.py [resources] [rounds]

Each measurement is a process of its own, so that imports and garbage of one do not weigh on another. "bare" is
`pulumi.runtime.set_mocks` with a mock that gives the inputs back, and `pulumi.runtime.test`; "record" is
`offline.record.record`. Memory is the peak resident set less what it was before the program ran.
"""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pulumi

ROOT = Path(__file__).resolve().parent.parent


class Thing(pulumi.CustomResource):
    """A small resource of the size of a Kubernetes object."""

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("bench:index:Thing", name, properties, opts)


class Group(pulumi.ComponentResource):
    """A parent of ten things, each of which takes an output of the one before."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__("bench:index:Group", name, {})
        before: pulumi.Output[Any] | None = None
        for number in range(size):
            properties = {
                "kind": "Thing",
                "metadata": {"name": f"{name}-{number}", "labels": {"app": name, "tier": "gpu", "index": str(number)}},
                "spec": {"replicas": number, "ports": [80, 443], "limits": {"cpu": "4", "memory": "16Gi"}},
                "before": before,
            }
            thing = Thing(f"{name}-{number}", properties, pulumi.ResourceOptions(parent=self))
            before = thing.id
        self.register_outputs({})


def program(resources: int) -> None:
    """`resources` things in groups of ten."""
    for number in range(resources // 10):
        Group(f"group-{number}", 10)


def bare(resources: int) -> None:
    """The program under the SDK's mocks."""

    class Echo(pulumi.runtime.Mocks):
        def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
            return "", args.inputs

        def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
            raise KeyError(args.token)

    pulumi.runtime.set_mocks(Echo(), preview=True)
    pulumi.runtime.test(lambda: program(resources))()  # type: ignore[no-untyped-call]


def record(resources: int) -> None:
    """The program under the recorder."""
    from offline import record as recorder  # noqa: PLC0415 - "bare" must not pay for it
    from offline.stackfile import StackConfig  # noqa: PLC0415

    config = StackConfig("bench", "bench", ROOT / "Pulumi.bench.yaml", {}, frozenset(), {})
    recording = recorder.record(lambda: program(resources), config)
    if len(recording.resources) != 1 + resources + resources // 10:
        raise SystemExit(f"recorded {len(recording.resources)} resources")


def measure(name: str, resources: int) -> None:
    """Prints seconds and peak MiB of one run."""
    run = {"bare": bare, "record": record}[name]
    run(10)  # imports and caches
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    run(resources)
    seconds = time.perf_counter() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    sys.stdout.write(f"{seconds} {peak}\n")


def main(resources: int, rounds: int) -> None:
    """Measures both in turn and prints medians and ratios."""
    found: dict[str, list[list[float]]] = {"bare": [], "record": []}
    for _ in range(rounds):
        for name, results in found.items():
            command = [sys.executable, __file__, "--one", name, str(resources)]
            output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603
            results.append([float(number) for number in output.stdout.split()])
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    for name, (seconds, peak) in medians.items():
        sys.stdout.write(f"{name:<8}{seconds:8.2f} s{peak:9.1f} MiB above the start\n")
    ratios = [mine / other for mine, other in zip(medians["record"], medians["bare"], strict=True)]
    sys.stdout.write(f"ratio   {ratios[0]:8.2f}  {ratios[1]:9.2f}    ({resources} resources, median of {rounds})\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], int(sys.argv[3]))
    else:
        main(*(int(number) for number in (sys.argv[1:] + ["2000", "3"][len(sys.argv) - 1 :])))
