"""Installs the steps of a cluster into a control plane, and removes them, as Pulumi's engine and provider would."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from http.client import NOT_FOUND
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from urllib.error import HTTPError

from fleet.facts.errors import InputError
from fleet.facts.scheduling import DELETION_PROPAGATION
from fleet.facts.yaml_text import read_yaml
from fleet.render.sweeps.api import METADATA, Object, with_query
from gpu_ci.world.plane import Plane, found, gone
from gpu_ci.world.processes import WorldError, private
from gpu_ci.world.steps import Release, Step, Steps, releases, text_of

_PASSING = ("ComponentStatus", "Endpoints", "EndpointSlice", "Event", "Lease")
"""Kinds of objects that come and go by themselves."""
_AUTOMATIC = {"kube-aggregator.kubernetes.io/automanaged", "kube-root-ca.crt"}
"""A label of objects, and a name, by which the API server and the controllers make objects at any time after their start."""
_DIGEST = "gpu-ci.world/digest"
"""Label of a release: the digest of its chart, version and values. The provider touches no release that stays the same."""
_PATIENCE = 600
_PARALLEL = 8
_SERVED_AFTER = 30
"""Seconds until the API server serves a kind whose definition is there."""


def require_charts(steps: Steps, charts: Path) -> None:
    """Raise InputError for a chart that the folder does not have."""
    for release in releases(steps):
        chart_of(release, charts)


def chart_of(release: Release, charts: Path) -> Path:
    """The chart's archive `<chart>-<version>.tgz`, or its folder `<chart>/<version>` or `<chart>/<version>/<chart>`."""
    chart, version = release.chart, release.version
    archive, folder = charts / f"{chart}-{version}.tgz", charts / chart / version
    if archive.is_file():
        return archive
    for place in (folder, folder / chart):
        if (place / "templates").is_dir():
            return place
    why = f"charts: {charts} lacks chart {chart} {version} of {release.repository}"
    raise InputError(f"{why}; download the stack's charts with `gpu-ci charts --keep {charts}`")


def is_whole(chart: Path) -> bool:
    """Whether a chart has the charts that it depends on. An archive has them."""
    if chart.is_file():
        return True
    content: Any = read_yaml(chart / "Chart.yaml").value
    return {one["name"] for one in content.get("dependencies", ())} <= {part.name for part in (chart / "charts").glob("*")}


@dataclass
class Installer:
    """Installs into `plane`, with charts of a folder. `change` makes the values of a release those of the world."""

    plane: Plane
    charts: Path
    change: Callable[[Object], Object] = lambda values: values
    _stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._kubeconfig = str(self.plane.kubeconfig())

    def install(self, steps: Steps) -> tuple[str, ...]:
        """Install all steps; returns those that changed anything. Raises InputError and WorldError."""
        require_charts(steps, self.charts)
        needs = {name: step.needs & steps.keys() for name, step in steps.items()}
        return self._all(steps, needs, self._install)

    def remove(self, steps: Steps, order: Random) -> None:
        """Remove all steps, each when nothing needs it any more and otherwise in a random order. Raises WorldError."""
        needed_by: dict[str, set[str]] = {name: set() for name in steps}
        for name, step in steps.items():
            for before in step.needs & steps.keys():
                needed_by[before].add(name)
        self._all(steps, needed_by, self._remove, order)

    def _all(
        self, steps: Steps, after: Mapping[str, Iterable[str]], act: Callable[[Step], bool], order: Random | None = None
    ) -> tuple[str, ...]:
        """Act on each step after those of `after`, several at once. Returns those for which `act` is true."""
        sorter = TopologicalSorter(after)
        sorter.prepare()
        ready: list[str] = []
        running: dict[Future[bool], str] = {}
        changed: list[str] = []
        pool = ThreadPoolExecutor(_PARALLEL)
        try:
            while sorter.is_active():
                ready += sorter.get_ready()
                if order is not None:
                    order.shuffle(ready)
                while ready and len(running) < _PARALLEL:
                    name = ready.pop()
                    running[pool.submit(act, steps[name])] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    if future.result():
                        changed.append(str(steps[name]))
                    sorter.done(name)
        except BaseException:
            self._stopped.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return tuple(sorted(changed))

    def _install(self, step: Step) -> bool:
        return self._upgrade(step.content) if isinstance(step.content, Release) else self._apply(step, step.content)

    def _apply(self, step: Step, entry: Object) -> bool:
        self._wait(lambda: bool(self.plane.path(entry)), f"{step}: its kind", _SERVED_AFTER)
        path = self.plane.path(entry)
        try:
            before = found(self.plane.api, path)
            applied = self.plane.apply(entry)
        except HTTPError as error:
            raise WorldError(f"{step}: the API server answers {error.code} {error.reason}") from error
        if step.awaits:
            self._wait(lambda: _has(self.plane.api.call("GET", path), step.awaits), f"{step}: {step.awaits}", _PATIENCE)
        return before is None or _content(before) != _content(applied)

    def _upgrade(self, release: Release) -> bool:
        release = release._replace(values=self.change(release.values))
        digest = hashlib.sha256(json.dumps(release, sort_keys=True).encode()).hexdigest()[:32]
        labels = f"owner=helm,name={release.name},status=deployed,{_DIGEST}={digest}"
        secrets = f"/api/v1/namespaces/{release.namespace}/secrets"
        if any(self.plane.api.list(with_query(secrets, labelSelector=labels))):
            return False
        values = self.plane.folder / "values" / f"{release.namespace}-{release.name}.json"
        flags = {"--atomic": release.atomic, "--wait": release.waits, "--disable-openapi-validation": not release.validates}
        self._helm(
            release,
            *("upgrade", release.name, str(chart_of(release, self.charts)), "--install", "--cleanup-on-fail"),
            *("--values", str(private(values, json.dumps(release.values))), "--labels", f"{_DIGEST}={digest}"),
            *(flag for flag, on in flags.items() if on),
        )
        return True

    def _remove(self, step: Step) -> bool:
        if isinstance(step.content, Release):
            release = step.content
            words = ["--wait"] if release.waits else []
            self._helm(release, "uninstall", release.name, "--ignore-not-found", *words)
            return True
        try:
            path = self.plane.path(step.content)
        except KeyError:  # its kind is gone with its definition
            return True
        annotations = step.content["metadata"].get("annotations", {})
        policy = str(annotations.get(DELETION_PROPAGATION, "foreground")).title()
        try:
            self.plane.api.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
        except HTTPError as error:
            if error.code != NOT_FOUND:
                raise WorldError(f"{step}: the API server answers {error.code} {error.reason} to its removal") from error
        self._wait(lambda: gone(self.plane.api, path), f"{step}: its removal", _PATIENCE)
        return True

    def _helm(self, release: Release, *words: str) -> None:
        """Run Helm. Its log is one of the world's. Raises WorldError with the last line of the log."""
        processes, name = self.plane.processes, f"helm-{release.namespace}-{release.name}"
        options = ["--namespace", release.namespace, "--timeout", f"{release.timeout}s"]
        helm = [self.plane.parts["helm"], *words, *options, "--kubeconfig", self._kubeconfig]
        try:
            status = processes.start(name, helm).wait()
        finally:
            processes.stop(name)
        if status and not self._stopped.is_set():
            raise WorldError(f"{release}: helm {words[0]}: {processes.last_line(name) or f'status {status}'}")

    def _wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        def going_on() -> bool:
            if self._stopped.is_set():
                raise WorldError(f"{what}: stopped")
            return ready()

        self.plane.wait(going_on, what, seconds)


def _content(entry: Object) -> Object:
    """An object without its status and without what the API server notes of each request."""
    noted = ("generation", "managedFields", "resourceVersion")
    metadata = {key: value for key, value in entry["metadata"].items() if key not in noted}
    return {**entry, "metadata": metadata, "status": None}


def _has(entry: Object, condition: str) -> bool:
    """Whether an object has a condition, for its newest generation if it says so."""
    status = entry.get("status", {})
    old = status.get("observedGeneration", entry["metadata"]["generation"]) < entry["metadata"]["generation"]
    return not old and any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions", ()))


def everything(plane: Plane) -> frozenset[str]:
    """All objects of the API server, but those that come and go by themselves. The difference of two is what was left."""
    groups = plane.api.call("GET", "/apis")["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return frozenset(text for root in roots for text in _below(plane, root))


def _below(plane: Plane, root: str) -> list[str]:
    try:
        resources = plane.api.call("GET", root)["resources"]
    except HTTPError:  # a group whose server is not there
        return []
    texts: list[str] = []
    for kind in resources:
        if "list" not in kind["verbs"] or kind["kind"] in _PASSING:
            continue
        for page in plane.api.pages(f"{root}/{kind['name']}", METADATA):
            for metadata in (entry["metadata"] for entry in page["items"]):
                if not _AUTOMATIC & {metadata["name"], *metadata.get("labels", {})}:
                    texts.append(text_of({"kind": kind["kind"], "metadata": metadata}))
    return texts
