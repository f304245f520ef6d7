"""The two pages that Pulumi's registry copies from a release: its front matter, no link that breaks there, and our programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from gpu_ci.components import eks, kubernetes, oci
from tests.builders import ROOT

INDEX, INSTALL = ROOT / "docs" / "_index.md", ROOT / "docs" / "installation-configuration.md"
SCHEMA: dict[str, Any] = json.loads((ROOT / "package" / "schema.json").read_text())
EXAMPLES = ROOT / "examples" / "components"
PROGRAMS = {
    "typescript": EXAMPLES / "typescript" / "index.ts",
    "python": EXAMPLES / "gpu_operator" / "__main__.py",
    "yaml": EXAMPLES / "yaml" / "Pulumi.yaml",
}


@pytest.mark.parametrize("page", [INDEX, INSTALL], ids=lambda page: page.name)
def test_a_page_has_the_front_matter_and_only_whole_links(page):
    """pulumi/registry: scripts/lint/lint-markdown.js and scripts/ci/community-package/doc_lint.py."""
    _, front, text = page.read_text().split("---\n", 2)
    told = yaml.safe_load(front)
    assert set(told) == {"title", "meta_desc", "layout"}
    assert told["layout"] == "package"
    assert all(isinstance(value, str) and value.strip() for value in told.values())
    assert [target for target in re.findall(r"\]\(([^)]*)\)", text) if not target.startswith("https://")] == []
    assert "<img" not in text


def test_the_examples_are_programs_of_the_repository_one_for_each_language():
    found = re.findall(r"^```(\w+)\n(.*?)^```$", INDEX.read_text(), re.MULTILINE | re.DOTALL)
    assert dict(found) == {language: path.read_text() for language, path in PROGRAMS.items()}


def test_the_index_names_every_component():
    exported = {name for module in (kubernetes, eks, oci) for name in module.__all__ if not name.endswith("Args")}
    named = re.findall(r"`(\w+)`", "\n".join(line for line in INDEX.read_text().splitlines() if line.startswith("| `")))
    assert set(named) == exported


def test_the_installation_names_the_packages_of_the_schema():
    text = INSTALL.read_text()
    language = SCHEMA["language"]
    assert f"`{language['nodejs']['packageName']}`" in text
    assert f"`{language['csharp']['rootNamespace']}.{language['csharp']['namespaces']['gpu-ci']}`" in text
    assert f"`{language['java']['basePackage']}.{language['java']['packages']['gpu-ci']}`" in text
    assert f"@v{SCHEMA['version']}\n" in text
    for folder in re.findall(r"`(package(?:/\w+)?)`", text):
        assert (ROOT / folder / "PulumiPlugin.yaml").is_file()


def test_the_schema_has_what_the_registry_requires():
    """pulumi/registry: writePackageMetadata of tools/resourcedocsgen/cmd/metadata.go."""
    assert SCHEMA["publisher"]
    assert "kind/component" in SCHEMA["keywords"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", SCHEMA["version"])
    assert SCHEMA["description"]
