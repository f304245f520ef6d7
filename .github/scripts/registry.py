"""The registry of a cluster, for the workflow runner-image: `registry.py show|copies|set STACK CLUSTER [VERSION]`.

`show` prints the outputs of a step: region, registry host, name and address of the runner image's repository, its digest in use.
`copies` prints a line "source target" for each image to copy. `set` writes the version, tag@digest, into the stack file and
changes nothing else of it. Exit status 2 is wrong input.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fleet.facts.errors import InputError
from fleet.facts.versions import RUNNER_GPU_REPOSITORY
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import StackConfig, load
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.ecr import EcrRegistry
from fleet.settings.registry import parts

_VERSION = re.compile(r"([\w.-]+@)?sha256:[0-9a-f]{64}")


def _registry(config: StackConfig, name: str) -> tuple[EcrRegistry, str]:
    """The registry of a cluster and its region. Raises InputError."""
    cluster = dict(fleet_of(config).clusters_by_name()).get(name)
    if not isinstance(cluster, EksCluster) or cluster.registry is None:
        raise InputError(f"{config.path}: {name} is not an EKS cluster with a registry; name one, or add registry to it")
    return cluster.registry, cluster.region


def show(registry: EcrRegistry, region: str) -> list[str]:
    """The outputs of a step."""
    mirror = registry.mirror(region)
    digest = registry.runner_image.version.rpartition("@")[2] if registry.runner_image is not None else ""
    repository = f"{mirror.address}/{RUNNER_GPU_REPOSITORY}"
    host = mirror.address.partition("/")[0]
    return [
        f"region={region}",
        f"host={host}",
        f"name={registry.prefix}/{RUNNER_GPU_REPOSITORY}",
        f"repository={repository}",
        f"digest={digest}",
    ]


def copies(registry: EcrRegistry, region: str) -> list[str]:
    """Source and target of each copy. skopeo takes no source with tag and digest, so the digest decides."""
    address = registry.mirror(region).address
    lines = []
    for copy in registry.copies:
        image = parts(copy)
        _, at, digest = image.version.partition("@")
        source = f"{image.host}/{image.path}{at}{digest}" if digest else image.exact
        lines.append(f"{source} {address}/{image.exact}")
    return lines


def changed(config: StackConfig, name: str, text: str, version: str) -> str:
    """The text of the stack file with the version of the runner image. Raises InputError."""
    lines = text.splitlines(keepends=True)
    place = ("gpu-ci:clusters", name, "registry", "runnerImage", "version")
    if place in config.positions:
        number = config.positions[place] - 1
        lines[number], count = _VERSION.subn(version, lines[number])
        if count != 1:
            raise InputError(f"{config.path}:{number + 1}: write the version on a line of its own")
        return "".join(lines)
    number = config.positions[place[:3]] - 1
    new = f"runnerImage: {{version: {version}}}"
    if "{" in lines[number]:
        lines[number] = re.sub(r"(registry:\s*\{)", rf"\g<1>{new}, ", lines[number], count=1)
    else:
        first = min(line for path, line in config.positions.items() if path[:3] == place[:3] and len(path) == 4) - 1
        indent = re.match(r" *", lines[first])
        lines.insert(first, f"{indent.group() if indent else ''}{new}\n")
    return "".join(lines)


def main(words: list[str]) -> int:
    """Run a command."""
    try:
        command, stack, name = words[:3]
        config = load(stack, Path())
        registry, region = _registry(config, name)
        if command == "set":
            path = Path(config.path)
            path.write_text(changed(config, name, path.read_text(encoding="utf-8"), words[3]), encoding="utf-8")
        else:
            sys.stdout.writelines(f"{line}\n" for line in {"show": show, "copies": copies}[command](registry, region))
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
