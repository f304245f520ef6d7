"""What Git has of stacks with ArgoCD delivery, by path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache

from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.gitops import git_files
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.record import record
from tests import plans
from tests.components.recorded import stack_config
from tests.day import AS_OF

STACKS = ("homelab", "gitops")


def files(config: StackConfig) -> dict[str, str]:
    """What Git has of a stack, by path. What the program registers beside it is not recorded."""
    fleet = fleet_of(config)
    git = plans.shared(plans.name_of(config, "git"), lambda: record(ROOT / "components" / "git.py", config))
    found = list(git_files(Plan(config, fleet, (), (), (), (), "", AS_OF, git=git)))
    assert len(dict(found)) == len(found), "a file each"
    return dict(sorted(found))


@cache
def of(name: str) -> Mapping[str, str]:
    return files(stack_config(name))


def digests() -> dict[str, str]:
    """By stack, a digest of all that Git has of it."""
    return {name: hashlib.sha256(json.dumps(dict(of(name))).encode()).hexdigest() for name in STACKS}
