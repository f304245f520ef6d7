"""Charts as Helm renders them, and their manifests as resources of the pack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.facts import versions
from policies.rules import RULES, Rule
from policies.rules.kinds import RELEASE
from tests.policies.fixtures import RUNNER_SET
from tests.policies.harness import as_read, judge_read
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
    release = (folder, json.dumps(values), kubernetes, name, namespace)
    if release not in _RENDERED:
        _RENDERED[release] = render_alone(folder, values, scratch, kubernetes, name, namespace)
    return _RENDERED[release]


_RENDERED: dict[tuple[Path, str, str, str, str], list[dict[str, Any]]] = {}


def render_sets(folder: Path, sets: Iterable[tuple[Mapping[str, Any], str, str]], scratch: Path) -> None:
    """Start Helm once for what `render` then gives of a runner set's chart with each of these values, names and namespaces.

    One chart has it once for each, under another name, which only its notes show. Where the release's name or namespace would
    be another, the values say it.
    """
    releases = {(folder, json.dumps(values), KUBERNETES, name, namespace) for values, name, namespace in sets}
    several = [release for release in sorted(releases) if release not in _RENDERED]
    if not several:
        return
    values = {f"set-{number}": _placed(*release[1:]) for number, release in enumerate(several)}
    outer = _chart_of_sets(folder, values, scratch)
    _, *parts = _OF_SET.split(_template(outer, json.dumps(values), KUBERNETES, NAME, NAMESPACE, scratch))
    for alias, release in zip(values, several, strict=True):
        texts = [text for of, text in zip(parts[::2], parts[1::2], strict=True) if of == alias]
        _RENDERED[release] = [manifest for text in texts for manifest in _manifests(text)]


_OF_SET = re.compile(r"^---\n# Source: sets/charts/(set-\d+)/.*\n", re.MULTILINE)


def _placed(text: str, _: str, name: str, namespace: str) -> dict[str, Any]:
    """A set's values, which make the chart write this name and namespace in a release of NAME and NAMESPACE."""
    values: dict[str, Any] = json.loads(text)
    assert values.get("runnerScaleSetName", NAME) == name
    return values if namespace == NAMESPACE else values | {"namespaceOverride": namespace}


def _chart_of_sets(folder: Path, aliases: Iterable[str], scratch: Path) -> Path:
    chart = read((folder / "Chart.yaml").read_text(encoding="utf-8"))
    inner = [{"name": chart["name"], "version": chart["version"], "alias": alias} for alias in aliases]
    outer = scratch / "sets"
    shutil.copytree(folder, outer / "charts" / chart["name"], dirs_exist_ok=True)
    about = {"apiVersion": "v2", "name": outer.name, "version": "1.0.0", "dependencies": inner}
    (outer / "Chart.yaml").write_text(json.dumps(about), encoding="utf-8")
    return outer


def render_alone(
    folder: Path,
    values: Mapping[str, Any],
    scratch: Path,
    kubernetes: str = KUBERNETES,
    name: str = NAME,
    namespace: str = NAMESPACE,
) -> list[dict[str, Any]]:
    """What `render` gives, by a start of Helm for this alone."""
    source = _released(folder, values, scratch)
    made = _template(source, json.dumps(values), kubernetes, name, namespace, scratch)
    return [manifest for text in _START.split(made) for manifest in _manifests(text)]


_START = re.compile(r"^---$", re.MULTILINE)


@cache
def _manifests(text: str) -> list[dict[str, Any]]:
    """The documents of a part of Helm's output: stacks have many in common."""
    return [document for document in read_all(text) if document]


def _template(source: Path, values: str, kubernetes: str, name: str, namespace: str, scratch: Path) -> str:
    (scratch / "values.json").write_text(values)
    command = [helm(), "template", name, str(source), "--kube-version", kubernetes, "--namespace", namespace]
    return _run([*command, "--values", str(scratch / "values.json")], scratch)


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
    changes: dict[str, Any] = {}
    if lacking:
        # Helm refuses a chart without the charts that its Chart.yaml names, also without those that the values turn off.
        changes["dependencies"] = [each for each in inner if each not in lacking]
    if folder.parent.name == chart["name"] and chart["version"] != folder.name:
        changes |= {"version": folder.name, "appVersion": folder.name}
    if not changes:
        return folder
    copy = scratch / folder.parent.name
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    (copy / "Chart.yaml").write_text(json.dumps(chart | changes), encoding="utf-8")
    return copy


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
    found, seen = set(), as_read(props)
    for rule in RULES:
        if isinstance(rule, Rule) and {RELEASE, RUNNER_SET} <= rule.types:
            verdict = judge_read(rule, token, seen, (config or {}).get(rule.id))
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
