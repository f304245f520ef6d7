"""cloud-limits: every row of the table with a value that its API takes and one that it refuses, and documents inside values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from fleet.facts.cloud_limits import Limit, cron_fault, limit, limits
from fleet.facts.quantities import HUGE
from policies.rules.cloud_limits import RULE
from tests.policies.cases import Case
from tests.policies.fixtures import LAUNCH_TEMPLATE
from tests.policies.harness import NAME, judge
from tests.policies.suite import Suite

TAGS = "IAM takes Owner and owner for one key, and refuses both; remove one"
SAMPLES = (
    "gpu-ci-cache-and-more-text",
    "ghcr.io",
    "x.x.x",
    "required",
    "gp",
    *(
        f"arn:aws:{rest}"
        for rest in ("iam::123456789012:policy/b", "secretsmanager:us-east-1:123456789012:secret:ecr-pullthroughcache/x")
    ),
)


def bad(row: Limit) -> tuple[Any, str]:
    """A value that the row refuses, and the rule in words."""
    most, spans = row.most or 0, f"at most {row.most}" if row.least is None else f"{row.least} to {row.most}"
    long, has = "x" * (min(most, 40_000) + 1), f"it has {most + 1}"
    numbers = " or ".join((*row.words, f"{row.least} to {row.most}"))
    listed = ", ".join(row.words[:12]) + (f" and {len(row.words) - 12} more" if len(row.words) > 12 else "")
    domain, letters = "US-SANJOSE-1-AD-1", "us-west-2a, us-west-2b, us-west-2c, us-west-2d"
    no_zone = "there is no such zone; it must be one of"
    texts = (long, f"{has} characters and may have {spans}; correct it")
    cases: dict[str, tuple[Any, str]] = {
        "whole": (min(4 * most, 10**18 + most), f"a whole number of {numbers}; correct it"),
        "words": ("zzz", f"it must be one of {listed}; correct it"),
        "text": ("xn--x", row.says) if row.says else texts if row.most else ("\n", f"it must match {row.values}; correct it"),
        "name": (long, f"{has} characters and may have {spans}; shorten the names that it is made of"),
        "count": ([{}] * (min(most, 999) + 1), f"{has} entries and may have {spans}; correct it"),
        "network": (
            "224.0.0.0/16",
            "addresses of 224.0.0.0/4 are reserved, and the cloud refuses them; write a network outside of it",
        ),
        "zone": ("abcd:US-SANJOSE-1-AD-2", f"{no_zone} {domain}; did you mean {domain}?")
        if row.type.startswith("oci")
        else ("us-west-2g", f"{no_zone} {letters}; did you mean us-west-2d?"),
        "cron": ("9 " * 9, f"a cron line of {row.values} fields; it has 9"),
        "once": (["9.9.9.9/32", "9.9.9.9/32"], "it has 9.9.9.9/32 twice; remove one"),
    }
    return cases[row.kind]


def good(row: Limit) -> Any:
    """A value that the row takes."""
    fits = (text for text in SAMPLES if (row.least or 0) <= len(text) <= (row.most or 99))
    simple: dict[str, Any] = {
        "whole": row.least,
        "count": [{}] * (row.least or 0),
        "once": [],
        "network": "203.0.113.0/24",
    }
    if row.kind == "cron":
        return "0 4 1 * ? *" if row.values == "6" else "30 7 * * 1-5"
    if row.kind in ("words", "zone"):
        return row.words[0]
    return simple[row.kind] if row.kind in simple else next(text for text in fits if re.fullmatch(row.values or ".*", text))


def put(path: list[str], value: Any) -> Any:
    for step in reversed(path):
        value = [value] if step == "[]" else {step: value}
    return value


ROWS = {(row.type, row.path, row.kind): row for token in sorted(RULE.types) for row in limits()[token] if row.kind != "document"}
FEW = {(row.type, row.kind): row for row in ROWS.values()}.values()
"""One row of each kind for each type: the suite changes each property of its cases."""


def cases(rows: Iterable[Limit]) -> Iterator[Case]:
    for row in rows:
        value, words = bad(row)
        at = row.path.replace(".[]", "[0]")
        text = f'"{value if len(value) <= 60 else value[:60] + "…"}"' if isinstance(value, str) else None
        shown = (
            text
            or {
                dict: "an object",
                list: "a list",
                int: str(value) if isinstance(value, int) and value < HUGE else "out of range",
            }[type(value)]
        )
        shown = shown.replace("\n", "\\n")
        message = f"{at}: {words} (got {shown})"
        yield Case(row.type, put(row.path.split("."), value), (message if len(message) <= 400 else f"{message[:400]}…",))


def node(spec: dict[str, Any]) -> dict[str, str]:
    head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: application/node.eks.aws\n\n---\n"
    text = f"{head}{json.dumps({'kind': 'NodeConfig', 'spec': spec})}\n--B--\n"
    return {"userData": base64.b64encode(text.encode()).decode()}


def kubelet(**fields: int) -> dict[str, str]:
    return node({"kubelet": {"config": fields}})


def rlimits(*found: tuple[str, int]) -> dict[str, str]:
    entries = [{"type": name, "soft": soft, "hard": 2**20} for name, soft in found]
    return node({"containerd": {"baseRuntimeSpec": {"process": {"rlimits": entries}}}})


KUBELET, MOUNT = "userData: spec.kubelet.config", "spec.instance.localStorage.mountPath"
PROCESS = "userData: spec.containerd.baseRuntimeSpec.process.rlimits"
NAMES = ", ".join(limit("NodeConfig", "spec.containerd.baseRuntimeSpec.process.rlimits.[].type").words[:12])
SUITE = Suite(
    RULE,
    passing=(
        *(Case(row.type, put(row.path.split("."), good(row))) for row in FEW),
        Case("pulumi:providers:aws", {"defaultTags": json.dumps({"tags": {"owner": "a", "gpu-ci/stack": "dev"}})}),
        Case(LAUNCH_TEMPLATE, kubelet(podPidsLimit=-1, containerLogMaxFiles=2)),
        Case(LAUNCH_TEMPLATE, {"userData": "IyEvYmluL2Jhc2gK"}),
        Case(LAUNCH_TEMPLATE, node({"containerd": {"config": "version = 3"}})),
        Case(LAUNCH_TEMPLATE, node({"containerd": {"config": "[" * 50_000}})),
        Case(LAUNCH_TEMPLATE, rlimits(("RLIMIT_NOFILE", 1024), ("RLIMIT_CPU", 0))),
    ),
    violating=(
        *cases(FEW),
        Case(
            "pulumi:providers:aws",
            {"defaultTags": json.dumps({"tags": {"owner": "a", "Owner": "b"}})},
            (f"defaultTags: tags: {TAGS} (got an object)",),
        ),
        Case(
            "pulumi:providers:aws",
            {"defaultTags": {"tags": {"k8s.io/cluster-autoscaler/enabled": "false"}}},
            (
                "defaultTags: tags: other software reads tags such as k8s.io/cluster-autoscaler/enabled, and it would take yours "
                "for its own; rename it (got an object)",
            ),
        ),
        Case(
            LAUNCH_TEMPLATE,
            kubelet(podPidsLimit=1, containerLogMaxFiles=99_999_999_999),
            (
                f"{KUBELET}: containerLogMaxFiles: a whole number of 2 to 2147483647; correct it (got 99999999999)",
                f"{KUBELET}: podPidsLimit: a whole number of -1 or 1024 to 4194304; correct it (got 1)",
            ),
        ),
        Case(
            LAUNCH_TEMPLATE,
            node({"containerd": {"config": "version = 99"}, "instance": {"localStorage": {"mountPath": "/mnt/../etc"}}}),
            (
                "userData: spec.containerd.config: version: a whole number of 2 to 3; correct it (got 99)",
                f'userData: {MOUNT}: {limit("NodeConfig", MOUNT).says} (got "/mnt/../etc")',
            ),
        ),
        Case(
            LAUNCH_TEMPLATE,
            rlimits(("RLIMIT_FOO", 1), ("RLIMIT_FOO", 1), ("RLIMIT_NOFILE", 0)),
            (
                f"{PROCESS}: programs fail with a RLIMIT_NOFILE below 1024; raise soft to 1024 or more (got a list)",
                f"{PROCESS}: it has RLIMIT_FOO twice; remove one (got a list)",
                *(
                    f'{PROCESS}[{at}].type: it must be one of {NAMES} and 4 more; did you mean RLIMIT_CORE? (got "RLIMIT_FOO")'
                    for at in (0, 1)
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    ("line", "fields", "said"),
    [
        ("0 4 1 * ? *", 6, None),
        ("0/15 8-18 ? * MON-FRI 2026", 6, None),
        ("0 0 L * ? *", 6, None),
        ("0 0 ? * 6L *", 6, None),
        ("0 0 ? * 2#1 *", 6, None),
        ("30 7 * * 1-5", 5, None),
        ("99 99 99 99 99 99", 6, "99 is not a minute of a cron line (0 to 59); correct it"),
        ("0 4 31 2 ? *", 6, "no month 2 has a day 31; correct it"),
        ("0 4 1 * 2 *", 6, "one of day and day of the week must be ?, and the other one not; correct it"),
        ("0 4 * * * *", 6, "one of day and day of the week must be ?, and the other one not; correct it"),
        ("0 4 1 * ? 1969", 6, "1969 is not a year of a cron line (1970 to 2199); correct it"),
        ("0 4 9-3 * ? *", 6, "9-3 is not a day of a cron line (1 to 31); correct it"),
        ("0 L * * *", 5, "L is not a hour of a cron line (0 to 23); correct it"),
        ("x", 5, "a cron line of 5 fields; it has 1"),
    ],
)
def test_a_cron_line_has_the_fields_and_the_days_of_its_service(line: str, fields: int, said: str | None) -> None:
    assert cron_fault(line, fields) == said


def test_a_name_that_pulumi_makes_counts_with_its_eight_characters() -> None:
    role = "aws:iam/role:Role"
    assert NAME == "fixture"
    assert not judge(RULE, role, {}).messages
    assert judge(RULE, role, {"name": "x" * 65}).messages


def test_a_row_bounds_something_and_names_its_source() -> None:
    for row in (row for of_type in limits().values() for row in of_type):
        assert row.source, row
        assert row.most is not None or row.values or row.kind == "once", row


def test_every_row_takes_one_value_and_refuses_another_one() -> None:
    for row, case in zip(ROWS.values(), cases(ROWS.values()), strict=True):
        assert judge(RULE, row.type, case.props).messages == case.messages
        assert not judge(RULE, row.type, put(row.path.split("."), good(row))).messages, row
