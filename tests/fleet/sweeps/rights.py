"""The collections of each sweep, and its rights as rows."""

from __future__ import annotations

import json
from typing import Any

from fleet.render.sweeps import quarantine, scheduler
from fleet.render.sweeps.api import Api, Collection
from fleet.render.sweeps.reaper import Reaper
from fleet.render.sweeps.sweep import Sweep, sweep_objects

NOWHERE = Api("http://127.0.0.1:1")


def collections_of(sweep: Sweep, api: Api = NOWHERE) -> list[Collection]:
    """The collections that a sweep watches."""
    settings = json.loads(json.dumps(sweep.settings))
    if sweep.module == "reaper":
        return list(Reaper(api, settings).collections())
    if sweep.module == "scheduler":
        return [scheduler.own(api, namespace) for namespace in settings["sets"]]
    return list(quarantine.watched(api, settings))


def roles(sweep: Sweep) -> list[dict[str, Any]]:
    """The manifests that give a sweep its rights."""
    return [each for each in sweep_objects(sweep, {}) if each["kind"] in ("ClusterRole", "Role")]


def rows(sweep: Sweep) -> set[tuple[str, str, str, str]]:
    """Its rights: namespace (or *), resource (with the name of the object, if only that one), verb, API group."""
    found = set()
    for role in roles(sweep):
        for rule in role["rules"]:
            assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        what = f"{resource}/{name}" if name else resource
                        found |= {(role["metadata"].get("namespace", "*"), what, verb, group) for verb in rule["verbs"]}
    return found
