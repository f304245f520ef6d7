"""Staging on the engine with the real Kubernetes provider, whose objects and charts go into a world's control plane.

AWS and EKS are simulated. The copied project differs from the shipped one in what this machine cannot reach: charts lie in
a folder, and runner sets register at the world's GitHub.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from fleet.render.sweeps.api import Object
from gpu_ci.world import services
from gpu_ci.world.github import GitHub
from gpu_ci.world.hands import PROGRAMS, Hands
from gpu_ci.world.parts import find
from gpu_ci.world.plane import Followed, Plane, control_plane, delete, passes, rsa_key
from gpu_ci.world.processes import Processes
from gpu_ci.world.run import Player
from tests.engine import staging
from tests.world.nodes import NodeCloud

SIMULATED = ("aws", "eks", "oci")
"""Packages without a plugin."""
_OWN = frozenset({"events", "leases", "endpoints", "endpointslices", "componentstatuses"})
"""What controllers make, rename and delete as they like."""
_REACHABLE = """
import pulumi


def _reachable(args):
    if args.type_ != "kubernetes:helm.sh/v3:Release":
        return None
    props, values = args.props, args.props["values"]
    chart = f"{charts}/{{props['chart'].rpartition('/')[2]}}/{{props['version']}}"
    if url := values.get("githubConfigUrl"):
        values = {{**values, "githubConfigUrl": url.replace("https://github.com", "{github}")}}
    return pulumi.ResourceTransformationResult({{**props, "chart": chart, "repository_opts": None, "values": values}}, args.opts)


pulumi.runtime.register_stack_transformation(_reachable)
"""
"""What comes before the program."""


def missing() -> list[str]:
    """What the tests need and this machine does not have."""
    programs = [name for name in ("pulumi", "pulumi-resource-kubernetes") if shutil.which(name) is None]
    return [*programs, *find().missing, *({"GPU_CI_REFERENCE"} - os.environ.keys())]


@dataclass(frozen=True)
class Provided:
    """The site, its cloud, the cluster's control plane, and GitHub."""

    site: staging.Site
    cloud: NodeCloud
    plane: Plane
    github: GitHub
    pods: Followed

    def mend(self) -> int:
        """Deletes listeners whose set of runners is gone, and returns how many.

        ARC 0.14.2 may make two EphemeralRunnerSets of one new runner set, and delete the one that its listener has the name of.
        Such a listener starts again and again, and only a new one learns the right name.
        """
        api, paths = self.plane.api, "/apis/actions.github.com/v1alpha1"
        sets = {each["metadata"]["name"] for each in api.list(f"{paths}/ephemeralrunnersets")}
        stuck = [each for each in api.list(f"{paths}/autoscalinglisteners") if each["spec"]["ephemeralRunnerSetName"] not in sets]
        for listener in stuck:
            delete(api, self.plane.path(listener))
        return len(stuck)

    def named(self, manifest: Object) -> str:
        """An object as in `objects`."""
        collection, metadata = self.plane.collection(manifest["apiVersion"], manifest["kind"]), manifest["metadata"]
        return f"{collection.rpartition('/')[2]} {metadata.get('namespace', '')}/{metadata['name']}"

    def objects(self) -> frozenset[str]:
        """Every object of the API server as "<resource> <namespace>/<name>"."""
        api, found = self.plane.api, set[str]()
        groups = (group["preferredVersion"]["groupVersion"] for group in api.call("GET", "/apis")["groups"])
        for root in ("/api/v1", *(f"/apis/{version}" for version in groups)):
            for kind in api.call("GET", root)["resources"]:
                if "list" in kind["verbs"] and kind["name"] not in _OWN:
                    metadata = [each["metadata"] for each in api.list(f"{root}/{kind['name']}")]
                    found |= {f"{kind['name']} {each.get('namespace', '')}/{each['name']}" for each in metadata}
        return frozenset(found)


@contextmanager
def provided(base: Path) -> Iterator[Provided]:
    """Staging, not yet deployed, its empty cluster below the folder `base`, and GitHub."""
    github, stop = GitHub(), Event()
    run = [program for program in PROGRAMS if program.part in ("arc-manager", "ghalistener", "kueue")]
    with Processes(base / "world") as processes:
        plane = control_plane(processes, find())
        cloud = NodeCloud(plane)
        pods, wake = Followed(plane.api, "/api/v1/pods", stop), Event()
        pods.wakes.append(wake)
        hands = Hands(plane, pods, run)
        stop_services = services.serve(plane.folder, hands.port)
        passes(Player(plane.api, github, pods).once, wake, stop, 0.2)
        try:
            with staging.built(base, packages=SIMULATED, cloud=cloud) as site:
                program = site.cli.folder / "__main__.py"
                change = _REACHABLE.format(charts=os.environ["GPU_CI_REFERENCE"], github=github.start())
                program.write_text(change + program.read_text())
                site.cli.ok("config", "set", "--stack", staging.STACK, "--secret", staging.KEY, given=rsa_key())
                yield Provided(site, cloud, plane, github, pods)
        finally:
            stop.set()
            stop_services()
            hands.close()
            github.stop()
