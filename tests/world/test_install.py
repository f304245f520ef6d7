"""Installing and removing: the order, what changes nothing, and what a failure does. One test has a real control plane."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast
from urllib.error import HTTPError

import pytest
from hypothesis import given, strategies as st

from fleet.facts.scheduling import DELETION_PROPAGATION
from fleet.render.sweeps.api import Object
from gpu_ci.world.install import Installer, everything
from gpu_ci.world.parts import find
from gpu_ci.world.plane import Plane, control_plane
from gpu_ci.world.processes import Processes, WorldError
from gpu_ci.world.steps import Release, Step, Steps


@dataclass
class Server:
    """A control plane in memory. `refused` are the names of objects that it refuses."""

    objects: dict[str, Object] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    version: int = 0

    @property
    def api(self) -> Server:
        return self

    def kubeconfig(self) -> Path:
        return Path("kubeconfig")

    def path(self, entry: Object) -> str:
        return str(entry["metadata"]["name"])

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        if path not in self.objects:
            raise HTTPError(path, 404, "Not Found", cast("Any", None), None)
        if method == "DELETE":
            self.asked.append((f"DELETE {(body or {})['propagationPolicy']}", path))
            return self.objects.pop(path)
        return self.objects[path]

    def apply(self, entry: Object) -> Object:
        name = self.path(entry)
        if name in self.refused:
            raise HTTPError(name, 422, "Unprocessable Entity", cast("Any", None), None)
        self.asked.append(("APPLY", name))
        self.version += 1
        metadata = {**entry["metadata"], "resourceVersion": str(self.version), "generation": self.version}
        self.objects[name] = {**entry, "metadata": metadata}
        return self.objects[name]

    def wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        assert ready(), what


def thing(name: str, needs: frozenset[str] = frozenset(), annotations: Mapping[str, str] | None = None) -> Step:
    metadata = {"name": name, "annotations": annotations or {}}
    return Step({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "data": {}}, needs)


def installer(server: Server, folder: Path = Path()) -> Installer:
    return Installer(cast("Plane", server), folder)


def order(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - the order of a removal is no secret


@st.composite
def graphs(draw: st.DrawFn) -> Steps:
    """Steps of which each needs some of those before it."""
    made: dict[str, Step] = {}
    for number in range(draw(st.integers(1, 12))):
        needs = draw(st.frozensets(st.sampled_from([*made]), max_size=3)) if made else frozenset()
        made[str(number)] = thing(str(number), needs)
    return made


@given(graphs(), st.integers())
def test_each_step_comes_after_its_needs_and_goes_before_them(steps: Steps, seed: int) -> None:
    server = Server()
    own = installer(server)
    assert len(own.install(steps)) == len(steps)
    made = [name for _, name in server.asked]
    assert all(made.index(need) < made.index(name) for name, step in steps.items() for need in step.needs)
    assert own.install(steps) == (), "a second install changes nothing"
    server.asked.clear()
    own.remove(steps, order(seed))
    gone = [name for _, name in server.asked]
    assert sorted(gone) == sorted(steps)
    assert all(gone.index(name) < gone.index(need) for name, step in steps.items() for need in step.needs)


def test_removals_have_many_orders() -> None:
    steps = {str(number): thing(str(number)) for number in range(20)}
    orders = set()
    for seed in range(5):
        server = Server()
        own = installer(server)
        own.install(steps)
        server.asked.clear()
        own.remove(steps, order(seed))
        orders.add(tuple(name for _, name in server.asked))
    assert len(orders) == 5


def test_a_changed_object_is_reported_and_a_policy_of_removal_is_kept() -> None:
    server = Server()
    own = installer(server)
    steps = {"a": thing("a"), "b": thing("b", annotations={DELETION_PROPAGATION: "background"})}
    own.install(steps)
    server.objects["a"]["data"] = {"by": "someone"}
    assert own.install(steps) == ("Thing a",)
    server.asked.clear()
    own.remove(steps, order(0))
    assert sorted(server.asked) == [("DELETE Background", "b"), ("DELETE Foreground", "a")]
    own.remove(steps, order(0))  # all are gone already, which is not an error


def test_a_part_of_the_steps_is_installed_and_removed_without_their_needs() -> None:
    server, part = Server(), {"b": thing("b", frozenset({"a"}))}
    assert len(installer(server).install(part)) == 1
    installer(server).remove(part, Random(0))  # noqa: S311 - no secret
    assert [name for _, name in server.asked] == ["b", "b"]


def test_a_refused_object_is_named_and_nothing_after_it_is_made() -> None:
    server = Server(refused=("b",))
    steps = {"a": thing("a"), "b": thing("b", frozenset("a")), "c": thing("c", frozenset("b"))}
    with pytest.raises(WorldError, match=r"^Thing b: the API server answers 422 Unprocessable Entity$"):
        installer(server).install(steps)
    assert [*server.objects] == ["a"]


HELM = """#!{python}
import json, pathlib, sys
values = sys.argv[sys.argv.index("--values") + 1] if "--values" in sys.argv else None
mode = oct(pathlib.Path(values).stat().st_mode) if values else ""
pathlib.Path("{out}").write_text(json.dumps([sys.argv[1:], values and pathlib.Path(values).read_text(), mode]))
print("Error: the chart is broken")
sys.exit({status})
"""


@pytest.fixture
def helm(tmp_path: Path) -> Callable[[int], Server]:
    def made(status: int) -> Server:
        program = tmp_path / "helm"
        program.write_text(HELM.format(python=sys.executable, out=tmp_path / "asked", status=status))
        program.chmod(0o700)
        (tmp_path / "charts/chart/1.0.0/templates").mkdir(parents=True)
        return Server()

    return made


def run(folder: Path, server: Server, act: Callable[[Installer], object], change: Callable[[Object], Object]) -> list[Any]:
    with Processes(folder / "world") as processes:
        of_helm: Mapping[str, object] = {"processes": processes, "parts": {"helm": str(folder / "helm")}, "folder": folder}
        for name, value in of_helm.items():
            setattr(server, name, value)
        server.list = lambda path: iter(())  # type: ignore[attr-defined]
        act(Installer(cast("Plane", server), folder / "charts", change))
    asked: list[Any] = json.loads((folder / "asked").read_text())
    return asked


def release(**changes: Any) -> Step:
    of_release = {"values": {"url": "https://github.com/example", "key": "secret"}, "atomic": True, **changes}
    return Step(Release("name", "space", "chart", "1.0.0", "https://charts.example.com", **of_release), frozenset())


def test_helm_gets_the_values_in_a_private_file_as_the_world_changes_them(tmp_path: Path, helm: Callable[[int], Server]) -> None:
    def change(values: Object) -> Object:
        return {**values, "url": "http://127.0.0.1:1/example"}

    words, values, mode = run(tmp_path, helm(0), lambda own: own.install({"a": release()}), change)
    assert json.loads(values) == {"url": "http://127.0.0.1:1/example", "key": "secret"}
    assert stat.S_IMODE(int(mode, 8)) == 0o600
    assert words[:4] == ["upgrade", "name", str(tmp_path / "charts/chart/1.0.0"), "--install"]
    assert {"--atomic", "--wait", "--cleanup-on-fail"} <= set(words)
    assert "--disable-openapi-validation" not in words
    assert not [word for word in words if "secret" in word]
    assert words[words.index("--timeout") + 1] == "600s"


def test_helm_waits_no_longer_than_the_program(tmp_path: Path, helm: Callable[[int], Server]) -> None:
    plain = release(atomic=False, waits=False, validates=False)
    words, _, _ = run(tmp_path, helm(0), lambda own: own.install({"a": plain}), lambda values: values)
    assert not {"--atomic", "--wait"} & set(words)
    assert "--disable-openapi-validation" in words


def test_helm_removes_a_release_and_waits(tmp_path: Path, helm: Callable[[int], Server]) -> None:
    words, _, _ = run(tmp_path, helm(0), lambda own: own.remove({"a": release()}, order(0)), lambda values: values)
    assert words[:2] == ["uninstall", "name"]
    assert {"--wait", "--ignore-not-found"} <= set(words)


def test_the_error_of_helm_is_the_last_line_of_its_log(tmp_path: Path, helm: Callable[[int], Server]) -> None:
    with pytest.raises(WorldError, match=r"^release space/name: helm upgrade: Error: the chart is broken$"):
        run(tmp_path, helm(1), lambda own: own.install({"a": release()}), lambda values: values)


TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: of-chart}
data: {value: "{{ .Values.value }}"}
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"""


def real(folder: Path) -> Steps:
    """A namespace, a chart with a definition, and an object of its kind."""
    chart = folder / "charts/chart/1.0.0"
    for place in ("templates", "crds"):
        (chart / place).mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: chart, version: 1.0.0}\n")
    (chart / "templates/map.yaml").write_text(TEMPLATE)
    (chart / "crds/things.yaml").write_text(DEFINITION)
    space = Step({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}}, frozenset())
    own = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "own", "namespace": "space"}}
    of_chart = Release("name", "space", "chart", "1.0.0", "https://charts.example.com", {"value": "1"}, atomic=True)
    return {
        "space": space,
        "chart": Step(of_chart, frozenset({"space"})),
        "own": Step(own, frozenset({"chart"})),
    }


@pytest.mark.world
def test_a_real_api_server_is_as_before_but_for_the_definitions_that_helm_keeps(tmp_path: Path) -> None:
    parts = find()
    needed = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "helm"}
    if missing := sorted(needed - parts.keys()):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    steps = real(tmp_path)
    with Processes(tmp_path / "world") as processes:
        plane = control_plane(processes, parts)
        before = everything(plane)
        own = Installer(plane, tmp_path / "charts")
        assert own.install(steps) == ("Namespace space", "Thing space/own", "release space/name")
        assert {"ConfigMap space/of-chart", "Thing space/own"} <= everything(plane) - before
        assert own.install(steps) == ()
        plane.api.call("PATCH", "/api/v1/namespaces/space", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
        assert own.install(steps) == (), "a label that the program does not declare stays"
        own.change = lambda values: {**values, "value": "2"}
        assert own.install(steps) == ("release space/name",)
        assert plane.api.call("GET", "/api/v1/namespaces/space/configmaps/of-chart")["data"] == {"value": "2"}
        own.remove(steps, order(1))
        assert everything(plane) - before == {"CustomResourceDefinition things.example.com"}
        assert before <= everything(plane)
