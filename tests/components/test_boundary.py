"""The permissions boundary of a stack: every IAM role has it, and nothing else changes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.cases import cases
from tests.components.recorded import ROOT, of_clusters, of_type, only, recorded, stack_config, whole

ROLE, KEY = "aws:iam/role:Role", "permissionsBoundary"
ARN = "arn:aws:iam::aws:policy/PowerUserAccess"  # of any account
CLUSTERS = {"capacity-block": "use2", "monitoring": "use1", "right-size": "usw2", "reserved": "use1"}
"""By stack, one of its clusters."""


@cases(("stack", "cluster"), [pytest.param(*pair, id=pair[0]) for pair in CLUSTERS.items()])
def test_every_role_has_the_boundary_and_nothing_else_changes(stack, cluster):
    config = only(stack_config(stack), cluster)
    key = f"gpu-ci:{KEY}"
    bounded = whole(replace(config, values={**config.values, key: ARN}, objects={**config.objects, key: ARN}))
    assert {role.inputs[KEY] for role in of_type(bounded, ROLE)} == {ARN}
    given = {
        each.urn: {name: value for name, value in each.inputs.items() if (each.type, name) != (ROLE, KEY)}
        for each in of_clusters(bounded, cluster)
    }
    assert given == {each.urn: dict(each.inputs) for each in of_clusters(recorded(stack), cluster)}


def test_these_stacks_have_a_role_of_every_kind():
    files = {
        path.stem
        for path in (ROOT / "components").rglob("*.py")
        if re.search(r"aws\.iam\.Role\(|= (service_role|pod_identity)\(", path.read_text())
    }
    assert files == {"autoscaler", "build_cache", "caches", "cloudwatch", "eks_gpu_cluster", "gpu_ami", "iam", "runner_image"}
    resources = [each for stack, cluster in CLUSTERS.items() for each in of_clusters(recorded(stack), cluster)]
    names = {each.name.partition("-")[2] for each in resources if each.type == ROLE}
    for end in ("autoscaler-role", "-write", "node-role", "ami-retirement-role", "caches-efs-role", "registry-creates"):
        assert any(name.endswith(end) for name in names), end
