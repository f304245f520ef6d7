"""The API server's own admission beside the rules: both refuse the same pods, at level `baseline` and at `restricted`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.manifest import manifest
from fleet.facts.scheduling import POD_SECURITY_LABEL
from policies.rules.pod_security import BASELINE, RESTRICTED
from policies.rules.pods import pod_specs
from policies.rules.read import Later
from tests.conftest import SUMMARY
from tests.kwok.server import ServerApi, api_server, apply, missing
from tests.kwok.test_job_admission import refusal
from tests.policies.fixtures import POD
from tests.policies.pods_of_levels import of_level, pods

pytestmark = [
    pytest.mark.kwok,
    pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}"),
]


def admits(api: ServerApi, pod: dict[str, Any], namespace: str) -> bool | None:
    """Whether the API server admits a pod; None if the pod is wrong whatever the level."""
    why = refusal(api, pod, namespace)
    return False if "violates PodSecurity" in why else None if why else True


def test_the_rules_and_the_api_server_refuse_the_same_pods(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    differences, compared, invalid = [], 0, 0
    with api_server(tmp_path) as api:
        for level in ("privileged", BASELINE, RESTRICTED):
            apply(
                api, [manifest("v1", "Namespace", level) | {"metadata": {"name": level, "labels": {POD_SECURITY_LABEL: level}}}]
            )
        for pod in pods():
            if admits(api, pod, "privileged") is None:
                invalid += 1
                continue
            (spec,) = pod_specs(POD, pod, Later())
            for level in (BASELINE, RESTRICTED):
                breaches = list(of_level(spec, level, Later()))
                compared += 1
                if admits(api, pod, level) is not (not breaches):
                    differences.append((level, pod, breaches))
    assert not differences
    assert compared > 150
    record_property(
        SUMMARY, f"Pod Security: {compared} verdicts compared, 0 differences; {invalid} pods are invalid at any level"
    )
