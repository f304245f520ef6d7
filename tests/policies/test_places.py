"""Messages name the file and the key that their reader has to change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from policies.rules import RULES
from policies.rules.rule import entry, filled, pod_settings, setting, stack_file
from policies.rules.stack_gpu_ceiling import RULE as CEILING
from tests.policies.cases import Member
from tests.policies.harness import config_of, judge_stack
from tests.policies.pool_fixtures import SPOT
from tests.policies.suite import suite_of
from tests.policies.test_suites import verdict

PLACED = re.compile(r"(?:Pulumi\.[^ ]+\.yaml: gpu-ci:[^ ;,)]*[^ ;,).]|policies/(?:stacks\.toml|config/[^ ]+\.json): [\w.-]*\w)")
"""A place in a message that is filled in."""
NAMED = re.compile(r"policies/stacks\.toml: staging\.([a-z0-9-]+)\.(\w+)")
GROUP = "gpu-ci::aws:eks/nodeGroup:NodeGroup::usw2-t4-spot-us-west-2a-nodes"

OTHERS = "the fleet's components set it, and no setting changes it: the resource is of another program or of a manifest"
UNSET = {
    "gpu-dra-claims-bounded": "the fleet makes no claims of dynamic resource allocation",
    "gpu-toleration-required": OTHERS,
    "gpu-toleration-scope": OTHERS,
    "gpu-cron-no-overlap": "the fleet makes no CronJob",
    "gpu-node-taint": OTHERS,
    "chart-version-pinned": "fleet/facts/data/versions.toml pins the fleet's charts",
    "addon-version-pinned": "fleet/facts/data/versions.toml pins the add-ons of EKS",
    "nothing-expired": "fleet/facts/data/versions.toml pins the fleet's images and charts",
    "cloud-limits": "the message names the input, and gpu_ci/offline/naming.py the key and line of the stack file with its value",
    "no-long-lived-credentials": "the message says what to remove; a stack file keeps no credential in plain text",
    "ecr-hardened": OTHERS,
    "ecr-lifecycle": OTHERS,
    "imds-v2-hop-one": OTHERS,
    "volumes-encrypted": OTHERS,
    "no-node-ssh": OTHERS,
    "node-role-least-privilege": OTHERS,
    "access-least-privilege": OTHERS,
    "no-foreign-identity": OTHERS,
    "resource-policy-closed": OTHERS,
    "providers-without-keys": OTHERS,
    "runner-ephemeral": OTHERS,
    "runner-no-privileged": OTHERS,
    "runner-namespace-isolated": OTHERS,
    "pods-fit-level": OTHERS,
    "runner-no-app-key": OTHERS,
}
"""Rules with a message that names no place, and why nothing of the stack could be changed."""


def test_every_message_names_a_file_and_a_key_that_the_policy_has() -> None:
    for rule in RULES:
        messages = [message for case in suite_of(rule).violating for message in verdict(rule, case).whole]
        without = [message for message in messages if not PLACED.search(message)]
        assert bool(without) == (rule.id in UNSET), (rule.id, without[:3])
        for message in messages:
            assert "\x00" not in message
            for policy, name in NAMED.findall(message):
                assert policy == rule.id, message
                assert name in rule.schemas, message


def test_the_fleet_sets_what_no_setting_changes() -> None:
    assert {rule.id for rule in RULES if not rule.settings} >= UNSET.keys() - {"addon-version-pinned", "nothing-expired"}


def keys(schema: dict[str, Any], of: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The keys below a part of a JSON schema, of all its alternatives; "*" for any name."""
    while "$ref" in schema:
        schema = of[schema["$ref"].rpartition("/")[2]]
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from keys(each, of)
    yield from schema.get("properties", {}).items()
    if isinstance(schema.get("additionalProperties"), dict):
        yield "*", schema["additionalProperties"]
    # A mapping whose keys have a pattern, such as names.
    yield from (("*", part) for part in schema.get("patternProperties", {}).values())


def exists(path: str) -> bool:
    """Whether the settings of a cluster of some provider have this key; kinds of runners and pools are tried, too."""
    first, *rest = path.split(".")
    if first != "clusters":
        return first in {field.alias or name for name, field in Fleet.model_fields.items()}
    for schema in schemas():
        parts = [schema]
        for step in rest[1:]:
            named = "*" if step.startswith("<") else step
            parts = [part for above in parts for name, part in keys(above, schema["$defs"]) if name == named]
        if parts:
            return True
    return False


@cache
def schemas() -> list[dict[str, Any]]:
    """Of the settings of a cluster, by provider."""
    kinds = (kind for provider in PROVIDERS.values() for kind in (provider.settings, provider.existing) if kind)
    return [settings.model_json_schema(by_alias=True) for settings in kinds]


def test_the_settings_of_a_rule_are_keys_of_a_stack_file() -> None:
    for rule in (rule for rule in RULES if rule.settings):
        settings = {rule.settings} if isinstance(rule.settings, str) else set(rule.settings.values())
        assert not [key for key in settings if not exists(key)], rule.id


def test_a_key_that_no_provider_has_is_found() -> None:
    assert exists("clusters.<cluster>.pools.<pool>.nodes.max")
    assert not exists("clusters.<cluster>.pools.<pool>.nodes.maximum")


def test_a_stack_in_the_toml_file_is_sent_to_its_key_there() -> None:
    message = f"raise {setting('maxGpus')}, or change {stack_file('tags')}"
    assert filled(message, "stack-gpu-ceiling", f"urn:pulumi:prod::{GROUP}") == (
        "raise policies/stacks.toml: prod.stack-gpu-ceiling.maxGpus, or change Pulumi.prod.yaml: gpu-ci:tags"
    )


def test_a_stack_with_a_json_file_alone_is_sent_to_that(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.rules.rule._FOLDER", tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "byhand.json").write_text("{}")
    said = [filled(setting("maxGpus"), "stack-gpu-ceiling", f"urn:pulumi:{stack}::{GROUP}") for stack in ("byhand", "unheard")]
    assert said == [
        "policies/config/byhand.json: stack-gpu-ceiling.maxGpus",
        "policies/stacks.toml: unheard.stack-gpu-ceiling.maxGpus",
    ], "a stack without either gets a table in stacks.toml"


def test_a_missing_entry_can_be_read_from_the_message() -> None:
    message = filled(f"use another, or {entry('types', 'g6.2xlarge')}.", "instance-type-allowed", f"urn:pulumi:prod::{GROUP}")
    assert message == 'use another, or add "g6.2xlarge" to policies/stacks.toml: prod.instance-type-allowed.types.'


def test_only_a_resource_of_the_fleet_is_sent_to_the_stack_file() -> None:
    said = "scalingConfig.minSize is 1; write 0"
    key = "clusters.<cluster>.pools.<pool>.nodes.min"
    assert filled(said, "scale-to-zero", f"urn:pulumi:acme::{GROUP}", key) == f"{said}. Change Pulumi.acme.yaml: gpu-ci:{key}"
    assert filled(said, "scale-to-zero", f"urn:pulumi:acme::{GROUP.replace('gpu-ci', 'shop', 1)}", key) == said
    manifest = "urn:pulumi:acme::check::kubernetes:core/v1:Pod::jobs/train.yaml#ml/train"
    assert filled(said, "scale-to-zero", manifest, key) == said, "a check prints file and line"
    assert filled(f"correct {stack_file('github.url')}", "runner-group-scoped", manifest) == "correct jobs/train.yaml"


def test_a_pod_is_changed_where_its_kind_is_set() -> None:
    settings = pod_settings("image")
    assert settings["kubernetes:helm.sh/v3:Release"] == "clusters.<cluster>.runners.<runner>.image"
    assert settings["kubernetes:batch/v1:Job"] == "clusters.<cluster>.jobs.<job>.image"
    assert settings[""] == "clusters.<cluster>.workloads.<workload>.image"


def test_what_an_exception_hides_names_the_file_too() -> None:
    excepted = {"maxGpus": 0, "exceptions": [{"urn": "stack", "reason": "a test of messages", "expires": "2027-01-01"}]}
    found = judge_stack(CEILING, [Member("aws:eks/nodeGroup:NodeGroup", "t4", SPOT)], excepted)
    assert found.excepted.endswith(f"raise {config_of(CEILING.id, 'maxGpus')}")
