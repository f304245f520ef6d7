"""The class of each change, and where a plan with a base says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from fleet.loading.home import ROOT
from gpu_ci.offline import effects
from gpu_ci.offline.base import Base, touched
from gpu_ci.offline.changes import CLASSES, Change, counts, counts_line, headline
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.data import to_json
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.report import changed_lines
from policies.rules import RULES
from tests.day import AS_OF
from tests.offline.staging import EVICT, POLICIES, WIDER, base, evicting, few_policies, plan_of, staging, write

PROTECTED = ("health: {}", "protect: true")
CACHE = (
    "      runners:\n",
    "      caches:\n        models: {storage: efs, size: 100Gi, namespaces: [research]}\n      runners:\n",
)
RENAMED = ("    usw2:\n", "    usw3:\n")
Edits = tuple[tuple[str, str], ...]
TAG = ("owner: ci-platform", "owner: ml")


@cache
def before(*edits: tuple[str, str]) -> Plan:
    return plan_of(write(Path(mkdtemp()), *edits))


def changes(old: Edits, new: Edits) -> tuple[Change, ...]:
    return Comparison(before(*old), before(*new)).changes


def loud(old: Edits, new: Edits) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for change in changes(old, new):
        if change.is_loud:
            found.setdefault(change.effect, []).append(change.what)
    return found


def test_a_cluster_that_goes_is_one_change_that_ends_all_its_jobs() -> None:
    (cluster,) = (change for change in changes((), (RENAMED,)) if change.is_loud)
    assert (cluster.effect, cluster.cluster) == ("cluster-replaced", "usw2")
    assert cluster.what == "usw2: removal of cluster usw2 deletes cluster usw2 with everything in it: all its running jobs end"
    assert (cluster.pools, cluster.sets) == (("t4-spot", "t4-release"), ("gpu-t4", "gpu-t4-release"))


WAY = "set gpu-ci:clusters.usw2.protect to false and run `pulumi up` before this change (docs/operate.md#protection)"


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ((PROTECTED,), (PROTECTED, RENAMED), ["usw2-control-plane-logs, usw2-control-plane"]),
        # The engine reads protection from the state.
        ((PROTECTED,), (RENAMED,), ["usw2-control-plane-logs, usw2-control-plane"]),
        ((PROTECTED, CACHE), (PROTECTED,), ["usw2-caches.models-files, usw2-models.research"]),
        # Not the edit of `protect` deletes them.
        ((PROTECTED, CACHE), (), ["usw2-caches.models-files, usw2-models.research"]),
    ],
    ids=["cluster", "cluster without protection", "cache", "cache and protection"],
)
def test_what_is_protected_cannot_go(old: Edits, new: Edits, lines: list[str]) -> None:
    removed = "cache models" if CACHE in old else "cluster usw2"
    said = [f"usw2: removal of {removed} deletes {names} with `protect`, so Pulumi refuses; {WAY}" for names in lines]
    assert loud(old, new)["refused-by-protect"] == said
    after = touched(before(*new), before(*old), Path("nowhere"))
    assert not after.passes()
    assert [str(remark) for remark in after.written] == said
    assert set(said) <= set(after.remarks), "terminal, comment, annotations and JSON have it"
    assert before(*new).passes(), "without a base nothing changes"


EMPTY = {
    "namespace-deleted": ["usw2: removal of cache models deletes namespace research with everything there: running Jobs end"]
}


def test_data_that_a_removed_cache_held_is_lost_unless_it_is_retained() -> None:
    lost = (CACHE[0], CACHE[1].replace("size:", "retain: false, size:"))
    assert loud((lost,), ()) == {
        "data-lost": ["usw2: removal of cache models deletes usw2-caches.models-files, usw2-models.research: their data is lost"],
        **EMPTY,
    }
    assert loud((CACHE,), ()) == EMPTY


def test_a_namespace_stays_while_another_entry_names_it() -> None:
    other = (CACHE[0], CACHE[1].replace("models:", "weights:"))
    assert loud((CACHE,), (other,)) == {}


def test_a_cluster_in_another_region_is_another_cluster() -> None:
    (cluster,) = (change for change in changes((), (("us-west-2", "us-east-2"),)) if change.is_loud)
    assert cluster.what == "usw2: edit of region, zones replaces cluster usw2 with everything in it: all its running jobs end"


def test_an_edit_is_named_for_what_it_removes_and_not_for_a_longer_name() -> None:
    found = changes((), (("gpu, cuda]", "gpu, cuda, t4]"), ("gpu-t4-release:", "gpu-t4-deploy:")))
    gone = [change.edit.name for change in found if any("runners-gpu-t4-release" in urn for urn in change.urns)]
    assert gone == ["usw2/gpu-t4-release"]


def of_example(stack: str, old: str, new: str) -> tuple[Change, ...]:
    """The changes of an edit of an example."""
    text = (ROOT / "examples" / f"Pulumi.{stack}.yaml").read_text()
    file = Path(mkdtemp()) / f"Pulumi.{stack}.yaml"
    plans = []
    with few_policies():
        for version in (text, text.replace(old, new)):
            file.write_text(version)
            plans.append(make_plan(stack, ROOT, file))
    return Comparison(plans[0], plans[1]).changes


def test_a_runner_set_of_argo_cd_ends_its_jobs_too() -> None:
    (change,) = (each for each in of_example("gitops", "gpu-t4-quarter:", "gpu-t4-part:") if each.is_loud)
    assert change.what == "use1: removal of runner set gpu-t4-quarter: its running jobs end"
    assert (change.pools, change.sets) == (("t4-sliced",), ("gpu-t4-quarter",))


def test_a_removed_class_of_machines_waits_for_its_jobs() -> None:
    found = of_example("oci-machines", "a10-standing:", "a10-waiting:")
    (change,) = (each for each in found if each.effect == "set-leaves")
    assert change.what.startswith("iad: removal of runner set a10-standing once idle: its running jobs go on")
    assert not any(each.ends_jobs for each in found)


def test_an_edit_without_a_resource_has_no_effect_and_still_a_class() -> None:
    policies = configure(RULES, POLICIES | {"imds-v2-hop-one": "advisory"}, AS_OF)
    (change,) = Comparison(staging(), replace(staging(), policies=policies)).changes
    assert (change.effect, change.what) == ("no-effect", "edit of imds-v2-hop-one.enforcementLevel: no effect")
    assert counts_line([change]) == "no effect: 1 edit"
    assert changes((), (("appId", "# A word.\n    appId"),)) == ()


# -- the policy --------------------------------------------------------------------------------------------------------

RULE = "no-silent-eviction"
TYPES = ("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.2xlarge]")
APPROVED = {"urn": "*aws:eks/nodeGroup:NodeGroup::usw2-t4-spot-*", "reason": "no jobs run on Sunday", "expires": "2027-01-01"}


def judged(plan: Plan, *exceptions: Mapping[str, str]) -> Plan:
    """The plan as the policy alone judges it."""
    settings = {"all": "disabled", RULE: {"enforcementLevel": "mandatory", "exceptions": [*exceptions]}}
    policies = configure(RULES, settings, AS_OF)
    assert plan.recording is not None
    return replace(plan, policies=policies, verdicts=judge(plan.recording, policies))


def with_base(plan: Plan, *exceptions: Mapping[str, str]) -> Plan:
    return touched(judged(plan, *exceptions), judged(evicting()), Path("nowhere"))


def test_without_a_base_the_policy_is_unsure_in_one_line_and_fails_nothing() -> None:
    plan = judged(before(TYPES), APPROVED)
    assert [(verdict.kind, verdict.urn) for verdict in plan.verdicts] == [("undeterminable", "")]
    assert plan.passes(strict=True)
    assert not any("hides nothing" in remark for remark in plan.remarks), "nothing shows what the exception hides"


def test_with_a_base_each_change_that_ends_jobs_breaks_the_policy() -> None:
    broken = with_base(before(EVICT, TYPES))
    assert not broken.passes()
    groups = {verdict.urn.rpartition("::")[2] for verdict in broken.verdicts}
    assert groups == {f"usw2-t4-spot-us-west-2{zone}-nodes" for zone in "abc"}
    (message,) = {verdict.message for verdict in broken.verdicts}
    assert message == (
        "usw2: edit of t4-spot.instanceTypes replaces 3 node groups (instanceTypes): running jobs of gpu-t4 on t4-spot end; if "
        "you want that, approve it with a reason in policies/stacks.toml: staging.no-silent-eviction.exceptions"
    )
    assert with_base(before(EVICT, TAG)).verdicts == (), "no job ends"
    assert with_base(before(TYPES)).verdicts == (), "jobs go on"


def test_an_exception_with_a_reason_approves_a_change_and_is_shown() -> None:
    approved = with_base(before(EVICT, TYPES), APPROVED)
    assert approved.passes()
    assert {verdict.kind for verdict in approved.verdicts} == {"excepted"}
    assert "no jobs run on Sunday" in markdown(approved, Base("", judged(evicting())))
    idle = with_base(before(EVICT, TAG), APPROVED)
    assert f"policy {RULE}: exceptions[0] ({APPROVED['urn']}) hides nothing; remove it" in idle.remarks


def test_data_that_is_lost_breaks_the_policy_too() -> None:
    lost = (CACHE[0], CACHE[1].replace("size:", "retain: false, size:"))
    plan = touched(judged(staging()), judged(before(lost)), Path("nowhere"))
    assert [verdict.urn.rpartition("::")[2] for verdict in plan.blocked()] == [
        "usw2-caches.models-files",
        "usw2-models.research",
        "usw2-namespaces.research",
    ]


# -- where it is said --------------------------------------------------------------------------------------------------


def test_the_first_part_of_a_comment_says_also_that_no_job_ends() -> None:
    tagged = before(TAG, WIDER)
    text = markdown(tagged, base())
    _, first, second, *_ = text.split("\n\n")
    assert first == "### No running job ends"
    assert second == "Resources by what happens to them: updated in place: 10."
    assert text.count("running job ends") == 1
    assert next(changed_lines(tagged, base())) == "no running job ends: updated in place: 10"


def test_the_title_says_that_an_update_fails() -> None:
    renamed = Comparison(before(PROTECTED), before(PROTECTED, RENAMED)).changes
    assert headline(renamed) == "`pulumi up` fails"


def test_the_json_has_every_change_by_stable_keys() -> None:
    wider = before(WIDER)
    document = json.loads(to_json(wider, base()))["changes"]
    assert document["classes"] == {"updated": 1}
    (urn,) = Comparison(staging(), wider).changes[0].urns
    assert document["effects"] == [
        {
            "class": "updated",
            "cluster": "usw2",
            "kind": "pool",
            "name": "usw2/t4-spot",
            "state": "changed",
            "settings": ["nodes.max"],
            "what": "usw2: edit of t4-spot.nodes.max: 1 resource updated in place",
            "pools": [],
            "sets": [],
            "endsJobs": False,
            "resources": [urn],
        }
    ]


def test_classes_are_counted_from_the_most_harmful_on() -> None:
    found = changes((), (("us-west-2b, us-west-2c]", "us-west-2b]"), TAG))
    assert list(counts(found)) == [effect for effect in CLASSES if effect in counts(found)]
    assert list(counts(found))[:2] == ["refused-by-cloud", "pool-leaves"]


def test_a_base_without_a_plan_has_no_classes() -> None:
    assert "job ends" not in markdown(staging(), Base("", None, "the base has no file"))


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [("1.34", "1.35", False), ("1.35", "1.35", False), ("1.34", "1.36", True), ("v1.35.1", "v1.34.9", True), ("1.36", "", False)],
)
def test_a_control_plane_takes_one_minor_up_alone(old: str, new: str, is_refused: bool) -> None:
    assert effects._is_no_step(old, new) is is_refused


POOL_RENAMED = (
    ("        t4-spot:\n", "        t4-cheap:\n          was: t4-spot\n"),
    ("pool: t4-spot\n", "pool: t4-cheap\n"),
)
CLUSTER_RENAMED = ("    usw2:\n", "    oregon:\n      was: usw2\n")


def test_a_rename_with_was_is_a_rename_that_changes_nothing() -> None:
    compared = Comparison(before(), before(*POOL_RENAMED, CLUSTER_RENAMED))
    assert [change.what for change in compared.changes] == [
        "usw2: rename of cluster usw2 to oregon: no effect",
        "usw2: rename of pool t4-spot to t4-cheap: no effect",
    ]
    assert not compared.resources
    (remark,) = (remark for remark in compared.new_remarks if remark.startswith("renamed: "))
    assert "oregon was usw2, oregon.pools.t4-cheap was t4-spot; clouds, Kubernetes," in remark
    assert "pool usw2/t4-spot: name: not set → t4-cheap" in [*changed_lines(before(*POOL_RENAMED), base())]


def test_a_rename_and_another_edit_are_told_together() -> None:
    (change,) = changes((), (*POOL_RENAMED, ("max: 5}", "max: 6}")))
    assert change.effect == "updated"
    assert "rename of pool t4-spot to t4-cheap and edit of nodes.max" in change.what


@pytest.mark.parametrize(
    "new",
    [
        tuple((old, text.replace("          was: t4-spot\n", "")) for old, text in POOL_RENAMED),
        # The middle one of three names is not the first.
        tuple((old, text.replace("was: t4-spot", "was: t4-other").replace("t4-cheap", "t4-third")) for old, text in POOL_RENAMED),
    ],
    ids=["without was", "another first name"],
)
@pytest.mark.parametrize("old", [(), POOL_RENAMED], ids=["first", "renamed before"])
def test_a_lost_first_name_deletes_the_pool_and_the_plan_says_what_to_write(old: Edits, new: Edits) -> None:
    compared = Comparison(before(*old), before(*new))
    assert "pool-leaves" in counts(compared.changes)
    assert [note.partition(", which is gone")[2] for note in compared.notes if "which is gone" in note] == [
        ": if it is the same pool, write was: t4-spot (docs/renaming.md)"
    ]
