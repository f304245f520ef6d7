"""Which policies a foreign runner class breaks, with their defaults. The class counts as a release of ARC's chart."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from fleet.facts.tables import rows
from gpu_ci.audit.model import RunnerClass
from policies.rules import RULES
from policies.rules.kinds import RELEASE
from policies.rules.rule import Args, Rule

_CHART = "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"


_PROVED = ("gpu-toleration-required", "gpu-node-selector")
"""Policies of our own taints and labels. Those of the fleet are proved: `gpu_ci.audit.homes`."""
_POD = "kubernetes:core/v1:Pod"


def broken(classes: Iterable[RunnerClass], day: date) -> Mapping[str, tuple[str, ...]]:
    """The ids of the policies by the place of the class. A class of machines has no pod that a policy reads."""
    newest = max(row["version"] for row in rows("arc_releases.csv"))
    return {one.place: tuple(_broken(one, newest, day)) for one in classes if one.where}


def _broken(one: RunnerClass, newest: str, day: date) -> Iterator[str]:
    url = one.url or "https://github.com/organization"
    values = {"runnerGroup": one.group, **one.values.mapping(), "template": {"spec": one.where}, "githubConfigUrl": url}
    props = {"name": one.name, "namespace": "runners", "chart": _CHART, "version": one.version or newest}
    # The rules get numbers as floats.
    props["values"] = json.loads(json.dumps(values, default=str), parse_int=float)
    urn = f"urn:pulumi:audit::check::{RELEASE}::{one.place}#{one.name}"
    for rule in RULES:
        # Only the values of the chart say more than a pod.
        judged = rule.judges(RELEASE) and (one.pod_at is not None or rule.judges(_POD))
        if isinstance(rule, Rule) and judged and rule.id not in _PROVED:
            config = {name: words["default"] for name, words in rule.schemas.items()}
            if rule.judge(Args(type=RELEASE, props=props, urn=urn, name=one.name, config=config), day).violations:
                yield rule.id
