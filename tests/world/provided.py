"""Staging on the engine with the real Kubernetes provider, whose objects and charts go into a world's control plane.

AWS and EKS are simulated. The copied project differs from the shipped one in what this machine cannot reach: charts lie in
a folder, and runner sets register at the world's GitHub.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.render.sweeps.api import Object
from gpu_ci.world.parts import Parts, find
from gpu_ci.world.plane import Plane, control_plane, rsa_key
from gpu_ci.world.processes import Processes
from tests.engine import staging
from tests.world.nodes import NodeCloud

PROGRAMS = ("pulumi", "pulumi-resource-kubernetes")
SIMULATED = ("aws", "eks", "oci")
_CHANGE = '''
import pulumi


def _reachable(args):
    if args.type_ != "kubernetes:helm.sh/v3:Release":
        return None
    chart = args.props["chart"].rpartition("/")[2]
    props = {{**args.props, "chart": f"{charts}/{{chart}}/{{args.props['version']}}", "repository_opts": None}}
    if "githubConfigUrl" in props["values"]:
        url = props["values"]["githubConfigUrl"].replace("https://github.com", "{github}")
        props["values"] = {{**props["values"], "githubConfigUrl": url}}
    return pulumi.ResourceTransformationResult(props, args.opts)


pulumi.runtime.register_stack_transformation(_reachable)
'''


def missing() -> list[str]:
    """What the tests need and this machine does not have."""
    programs = [name for name in PROGRAMS if shutil.which(name) is None] + find().missing
    return programs + [name for name in ("GPU_CI_REFERENCE",) if not os.environ.get(name)]
