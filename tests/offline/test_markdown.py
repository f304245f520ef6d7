"""The plan as a reviewer reads it: what is broken and what it costs first, every table whole, text that stays text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from fleet.facts.errors import InputError
from fleet.loading.home import ROOT
from gpu_ci.offline.base import Base
from gpu_ci.offline.judge import Remediation, Verdict
from gpu_ci.offline.markdown import markdown, wrong_input
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.words import promises
from tests.offline.staging import ON_DEMAND, TOO_SMALL, WIDER, base, plan_of, staging, write

MARKDOWN = MarkdownIt("commonmark").enable("table")
TEAM = "@team|<b>"
TAGS = {"<details>", "<summary>", "</summary>", "</details>", "<br>"}


@pytest.fixture(scope="module")
def wider(tmp_path_factory) -> Plan:
    return plan_of(write(tmp_path_factory.mktemp("wider"), ON_DEMAND, WIDER))


@pytest.fixture(scope="module")
def more(tmp_path_factory) -> Plan:
    pool = "        l4: {instanceTypes: [g6.2xlarge], capacity: on-demand, role: release, nodes: {max: 1}}\n"
    return plan_of(write(tmp_path_factory.mktemp("more"), ("      runners:\n", f"{pool}      runners:\n")))


@pytest.fixture(scope="module")
def shown(wider) -> str:
    return markdown(wider, base())


def tables(text: str) -> list[list[list[str]]]:
    """Every table of a text: rows of cells, as Markdown."""
    found: list[list[list[str]]] = []
    tokens = MARKDOWN.parse(text)
    for at, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif tokens[at - 1].type in ("td_open", "th_open"):
            found[-1][-1].append(token.content)
    return found


def section(text: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    (found,) = tables(text.partition(f"### {heading}\n")[2].partition("\n### ")[0].partition("<details>")[0])
    return found[1:]


def before_the_first_fold(text: str) -> str:
    return text.partition("<details>")[0]


def test_a_clean_plan_says_so_first():
    head, money = markdown(staging()).splitlines()[:3:2]
    assert head == "## ✅ `staging`: every proof holds"
    assert money == " · ".join((f"{len(staging().resources)} resources", *promises(staging())))


def test_a_plan_by_itself_has_placement_price_and_remarks_and_counts_the_policies():
    text = markdown(staging())
    open_part = before_the_first_fold(text)
    assert [line for line in open_part.splitlines() if line.startswith("### ")][:2] == ["### Placement", "### Price, USD an hour"]
    assert [row[0] for row in section(text, "Placement")] == ["`usw2/gpu-t4`", "`usw2/gpu-t4-release`"]
    price = section(text, "Price, USD an hour")
    assert len(price) == len(staging().bill) + 1
    assert price[-1][0] == "**total**"
    (policies,) = [line for line in text.splitlines() if line.startswith("Policies: ")]
    assert re.match(r"Policies: \d+ holds?, .*\d disabled\. Policy values: policies/config/staging\.json, ", policies)


def test_what_breaks_and_what_it_costs_stand_before_everything_else(shown, wider):
    lines = shown.splitlines()
    assert lines[0] == "## ❌ `staging`: 1 mandatory violation"
    before, after = staging().cost[1], wider.cost[1]
    assert f"{before} → **{after}** (+{after.usd - before.usd:.3f}) at worst" in shown[: shown.index("| what fails")]
    _, (policy, where, why) = tables(shown)[0]
    assert policy == "`spot-required-nonprod` violation **new**"
    assert where == ", ".join(f"`usw2-t4-spot-us-west-2{zone}-nodes`" for zone in "abc")
    assert 'capacityType is "ON_DEMAND"' in why


def test_what_changes_is_shown_with_both_values_and_what_does_not_is_left_out(shown):
    assert section(shown, "What changes") == [
        ["pool `usw2/t4-spot`", "`capacity`", "`spot`", "`on-demand`"],
        ["pool `usw2/t4-spot`", "`nodes.max`", "`5`", "`6`"],
    ]
    price = section(shown, "Price, USD an hour")
    assert [row[0] for row in price[:2]] == ["`usw2` pool t4-spot", "`usw2` disks"]
    assert price[-1][0] == "**total**"
    (placement,) = section(shown, "Placement")
    assert (placement[0], placement[5]) == ("`usw2/gpu-t4`", "5 → **6**")
    assert "`usw2/gpu-t4-release`" not in shown
    assert "Before is the base's stack file and policy config, under the code of this change." in shown


def test_the_lines_of_a_price_change_add_up_to_its_total(shown):
    more = [float(row[4].strip("*").replace("±0", "0")) for row in section(shown, "Price, USD an hour")]
    assert sum(more[:-1]) == pytest.approx(more[-1], abs=0.01)


def test_a_change_is_short(shown):
    assert len(before_the_first_fold(shown).splitlines()) < 50, "two of them are what ends, four which jobs end"


def test_settings_that_change_nothing_say_so():
    text = markdown(staging(), base())
    assert text.startswith("## ✅ `staging`: every proof holds, the change has no effect\n")
    assert "### " not in text, "nothing is open that did not change"


def test_a_change_that_breaks_nothing_says_no_more_than_that(more):
    text = markdown(more, base())
    assert text.startswith("## ✅ `staging`: every proof holds\n")


@pytest.mark.parametrize("state", ["added", "removed"])
def test_a_pool_that_comes_or_goes_is_told_with_its_price(more, state):
    text = markdown(more, base()) if state == "added" else markdown(staging(), Base("", more))
    (row,) = [row for row in section(text, "Price, USD an hour") if "l4" in row[0]]
    assert row[:2] == [f"`usw2` pool l4 **{state}**", "0-1 x g6.2xlarge on-demand"]
    ((entry, _, *sides),) = section(text, "What changes")
    assert entry == "pool `usw2/l4`"
    assert [bool(side) for side in sides] == [state == "removed", state == "added"]


def test_what_is_mended_is_told(wider):
    text = markdown(staging(), Base("", wider))
    assert "### Fixed" in text
    assert "`spot-required-nonprod` fixed" in text


def test_a_runner_that_fits_nowhere_is_the_first_line_and_why_the_second(tmp_path):
    text = markdown(plan_of(write(tmp_path, TOO_SMALL)), base())
    assert text.startswith("## ❌ `staging`: 1 runner set cannot be placed, so no resource was created or judged\n")
    _, (what, where, why) = tables(text)[0]
    assert (what, where) == ("placement", "`usw2/gpu-t4`")
    assert "the smallest type that is large enough is g4dn.2xlarge" in why
    assert "none judged" in text
    assert "Resources and policies are not compared" in text


def test_advisories_exceptions_unknowns_and_remediations_are_told_in_full():
    urn = next(each.urn for each in staging().resources if each.name == "usw2-t4-spot-us-west-2a-nodes")
    verdicts = [
        Verdict("imds-v2-hop-one", "mandatory", "undeterminable", urn, "metadataOptions is not known yet"),
        Verdict("imds-v2-hop-one", "mandatory", "excepted", urn, "exceptions[0], until 2027-01-01: a reason; it hides: x"),
        Verdict("gpu-node-taint", "advisory", "violation", urn, "taints: none"),
        Verdict("gpu-node-taint", "mandatory", "not-applicable", urn, "nothing to see"),
    ]
    plan = replace(staging(), verdicts=tuple(verdicts), remediations=(Remediation("gpu-node-taint", urn, ("taints[0]: added",)),))
    for text in (markdown(plan), markdown(plan, base())):
        rows = next(table for table in tables(text) if table[0] == ["policy", "where", "what"])
        assert [row[0] for row in rows[1:]] == [
            "`imds-v2-hop-one` undeterminable",
            "`imds-v2-hop-one` excepted",
            "`gpu-node-taint` advisory",
            "`gpu-node-taint` remediated",
        ]
        assert "until 2027-01-01: a reason" in rows[2][2]
        assert "nothing to see" not in text
    known = markdown(plan, Base("", plan))
    assert "excepted" not in known, "what was there before is left out"


def test_strictness_makes_an_unknown_of_a_critical_policy_the_headline():
    verdict = Verdict("imds-v2-hop-one", "mandatory", "undeterminable", staging().resources[0].urn, "not known yet")
    plan = replace(staging(), verdicts=(verdict,))
    assert markdown(plan).startswith("## ✅")
    text = markdown(plan, strict=True)
    assert text.startswith("## ❌ `staging`: 1 undeterminable verdict of a critical policy\n")
    assert tables(text)[0][1][0] == "`imds-v2-hop-one` undeterminable"


def test_what_one_policy_says_of_many_resources_is_one_row():
    verdicts = tuple(
        Verdict("gpu-node-taint", "mandatory", "violation", f"urn:pulumi:s::p::t::pool-{number}", "taints: none")
        for number in range(9)
    )
    (_, row) = tables(markdown(replace(staging(), verdicts=verdicts)))[0]
    assert row[1] == "`pool-0`, `pool-1`, `pool-2`, `pool-3`, `pool-4`, and 4 more"


def test_what_is_newly_broken_comes_before_what_was_broken():
    names = ("usw2-t4-release-us-west-2a-nodes", "usw2-t4-spot-us-west-2a-nodes")
    urns = [each.urn for name in names for each in staging().resources if each.name == name]
    old, new = (Verdict("gpu-node-taint", "mandatory", "violation", urn, f"wrong {urn}") for urn in urns)
    text = markdown(replace(staging(), verdicts=(old, new)), Base("", replace(staging(), verdicts=(old,))))
    assert [row[:2] for row in tables(text)[0][1:]] == [
        ["`gpu-node-taint` violation **new**", f"`{names[1]}`"],
        ["`gpu-node-taint` violation", f"`{names[0]}`"],
    ]


def great(plan: Plan) -> Plan:
    """The plan with a hundred of everything that a stack file may have many of."""
    numbers = range(100)
    return replace(
        plan,
        placements=tuple(replace(plan.placements[0], runner_set=f"set-{number}") for number in numbers),
        bill=tuple(replace(plan.bill[0], item=f"pool {number}") for number in numbers),
        verdicts=tuple(Verdict("gpu-node-taint", "mandatory", "violation", "urn", f"wrong {number}") for number in numbers),
        overbooked=tuple(f"too many {number}" for number in numbers),
    )


@pytest.mark.parametrize("against", [None, "the stack as it is", "itself"])
def test_a_great_stack_makes_no_great_text(against):
    plan = great(staging())
    text = markdown(plan, {"the stack as it is": base(), "itself": Base("", plan)}.get(str(against)))
    assert len(re.findall(r"And 1?6\d more\.", text)) >= (3 if against is None else 1), "placement, price and what fails"
    assert [rows for rows in tables(text) if len(rows) > 1 + 40 + 2 and rows[0][0] != "policy"] == []
    assert ("| **total** |" in text) is (against != "itself"), "the sum is of all rows"
    assert len(text) < 60_000


def test_a_bound_is_said_to_be_one(shown):
    assert "≤ is a bound, because not every price is known: the difference is that of the bounds." in shown


def hostile(plan: Plan) -> Plan:
    """The plan, with a hostile text wherever a file could have one."""
    found = plan.placements[0]
    runner = found.runner.model_copy(update={"labels": (TEAM,), "pool": TEAM})
    placement = replace(found, runner_set=TEAM, runner=runner, host=replace(found.host, name=TEAM))
    line = replace(plan.bill[0], item=f"pool {TEAM}", what=TEAM, sources=(f"https://{TEAM}",))
    verdict = Verdict("gpu-node-taint", "mandatory", "violation", f"urn:pulumi:s::p::t::{TEAM}", f"a\n{TEAM}\n# b")
    objects = {**plan.config.objects, "gpu-ci:tags": {TEAM: f"x\n{TEAM}"}}
    return replace(
        plan,
        config=replace(plan.config, objects=objects),
        placements=(placement, *plan.placements[1:]),
        overbooked=(f"{TEAM}\n# heading",),
        bill=(line, *plan.bill[1:]),
        verdicts=(verdict, replace(verdict, kind="excepted")),
        remediations=(Remediation("gpu-node-taint", verdict.urn, (f"taints[0]: added {TEAM}",)),),
    )


@pytest.mark.parametrize("compared", [False, True])
def test_hostile_names_neither_ping_nor_break_a_table_nor_become_html(compared):
    text = markdown(hostile(staging()), base() if compared else None)
    assert text.count("team") >= 8, "the names are shown"
    outside_code = "".join(
        child.content for token in MARKDOWN.parse(text) for child in token.children or () if child.type != "code_inline"
    )
    assert "@team" not in outside_code, "GitHub would ping the person of that name"
    assert "://" not in outside_code
    for rows in tables(text):
        assert len({len(row) for row in rows}) == 1
    html = {
        child.content
        for token in MARKDOWN.parse(text)
        for child in (token, *(token.children or ()))
        if child.type in ("html_inline", "html_block")
    }
    assert all(any(piece.strip().startswith(tag) for tag in TAGS) for piece in html)
    assert not any("<b>" in piece for piece in html)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert not any("heading" in line or line == "# b" for line in headings)


def test_wrong_input_lists_what_to_correct():
    error = InputError(f"{ROOT}/Pulumi.staging.yaml:3: a: {TEAM}\nPulumi.staging.yaml:4: b: wrong")
    assert wrong_input("staging", error, ROOT).splitlines() == [
        "## ❌ `staging`: the input is wrong",
        "",
        "Nothing was planned. Fix:",
        "",
        "- Pulumi.staging.yaml:3: a: @\u200bteam\\|\\<b\\>",
        "- Pulumi.staging.yaml:4: b: wrong",
    ]
    assert wrong_input("staging", InputError("a: wrong\n" * 41), ROOT).endswith("- a: wrong\n\nAnd 1 more.\n")


def test_no_secret_enters_the_text(tmp_path):
    cipher = "AAABAHsecretciphertext"
    path = write(tmp_path, ("config:\n", f"config:\n  gpu-ci:githubPrivateKey: {{secure: {cipher}}}\n"))
    plan = plan_of(path)
    text = markdown(plan, base())
    assert cipher not in text
    assert "`gpu-ci:githubPrivateKey`" in text, "the answer says that it came"
