"""The artifacts of a release: they fit the tag, hold what they name, and are the same bytes for the same commit."""

from __future__ import annotations

import hashlib
import io
import json
import runpy
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.schema._res import BOM_JSON_STRICT, JSF, SPDX_JSON
from referencing import Registry, Resource

from tests import warm
from tests.builders import ROOT
from tests.warm import lend_compiled
from tests.workflows.load import script

CHANGELOG = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- New: templates.\n\n## 0.1.0 (2026-11-01)\n\n- First.\n"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return script(ROOT / ".ci" / "release.py", "ci_release")


@pytest.fixture(scope="module")
def artifacts(release) -> dict[str, bytes]:
    return dict(release.artifacts("0.1.0"))


def project(folder: Path, changelog: str) -> Path:
    (folder / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (folder / "CHANGELOG.md").write_text(changelog)
    return folder


def test_the_notes_are_the_section_of_the_version(release, tmp_path):
    assert release.notes("v0.2.0", project(tmp_path, CHANGELOG)) == "- New: templates.\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "said"),
    [
        ("v0.3.0", CHANGELOG, "tag v0.3.0: pyproject.toml has version 0.2.0; tag v0.2.0"),
        ("0.2.0", CHANGELOG, "tag 0.2.0: pyproject.toml has version 0.2.0; tag v0.2.0"),
        ("v0.2.0", CHANGELOG.replace("0.2.0 (2026-12-01)", "Unreleased"), "no section for 0.2.0"),
        ("v0.2.0", CHANGELOG.replace("- New: templates.\n", ""), "no section for 0.2.0"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(release, tmp_path, tag, changelog, said):
    with pytest.raises(SystemExit, match=said.replace(".", r"\.")):
        release.notes(tag, project(tmp_path, changelog))


def test_wrong_arguments_are_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    path = ROOT / ".ci" / "release.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for words, said in ((["v9.9.9", "out"], "tag v9.9.9: "), ([], "release.py: takes"), (["v9.9.9"], "release.py: ")):
        monkeypatch.setattr(sys, "argv", [str(path), *words])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(path), run_name="__main__")
        assert end.value.code == 2
        stdout, stderr = capsys.readouterr()
        assert (stdout, stderr.count("\n")) == ("", 1), words
        assert stderr.startswith(f"error: {said}"), words
        assert not (tmp_path / "out").exists()


def test_the_sbom_is_cyclonedx_and_has_packages_charts_and_images(release):
    made = release.sbom()
    found = json.loads(made)
    schema = json.loads(Path(str(BOM_JSON_STRICT[SchemaVersion.V1_6])).read_text())
    held = [(name, Resource.from_contents(json.loads(Path(path).read_text()))) for name, path in REFERENCED.items()]
    jsonschema.Draft7Validator(schema, registry=Registry().with_resources(held)).validate(found)
    urls = {each["purl"].partition("?")[0] for each in found["components"]}
    versions = tomllib.loads((ROOT / release.VERSIONS).read_text())
    assert {f"pkg:helm/{name}@{chart['version']}" for name, chart in versions["charts"].items()} <= urls
    locked = [line.split(" ")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line.split(" ")[0]]
    assert {f"pkg:pypi/{name.replace('==', '@')}" for name in locked} <= urls
    assert [each for each in urls if each.startswith("pkg:oci/cluster-autoscaler@sha256:")]
    assert release.sbom() == made


REFERENCED = {"http://cyclonedx.org/schema/spdx.schema.json": SPDX_JSON, "http://cyclonedx.org/schema/jsf-0.82.schema.json": JSF}


def test_the_archives_hold_what_they_name_and_are_reproducible(release, artifacts):
    first, second = artifacts, dict(release.artifacts("0.1.0"))
    assert {name: hashlib.sha256(content).digest() for name, content in first.items()} == {
        name: hashlib.sha256(content).digest() for name, content in second.items()
    }
    names = {}
    for name, content in first.items():
        if name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                names[name] = tar.getnames()
    (pack,), (package,) = ([held for name, held in names.items() if kind in name] for kind in ("policy-pack", "components"))
    assert {"gpu-ci-policy-pack-0.1.0/PulumiPolicy.yaml", "gpu-ci-policy-pack-0.1.0/rules/required_tags.py"} <= set(pack)
    assert {"gpu-ci-components-0.1.0/package/PulumiPlugin.yaml", "gpu-ci-components-0.1.0/pyproject.toml"} <= set(package)


# Oracle's SDK takes seconds to load and is in no archive.
COUNT = """
import sys
from unittest.mock import MagicMock
sys.modules["pulumi_oci"] = MagicMock()
from package.provider import packaged
print(len(packaged()))
"""


def test_the_unpacked_package_serves_its_schema(artifacts, tmp_path):
    """The archive needs no other file of the repository."""
    (content,) = [held for name, held in artifacts.items() if "components" in name]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        # Python 3.11 has no argument for it before 3.11.4.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tmp_path)  # noqa: S202 - our own archive
    unpacked = tmp_path / "gpu-ci-components-0.1.0"
    lend_compiled(unpacked, ROOT)
    status, stdout, stderr = warm.run(COUNT, folder=unpacked, path=unpacked)
    assert status == 0, stderr
    examples = list((ROOT / "examples" / "components").glob("*/__main__.py"))
    assert int(stdout) == len(examples)


def test_a_release_needs_a_tag_and_only_its_last_job_may_write():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    writers = {name for name, job in workflow["jobs"].items() if job["permissions"].get("contents") == "write"}
    assert writers == {"publish"}
    assert not [step for step in workflow["jobs"]["publish"]["steps"] if "checkout" in step.get("uses", "")]


def test_the_job_that_attests_runs_no_test():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    test, build = workflow["jobs"]["test"], workflow["jobs"]["build"]
    assert (test["permissions"], build["needs"]) == ({"contents": "read"}, "test")
    assert [step["run"].splitlines() for step in test["steps"] if "run" in step] == [["make test", "make test-pages"]]
    assert not [step for step in build["steps"] if "test" in step.get("run", "")]


def test_the_job_that_publishes_on_pypi_has_no_code_and_no_token_and_builds_nothing():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    job = jobs["pypi"]
    assert (job["permissions"], job["environment"]["name"], job["needs"]) == ({"id-token": "write"}, "pypi", "publish")
    assert {name for name, each in jobs.items() if "id-token" in each["permissions"]} == {"build", "pypi"}
    assert [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert "secrets." not in str(job)
    assert "vars.PYPI_PUBLISHER" in job["if"], "a repository without a publisher on PyPI releases as before"
    assert job["steps"][-1]["with"] == {"packages-dir": "dist", "attestations": True}


def test_the_wheel_of_a_release_is_the_one_that_pypi_gets(artifacts):
    assert [name for name in artifacts if name.startswith("gpu_ci-") and name.endswith("-py3-none-any.whl")] == [
        "gpu_ci-0.1.0-py3-none-any.whl"
    ]
