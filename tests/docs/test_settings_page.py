"""schema/stack.schema.json and the pages of the settings: current, complete, and of one opinion with the models."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import read_yaml
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.model import Model
from gpu_ci.offline.settings.page import pages
from gpu_ci.offline.settings.schema import FIRST, Text, config_of, schema_text, stack_files, stack_schema, text_of
from tests.fleet import broken_stacks

ROOT = Path(__file__).resolve().parents[2]
HEAD = "# yaml-language-server: $schema="


@cache
def validator() -> Draft202012Validator:
    schema = stack_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def settings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and schema of every key of every model."""
    for name, model in {"StackFile": stack_schema(), **stack_schema()["$defs"]}.items():
        for key, held in model["properties"].items():
            yield f"{name}.{key}", held


def kinds(held: dict[str, Any]) -> Iterator[str]:
    """The JSON types of a key's values, without null."""
    for part in (held, *held.get("anyOf", ())):
        found = part.get("type", ())
        yield from (found,) if isinstance(found, str) else found


def refers(held: object) -> bool:
    """Whether the values of a key have a section of their own."""
    return '"$ref"' in json.dumps(held)


def errors_of_model(path: Path) -> set[str]:
    """Kinds of the errors that the models find in a stack file, without the rules over the whole fleet."""
    config = {key: value for key, value in config_of(path).items() if key in ("github", "clusters", "tags")}
    try:
        Fleet.model_validate_json(json.dumps(config))
    except ValidationError as error:
        return {each["type"] for each in error.errors()}
    return set()


def test_the_schema_and_the_pages_are_current() -> None:
    assert (ROOT / "schema" / "stack.schema.json").read_text(encoding="utf-8") == schema_text(), "run make docs"
    written = (ROOT / "docs" / "settings.md", *(ROOT / "docs" / "settings").iterdir())
    assert {str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8") for path in written} == pages(), (
        "run make docs"
    )


def test_every_setting_has_a_description() -> None:
    assert not [name for name, held in settings() if len(held["description"]) < 15]


def test_every_setting_has_an_example_or_a_section_of_its_own() -> None:
    without = [name for name, held in settings() if "examples" not in held and not refers(held)]
    assert without == ["SealedSecrets.privateKey"], (
        "a ciphertext of a thousand characters, which docs/gitops.md shows how to make"
    )


def test_every_number_has_a_unit() -> None:
    numbers = {name: held for name, held in settings() if {"integer", "number"} & set(kinds(held)) and held.get("title") != "CPU"}
    assert len(numbers) > 50
    assert not [name for name, held in numbers.items() if not Text.read(held["description"]).unit]


def test_every_example_and_default_is_a_valid_value() -> None:
    wrong = []
    for name, held in settings():
        check = Draft202012Validator({**held, "$defs": stack_schema()["$defs"]})
        values = [*held.get("examples", ()), *([held["default"]] if "default" in held else ())]
        wrong += [(name, value) for value in values if not check.is_valid(value)]
    assert not wrong


def models(base: type[Model] = Model) -> Iterator[type[Model]]:
    """Every settings model."""
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def test_the_rules_of_a_field_accept_the_example_in_its_docstring() -> None:
    tried = 0
    for model in set(models()):
        for name, field in model.model_fields.items():
            for example in text_of(model, name).examples:
                TypeAdapter(field.rebuild_annotation()).validate_json(json.dumps(example))
                tried += 1
    assert tried > 200


@pytest.mark.parametrize("path", stack_files(), ids=lambda path: path.name)
def test_a_stack_file_names_the_schema_and_fulfils_it(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(HEAD)
    assert (path.parent / first.removeprefix(HEAD)).resolve() == ROOT / "schema" / "stack.schema.json"
    assert not list(validator().iter_errors(read_yaml(path).value))


@pytest.mark.parametrize(
    "at", [(), ("config",), ("config", "gpu-ci:github"), ("config", "gpu-ci:clusters", "usw2", "pools", "t4-spot", "nodes")]
)
def test_an_unknown_key_is_refused_wherever_it_is(at: tuple[str, ...]) -> None:
    document: Any = json.loads(json.dumps(read_yaml(ROOT / "Pulumi.staging.yaml").value))
    held = document
    for key in at:
        held = held[key]
    held["gpu-ci:colour"] = 1
    assert not validator().is_valid(document)


def test_keys_of_pulumis_providers_are_accepted() -> None:
    document: Any = json.loads(json.dumps(read_yaml(ROOT / "Pulumi.staging.yaml").value))
    document["config"]["aws:region"] = "us-west-2"
    assert validator().is_valid(document)


def guarded(document: Any) -> Any:
    """A document with the key that the schema requires of every stack file. The broken files vary our own keys alone."""
    config = document.get("config") if isinstance(document, dict) else None
    if isinstance(config, dict):
        document = {**document, "config": {"pulumi:disable-default-providers": ["*"], **config}}
    return document


def test_schema_and_models_agree_on_the_broken_files(tmp_path: Path) -> None:
    structural = 0
    for path in broken_stacks.write(tmp_path):
        try:
            document: Any = guarded(read_yaml(path).value)
        except InputError:
            continue
        # A list loses its items that a rule of our own refuses, so it may be too short as well.
        found = {each for each in errors_of_model(path) if not each.startswith("gpu_ci_")} - {"too_short"}
        structural += bool(found)
        if found:
            assert not validator().is_valid(document), f"{path.name}: the models find {found}"
        if path.name.startswith("valid"):
            assert validator().is_valid(document), path.name
    assert structural > 100


def test_the_schema_refuses_nothing_that_the_models_accept(tmp_path: Path) -> None:
    for path in broken_stacks.write(tmp_path):
        try:
            document: Any = guarded(read_yaml(path).value)
        except InputError:
            continue
        known = all(
            not key.startswith(f"{NAMESPACE}:") or key.endswith((":github", ":clusters", ":tags")) for key in document["config"]
        )
        if known and not errors_of_model(path):
            assert validator().is_valid(document), path.name


def rows(text: str) -> list[str]:
    """The keys of all tables of a page."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def slugs(text: str) -> set[str]:
    return {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line[:1] == "#"
    }


def test_every_link_of_a_page_leads_to_a_heading_or_a_page() -> None:
    links = 0
    for page, text in pages().items():
        folder = (ROOT / "docs" / page).parent
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
            links += 1
            if "://" in target:
                continue
            path = (folder / target).resolve() if target else ROOT / "docs" / page
            assert path.is_file(), (page, target)
            if anchor and path.suffix == ".md":
                assert anchor in slugs(path.read_text(encoding="utf-8")), (page, target, anchor)
    assert links > 500


def test_every_key_of_every_model_is_on_a_page() -> None:
    texts = [text for page, text in pages().items() if page != "settings.md"]
    printed = Counter(key for text in texts for key in rows(text))
    assert set(printed) == {name.partition(".")[2] for name, _ in settings()}
    assert printed["sameAs"] == printed["rerunOn"] == printed["placeholders"] == 1, "models that have a key alike share its row"
    headings = [line for text in texts for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)), "a link has one goal"


def test_about_forty_settings_come_first() -> None:
    start = pages()["settings.md"]
    assert 38 <= len(rows(start)) <= 46
    assert {"url", "region", "kubernetesVersion", "instanceTypes", "nodes", "runners", "labels"} <= set(rows(start))
    assert not {"sharing", "amis", "queues", "nodeConfig", "template"} & set(rows(start))


def test_no_page_is_long() -> None:
    assert {page for page, text in pages().items() if len(text) > 27_000} == set(), "a phone scrolls it"


def test_an_editor_proposes_first_settings_first() -> None:
    for name, model in stack_schema()["$defs"].items():
        order = [FIRST in held for held in model["properties"].values()]
        assert order == sorted(order, reverse=True), name
        assert all(FIRST in model["properties"][key] for key in model.get("required", ())), name
    cluster = stack_schema()["$defs"]["EksCluster"]
    (snippet,) = cluster["defaultSnippets"]
    assert {"provider", "region", "kubernetesVersion", "endpoint", "budget"} <= set(snippet["body"])
    assert snippet["body"]["kubernetesVersion"] == '"1.36"', "an editor pastes it as it is"
    body = YAML(typ="safe", pure=True).load("\n".join(f"{key}: {text_in(value)}" for key, value in snippet["body"].items()))
    assert Draft202012Validator({**cluster, "required": [], "$defs": stack_schema()["$defs"]}).is_valid(body)


def text_in(value: object) -> str:
    """A value as an editor pastes it."""
    return value if isinstance(value, str) else json.dumps(value)
