"""What the whole program declares: for settings of a test's own, and for our stacks as an update records them."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

import pulumi
from google.protobuf import struct_pb2

from components.build import build
from fleet.loading.config import load
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording, Resource
from tests import plans
from tests.builders import config
from tests.components.oke import ANSWERS
from tests.components.recorded import ROOT, build_alone, of_tests, only, stack_config
from tests.day import AS_OF

TAGS = {"owner": "ci", "cost-center": "ci", "stack": "test", "ttl": "permanent"}
MADE_BY_EKS = "eks-made-by-eks"
OUTPUTS: dict[str, dict[str, Any]] = {
    "aws:eks/nodeGroup:NodeGroup": {
        "resources": [{"autoscalingGroups": [{"name": MADE_BY_EKS}]}],
        "nodeGroupName": "named-by-eks",
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
}
"""What the clouds answer beside the inputs, the name and the ARN."""


def built(*, preview: bool = True, **settings: Any) -> Recording:
    """A stack named test with these settings: as a preview, or as an update whose ids are `<name>-id`."""

    def program() -> None:
        build(load(config(**settings)), "gpu-ci", "test", {"default": pulumi.Output.secret("a made-up key")})

    return build_alone(program, f"{settings}", preview=preview, answers=None if preview else ANSWERS)


def planned(**clusters: dict[str, Any]) -> Recording:
    """A stack of these clusters in preview, with all tags that our policies ask for."""
    return built(clusters=clusters, tags=TAGS)


@cache
def updated(stack: str, *clusters: str) -> Recording:
    """All that `pulumi up` registers for one of `recorded.STACKS`, or for these of its clusters."""
    config = only(stack_config(stack), *clusters) if clusters else stack_config(stack)
    # This stack has a reservation that starts after the day of the tests, and an update before that day is refused.
    day = "2027-03-07" if stack == "capacity-block" else AS_OF.isoformat()

    def make() -> Recording:
        with patch.dict("os.environ", GPU_CI_AS_OF=day):
            return record(ROOT / "__main__.py", config, preview=False, answers=ANSWERS, remedy=_answered)

    return plans.shared(plans.name_of(config, day, of_tests()), make)


def _answered(resource: Resource) -> struct_pb2.Struct | None:
    """The inputs with the cloud's outputs."""
    if not resource.custom:
        return None
    answer = struct_pb2.Struct()
    answer.CopyFrom(resource.wire)
    answer.update({"arn": f"arn:{resource.name}", "name": resource.name} | OUTPUTS.get(resource.type, {}))
    return answer
