"""Evasions in what people edit: the stack file, and the exceptions of policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.policies.evasions.manifests import PAT
from tests.test_credentials import STAGING, WORD


@dataclass(frozen=True)
class Settings:
    """An evasion in a stack file: what an attacker does, the finding, and what text of the file he replaces by what.

    `policies` is what he writes in the policy config beside it. `innocent` is the same change without harm: whatever is said of
    it as well is not about the evasion.
    """

    id: str
    does: str
    finding: str
    edits: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, Any] = field(default_factory=dict)
    innocent: Settings | None = None

    @property
    def text(self) -> str:
        """The stack file."""
        text = STAGING
        for old, new in self.edits.items():
            assert old in text, f"the staging file has no {old!r} any more"
            text = text.replace(old, new, 1)
        return text


def innocent(edits: Mapping[str, str], policies: Mapping[str, Any] | None = None) -> Settings:
    """A change without harm."""
    return Settings("innocent", "", "", edits, policies or {})


def excepted(urn: str, expires: str = "2027-05-31", reason: str = "The pool is tried out until May") -> dict[str, Any]:
    """Exceptions from all that limits a pool: one of its resource, and one of the stack."""
    of_stack = {"urn": "stack", "expires": "2027-05-31", "reason": "The pool is tried out until May"}
    own = {"urn": urn, "expires": expires, "reason": reason}
    return {name: {"exceptions": [own, of_stack]} for name in _LIMITS}


ROLE, HELD = "role: release", "policies.md"
BIG = {"nodes: {min: 0, max: 2}": "nodes: {min: 0, max: 500}"}
"""A pool far above what the policies allow."""
SECOND = """\
        public:
          pool: t4-release
          gpus: 1
          cpu: {request: 4, limit: 8}
          memory: {request: 16Gi, limit: 32Gi}
          scale: {min: 0, max: 2}
          group: public-prs
"""
"""A runner set of a group for everybody's pull requests, on the pool of releases."""
_LIMITS = ("gpu-pool-max-size", "stack-gpu-ceiling", "stack-cost-ceiling", "quota-declared")
_CLUSTERS = "  gpu-ci:clusters:\n"
_SETS = "        gpu-t4-release:\n"
_SHARED = {ROLE: f"{ROLE}\n          sharing: {{strategy: time-slicing, replicas: 2}}"}
_POOL = "*aws:eks/nodeGroup:NodeGroup::usw2-t4-release*"
_EXCEPTED = innocent(BIG, excepted(_POOL))
_TOGETHER = SECOND.replace("          group: public-prs\n", "")
_BUDGET = "      budget: {monthlyUsd: 1500, emails: [%s@example.com]}\n      system:"

CASES = (
    Settings(
        "keys-in-clear",
        "writes the keys of an account into the stack file in clear",
        "S8",
        {_CLUSTERS: f"  aws:accessKey: {'AKIA'}Q7WE9RT2YU4IO6PA\n  aws:secretKey: {WORD}\n{_CLUSTERS}"},
    ),
    Settings("token-as-tag", "writes a GitHub token as the value of a tag", "S8", {"owner: ci-platform": f"owner: {PAT}"}),
    Settings("token-as-runner-group", "writes a GitHub token as a runner group", "S8", {"group: gpu\n": f"group: {PAT}\n"}),
    Settings("token-as-label", "writes a GitHub token as a label", "S8", {_SETS: f"{_SETS}          labels: [{PAT}]\n"}),
    Settings(
        "token-as-address",
        "writes a GitHub token as an email address",
        "S8",
        {"      system:": _BUDGET % PAT},
        innocent=innocent({"      system:": _BUDGET % "ci-alerts"}),
    ),
    Settings(
        "exception-of-everything",
        "excepts everything from what limits GPUs",
        "S9",
        BIG,
        excepted("*:*"),
        _EXCEPTED,
    ),
    Settings(
        "exception-without-end",
        "excepts a resource for a thousand years",
        "S9",
        BIG,
        excepted(_POOL, expires="2999-12-31"),
        _EXCEPTED,
    ),
    Settings(
        "exception-without-words",
        "excepts a resource and gives ten dots as the reason",
        "S9",
        BIG,
        excepted(_POOL, reason="." * 10),
        _EXCEPTED,
    ),
    Settings(
        "public-jobs-on-release-nodes",
        "lets jobs of everybody's pull requests run on the nodes of releases",
        "S10",
        {_SETS: SECOND + _SETS},
        innocent=innocent({_SETS: _TOGETHER + _SETS}),
    ),
    Settings(
        "public-jobs-on-release-gpus",
        "lets jobs of everybody's pull requests share one GPU with releases, by time-slicing",
        "S10",
        {**_SHARED, _SETS: SECOND + _SETS},
        innocent=innocent({**_SHARED, _SETS: _TOGETHER + _SETS}),
    ),
    Settings("mistyped-name", "hides the tags of the stack behind a mistyped name", HELD, {"gpu-ci:tags:": "gpuci:tags:"}),
    Settings(
        "default-providers",
        "lets resources use the default provider of the machine that updates",
        HELD,
        {'  pulumi:disable-default-providers: ["*"]\n': ""},
    ),
    Settings("name-of-github", "takes the name of a runner of GitHub", HELD, {_SETS: "        ubuntu-latest:\n"}),
    Settings(
        "label-of-github", "takes the label of a runner of GitHub", HELD, {_SETS: f"{_SETS}          labels: [ubuntu-latest]\n"}
    ),
    Settings(
        "burst-for-releases",
        "runs releases on spot",
        HELD,
        {"capacity: on-demand\n          role: release": "capacity: spot\n          role: release"},
    ),
    Settings("pool-of-500", "lets a pool grow to 500 nodes", HELD, BIG),
)
