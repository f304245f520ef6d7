"""package/schema.json and docs/components.md are what the components say, and other languages can use it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from components.component import PackagedComponent
from package import provider, reference
from tests.builders import ROOT
from tests.components.test_contract import TOKENS, component_classes
from tests.docs.markdown import anchors, links
from tests.package.plugin import started

SCHEMA: Mapping[str, Any] = json.loads(reference.SCHEMA.read_text())
PLAIN_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


@cache
def inferred() -> Mapping[str, Any]:
    return reference.schema()


def properties() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every argument, output and key of a type, by its path."""
    for token, held in (SCHEMA["resources"] | SCHEMA["types"]).items():
        for group in ("inputProperties", "properties"):
            for name, found in held.get(group, {}).items():
                yield f"{token}.{group}.{name}", found


def parts(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A property, and what its list or mapping contains."""
    yield found
    for key in ("items", "additionalProperties"):
        if key in found:
            yield from parts(found[key])


def test_the_schema_and_the_page_are_current():
    assert reference.SCHEMA.read_text() == reference.schema_text(inferred()), "run `make docs`"
    assert reference.PAGE.read_text() == reference.page(reference.PAGE.read_text(), inferred()), "run `make docs`"


def test_the_package_has_every_packaged_component_by_its_promised_token():
    found = {name: TOKENS[name] for name, kind in component_classes().items() if issubclass(kind, PackagedComponent)}
    assert {kind.__name__ for kind in provider.packaged()} == found.keys()
    assert SCHEMA["resources"].keys() == set(found.values())
    assert all(held["isComponent"] for held in SCHEMA["resources"].values())


def test_name_and_version_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (SCHEMA["name"], SCHEMA["version"]) == (project["name"], project["version"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", SCHEMA["version"]), "a tag v<version> is what the CLI finds"


def test_a_property_has_a_description_and_a_type_that_every_language_has():
    paths = list(properties())
    assert len(paths) > 200
    for path, entry in paths:
        name = path.rpartition(".")[2]
        assert re.fullmatch(r"[a-z][A-Za-z0-9]*", name), f"{path}: camelCase"
        assert entry.get("description", "").strip().endswith("."), f"{path}: a sentence"
        assert not re.search(r"\n ", entry["description"]), f"{path}: without the indentation of the source"
        for part in parts(entry):
            assert_is_of_every_language(path, part)


def assert_is_of_every_language(path: str, part: Mapping[str, Any]) -> None:
    kind = part.get("$ref", "").removeprefix("#/types/")
    if kind == "pulumi.json#/Any":
        pod = path.startswith("gpu-ci:index:Template.")
        assert pod or path.endswith((".manifests", ".nodeConfig")), (
            f"{path}: only configuration of other programs has values of any type"
        )
    elif "$ref" in part:
        assert kind in SCHEMA["types"], f"{path}: not a type of another provider, and not any value"
        assert "enum" not in SCHEMA["types"][kind], f"{path}: an output cannot be passed for an enum"
    else:
        assert part["type"] in PLAIN_TYPES, path
    assert {"type", "$ref"} & part.keys(), path


def test_an_object_is_plain_because_the_provider_does_not_rename_the_keys_of_an_output():
    for path, entry in properties():
        is_output = ".properties." in path and path.split(".")[0] in SCHEMA["resources"]
        if "$ref" in str(entry) and not is_output:
            assert all(part.get("plain") for part in parts(entry)), path


def test_components_and_types_have_descriptions():
    for held in (*SCHEMA["resources"].values(), *SCHEMA["types"].values()):
        assert held["description"].strip().endswith((".", ")"))


def test_each_type_is_used():
    text = json.dumps(SCHEMA)
    assert [token for token in SCHEMA["types"] if f'"#/types/{token}"' not in text] == []


PARTS = {
    "kubernetes": {"ArcRunnerSet", "DevicePluginStack", "GpuOperator"},
    "eks": {"ArcRunnerSet", "DevicePluginStack", "GpuOperator", "EksGpuCluster", "GpuNodeGroup"},
    "oci": {"ArcRunnerSet", "DevicePluginStack", "GpuOperator", "OciGpuRunner", "OkeGpuCluster"},
}
"""The components of each smaller plugin, by its folder."""


@pytest.mark.parametrize("part", PARTS)
def test_the_plugin_of_a_cloud_is_a_part_of_the_whole_package(part, tmp_path):
    with started(tmp_path, f"package/{part}") as plugin:
        found = json.loads(plugin.schema())
    assert {token.rpartition(":")[2] for token in found["resources"]} == PARTS[part]
    for key in ("resources", "types"):
        assert found[key].items() <= SCHEMA[key].items(), "a program can change to the whole package"
    whole = {key: value for key, value in SCHEMA.items() if key not in ("resources", "types")}
    assert {key: found[key] for key in whole} == whole, "the name of the package, its tokens and its modules stay"


def test_the_names_in_generated_sdks():
    names = {
        language: {key: own[key] for key in ("packageName", "requires") if key in own}
        for language, own in SCHEMA["language"].items()
    }
    assert names["python"] == {"packageName": "gpu_ci_components", "requires": {"pulumi": ">=3.272,<4"}}
    assert names["nodejs"] == {"packageName": "@gpu-ci/components"}


def test_the_plugins_are_python_with_virtual_environments_of_their_own():
    for path in (ROOT / "package").rglob("PulumiPlugin.yaml"):
        found = yaml.safe_load(path.read_text())
        assert found == {"runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}}, path
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert ".venv" in ignored, "the CLI creates it in package/"


def test_the_page_links_to_what_exists():
    assert {link[1:] for link in links(reference.PAGE) if link.startswith("#")} <= anchors(reference.PAGE)


def test_a_component_added_later_is_in_the_reference():
    text = reference.page(
        reference.PAGE.read_text(),
        {
            **SCHEMA,
            "resources": {
                "gpu-ci:index:Later": {
                    "description": "A later one.",
                    "inputProperties": {
                        "sizes": {"type": "array", "items": {"type": "integer"}, "description": "One | two."},
                        "subnetIds": {
                            "type": "object",
                            "plain": True,
                            "additionalProperties": {"type": "string"},
                            "description": "By zone.",
                        },
                    },
                    "requiredInputs": ["sizes"],
                    "properties": {"id": {"type": "string", "description": "Its id."}},
                }
            },
        },
    )
    assert "| `sizes` | list of whole number | required, output allowed | One \\| two. |" in text
    assert "| `subnetIds` | mapping of text | plain, outputs allowed inside | By zone. |" in text
    assert "| `id` | text | Its id. |" in text
