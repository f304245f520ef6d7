"""The rights of each sweep, word for word, and that each uses all of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.loading.config import load
from fleet.render.sweeps import quarantine, scheduler
from fleet.render.sweeps.api import Api, Collection
from fleet.render.sweeps.reaper import Reaper
from fleet.render.sweeps.sweep import Sweep, sweeps
from tests.builders import cluster, config, runner
from tests.fleet.sweeps import test_quarantine, test_reaper
from tests.fleet.sweeps.rights import collections_of, roles, rows
from tests.fleet.sweeps.server import Server, serving

WORK = {"days": ["mon"], "start": "09:00", "end": "18:00", "runners": 2}
SCHEDULES = {"timeZone": "Etc/UTC", "holidays": [], "windows": {"work": WORK}}
RUNNERS = {"gpu-t4": runner(schedules=SCHEDULES), "other": runner(labels=["other"], containers="job")}
SWEEPS = {
    each.name: each for each in sweeps(load(config(clusters={"usw2": cluster(runners=RUNNERS, health={})})).clusters["usw2"])
}
_ARC = "actions.github.com"
RIGHTS: dict[str, list[tuple[str, str, str, str]]] = {
    "runner-reaper": [
        ("*", "nodes", "list watch", ""),
        ("arc-systems", "pods", "list watch", ""),
        ("runners-gpu-t4", "autoscalingrunnersets", "list watch", _ARC),
        ("runners-gpu-t4", "ephemeralrunners", "list watch delete", _ARC),
        ("runners-gpu-t4", "pods", "list watch", ""),
        ("runners-other", "autoscalingrunnersets", "list watch", _ARC),
        ("runners-other", "ephemeralrunners", "list watch delete", _ARC),
        ("runners-other", "pods", "list watch", ""),
        # A job in a container: what is left of it. No other namespace has Secrets that the reaper can read.
        ("runners-other-jobs", "pods", "list watch delete", ""),
        ("runners-other-jobs", "secrets", "list watch delete", ""),
    ],
    "runner-scheduler": [("runners-gpu-t4", "autoscalingrunnersets", "list watch patch", _ARC)],
    "gpu-quarantine": [("*", "events", "list watch", ""), ("*", "nodes", "list watch patch", "")],
}
"""Namespace (or *), resource (with the name of the object, if only that one), verbs, API group."""


@pytest.mark.parametrize("name", RIGHTS)
def test_a_sweep_has_these_rights_and_no_others(name: str) -> None:
    expected = {(space, what, verb, group) for space, what, verbs, group in RIGHTS[name] for verb in verbs.split()}
    assert rows(SWEEPS[name]) == expected


def test_the_table_has_every_sweep() -> None:
    assert SWEEPS.keys() == RIGHTS.keys()


def act(sweep: Sweep, api: Api, collections: list[Collection]) -> None:
    """One pass over collections that were read."""
    settings = json.loads(json.dumps(sweep.settings))
    if sweep.module == "reaper":
        reaper = Reaper(api, settings)
        for each in reaper.collections():
            each.follow(int)
        reaper.once(test_reaper.NOW)
    elif sweep.module == "scheduler":
        found = {namespace: each.values() for namespace, each in zip(settings["sets"], collections, strict=True)}
        scheduler.once(api, settings["sets"], found, datetime(2026, 11, 23, 12, tzinfo=UTC))
    else:
        nodes, events = collections
        quarantine.once(api, settings, nodes.values(), events.values(), test_quarantine.NOW)


def objects() -> dict[str, list[dict[str, Any]]]:
    """A cluster in which each sweep has something to do in each of its namespaces."""
    made = test_reaper.objects()
    sick = test_quarantine.objects()
    twins = {kind: [json.loads(json.dumps(each)) for each in made[kind]] for kind in ("ephemeralrunners", "pods")}
    for each in (*twins["ephemeralrunners"], *twins["pods"]):
        if each["metadata"]["namespace"] == test_reaper.SPACE:
            each["metadata"] |= {"namespace": "runners-other", "uid": f"other-{each['metadata']['name']}"}
    sets = [{"metadata": {"namespace": f"runners-{name}", "name": name, "uid": name}, "spec": {}} for name in ("gpu-t4", "other")]
    return {
        "ephemeralrunners": [*made["ephemeralrunners"], *twins["ephemeralrunners"]],
        "pods": [*made["pods"], *twins["pods"], test_reaper.job_pod(namespace="runners-other-jobs")],
        "secrets": [test_reaper.of_job("one-secret", namespace="runners-other-jobs")],
        "nodes": [*made["nodes"], *sick["nodes"]],
        "events": sick["events"],
        "autoscalingrunnersets": sets,
    }


@pytest.mark.parametrize("name", RIGHTS)
def test_a_sweep_uses_all_its_rights_and_does_nothing_with_other_objects(name: str) -> None:
    sweep = SWEEPS[name]
    with serving(Server(objects(), roles(sweep))) as server:
        api = Api(server.url)
        collections = collections_of(sweep, api)
        for each in collections:
            each.follow(int)
        act(sweep, api, collections)
    granted = {("" if space == "*" else space, what.partition("/")[0], verb) for space, what, verb, _ in rows(sweep)}
    assert server.used == granted
    assert server.deleted or server.patched
