"""A reader follows step "Settings" of docs/getting-started.md with their organization: staging and prod then plan clean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import gpu_ci.offline.plan
from fleet.loading.example_values import example_values
from fleet.loading.home import ROOT
from gpu_ci.offline.plan import Plan, make_plan

URLS = ("https://github.com/acme-robotics", "https://github.com/octo-lab/gpu-tests", "https://ghe.example.net/acme")
"""An organization, a repository, an organization on a server of its own."""
STACKS = ("staging", "prod")
JUDGED_PROD = ("prod", URLS[2])
JUDGED = {("staging", URLS[1]), JUDGED_PROD}
"""Whose resources are built and judged, which is most of a plan's time. The stacks as they are have an organization's.

They have less of what the step does not name: each cluster has one kind of pools, and neither monitoring nor queues.
"""
OWN: dict[str, Any] = {
    "appId": "1047291",
    "installationId": "58930417",
    "group": "acme-gpus",
    "budget.emails": ["ci@acme-robotics.io"],
    "endpoint.publicCidrs": ["93.184.216.0/24"],
    "admins": ["arn:aws:iam::987600001234:role/operators"],
    "permissionsBoundary": "arn:aws:iam::987600001234:policy/gpu-ci-acme-boundary",
}
"""What the step names besides the URL, by the name that it has there."""
CAPACITY = "ask with oci compute compute-capacity-report"
"""The step is of AWS; docs/operate.md has OCI's own list. This remark has the OCID of the tenancy in its command."""

SERVER = "GitHub server ghe.example.net"
"""A server of one's own may have a private address, and the remark on that has its name."""


def step() -> str:
    """The text of the step."""
    found = re.search(
        r"^## 5\. Settings$(.*?)^## 6\. ", (ROOT / "docs" / "getting-started.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None, "the page has the step"
    return found[1]


def followed(stack: str, url: str, folder: Path) -> Path:
    """A copy of the stack file with the step's settings."""
    yaml = YAML()
    document = yaml.load(ROOT / f"Pulumi.{stack}.yaml")
    github = document["config"]["gpu-ci:github"]
    before, github["url"] = github["group"], url
    document["config"]["gpu-ci:permissionsBoundary"] = OWN["permissionsBoundary"]
    for key in ("appId", "installationId", "group"):
        github[key] = OWN[key]
    if (stack, url) == JUDGED_PROD:
        # Its cluster on EKS has what staging's has, and the boundary is of AWS.
        del document["config"]["gpu-ci:clusters"]["use1"], document["config"]["gpu-ci:permissionsBoundary"]
    for cluster in document["config"]["gpu-ci:clusters"].values():
        cluster["budget"]["emails"] = OWN["budget.emails"]
        cluster["endpoint"]["publicCidrs"] = OWN["endpoint.publicCidrs"]
        if cluster["provider"] == "eks":
            cluster["admins"] = OWN["admins"]
        for runner in cluster["runners"].values():
            if runner.get("group") == before:
                runner["group"] = OWN["group"]
        if (stack, url) in JUDGED:
            _shorten(cluster)
    path = folder / f"Pulumi.{stack}.yaml"
    yaml.dump(document, path)
    return path


def _shorten(cluster: dict[str, Any]) -> None:
    """Take out what `JUDGED` says."""
    for kind in cluster.keys() & {"pools", "runners"}:
        cluster[kind] = {
            name: settings
            for name, settings in cluster[kind].items()
            if not any(part in name for part in ("a10g", "t4-release", "a10-2"))
        }
    for key in ("monitoring", "queues", "caches"):
        cluster.pop(key, None)


@pytest.fixture(scope="module", params=[(stack, url) for stack in STACKS for url in URLS], ids=" ".join)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    stack, url = request.param
    with pytest.MonkeyPatch.context() as patch:
        if request.param not in JUDGED:
            patch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
        return make_plan(stack, ROOT, followed(stack, url, tmp_path_factory.mktemp("own")))


def test_the_step_names_each_of_these_settings() -> None:
    for name in ("github.url", *OWN):
        assert f"`{name}`" in step()


def test_the_stack_plans_clean(plan: Plan) -> None:
    assert [(verdict.rule, verdict.message) for verdict in plan.blocked()] == []
    assert plan.passes()


def test_no_remark_is_left_of_a_placeholder_that_was_replaced(plan: Plan) -> None:
    assert [each.key for each in example_values(plan.config) if not each.key.startswith("clusters.sjc.")] == []
    left = [remark for remark in plan.remarks if "example" in remark and CAPACITY not in remark and SERVER not in remark]
    assert all(remark.startswith("example values: clusters.sjc.") for remark in left)


@pytest.mark.parametrize("stack", STACKS)
def test_before_the_step_a_remark_names_each_placeholder(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    remarks = "\n".join(make_plan(stack, ROOT).remarks)
    for key in ("github.url", "github.appId", "github.installationId", "budget.emails[0]", "endpoint.publicCidrs[0]"):
        assert key in remarks
