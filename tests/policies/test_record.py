"""Plain records: what the wire has and rules read, and that no rule needs Pulumi."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from pulumi.runtime import rpc
from pulumi_policy import proxy
from pulumi_policy.deserialize import SPECIAL_ASSET_SIG, SPECIAL_SECRET_SIG, SPECIAL_SIG_KEY

from policies.rules.record import SECRET, SIGNATURE, UNKNOWN, UNKNOWNS, File, Secret, Unknown, UnknownError, bare, plain, wired
from tests.builders import ROOT

ASSET = {SPECIAL_SIG_KEY: SPECIAL_ASSET_SIG, "text": "content"}
WIRE: dict[str, Any] = {
    "number": 1.0,
    "text": "word",
    "nothing": None,
    "file": ASSET,
    "list": ["a", UNKNOWN, {"key": UNKNOWN}],
    "secret": {SIGNATURE: SECRET, "value": {"key": [UNKNOWN, "word"]}},
}


def test_rules_import_nothing_of_pulumi() -> None:
    program = """
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0].startswith("pulumi"):
                    raise ImportError(f"{name} is blocked")

        sys.meta_path.insert(0, Blocked())
        from policies.rules import RULES
        from policies.rules.record import Resource
        from policies.rules.rule import Args
        from datetime import date

        (rule,) = (rule for rule in RULES if rule.id == "ecr-hardened")
        (token,) = rule.types
        config = {name: schema["default"] for name, schema in rule.schemas.items()}
        outcome = rule.judge(Args(token, {}, "urn:pulumi:dev::gpu-ci::x::y", "y", config=config), date(2026, 1, 1))
        print(len(RULES), len(outcome.violations))
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    rules, violations = map(int, done.stdout.split())
    assert rules > 50
    assert violations == 2


def test_a_record_is_plain_data_with_marks() -> None:
    assert plain(WIRE) == {
        "number": 1.0,
        "text": "word",
        "nothing": None,
        "file": File(ASSET),
        "list": ["a", Unknown(("list", 1)), {"key": Unknown(("list", 2, "key"))}],
        "secret": {"key": [Unknown(("secret", "key", 0)), "word"]},
    }


def test_a_draft_marks_secrets_and_goes_back_to_the_same_wire() -> None:
    marked = plain(WIRE, secrets=True)
    assert isinstance(marked["secret"], Secret)
    assert wired(marked) == WIRE
    assert bare(marked) == plain(WIRE)


def test_the_constants_are_those_of_the_sdk() -> None:
    values = {value for name, value in vars(proxy).items() if name.startswith("UNKNOWN_") and name.endswith("_VALUE")}
    assert set(UNKNOWNS) == values
    assert {sentinel: proxy._unknown_to_str(sentinel) for sentinel in values} == UNKNOWNS
    assert rpc.UNKNOWN == UNKNOWN
    assert (SPECIAL_SIG_KEY, SPECIAL_SECRET_SIG) == (SIGNATURE, SECRET)


@pytest.mark.parametrize(
    ("path", "place"), [(("a", "b"), ".a.b"), (("containers", 0, "image"), ".containers[0].image"), (("a", 1, 2), ".a[1][2]")]
)
def test_a_path_is_spelled_as_in_violations(path: tuple[str | int, ...], place: str) -> None:
    assert UnknownError(Unknown(path)).message == f"string value at {place} can't be known during preview"
