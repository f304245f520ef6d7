"""Kueue's own configuration, which its chart takes as one text: what it manages, and that it leaves everything else alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.charts.arc import NAMESPACE as CONTROLLER_NAMESPACE
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.kueue import NAMESPACE as KUEUE_NAMESPACE, kueue
from fleet.facts.scheduling import system_labels
from fleet.settings.namespaces import runner_namespace
from tests import yaml12
from tests.builders import reference
from tests.fleet.queue_configs import prod

TEXT = "controllerManagerConfigYaml"


def config(*namespaces: str, fair_sharing: bool = False) -> dict[str, Any]:
    """The configuration as the chart reads it: by YAML."""
    values = kueue(namespaces or ("research",), fair_sharing=fair_sharing).values
    found: dict[str, Any] = yaml12.read(values["managerConfig"][TEXT])
    return found


def matches(selector: dict[str, Any], namespace: str) -> bool:
    """Whether a selector on namespaces' names holds for one (Kubernetes, LabelSelector)."""
    (expression,) = selector["matchExpressions"]
    assert expression["key"] == "kubernetes.io/metadata.name"
    return (namespace in expression["values"]) is {"In": True, "NotIn": False}[expression["operator"]]


def test_kueue_manages_the_jobs_of_teams_and_nothing_of_anybody_elses() -> None:
    selector = config("research", "vision")["managedJobsNamespaceSelector"]
    assert matches(selector, "research")
    assert matches(selector, "vision")
    for namespace in (KUBE_SYSTEM, KUEUE_NAMESPACE, CONTROLLER_NAMESPACE, "default", runner_namespace("gpu-t4")):
        assert not matches(selector, namespace), f"its webhooks would come before every Job of {namespace}"


def test_no_runner_of_production_is_held_back_or_ended_by_a_queue() -> None:
    """Kueue ends what it manages: Jobs of the namespaces that the selector names, since 0.19 whatever their labels."""
    cluster = prod().clusters["use1"]
    assert cluster.queues is not None
    found = config(*cluster.queues.namespaces)
    assert cluster.runners
    for name in cluster.runners:
        assert not matches(found["managedJobsNamespaceSelector"], runner_namespace(name))
    assert found["integrations"]["frameworks"] == ["batch/job"], "runners are pods of ARC's, which are none"


def test_jobs_are_all_that_is_managed_and_none_is_held_for_lack_of_a_label() -> None:
    found = config()
    assert found["integrations"] == {"frameworks": ["batch/job"]}
    assert found["manageJobsWithoutQueueName"] is False, "a LocalQueue called default takes those"


def test_a_job_may_ask_for_disk_which_no_queue_has_a_quota_of() -> None:
    """Kueue lets no Job in that asks for a resource which its queue does not cover, unless a setting leaves it out."""
    assert config()["resources"] == {"excludeResourcePrefixes": ["ephemeral-storage"]}


def test_a_node_may_take_its_time_and_a_job_whose_pods_never_run_gives_its_quota_back() -> None:
    waits = config()["waitForPodsReady"]
    assert waits == {"timeout": "30m0s", "blockAdmission": False}
    autoscaler_gives_up = 20
    assert int(waits["timeout"].partition("m")[0]) > autoscaler_gives_up


@pytest.mark.parametrize("fair", [True, False])
def test_fair_sharing_is_on_where_the_settings_say_so(fair: bool) -> None:
    found = config(fair_sharing=fair).get("fairSharing")
    # An empty list of strategies is refused, and so are others than these (pkg/config/validation.go).
    assert found == ({"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]} if fair else None)


def test_the_order_in_which_settings_name_teams_starts_no_new_kueue() -> None:
    assert kueue(["vision", "research"]) == kueue(["research", "vision"])


def test_the_image_is_that_of_the_published_chart() -> None:
    assert "image" not in kueue(["research"]).values["controllerManager"]["manager"], "the repository's values name a staging one"


def test_kueue_runs_on_the_system_pool_and_as_the_restricted_standard_demands() -> None:
    chart = kueue(["research"])
    manager = chart.values["controllerManager"]
    assert manager["nodeSelector"].items() <= system_labels("usw2").items()
    assert chart.pod_security == "restricted"
    assert manager["manager"]["podSecurityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert manager["manager"]["containerSecurityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


# -- against the chart's own -------------------------------------------------------------------------------------------


def keys(value: object) -> Iterator[str]:
    """Names of fields at any depth; those of a selector are Kubernetes' own."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key != "managedJobsNamespaceSelector":
                yield from keys(inner)


def known(text: str) -> set[str]:
    """Names of fields in a configuration and in its comments."""
    return set(re.findall(r"^[\s#-]*([a-zA-Z]+):", text, re.MULTILINE))


@pytest.mark.reference
def test_every_field_is_one_that_the_charts_own_configuration_has() -> None:
    published = yaml12.read(reference("kueue/0.19.2/values.yaml").read_text(encoding="utf-8"))
    own = published["managerConfig"][TEXT]
    # Comments of a block text are its own lines: they say what else there is.
    fields = known(own)
    assert [key for key in keys(config(fair_sharing=True)) if key not in fields] == []
    read = yaml12.read(own)
    assert {key: config()[key] for key in ("apiVersion", "kind")} == {key: read[key] for key in ("apiVersion", "kind")}
    assert set(config()["integrations"]["frameworks"]) < set(read["integrations"]["frameworks"])


@pytest.mark.reference
def test_the_search_for_unknown_fields_finds_one_of_an_older_version() -> None:
    published = yaml12.read(reference("kueue/0.19.2/values.yaml").read_text(encoding="utf-8"))
    assert {"podOptions", "enabled"} & known(published["managerConfig"][TEXT]) == set()


def test_the_configuration_is_json_and_so_yaml() -> None:
    text = kueue(["research"]).values["managerConfig"][TEXT]
    assert json.loads(text) == config()
