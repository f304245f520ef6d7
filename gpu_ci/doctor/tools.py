"""The programs that a stack needs on PATH, by `data/tools.csv`."""

import platform
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator

from fleet.facts.tables import rows
from fleet.facts.versions import minor
from fleet.providers.finding import Finding, ok, skipped, wrong

AREA = "tools"


def findings(providers: Collection[str], pulumi: str, minors: Collection[str]) -> Iterator[Finding]:
    """A finding for each tool that a stack needs. The arguments are those of `needed`."""
    yield ok(AREA, f"python {platform.python_version()}")
    yield from (_tool(row, versions) for row, versions in needed(providers, pulumi, minors))


def needed(providers: Collection[str], pulumi: str, minors: Collection[str]) -> Iterator[tuple[dict[str, str], str]]:
    """The row of each tool that a stack with these providers needs, and the range of its versions; empty for any version.

    `pulumi` is the range of Pulumi's CLI. `minors` are the Kubernetes versions of the clusters: kubectl may be one minor older
    or newer than an API server (kubernetes.io, version skew policy).
    """
    numbers = [minor(version)[1] for version in minors if version]
    kubectl = f">=1.{max(numbers) - 1} <1.{min(numbers) + 2}" if numbers and max(numbers) - min(numbers) <= 2 else ""
    ranges = {"pulumi": pulumi, "kubectl": kubectl}
    for row in rows("tools.csv"):
        if row["providers"] == "*" or not set(row["providers"].split()).isdisjoint(providers):
            yield row, ranges.get(row["tool"], row["versions"])


def _tool(row: dict[str, str], wanted: str) -> Finding:
    tool, install = row["tool"], f"install it: {row['install']}"
    if (path := shutil.which(tool)) is None:
        missing = f"{tool} is not on PATH ({row['use']})"
        return wrong(AREA, missing, install) if row["required"] == "true" else skipped(AREA, f"{missing}; optional")
    if not (version := _version([path, *row["arguments"].split()])):
        return wrong(AREA, f"{tool} {row['arguments']} prints no version", install)
    if not within(version, wanted):
        return wrong(AREA, f"{tool} {version} is not {wanted}", f"install another version: {row['install']}")
    return ok(AREA, f"{tool} {version}")


def within(version: str, wanted: str) -> bool:
    """Whether a version is in a range such as ">=3.252.0 <4.0.0". An empty range has every version."""
    bounds = re.findall(r"(>=|<)\s*v?([0-9][0-9.]*)", wanted)
    return all((_parts(version) >= _parts(bound)) == (sign == ">=") for sign, bound in bounds)


def _parts(version: str) -> tuple[int, ...]:
    return tuple((*[int(part) for part in version.split(".") if part], 0, 0)[:3])


def _version(command: list[str]) -> str:
    try:
        # The words are a row of tools.csv.
        process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"[0-9]+(?:\.[0-9]+)+", process.stdout)
    return match[0] if match and process.returncode == 0 else ""
