"""What a measured process does: `python -m bench.program empty|bare|record|judge|judge50|plan [STACK FILE]`.

- empty: touches the resource modules that an EKS fleet uses, and pulumi_policy, and registers nothing.
- bare: the fleet's program under the SDK's own mocks.
- record: the same under our recorder, nothing judged.
- judge: the same, judged by the policies.
- judge50: as judge, with 46 more policies that look at other types.
- plan: all of `python -m offline plan`, with its printed report.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def empty() -> None:
    """Imports alone, under mocks."""
    import pulumi  # noqa: PLC0415 - what is imported is what is measured
    import pulumi_aws as aws  # noqa: PLC0415
    import pulumi_eks as eks  # noqa: PLC0415
    import pulumi_kubernetes as kubernetes  # noqa: PLC0415
    import pulumi_policy  # noqa: PLC0415

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
    pulumi.runtime.test(lambda: len(touched))()  # type: ignore[no-untyped-call]


def bare(stack: str, path: Path) -> None:
    """The fleet under the SDK's mocks."""
    import pulumi  # noqa: PLC0415

    from components.build import build  # noqa: PLC0415
    from components.config import read_fleet  # noqa: PLC0415

    config = _config(stack, path)
    pulumi.runtime.set_mocks(_echo(), project="gpu-ci", stack=stack, preview=True)
    pulumi.runtime.set_all_config(dict(config.values), sorted(config.secret_keys))

    def program() -> None:
        settings = pulumi.Config("gpu-ci")
        build(read_fleet(settings), "gpu-ci", stack, settings.require_secret("githubPrivateKey"))

    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]


def recorded(stack: str, path: Path) -> None:
    """The fleet under our recorder."""
    from offline.record import record  # noqa: PLC0415

    record(ROOT / "__main__.py", _config(stack, path))


def judged(stack: str, path: Path, more: int = 0) -> None:
    """Prints the processor seconds of the recorder, then of the policies and `more` that look at types the fleet has not."""
    from offline.judge import judge  # noqa: PLC0415
    from offline.record import record  # noqa: PLC0415
    from policies.rules import RULES  # noqa: PLC0415

    others = [replace(RULES[0], id=f"other-{n}", types=frozenset({f"other:index:Type{n}"})) for n in range(more)]
    start = time.process_time()
    recording = record(ROOT / "__main__.py", _config(stack, path))
    between = time.process_time()
    judge(recording, (*RULES, *others), {})
    sys.stdout.write(f"{between - start} {time.process_time() - between}\n")


def planned(stack: str, path: Path) -> None:
    """The whole command."""
    sys.argv = ["offline", "plan", stack, "--file", str(path)]
    runpy.run_module("offline", run_name="__main__")


def _config(stack: str, path: Path) -> Any:
    from offline import stackfile  # noqa: PLC0415

    return stackfile.with_placeholders(stackfile.load(stack, ROOT, stack_file=path), ["gpu-ci:githubPrivateKey"])


def _echo() -> Any:
    import pulumi  # noqa: PLC0415

    class Echo(pulumi.runtime.Mocks):
        def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
            return "", args.inputs

        def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
            raise AssertionError(args.token)

    return Echo()


def main() -> None:
    """Runs the named mode."""
    mode, *rest = sys.argv[1:]
    if mode == "empty":
        empty()
        return
    path = Path(rest[0])
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    modes: dict[str, Callable[[str, Path], None]] = {
        "bare": bare,
        "record": recorded,
        "judge": judged,
        "judge50": partial(judged, more=46),
        "plan": planned,
    }
    modes[mode](stack, path)


if __name__ == "__main__":
    main()
