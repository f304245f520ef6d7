"""The registry of a cluster, for the workflow runner-image: `registry.py show|copies|set STACK CLUSTER [VERSION]`.

`show` prints the outputs of a step: region, registry host, name and address of the runner image's repository, its digest in use,
and the images that build it and scan it.
`copies` prints a line "source target" for each image to copy. `set` writes the version, tag@digest, into the stack file and
changes nothing else of it. Exit status 2 is wrong input.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fleet.facts.errors import InputError
from fleet.facts.versions import IMAGES, RUNNER_GPU_REPOSITORY
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.ecr import EcrRegistry
from fleet.settings.registry import parts
from gpu_ci.offline.grow.stack import GrowingStack


def _registry(stack: GrowingStack, name: str) -> tuple[EcrRegistry, str]:
    """The registry of a cluster and its region. Raises InputError."""
    cluster = dict(stack.fleet.clusters_by_name()).get(name)
    if not isinstance(cluster, EksCluster) or cluster.registry is None:
        raise InputError(f"{stack.draft.name}: {name} is not an EKS cluster with a registry; name one, or add registry to it")
    return cluster.registry, cluster.region


def show(registry: EcrRegistry, region: str) -> list[str]:
    """The outputs of a step."""
    mirror = registry.mirror(region)
    digest = registry.runner_image.version.rpartition("@")[2] if registry.runner_image is not None else ""
    name, repository = f"{registry.prefix}/{RUNNER_GPU_REPOSITORY}", f"{mirror.address}/{RUNNER_GPU_REPOSITORY}"
    outputs = {"region": region, "host": mirror.address.partition("/")[0], "name": name, "repository": repository}
    builder, scanner = (IMAGES[image].reference for image in ("buildkit-builder", "buildkit-syft-scanner"))
    outputs |= {"digest": digest, "builder": builder, "scanner": scanner}
    return [f"{key}={value}" for key, value in outputs.items()]


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


def changed(stack: GrowingStack, name: str, version: str) -> str:
    """The text of the stack file with the version of the runner image. Raises InputError."""
    image = stack.at(name, "registry", "runnerImage")
    if stack.draft.value((*image, "version")) is None:
        stack.draft.add(image, [f"version: {version}"])
    else:
        stack.draft.put((*image, "version"), version)
    return stack.draft.checked()


def main(words: list[str]) -> int:
    """Run a command."""
    try:
        command, stack, name = words[:3]
        growing = GrowingStack(stack, Path())
        registry, region = _registry(growing, name)
        if command == "set":
            growing.path.write_bytes(changed(growing, name, words[3]).encode())
        else:
            sys.stdout.writelines(f"{line}\n" for line in {"show": show, "copies": copies}[command](registry, region))
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
