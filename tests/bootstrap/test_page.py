"""docs/bootstrap.md: its numbers are those of the table and the policies, and its statements cover every type of OCI."""

from __future__ import annotations

import json
import re
from collections import Counter

from bootstrap.rights import ATTACHED, LINKED, PASSED_TO, boundary, changes, needs, reading
from fleet.facts.tables import rows
from tests.bootstrap.builders import target
from tests.builders import ROOT
from tests.components.recorded import STACKS, recorded

PAGE = (ROOT / "docs" / "bootstrap.md").read_text()
WORDS = {5: "five", 8: "eight", 10: "ten"}


def test_the_page_counts_rows_types_and_actions():
    actions, reads = (
        {need["action"] for need in needs() if need["verb"] in verbs}
        for verbs in (("create", "read", "update", "delete"), ("read",))
    )
    types = {need["type"] for need in needs()}
    assert f"{len(needs())} rows for {len(types)} types" in PAGE
    assert f"the union of all rows, {len(actions)} actions; the preview role may do the {len(reads)} that read" in PAGE


def test_the_page_counts_the_sources():
    counts = Counter(row["source"].partition(" ")[0].partition("@")[0] for row in rows("iam_actions.csv"))
    sources = "AWS provider|CloudFormation's|AWS managed policy|API reference"
    shown = [int(found) for found in re.findall(rf"^\| .*(?:{sources}).*\| (\d+) \|$", PAGE, re.MULTILINE)]
    assert shown == [counts["terraform-provider-aws"], counts["CloudFormation"], counts["AWS"], counts["API"]]


def test_the_page_has_the_sizes_of_the_policies():
    policies = changes(target()) | {"boundary": boundary(target())}
    documents = {"gpu-ci-read": reading()} | {f"…-{part}": document for part, document in policies.items()}
    for name, document in documents.items():
        length = len(json.dumps(document, separators=(",", ":")))
        assert re.search(rf"^\| `{name}` \| .* \| {length:,} \|$", PAGE, re.MULTILINE), (name, length)


def test_the_page_counts_what_a_role_may_be_given():
    line = next(line for line in PAGE.splitlines() if line.startswith("| `…-iam`"))
    assert f"{WORDS[len(ATTACHED)]} AWS managed policies" in line
    assert f"to {WORDS[len(PASSED_TO)]} services" in line
    assert f"service-linked roles of {WORDS[len(LINKED)]} services" in line


def test_every_type_of_oci_has_a_statement():
    types = {each.type for stack in STACKS for each in recorded(stack).resources if each.type.startswith("oci:")}
    assert len(types) > 20
    missing = [name for name in sorted(types) if f"`{name.removeprefix('oci:').rpartition(':')[0]}`" not in PAGE]
    assert missing == []
