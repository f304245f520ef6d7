"""What changes from one plan to another, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.facts.pricing import Money
from fleet.loading.home import ROOT
from fleet.loading.stackfile import STAND_IN
from gpu_ci.offline.changes import Pair
from gpu_ci.offline.compare import Comparison, difference
from gpu_ci.offline.judge import Verdict, configure, judge
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.wire import Secret
from policies.rules import RULES
from tests.day import AS_OF
from tests.doctor.fleets import shipped
from tests.offline.staging import ON_DEMAND, POLICIES, TOO_SMALL, WIDER, plan_of, staging, write


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    return plan_of(write(tmp_path_factory.mktemp("changed"), ON_DEMAND, WIDER))


@pytest.fixture(scope="module")
def comparison(changed):
    return Comparison(staging(), changed)


def test_a_plan_differs_from_itself_in_nothing():
    assert Comparison(staging(), staging()).nothing


def test_a_setting_is_named_by_its_path_with_both_its_values(comparison):
    (setting,) = comparison.settings
    assert (setting.kind, setting.name, setting.state) == ("pool", "usw2/t4-spot", "changed")
    assert setting.values == {"capacity": Pair("spot", "on-demand"), "nodes.max": Pair("5", "6")}


def test_a_changed_tag_is_said_to_reach_new_instances_alone(tmp_path):
    tagged = plan_of(write(tmp_path, ("owner: ci-platform", "owner: ml")))
    found = Comparison(staging(), tagged)
    assert [(setting.name, dict(setting.values)) for setting in found.settings] == [
        ("", {"gpu-ci:tags.owner": Pair("ci-platform", "ml")})
    ]
    assert found.new_remarks == found.notes
    assert found.notes[0].startswith("tags: running EC2 instances keep their old tags, and no node is replaced; ")
    assert "aws:eks/nodeGroup:NodeGroup" not in {kind.type for kind in found.resources}
    assert "aws:ec2/launchTemplate:LaunchTemplate" not in {kind.type for kind in found.resources}


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("gpu-plugin-addon", "gpu-operator", 1),
        ("gpu-plugin-addon", "device-plugin", 0),
        ("device-plugin", "gpu-operator", 0),
        ("gpu-operator", "gpu-plugin-addon", 0),
    ],
)
def test_only_from_oracles_add_on_to_the_operator_two_runs_are_needed(old, new, steps):
    fleet = shipped("prod")

    def side(enablement):
        cluster = fleet.clusters["sjc"].model_copy(update={"enablement": enablement})
        return replace(staging(), fleet=fleet.model_copy(update={"clusters": {"sjc": cluster}}))

    notes = Comparison(side(old), side(new)).notes
    assert len(notes) == steps
    assert all("set device-plugin first" in note for note in notes)


def test_runner_sets_that_land_elsewhere_are_told_from_those_that_do_not(comparison):
    moved = {name for name, pair in comparison.places.items() if pair.changed}
    assert moved == {"usw2/gpu-t4"}
    pair = comparison.places["usw2/gpu-t4"]
    assert (pair.before.held, pair.after.held) == ("5", "6")


def test_the_bill_is_paired_line_by_line_and_the_lines_add_up(comparison, changed):
    assert {key for key, pair in comparison.lines.items() if pair.changed} == {
        ("usw2", item) for item in ("pool t4-spot", "disks", "update", "NAT traffic")
    }
    for side, plan in (("before", staging()), ("after", changed)):
        lines = [getattr(pair, side) for pair in comparison.lines.values() if getattr(pair, side)]
        assert sum(line.worst.usd for line in lines) == pytest.approx(plan.cost[1].usd)
        assert len(lines) == len(plan.bill), "no two lines of a bill share cluster and item"


def judged_by(plan, **settings):
    """The plan as other settings of its policies judge it."""
    policies = configure(RULES, POLICIES | {name.replace("_", "-"): value for name, value in settings.items()}, AS_OF)
    return replace(plan, policies=policies, verdicts=judge(plan.recording, policies))


def test_a_policy_that_is_switched_off_or_let_out_is_a_setting_that_changes(changed):
    off = Comparison(changed, judged_by(changed, spot_required_nonprod="disabled"))
    (setting,) = off.settings
    assert (setting.kind, setting.name, setting.state) == ("policy", "spot-required-nonprod", "changed")
    assert setting.values == {"enforcementLevel": Pair("mandatory", "disabled")}
    assert off.fixed == (), "a policy that says nothing fixes nothing"
    exception = {"urn": "*aws:eks/nodeGroup:NodeGroup::usw2-*", "reason": "a test of exceptions", "expires": "2027-01-01"}
    let = {"enforcementLevel": "mandatory", "roles": ["burst"], "exceptions": [exception]}
    out = Comparison(changed, judged_by(changed, spot_required_nonprod=let))
    (setting,) = out.settings
    assert list(setting.values) == ["exceptions"]
    assert [verdict.kind for verdict in out.new_verdicts] == ["excepted"] * 3, "one of each node group"
    assert out.fixed == ()


def test_the_numbers_of_a_policy_read_as_they_were_written():
    before = judged_by(staging(), gpu_pool_max_size={"enforcementLevel": "advisory", "maxGpusPerPool": 5})
    after = judged_by(staging(), gpu_pool_max_size={"enforcementLevel": "advisory", "maxGpusPerPool": 12})
    (setting,) = Comparison(before, after).settings
    assert setting.values == {"maxGpusPerPool": Pair("5", "12")}


def test_policies_newly_broken_one_way_are_mended_the_other(comparison, changed):
    broken = comparison.newly_broken
    assert {each.rule for each in broken} == {"spot-required-nonprod"}
    assert [each.urn.rpartition("::")[2] for each in broken] == [f"usw2-t4-spot-us-west-2{zone}-nodes" for zone in "abc"]
    assert comparison.fixed == ()
    back = Comparison(changed, staging())
    assert back.fixed == broken
    assert back.newly_broken == ()


def said(*messages: str, kind: str = "violation") -> Plan:
    """The staging plan with these verdicts alone, of one policy and one resource."""
    return replace(staging(), verdicts=tuple(Verdict("imds-v2-hop-one", "mandatory", kind, "urn", text) for text in messages))


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        (["container a"], ["container a", "container b"], ["container b"]),
        (["container c1"], ["container c2"], ["container c2"]),
        (["worst hour 9.45 USD is above 9.00"], ["worst hour 10 USD is above 9.00"], []),
    ],
)
def test_a_second_violation_of_a_resource_is_new_and_the_same_words_with_other_numbers_are_not(before, after, new):
    assert [verdict.message for verdict in Comparison(said(*before), said(*after)).newly_broken] == new


def test_a_second_violation_that_is_hidden_is_new():
    hidden = said("hides a", kind="excepted"), said("hides a", "hides b", kind="excepted")
    assert [verdict.message for verdict in Comparison(*hidden).new_verdicts] == ["hides b"]


@pytest.mark.parametrize("kind", ["violation", "excepted", "undeterminable"])
def test_what_is_broken_in_other_words_hidden_or_unknown_is_not_mended(kind):
    assert Comparison(said("broken"), said("said otherwise", kind=kind)).fixed == ()


def test_what_was_unknown_before_as_well_hides_no_mending():
    unknown = said("an id is not known", kind="undeterminable").verdicts
    before, after = replace(staging(), verdicts=(*said("broken").verdicts, *unknown)), replace(staging(), verdicts=unknown)
    assert [verdict.message for verdict in Comparison(before, after).fixed] == ["broken"]


def test_resources_that_change_are_named_with_their_inputs(comparison):
    kinds = {kind.type: kind for kind in comparison.resources}
    groups = kinds["aws:eks/nodeGroup:NodeGroup"].changed
    assert "capacityType" in groups["usw2-t4-spot-us-west-2a-nodes"]
    assert "scalingConfig.maxSize" not in groups["usw2-t4-spot-us-west-2a-nodes"], "its share of six nodes is that of five"
    assert {"capacityType", "scalingConfig.maxSize"} <= set(groups["usw2-t4-spot-us-west-2c-nodes"])
    assert "usw2-t4-release-us-west-2a-nodes" not in kinds["aws:eks/nodeGroup:NodeGroup"].changed, "what stays is not listed"


def test_what_comes_and_what_goes(tmp_path):
    more = (
        "      runners:\n",
        "        l4: {instanceTypes: [g6.2xlarge], capacity: on-demand, role: release, nodes: {max: 1}}\n      runners:\n",
    )
    after = plan_of(write(tmp_path, more))
    there, back = Comparison(staging(), after), Comparison(after, staging())
    for side, state in ((there, "added"), (back, "removed")):
        (setting,) = side.settings
        assert (setting.kind, setting.name, setting.state) == ("pool", "usw2/l4", state)
        assert side.lines["usw2", "pool l4"].state == state
        kinds = {kind.type: kind for kind in side.resources}
        assert getattr(kinds["gpu-ci:index:GpuNodeGroup"], state) == ("usw2-l4",)
    unused, disks, *quota = there.new_remarks
    assert disks.startswith("usw2: pool l4: 450 GB of local NVMe on g6.2xlarge are unused")
    assert unused == "usw2: pool l4: no runner set uses it, so it gets no jobs; use it in one, or remove it"
    need = "{} vCPUs of quota L-DB2E81BA; write what the account has"
    assert [need.format(24) in remark for remark in quota] == [True], "the need of the quota grows"
    leaves, quota_left = back.new_remarks
    assert leaves == "while old node groups have nodes, the worst hour is ≤13.89 + ≤1.450 = ≤15.34 USD"
    assert need.format(16) in quota_left
    assert list(there.lines) == [(line.cluster, line.item) for line in after.bill], "in the order of the bill"
    gone = [key for key, pair in back.lines.items() if pair.after is None]
    assert list(back.lines)[-len(gone) :] == gone, "what is gone comes last"


def test_a_plan_that_was_not_built_is_compared_as_far_as_it_goes(tmp_path):
    unbuilt = plan_of(write(tmp_path, TOO_SMALL))
    found = Comparison(staging(), unbuilt)
    assert not found.judged
    assert not found.nothing
    assert found.places["usw2/gpu-t4"].held.error
    for compared in (found, Comparison(unbuilt, staging())):
        told = (compared.resources, compared.newly_broken, compared.fixed, compared.new_remediations)
        assert told == ((), (), (), ()), "not judged is neither broken nor fixed"


def test_a_secret_that_changes_is_named_and_never_told():
    resource = next(each for each in staging().resources if each.type == "kubernetes:core/v1:Secret")
    other = replace(resource)
    inputs = {**resource.inputs, "stringData": Secret({"key": "another"})}
    other.__dict__["inputs"] = inputs
    recording = staging().recording
    assert recording is not None
    swapped = tuple(other if each is resource else each for each in recording.resources)
    after = replace(staging(), recording=replace(recording, resources=swapped))
    (kind,) = Comparison(staging(), after).resources
    assert kind.changed == {resource.name: ("stringData",)}
    assert "another" not in repr(kind)


def test_a_placeholder_for_a_missing_secret_is_no_setting(tmp_path):
    after = plan_of(write(tmp_path, ("config:\n", "config:\n  gpu-ci:githubPrivateKey: {secure: abc}\n")))
    (setting,) = Comparison(staging(), after).settings
    assert setting.values == {"gpu-ci:githubPrivateKey": Pair(None, STAND_IN)}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (Money(1.0), Money(1.5), "+0.500"),
        (Money(12.0, at_most=True), Money(1.0), "-11.00"),
        (Money(1.0), Money(1.0001), "±0"),
        (Money(unknown=1), Money(1.0), "unknown"),
        (Money(1.0), Money(1.0, unknown=1), "unknown"),
    ],
)
def test_a_difference_has_a_sign_and_is_unknown_where_a_side_is(before, after, said):
    assert difference(before, after) == said


def test_every_line_of_every_stack_has_a_key_of_its_own():
    for stack, file in (("prod", None), ("oci-machines", ROOT / "examples" / "Pulumi.oci-machines.yaml")):
        plan = make_plan(stack, ROOT, file)
        assert len(Comparison(plan, plan).lines) == len(plan.bill)
