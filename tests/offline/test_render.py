"""Rendered files: one an object, valid, without secrets, and never over somebody else's work."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from offline.cli import app


def render(out: Path):
    return CliRunner().invoke(app, ["render", "staging", "--out", str(out)])


def tree(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    out = tmp_path_factory.mktemp("render") / "deep" / "out"
    result = render(out)
    assert result.exit_code == 0, result.output
    return out, result


def test_one_file_an_object(rendered):
    out, result = rendered
    files = [path for path in tree(out) if path.endswith(".yaml")]
    assert len(files) == 11, "four namespaces, two secrets, five charts"
    assert sorted(result.stdout.split()) == sorted(str(out / path) for path in files)


def test_manifests_are_valid_kubernetes_objects(rendered):
    out, _ = rendered
    manifests = list(out.glob("*/manifests/*.yaml"))
    assert len(manifests) == 6
    for path in manifests:
        kubernetes_validate.validate(yaml.safe_load(path.read_text()), "1.34", strict=True)


def test_no_secret_value_is_written(rendered):
    out, _ = rendered
    secrets = list(out.glob("*/manifests/*-secret-*.yaml"))
    assert len(secrets) == 2
    for path in secrets:
        text = path.read_text()
        assert "stringData:" not in text
        assert text.startswith("# left out, `pulumi up` sets it"), "a reader learns what is missing"


def test_values_say_whose_they_are(rendered):
    out, _ = rendered
    text = next(out.glob("*/values/runners-gpu-t4-gpu-t4.yaml")).read_text()
    assert text.startswith("# values of chart oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set 0.14.2")
    assert yaml.safe_load(text)["maxRunners"] == 10


def test_the_same_settings_give_the_same_bytes(rendered, tmp_path):
    out, _ = rendered
    assert render(tmp_path / "again").exit_code == 0
    assert tree(tmp_path / "again") == tree(out)


def test_a_rendered_folder_is_replaced_whole(rendered, tmp_path):
    out, _ = rendered
    again = tmp_path / "out"
    assert render(again).exit_code == 0
    (again / "gpu-ci-staging-usw2" / "stale.yaml").write_text("old")
    assert render(again).exit_code == 0
    assert tree(again) == tree(out), "what an older plan left is gone"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    result = render(tmp_path)
    assert result.exit_code == 2
    assert "not rendered by gpu-ci" in result.stderr
    assert tree(tmp_path) == {"thesis.txt": b"years of work"}
