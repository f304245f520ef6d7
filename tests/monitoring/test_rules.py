"""Alerts and recording rules: what they read, when they exist, where they are explained. promtool runs their cases."""

from __future__ import annotations

import calendar
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from fleet.charts.dcgm_exporter import COUNTERS
from fleet.facts.tables import rows
from fleet.facts.xid import APPLICATION, FATAL, UNCLEAR, XIDS
from fleet.loading.config import fleet_of, load
from fleet.prove.ends import ends
from fleet.render.monitoring import rules as rules_folder
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.settings.alerts import Alerts
from tests import builders
from tests.components.recorded import stack_config
from tests.fleet.conformance import STACKS
from tests.monitoring import __main__ as program
from tests.monitoring.cases import SUITES
from tests.monitoring.fleet import CLUSTER, MACHINES, groups, machines, monitored
from tests.monitoring.metrics import METRICS, SERIES
from tests.monitoring.mutants import EQUIVALENT, mutants, survivors
from tests.monitoring.promtool import GET, document, failed
from tests.monitoring.test_dashboards import used

MONITORED = {"prometheus": "install"}
ADDED = {"scale_set", "kubernetes_node", "exported_namespace", "exported_pod"}
"""Labels that the monitors add to what an exporter sets."""
MUTANTS = list(mutants(groups()))
SEVERITIES = {
    "critical": """
        GpuCiJobsNotStarting GpuCiListenerGone GpuCiListenerRestarts GpuCiRunnerSetOutdated GpuCiVersionEndsNow
        GpuCiGpuMissing GpuCiNodeRejectsPods
        GpuCiEccUncorrectable GpuCiRowRemapFailed GpuCiXidFatal
    """,
    "warning": """
        GpuCiQueueSlow GpuCiRunnersAtMaximum GpuCiRunnersFail GpuCiRunnerTooOld
        GpuCiNodeQuarantined GpuCiPodsPending GpuCiJobPodSlow GpuCiGpuIdle GpuCiGpuMemoryHeld
        GpuCiRowsRemapped GpuCiGpuHot GpuCiGpuThrottled GpuCiXidUnclear GpuCiXidUnknown
        GpuCiReservationEnds GpuCiSpendingAbovePlan GpuCiMachinesSilent GpuCiVersionEndsSoon
    """,
    "info": "GpuCiSpotNodeLost GpuCiXidApplication",
}
"""By severity: critical calls at night, warning in working hours, info never."""
LASTING = {"GpuCiReservationEnds"}
"""Alerts that end only when the settings change."""


@pytest.fixture(scope="module")
def promtool() -> str:
    return shutil.which("promtool") or pytest.skip(GET)


def named(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rules of each alert."""
    alerts: dict[str, list[dict[str, Any]]] = {}
    for rule in (rule for group in found for rule in group["rules"] if "alert" in rule):
        alerts.setdefault(rule["alert"], []).append(rule)
    return alerts


def selectors(query: str) -> Iterator[promql_parser.VectorSelector]:
    """Every selector of a query."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        selector = getattr(node, "vector_selector", node)
        if isinstance(selector, promql_parser.VectorSelector):
            found.append(selector)

    promql_parser.walk(promql_parser.parse(query), visit)
    yield from found


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: "-".join(suite.topics) or "seed")
def test_the_cases_pass(promtool, suite, tmp_path):
    own = suite.groups(groups())
    assert failed(promtool, tmp_path, own, document(own, suite.cases, suite.every)) == ""


def test_a_changed_rule_fails_a_case(promtool):
    every = groups()
    alive = {mutant.key for mutant in survivors(promtool, SUITES, every, list(mutants(every)))}
    assert alive ^ EQUIVALENT.keys() == set(), "no case fails, or a mutant of the table fails one"


def test_every_equivalent_mutant_exists_and_says_why():
    assert EQUIVALENT.keys() - {mutant.key for mutant in MUTANTS} == set()
    assert all(EQUIVALENT.values())


def test_a_wrong_case_fails(promtool, tmp_path):
    [suite] = [suite for suite in SUITES if suite.topics == ("spending",)]
    own = suite.groups(groups())
    assert "GpuCiReservationEnds" in failed(promtool, tmp_path, [], document(own, suite.cases))


def test_every_alert_fires_and_resolves_in_a_case():
    checked: dict[str, list[dict[int, Any]]] = {}
    for case in (case for suite in SUITES for case in suite.cases):
        for name, by_minute in case.firing.items():
            checked.setdefault(name, []).append(dict(by_minute))
    assert checked.keys() == named(groups()).keys()
    assert all(any(any(alerts for alerts in look.values()) for look in looks) for looks in checked.values())
    resolved = {
        name
        for name, looks in checked.items()
        for look in looks
        for early, alerts in look.items()
        for late, later in look.items()
        if early < late and any(labels not in later for labels in alerts)
    }
    assert checked.keys() - resolved == LASTING


def test_without_promtool_the_program_says_how_to_get_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.main() == 2
    assert capsys.readouterr().err == f"error: {GET}\n"


def of_stack(path: Path) -> list[list[dict[str, Any]]]:
    """The groups of each cluster of a stack file, with monitoring added."""
    config = builders.read_stack(path)
    clusters = {name: {"monitoring": {"prometheus": "existing"}} | settings for name, settings in config["clusters"].items()}
    fleet = load(config | {"clusters": clusters})
    return [[*cost_groups(fleet, name), *rule_groups(fleet, name)] for name in clusters]


def test_every_query_reads_metrics_of_a_listed_exporter_or_of_another_rule():
    require_known([*cost_groups(monitored(), CLUSTER), *groups()])


@pytest.mark.parametrize("stack", STACKS)
def test_the_rules_of_every_stack_read_only_what_is_known(stack):
    for found in of_stack(STACKS[stack]):
        assert named(found)
        require_known(found)


def require_known(found: list[dict[str, Any]]) -> None:
    """Each selector has a known name, and matches labels that its series has."""
    recorded: set[str] = set()
    for rule in (rule for group in found for rule in group["rules"]):
        for selector in selectors(rule["expr"]):
            assert selector.name in SERIES or selector.name in recorded, (rule, selector.name)
            if selector.name in SERIES:
                labels = {matcher.name for matcher in selector.matchers.matchers if not matcher.name.startswith("label_")}
                assert labels <= ADDED | set(SERIES[selector.name].labels.split()), (rule, labels)
        recorded |= {rule["record"]} if "record" in rule else set()


def test_a_histogram_has_three_series_and_a_gauge_one():
    assert SERIES["gha_job_startup_duration_seconds_bucket"] is METRICS["gha_job_startup_duration_seconds"]
    assert "gha_job_startup_duration_seconds" not in SERIES
    assert list(METRICS["gha_running_jobs"].series) == ["gha_running_jobs"]


@pytest.mark.parametrize("table", ["metrics.csv", "xid.csv"])
def test_every_row_has_a_source_and_a_date_and_stands_once(table):
    found = rows(table)
    key = next(column for column in ("metric", "code") if column in found[0])
    assert len({row[key] for row in found}) == len(found)
    assert all(row["source"] and re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"]) for row in found)


def test_the_categories_of_xid_errors_are_those_of_the_alerts():
    assert {xid.category for xid in XIDS.values()} == {*FATAL, *APPLICATION, *UNCLEAR, "information"}
    assert XIDS["79"].action == "RESTART_BM"
    assert XIDS["79"].category == "node-reboot"


def test_the_series_of_ends_are_the_last_good_days_of_the_model():
    stack = fleet_of(stack_config("monitoring"))
    for name in stack.clusters:
        [group] = [group for group in rule_groups(stack, name) if group["name"] == "gpu-ci-ends"]
        recorded = {
            (rule["labels"]["what"], rule["labels"]["known"]): rule["expr"] for rule in group["rules"] if "record" in rule
        }
        expected = {
            (end.use.life.what, "yes" if end.use.life.last else "no"): f"vector({calendar.timegm(end.last.timetuple())})"
            for end in ends(stack, date.max)
            if name in end.clusters and end.last is not None
        }
        assert recorded == expected
        assert len(recorded) >= 2


def test_every_alert_has_the_severity_of_the_table():
    every = [*cost_groups(monitored(), CLUSTER), *groups()]
    assert {(rule["alert"], rule["labels"]["severity"]) for rules in named(every).values() for rule in rules} == {
        (name, severity) for severity, names in SEVERITIES.items() for name in names.split()
    }


def test_every_row_of_words_is_of_an_alert():
    rows = tomllib.loads((Path(rules_folder.__file__).parent / "alerts.toml").read_text(encoding="utf-8"))
    assert rows.keys() == {name for names in SEVERITIES.values() for name in names.split()}


def test_every_alert_says_what_happened():
    for name, rules in named(groups()).items():
        for rule in rules:
            assert "cluster" not in rule["labels"], "it would replace the external label of Prometheus"
            assert rule["annotations"]["runbook_url"] == f"docs/troubleshooting.md#{name.lower()}"
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"]


def test_every_alert_has_an_entry_in_the_docs_and_every_entry_an_alert():
    page = (builders.ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", page.partition("\n## Alerts\n")[2], flags=re.MULTILINE)[0]
    entries = re.findall(r"^### (\w+)$", section, flags=re.MULTILINE)
    assert entries == list(dict.fromkeys(entries))
    assert set(entries) == named(groups()).keys()


def test_no_two_rules_have_the_same_name_and_labels():
    found = [
        (rule.get("alert") or rule["record"], *sorted(rule.get("labels", {}).items()))
        for group in groups()
        for rule in group["rules"]
    ]
    assert len(found) == len(set(found))


def test_a_cluster_without_monitoring_has_no_rules():
    assert rule_groups(load(builders.config()), CLUSTER) == []


def test_rules_exist_only_for_what_the_cluster_has():
    plain = monitored(
        monitoring=MONITORED, pools={"t4": builders.pool()}, runners={"gpu-t4": builders.runner()}, workloads={}, caches={}
    )
    missing = named(groups()).keys() - named(rule_groups(plain, CLUSTER)).keys()
    assert missing == {"GpuCiSpotNodeLost", "GpuCiReservationEnds", "GpuCiMachinesSilent", "GpuCiJobPodSlow"}
    queries = [rule["expr"] for group in rule_groups(plain, CLUSTER) for rule in group["rules"]]
    assert not any("!~" in query for query in queries), "nothing keeps a GPU idle on purpose"
    queries += [rule["expr"] for group in cost_groups(plain, CLUSTER) for rule in group["rules"]]
    assert not any("-jobs" in query or "-step-" in query for query in queries), "no class has jobs in containers"
    without_pools = [group["name"] for group in rule_groups(machines(), MACHINES)]
    assert without_pools == [
        f"gpu-ci-{topic}" for topic in ("queue", "sets", "faults", "xid", "machines", "spending", "starts", "ends")
    ]
    of_cncf = {key: value for key, value in builders.vm_per_job(launcher="cncf").items() if key != "image"}
    of_cncf["places"] = [builders.place() | {"subnet": "ocid1.subnet.oc1.sjc.examplepublic"}]
    silent = [group["name"] for group in rule_groups(machines(runners={"theirs": of_cncf}), MACHINES)]
    of_any = ["gpu-ci-queue", "gpu-ci-sets", "gpu-ci-spending", "gpu-ci-starts", "gpu-ci-ends"]
    assert silent == of_any, "no GPU of the cluster has metrics"
    team = {"queues": {"teams": {"vision": {"namespaces": ["vision"], "quotas": [{"pool": "t4", "nominal": 1}]}}}}
    without_runners = monitored(
        monitoring=MONITORED, pools={"t4": builders.pool(capacity="spot")}, runners={}, workloads={}, **team
    )
    assert not {"gpu-ci-queue", "gpu-ci-sets", "gpu-ci-starts"} & {
        group["name"] for group in rule_groups(without_runners, CLUSTER)
    }
    assert "GpuCiSpotNodeLost" not in named(rule_groups(without_runners, CLUSTER))


def test_a_set_with_a_minimum_has_no_time_to_its_job_because_its_runners_wait_for_one():
    waiting = monitored(monitoring=MONITORED, runners={"gpu-keep": builders.runner(scale={"min": 1, "max": 2})})
    rules = [
        rule
        for group in rule_groups(waiting, CLUSTER)
        for rule in group["rules"]
        if rule.get("record", "").startswith("gpu_ci:start_phase_seconds")
    ]
    assert {rule["labels"]["phase"] for rule in rules} == {"pod", "schedule", "capacity", "boot", "plugin", "pull"}


def test_the_loss_of_a_spot_node_counts_jobs_in_containers():
    [lost] = named(groups())["GpuCiSpotNodeLost"]
    assert 'namespace=~"runners-gpu-t4|runners-gpu-p4|runners-gpu-p4-jobs|runners-gpu-keep"' in lost["expr"]


def test_a_pool_of_described_nodes_is_found_by_its_selector():
    lab = load(builders.config(clusters={"lab": builders.existing_context() | {"monitoring": {"prometheus": "existing"}}}))
    [pool] = [rule for group in rule_groups(lab, "lab") for rule in group["rules"] if rule.get("record") == "gpu_ci:node_pool"]
    assert 'kube_node_labels{label_nvidia_com_gpu_product="Tesla-T4"}' in pool["expr"]
    assert pool["labels"] == {"pool": "t4"}


def test_promtool_finds_nothing_to_complain_about(promtool, tmp_path: Path):
    (tmp_path / "rules.json").write_text(json.dumps({"groups": groups()}))
    command = [promtool, "check", "rules", "--lint=all", "--lint-fatal", "rules.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_exporter_collects_every_field_that_rules_and_dashboards_read():
    fields = {line.split(",")[0].strip() for line in COUNTERS.splitlines()}
    read = {each.name for group in groups() for rule in group["rules"] for each in selectors(rule["expr"])} | used()
    assert {name for name in read if name and name.startswith("DCGM_")} <= fields


def test_the_page_lists_every_threshold():
    page = (builders.ROOT / "docs" / "monitoring.md").read_text()
    assert {field.alias for field in Alerts.model_fields.values()} - set(re.findall(r"`(\w+)`", page)) == set()
