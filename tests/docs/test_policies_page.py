"""docs/policies.md is what the policies say of themselves."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date

import pytest

from gpu_ci.offline.judge import configure
from gpu_ci.offline.policyconfig import settings_of
from gpu_ci.offline.policydocs import document
from policies.rules import RULES
from tests.builders import ROOT

PAGE = ROOT / "docs" / "policies.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == document(), "run `make docs`"


def test_every_policy_has_its_row_and_its_section() -> None:
    text = PAGE.read_text()
    for rule in RULES:
        assert f"| [{rule.id}](#{rule.id}) | {rule.severity} |" in text
        (section,) = re.findall(rf"^### {rule.id}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
        for said in (rule.title, rule.rationale, rule.source, rule.fix, *rule.config):
            assert said in section


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE.read_text() if PAGE.exists() else "", re.S))
def test_each_config_on_the_page_is_one_that_the_pack_takes(block: str) -> None:
    assert configure(RULES, json.loads(block), date(2026, 11, 21))


@pytest.mark.parametrize(
    "block", re.findall(r"```toml\n(.*?)```", (ROOT / "gpu_ci" / "offline" / "policies_head.md").read_text(), re.S)
)
def test_each_table_on_the_page_gives_a_config_that_the_pack_takes(block: str) -> None:
    for table in tomllib.loads(block).values():
        assert configure(RULES, settings_of(table), date(2026, 11, 21))
