"""What must not depend on the seed of hashes, in a module that loads no more of the SDKs than it needs."""

from __future__ import annotations

from pathlib import Path

import pulumi

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.record import record
from tests.offline.git_tree import digests


class Bucket(pulumi.CustomResource):
    """A resource of no provider, light to import; `arn` is what a cloud would decide."""

    arn: pulumi.Output[str]
    bucket: pulumi.Output[str]
    key: pulumi.Output[str]

    def __init__(self, name, opts=None, **properties):
        super().__init__("test:index:Bucket", name, {"arn": None, "bucket": None, "key": None, **properties}, opts)


def tangled() -> None:
    """Resources that depend on several others by inputs and by options: the SDK keeps both as sets."""
    first = [Bucket(f"first-{number}") for number in range(6)]
    for number in range(3):
        key = pulumi.Output.all(*(bucket.arn for bucket in first[number:]))
        Bucket(f"next-{number}", key=key, opts=pulumi.ResourceOptions(depends_on=first[: number + 3]))


def order() -> object:
    """A recording and a digest of what Git has of stacks: the order of sets must not show in them."""
    recording = record(tangled, StackConfig("gpu-ci", "dev", Path("Pulumi.dev.yaml"), {}, frozenset(), {}))
    resources = [
        [resource.urn, resource.dependencies, resource.property_dependencies, resource.inputs] for resource in recording.resources
    ]
    return resources, digests()
