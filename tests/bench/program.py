"""The program of a measured process: `python -m tests.bench.program MODE [STACK FILE]`. The modes:

- imports: imports pydantic and the YAML reader, and makes a model: what a program of this kind cannot do without.
- start: runs `gpu-ci --version`.
- audit: runs `gpu-ci audit` on a folder.
- empty: imports the resource modules that an EKS fleet uses and pulumi_policy, and registers nothing.
- bare: runs the fleet's program with the SDK's own mocks.
- record: runs it with our recorder, without policies.
- judge: records it and checks it against all policies.
- server: records it and checks it with the SDK's own policy server, as the engine does.
- plan: runs `gpu-ci plan` with its printed report.
- refuse: runs it on a file that it refuses with status 2.
- prove: runs each proof of a fleet alone.
"""

from __future__ import annotations

import gc
import runpy
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_AS_OF = date(2026, 11, 21)
"""Any day works, because the benchmark has no policy exceptions."""


def imports() -> None:
    """The two packages of the core that take longest."""
    import yaml
    from pydantic import BaseModel

    class Model(BaseModel):
        text: str

    Model(text=yaml.safe_load("a"))


def empty() -> None:
    """The imports only, with mocks."""
    import pulumi
    import pulumi_aws as aws
    import pulumi_eks as eks
    import pulumi_kubernetes as kubernetes
    import pulumi_policy

    touched = (
        aws.Provider,
        aws.autoscaling.Tag,
        aws.ec2.LaunchTemplate,
        aws.eks.NodeGroup,
        aws.iam.Role,
        eks.Cluster,
        kubernetes.Provider,
        kubernetes.core.v1.Secret,
        kubernetes.helm.v3.Release,
        kubernetes.meta.v1.ObjectMetaArgs,
        pulumi_policy.PolicyPack,
    )
    pulumi.runtime.set_mocks(_echo(), preview=True)
    pulumi.runtime.test(lambda: len(touched))()


def bare(stack: str, path: Path) -> None:
    """The fleet with the SDK's mocks."""
    import pulumi

    from components.build import build
    from components.config import read_fleet

    config = _config(stack, path)
    pulumi.runtime.set_mocks(_echo(), project="gpu-ci", stack=stack, preview=True)
    pulumi.runtime.set_all_config(dict(config.values), sorted(config.secret_keys))

    def program() -> None:
        settings = pulumi.Config("gpu-ci")
        build(read_fleet(settings), "gpu-ci", stack, {"default": settings.require_secret("githubPrivateKey")})

    pulumi.runtime.test(program)()


def recorded(stack: str, path: Path) -> None:
    """The fleet with our recorder."""
    from gpu_ci.offline.record import record

    record(ROOT / "__main__.py", _config(stack, path))


def judged(stack: str, path: Path) -> None:
    """Print the processor seconds of the recorder, then of all policies, and the number of resources."""
    from gpu_ci.offline.judge import configure, judge
    from gpu_ci.offline.record import record
    from policies.rules import RULES

    # The same setting as in `offline.__main__`.
    gc.set_threshold(2_000_000, 50, 1000)
    start = time.process_time()
    recording = record(ROOT / "__main__.py", _config(stack, path))
    between = time.process_time()
    judge(recording, configure(RULES, {}, _AS_OF))
    sys.stdout.write(f"{between - start} {time.process_time() - between} {len(recording.resources)}\n")


def served(stack: str, path: Path) -> None:
    """Print the processor seconds of the SDK's server for all resources one by one, then for the stack, and their number."""
    from pulumi.runtime import proto
    from pulumi_policy import EnforcementLevel
    from pulumi_policy.policy import _PolicyAnalyzerServicer

    from gpu_ci.offline.judge import configure
    from gpu_ci.offline.record import record
    from policies.pack import policy
    from policies.rules import RULES
    from tests.analyzed import analyze_request, stack_request

    recording = record(ROOT / "__main__.py", _config(stack, path))
    policies = configure(RULES, {}, _AS_OF)
    server: Any = _PolicyAnalyzerServicer("gpu-ci", "0.0.1", [policy(rule, _AS_OF) for rule in RULES], EnforcementLevel.MANDATORY)
    configuration = proto.ConfigureAnalyzerRequest()
    for each in policies:
        sent = configuration.policyConfig[each.policy.id]
        sent.enforcementLevel = proto.EnforcementLevel.Value(each.level.value.upper())
        sent.properties.update(each.config)
    server.Configure(configuration, None)
    requests = [analyze_request(resource).SerializeToString() for resource in recording.resources if not resource.read]
    together = stack_request(recording).SerializeToString()
    start = time.process_time()
    for request in requests:
        server.Analyze(proto.AnalyzeRequest.FromString(request), None).SerializeToString()
    between = time.process_time()
    server.AnalyzeStack(proto.AnalyzeStackRequest.FromString(together), None).SerializeToString()
    sys.stdout.write(f"{between - start} {time.process_time() - between} {len(requests)}\n")


def planned(stack: str, path: Path) -> None:
    """The whole command."""
    sys.argv = ["gpu-ci", "plan", stack, "--file", str(path)]
    runpy.run_module("gpu_ci", run_name="__main__")


def proved(stack: str, path: Path) -> None:
    """Print each proof with the processor seconds that it takes."""
    from fleet.loading.config import fleet_of
    from fleet.prove import bill, placement, remarks, room, rules, spot, works
    from fleet.prove.ends import ends
    from fleet.prove.pending import explain
    from fleet.prove.pod import pod_of
    from fleet.prove.start import starts

    fleet = fleet_of(_config(stack, path))
    placements = placement.place(fleet)
    body = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}}
    pod: Any = pod_of("pod", body)
    proofs: dict[str, Callable[[], object]] = {
        **{f"rule {rule.__name__}": lambda rule=rule: list(rule(fleet)) for rule in rules._RULES},  # type: ignore[misc]
        "place": lambda: placement.place(fleet),
        "overbooked": lambda: list(placement.overbooked(placements)),
        "unfilled": lambda: list(placement.unfilled(fleet, placements)),
        "remarks of placements": lambda: [each.remarks for each in placements],
        "bill": lambda: bill.bill(fleet, _AS_OF),
        "remarks of the bill": lambda: list(bill.remarks(fleet, _AS_OF)),
        "refusals": lambda: list(room.refusals(fleet)),
        "works": lambda: list(works.remarks(fleet, _AS_OF)),
        "spot": lambda: list(spot.remarks(fleet)),
        "classes": lambda: list(remarks.fallback(fleet)),
        "fragments": lambda: list(remarks.fragmented(placements)),
        "room": lambda: list(room.remarks(fleet)),
        "monitoring": lambda: list(remarks.monitoring(fleet)),
        "ends": lambda: list(ends(fleet, _AS_OF)),
        "weeks": lambda: list(bill.weeks(fleet, _AS_OF)),
        "starts": lambda: list(starts(fleet, _AS_OF)),
        "explain": lambda: explain(fleet, pod),
    }
    for name, proof in proofs.items():
        start = time.process_time()
        proof()
        sys.stdout.write(f"{time.process_time() - start} {name}\n")


def _config(stack: str, path: Path) -> Any:
    from fleet.loading import stackfile

    return stackfile.with_stand_ins(stackfile.load(stack, ROOT, stack_file=path), ["gpu-ci:githubPrivateKey"])


def _echo() -> Any:
    import pulumi

    class Echo(pulumi.runtime.Mocks):
        def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
            return "", args.inputs

        def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
            if args.token.endswith(":readStackOutputs"):
                return {"outputs": {}}
            if not args.token.endswith(":getClusters"):
                raise AssertionError(args.token)
            return {"names": [], "clusters": []}

    return Echo()


def main() -> None:
    """Run the named mode."""
    mode, *rest = sys.argv[1:]
    if mode in ("imports", "empty"):
        (imports if mode == "imports" else empty)()
        return
    if mode in ("start", "audit"):
        sys.argv = ["gpu-ci", *({"start": ["--version"], "audit": ["audit", *rest]}[mode])]
        runpy.run_module("gpu_ci", run_name="__main__")
    path = Path(rest[0])
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    modes: dict[str, Callable[[str, Path], None]] = {
        "bare": bare,
        "record": recorded,
        "judge": judged,
        "server": served,
        "plan": planned,
        "refuse": planned,
        "prove": proved,
    }
    modes[mode](stack, path)


if __name__ == "__main__":
    main()
