"""The folder of recordings gives what was recorded, and forgets it when a source changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.loading.config import fleet_of
from gpu_ci.offline import wire
from gpu_ci.offline.judge import Remedies, configure
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests import plans
from tests.builders import ROOT
from tests.components.recorded import stack_config
from tests.day import AS_OF


def test_a_recording_that_is_read_is_the_one_that_was_written(tmp_path: Path) -> None:
    config = stack_config("staging")
    made, _ = plans.alone(ROOT, config, fleet_of(config))
    assert made is not None
    assert plans.shared("staging", lambda: made, tmp_path) is made
    found: Recording = plans.shared("staging", pytest.fail, tmp_path)
    assert [plans._fields(each) | {"provider_resource": None} for each in found.resources] == [
        plans._fields(each) | {"provider_resource": None} for each in made.resources
    ]
    assert [each.inputs for each in found.resources] == [each.inputs for each in made.resources]
    assert [each.provider_resource and each.provider_resource.urn for each in found.resources] == [
        each.provider_resource and each.provider_resource.urn for each in made.resources
    ]
    assert (found.outputs, found.messages, found.preview) == (made.outputs, made.messages, made.preview)
    assert any(each is wire.UNKNOWN for each in found.outputs["clusters"]["usw2"].values())
    assert found.outputs["kubeconfigs"]["usw2"].reveal() is wire.UNKNOWN, "a secret keeps what it hides"
    with pytest.raises(TypeError):
        found.outputs["clusters"] = {}


def test_other_settings_and_other_sources_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, prod = stack_config("staging"), stack_config("prod")
    assert len({plans.name_of(staging), plans.name_of(prod), plans.name_of(staging, True)}) == 3
    monkeypatch.setattr(plans, "ROOT", tmp_path)
    names = set()
    for path, text in (
        ("fleet/a.py", "a"),
        ("fleet/a.py", "b"),
        ("fleet/b.csv", "b"),
        ("requirements.txt", "c"),
        ("docs/a.md", "d"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
        names.add(plans.sources.__wrapped__())
    assert len(names) == 4, "a page is not a source"


def test_only_policies_that_change_a_resource_have_a_recording_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan shows what they changed."""
    config = stack_config("existing-eks")
    plans.declared(ROOT, config, fleet_of(config))
    recorded = []

    def alone(*arguments: Any, **options: Any) -> plans.Declared:
        recorded.append(arguments)
        return record(*arguments, **options)

    record = plans.alone
    monkeypatch.setattr(plans, "alone", alone)
    monkeypatch.setattr(plans, "_kept", {})
    monkeypatch.setattr(plans, "shared", lambda _, make: make())
    counts, tags = [], []
    for needed in ("owner", "owner", "team", "team"):
        values = {"tags": [needed], "values": {"team": "ml"}}
        settings = {"all": "disabled", "required-tags": {"enforcementLevel": "remediate", **values}}
        remedies = Remedies(configure(RULES, settings, AS_OF))
        recording, _ = plans.declared(ROOT, config, fleet_of(config), remedies)
        assert recording is not None
        counts.append((len(recorded), bool(remedies.done)))
        tags.append({"team" in resource.inputs["tags"] for resource in recording.resources if "tags" in resource.inputs})
    assert counts == [(1, False), (1, False), (2, True), (2, True)]
    assert [True in found for found in tags] == [False, False, True, True]


def test_what_is_not_written_whole_is_never_read(tmp_path: Path) -> None:
    """A process that ends while it writes leaves no file of that name."""
    with pytest.raises(AttributeError):
        plans.shared("name", lambda: lambda: None, tmp_path)
    assert plans.shared("name", lambda: 1, tmp_path) == 1
    assert plans.shared("name", pytest.fail, tmp_path) == 1
