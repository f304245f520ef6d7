"""What charts add to their values, so that rules check the pods that run, not only the written values.

Chart gha-runner-scale-set makes containers and volumes from one value, `containerMode.type`: `added`, `left_out` and `volumes`
list them (its templates at 0.14.2). The controller makes a second pod for each set, the listener. It uses `listenerTemplate`,
ignores the account there, and uses its own image unless the template names one. For other charts, `IMAGES` and `NODE` list the
images that they run and what they use of a node (`charts.toml`).
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleet.facts.record import Record

from .kinds import SCALE_SET_CHART
from .read import Data, Later, items, text, walk

MODE = "containerMode.type"
DIND, IN_CLUSTER = "dind", "kubernetes"
"""Container modes: jobs' containers run in a Docker of the pod, or as pods of the cluster ("kubernetes-novolume" is one, too)."""

RUNNER = "runner"
"""Name of the container that the chart knows."""

WORK = "work"
"""The volume that runner and Docker share. The values may define it."""


class DefaultImage(Record):
    """An image that a chart runs. `values` are the chart's defaults at the path `at`; a release's values override them by key.

    The image runs if the flag at `switch` is on; `on` is the default of that flag. If the flag `variant` beside the tag is on,
    which is its default, the chart adds its name to the tag, after a hyphen.
    """

    at: str
    values: Mapping[str, str]
    switch: str = ""
    on: bool = True
    variant: str = ""


INIT, REGULAR = "initContainers", "containers"


class Container(Record):
    """`path` within the pod spec ("containers[0]"), the field that contains it, and the container as the wire gives it.

    `made` says which value makes a chart add the container; "" for a container that the values name.
    """

    path: str
    field: str
    body: Data
    made: str = ""


_TABLES = tomllib.loads((Path(__file__).parent / "charts.toml").read_text(encoding="utf-8"))
IMAGES = {chart: tuple(DefaultImage(**image) for image in row.get("images", ())) for chart, row in _TABLES.items()}
"""Chart name to the images that it runs by default."""
NODE: dict[str, str] = {chart: row["node"] for chart, row in _TABLES.items() if "node" in row}
"""Chart name to what its pods use of a node, for the charts that use anything."""

DIND_IMAGE: str = _TABLES[SCALE_SET_CHART]["dind"]
RUNNER_IMAGE: str = _TABLES[SCALE_SET_CHART]["runner"]
"""Images that the scale-set chart uses by default."""


def mode(values: Data) -> str:
    """The container mode of a scale set, "" without one. Raises UnknownError."""
    return text(walk(values, "containerMode", "type"))


def added(values: Data, later: Later) -> Iterator[Container]:
    """Containers of the runner pod that no value names, in the pod's order. `later` collects unknown values.

    Before Kubernetes 1.29 Docker is a regular container and not a sidecar; the rules do not depend on that.
    """
    runners: tuple[Data, ...] = ()
    default: dict[str, Data] = {}
    with later:
        if (containers := walk(values, "template", "spec", "containers")) is None:
            default = {"name": RUNNER, "image": RUNNER_IMAGE, "command": ["/home/runner/run.sh"]}
        runners = (default,) if default else tuple(_named(containers, RUNNER, later))
    with later:
        if mode(values) == DIND:
            why = f'{MODE} "{DIND}"'
            for body in (_init_container(runners, later), _DOCKER):
                yield Container(f"{INIT}[{body['name']}]", INIT, body, why)
    if default:
        yield Container(f"{REGULAR}[{RUNNER}]", REGULAR, default, "the chart, because template.spec.containers is not set")


def left_out(values: Data) -> frozenset[str]:
    """Names of containers under `containers` that the chart leaves out of the pod. Raises UnknownError."""
    return frozenset((DIND,)) if mode(values) == DIND else frozenset()


def volumes(values: Data, later: Later) -> Iterator[Mapping[str, Data]]:
    """Volumes of the runner pod that no value names. `later` collects unknown values."""
    with later:
        container_mode = mode(values)
        unread = Later()
        listed = walk(values, "template", "spec", "volumes")
        own_work = any(True for _ in _named(listed, WORK, unread))
        later.join(unread)
        lacks_work = not (own_work or unread)
        if container_mode == DIND:
            names = ("dind-sock", "dind-externals", *((WORK,) if lacks_work else ()))
            yield from ({"name": name, "emptyDir": {}} for name in names)
        elif container_mode == IN_CLUSTER and lacks_work:
            claim = walk(values, "containerMode", "kubernetesModeWorkVolumeClaim")
            yield {"name": WORK, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


_DOCKER: dict[str, Data] = _TABLES[SCALE_SET_CHART]["docker"] | {"image": DIND_IMAGE}


def _init_container(runners: Sequence[Data], later: Later) -> dict[str, Data]:
    """The init container that copies files out of the runner's image. If that image is unknown, it has none here."""
    words = ["-r", "/home/runner/externals/.", "/home/runner/tmpDir/"]
    body: dict[str, Data] = {"name": "init-dind-externals", "command": ["cp"], "args": words}
    with later:
        for runner in runners:
            if (image := walk(runner, "image")) is not None:
                return body | {"image": image}
    return body


def _named(listed: Data, name: str, later: Later) -> Iterator[Data]:
    return (item for _, item in items(listed, later) if text(later.walk(item, "name")) == name)
