"""Charts as Helm renders them, and their manifests as resources of the pack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.facts import versions
from policies.rules import RULES, Rule
from policies.rules.kinds import RELEASE
from tests.policies.fixtures import RUNNER_SET
from tests.policies.harness import judge
from tests.policies.published import skip_if_on
from tests.yaml12 import read, read_all

OURS = Path(__file__).parent / "charts"
KUBERNETES = "1.34.0"
NAMESPACE, NAME = "runners-gpu", "gpu"

_HELM_TIMEOUT_S = 60


def helm() -> str:
    """Helm's path; skips the test where it is not on PATH."""
    found = shutil.which("helm")
    if found is None:
        pytest.skip("helm is not on PATH: nothing renders charts here")
    return found


def published(chart: str) -> Path:
    """The folder of a published chart at the pinned version, with its templates; skips the test where it is not at hand."""
    version = versions.CHARTS[chart].version
    for variable in ("GPU_CI_CHARTS", "GPU_CI_REFERENCE"):
        folder = Path(os.environ.get(variable) or os.devnull) / chart / version
        if (folder / "templates").is_dir():
            return folder
    pytest.skip(f"{chart}/{version} with its templates is in no folder of GPU_CI_CHARTS or GPU_CI_REFERENCE")


def render(
    folder: Path,
    values: Mapping[str, Any],
    scratch: Path,
    kubernetes: str = KUBERNETES,
    *,
    name: str = NAME,
    namespace: str = NAMESPACE,
) -> list[dict[str, Any]]:
    """The manifests that Helm renders from a chart and values, hooks included. It renders them once: all stacks do it alike."""
    text = json.dumps(values)
    asked = (folder, text, kubernetes, name, namespace)
    if asked not in _RENDERED:
        _RENDERED[asked] = _render(folder, text, scratch, kubernetes, name, namespace)
    return _RENDERED[asked]


_RENDERED: dict[tuple[Path, str, str, str, str], list[dict[str, Any]]] = {}


def _render(folder: Path, values: str, scratch: Path, kubernetes: str, name: str, namespace: str) -> list[dict[str, Any]]:
    (scratch / "values.json").write_text(values)
    source = _released(folder, json.loads(values), scratch)
    command = [helm(), "template", name, str(source), "--kube-version", kubernetes, "--namespace", namespace]
    made = _run([*command, "--values", str(scratch / "values.json")], scratch)
    return [each for each in read_all(made) if each]


def _released(folder: Path, values: Mapping[str, Any], scratch: Path) -> Path:
    """The chart under the version of its folder, as a release has it: some repositories keep a placeholder.

    Skips the test where the folder lacks a chart inside it that the values turn on: only published charts are rendered.
    """
    chart = read((folder / "Chart.yaml").read_text(encoding="utf-8"))
    # The names of several charts begin alike, and a packed chart ends in its version.
    there = {path.name.removesuffix(".tgz") for path in (folder / "charts").glob("*")}
    inner = chart.get("dependencies", [])
    lacking = [each for each in inner if not {each["name"], f"{each['name']}-{each['version']}"} & there]
    for each in lacking:
        skip_if_on(folder, each, values)
    if lacking:
        copy = scratch / folder.parent.name
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        # Helm refuses a chart without the charts that its Chart.yaml names, also without those that the values turn off.
        kept = [each for each in inner if each not in lacking]
        (copy / "Chart.yaml").write_text(json.dumps(chart | {"dependencies": kept}), encoding="utf-8")
        return copy
    if folder.parent.name != chart["name"] or chart["version"] == folder.name:
        return folder
    packed = scratch / f"{chart['name']}-{folder.name}.tgz"
    if folder not in _PACKED:
        version = ["--version", folder.name, "--app-version", folder.name]
        _run([helm(), "package", str(folder), *version, "-d", str(scratch)], scratch)
        _PACKED[folder] = packed.read_bytes()
    packed.write_bytes(_PACKED[folder])
    return packed


_PACKED: dict[Path, bytes] = {}
"""Charts as Helm packs them, each once: all values are of the same chart."""


def _run(command: Sequence[str], scratch: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(scratch)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_HELM_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def resources(manifests: Sequence[Mapping[str, Any]], namespace: str = NAMESPACE) -> Iterator[tuple[str, dict[str, Any]]]:
    """Token and properties of each manifest, in the release's namespace where it names none."""
    for manifest in manifests:
        version = manifest["apiVersion"]
        token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
        yield token, {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}


def of_kind(manifests: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """The manifests of one kind."""
    return [each for each in manifests if each["kind"] == kind]


_MADE = re.compile(r", made by (?:containerMode\.type \"[a-z-]+\"|the chart, because [a-zA-Z.]+ is not set)")
_INDEXED = re.compile(
    r"(?P<above>(?:template|listenerTemplate)\.spec)\.(?P<field>containers|initContainers)\[(?P<index>[0-9]+)\]"
)


def verdicts(token: str, props: Mapping[str, Any], config: Mapping[str, Mapping[str, Any]] | None = None) -> set[tuple[str, str]]:
    """Rule and fault, without the fix, of all rules that judge both releases and runner sets.

    Containers are called by their names, and what the values of a release say is called as the runner set has it.
    """
    found = set()
    for rule in RULES:
        if isinstance(rule, Rule) and {RELEASE, RUNNER_SET} <= rule.types:
            verdict = judge(rule, token, props, (config or {}).get(rule.id))
            assert not verdict.unknown
            found |= {(rule.id, _called(message, props, token)) for message in verdict.messages}
    return found


def _called(message: str, props: Mapping[str, Any], token: str) -> str:
    settings = props["values"] if token == RELEASE else props["spec"]

    def named(match: re.Match[str]) -> str:
        template = settings[match["above"].partition(".")[0]]
        return f"{match['above']}.{match['field']}[{template['spec'][match['field']][int(match['index'])]['name']}]"

    plain = _INDEXED.sub(named, message).rpartition("; ")[0]
    # Who made a container is seen in the values alone.
    plain = _MADE.sub("", plain)
    return f"spec.{plain.removeprefix('values.')}" if plain.startswith("values.") else plain
