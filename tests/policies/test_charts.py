"""What `charts.py` says that charts make: compared with the texts here, and with Helm with our small charts and the real ones."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.arc import arc_controller
from fleet.charts.argo_cd import argo_cd
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.charts.device_plugin import device_plugin
from fleet.charts.metrics_server import METRICS_SERVER
from fleet.facts import versions
from gpu_ci.offline.policyconfig import policy_settings
from policies.rules import RULES, Rule, charts
from policies.rules.charts import INIT, REGULAR
from policies.rules.images_pinned import Named, of_policy, of_release, parsed
from policies.rules.kinds import APPLICATION, RELEASE
from policies.rules.pods import containers_of, pod_specs
from policies.rules.read import Later
from policies.rules.releases import Release
from tests.components.recorded import ROOT, STACKS, recorded
from tests.policies.fixtures import GPU_POD, RUNNER_SET, release
from tests.policies.harness import UNKNOWN, Verdict, as_read, changed, judge_read
from tests.policies.published import skip_if_on
from tests.policies.rendered import (
    KUBERNETES,
    NAME,
    NAMESPACE,
    OURS,
    of_kind,
    published,
    render,
    render_alone,
    render_sets,
    resources,
    verdicts,
)

SET, CONTROLLER = "gha-runner-scale-set", "gha-runner-scale-set-controller"
IMAGE = "ghcr.io/actions/actions-runner:2.338.0"
RUNNER = {"name": "runner", "image": IMAGE, "env": [{"name": "DOCKER_HOST", "value": "tcp://other:1"}]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

Seen = tuple[str, str, str, bool]
"""Field, name, image and whether it is privileged: of a container."""


def values(mode: str | None = None, **spec: Any) -> dict[str, Any]:
    """Values of a set in a mode whose pod spec is `spec`, with a runner unless it says otherwise."""
    found: dict[str, Any] = {
        "githubConfigUrl": "https://github.com/example",
        "githubConfigSecret": "github-app",
        "controllerServiceAccount": {"namespace": "arc-systems", "name": "arc"},
        "runnerGroup": "gpu",
        "maxRunners": 2,
        "template": {"spec": {"containers": [RUNNER]} | spec},
    }
    if mode is not None:
        found["containerMode"] = {"type": mode, "kubernetesModeWorkVolumeClaim": CLAIM}
    return found


def without(*path: str, of: Mapping[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(dict(of))
    holder = found
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return found


DIND: Seen = (INIT, "dind", "docker:dind", True)
EXTERNALS: Seen = (INIT, "init-dind-externals", IMAGE, False)
OWN: Seen = (REGULAR, "runner", IMAGE, False)
LATEST = "ghcr.io/actions/actions-runner:latest"
SIDE = {"name": "side", "image": "example.com/side:1"}
WARM = {"name": "warm", "image": "example.com/warm:1"}
DOCKER = {"name": "dind", "image": "example.com/docker:1"}

CASES: dict[str, tuple[dict[str, Any], set[Seen]]] = {
    "no mode": (values(), {OWN}),
    "another mode": (values(""), {OWN}),
    "no containers": (without("template", "spec", "containers", of=values()), {(REGULAR, "runner", LATEST, False)}),
    "no template": (without("template", of=values()), {(REGULAR, "runner", LATEST, False)}),
    "side containers": (
        values(containers=[SIDE, RUNNER], initContainers=[WARM]),
        {OWN, (REGULAR, "side", SIDE["image"], False), (INIT, "warm", WARM["image"], False)},
    ),
    "dind": (values("dind"), {OWN, EXTERNALS, DIND}),
    "dind without containers": (
        without("template", "spec", "containers", of=values("dind")),
        {(REGULAR, "runner", LATEST, False), (INIT, "init-dind-externals", LATEST, False), DIND},
    ),
    "dind beside others": (
        values("dind", containers=[SIDE, RUNNER, DOCKER], initContainers=[WARM]),
        {OWN, EXTERNALS, DIND, (REGULAR, "side", SIDE["image"], False), (INIT, "warm", WARM["image"], False)},
    ),
    "a container dind without the mode": (values(containers=[RUNNER, DOCKER]), {OWN, (REGULAR, "dind", DOCKER["image"], False)}),
    "kubernetes": (values("kubernetes"), {OWN}),
    "kubernetes without volume": (values("kubernetes-novolume"), {OWN}),
    "kubernetes without containers": (
        without("template", "spec", "containers", of=values("kubernetes")),
        {(REGULAR, "runner", LATEST, False)},
    ),
}
EACH_CASE = pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)

VOLUMES = {
    "no mode": (values(volumes=[{"name": "shm"}]), set()),
    "dind": (values("dind"), {"dind-sock", "dind-externals", "work"}),
    "dind with a work volume": (values("dind", volumes=[{"name": "work", "emptyDir": {}}]), {"dind-sock", "dind-externals"}),
    "kubernetes": (values("kubernetes"), {"work"}),
    "kubernetes with a work volume": (values("kubernetes", volumes=[{"name": "work", "emptyDir": {}}]), set()),
    "kubernetes without volume": (values("kubernetes-novolume"), set()),
}

# -- as written here ---------------------------------------------------------------------------------------------------


def read(given: Mapping[str, Any]) -> Any:
    """Values as a rule gets them."""
    return as_read({"values": given})["values"]


def named_in(props: Mapping[str, Any]) -> Iterator[Named]:
    """The images of a Helm release."""
    return of_release(Release(as_read(props)), Later())


def seen(given: Mapping[str, Any]) -> set[Seen]:
    """The containers of a set's runner pod, as rules see them."""
    later = Later()
    pod = next(pod_specs(RELEASE, as_read({"chart": SET, "values": given}), later))
    found = {_seen(each.field, each.body) for each in containers_of(pod, later)}
    assert not later
    return found


def _seen(field: str, body: Any) -> Seen:
    security = body.get("securityContext") or {}
    return field, body["name"], body.get("image") or "", security.get("privileged", False)


@EACH_CASE
def test_the_runner_pod_has_the_containers_of_its_mode(given: dict[str, Any], expected: set[Seen]) -> None:
    assert seen(given) == expected


@pytest.mark.parametrize(("given", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_the_runner_pod_has_the_volumes_of_its_mode(given: dict[str, Any], expected: set[str]) -> None:
    assert {each["name"] for each in charts.volumes(read(given), Later())} == expected


def test_an_unknown_mode_is_put_off_and_what_is_known_is_still_seen() -> None:
    props = {"chart": SET, "values": changed(values("dind", containers=[RUNNER, DOCKER]), "containerMode", "type", UNKNOWN)}
    later = Later()
    (pod,) = pod_specs(RELEASE, as_read(props), later)
    assert [each.path for each in containers_of(pod, later)] == ["containers[0]"], "the other one may be left out"
    assert later


def test_unknown_containers_hide_nothing_of_the_mode() -> None:
    later = Later()
    found = list(charts.added(read(changed(values("dind"), "template", "spec", "containers", UNKNOWN)), later))
    assert [each.body["name"] for each in found] == ["init-dind-externals", "dind"]
    assert later


def test_the_table_is_of_the_versions_that_the_project_pins() -> None:
    # metrics-server runs one image, by digest: its values name it, and the rules read them.
    pinned = {name: chart.version for name, chart in versions.CHARTS.items() if name != METRICS_SERVER}
    tables = tomllib.loads((Path(str(charts.__file__)).parent / "charts.toml").read_text())
    assert set(tables) == set(charts.IMAGES) == set(pinned)
    for name, row in tables.items():
        assert row["source"]
        assert row["date"]
        for image in charts.IMAGES[name]:
            (named,) = [each for each in named_in({"chart": name, "values": _on(image)}) if _at(each, image)]
            assert parsed(named.reference), named


def test_the_images_of_charts_in_both_tables_are_the_same() -> None:
    for chart, images in versions.CHART_IMAGES.items():
        for path, image in images.items():
            if chart == METRICS_SERVER:
                continue
            (default,) = [each for each in charts.IMAGES[chart] if each.at == path]
            # Another name of one registry, and a chart whose tag is that of the cluster's minor.
            own = parsed(_reference(default).replace("ecr-public.aws.com", "public.ecr.aws"))
            named = parsed(image.reference)
            assert named is not None
            assert own is not None
            assert (named.repository, named.tag or own.tag) == (own.repository, own.tag), f"{chart} {path}"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ({}, "v1.12.1-distroless"),
        ({"tag": "v2", "distroless": True}, "v2-distroless"),
        ({"tag": "v2", "distroless": False}, "v2"),
    ],
)
def test_a_chart_adds_the_variant_of_an_image_to_its_tag(image: dict[str, Any], version: str) -> None:
    props = {"chart": "kube-prometheus-stack", "values": {"prometheus-node-exporter": {"image": image}}}
    assert f"quay.io/prometheus/node-exporter:{version}" in {named.reference for named in named_in(props)}


def _reference(default: charts.DefaultImage) -> str:
    values = default.values
    path = "/".join(values[key] for key in ("registry", "repository", "image") if values.get(key))
    return f"{path}:{values.get('tag') or values.get('version')}{default.variant and f'-{default.variant}'}"


def _at(named: Any, image: charts.DefaultImage) -> bool:
    return bool(named.path == f"values.{image.at}")


def _on(image: charts.DefaultImage) -> dict[str, Any]:
    flag: Any = True
    for step in reversed([step for step in image.switch.split(".") if step]):
        flag = {step: flag}
    return flag if isinstance(flag, dict) else {}


# -- as Helm renders them ----------------------------------------------------------------------------------------------


def rendered(pod: Mapping[str, Any]) -> set[Seen]:
    """The containers of a rendered pod."""
    return {_seen(field, body) for field in (INIT, REGULAR) for body in pod.get(field) or ()}


def set_of(folder: Path, values: Mapping[str, Any], scratch: Path) -> list[dict[str, Any]]:
    """The manifests of a runner set with one of `ALL`, as its chart has them."""
    render_sets(folder, ((values, NAME, NAMESPACE) for values in ALL.values()), scratch)
    return render(folder, values, scratch)


def hold_to(manifests: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> None:
    """What `charts.py` says of a set's values is what Helm does with them."""
    (runner_set,) = of_kind(manifests, "AutoscalingRunnerSet")
    pod = runner_set["spec"]["template"]["spec"]
    assert rendered(pod) == seen(given)

    later = Later()
    here = read(given)
    own = {each["name"]: each for each in given.get("template", {}).get("spec", {}).get("volumes") or ()}
    made = {each["name"]: each for each in charts.volumes(here, later)}
    assert {name: _plain(volume) for name, volume in (own | made).items()} == {
        each["name"]: each for each in pod.get("volumes") or ()
    }

    assert not later


def _plain(volume: Any) -> Any:
    """A volume without the SDK's proxies."""
    if isinstance(volume, Mapping):
        return {key: _plain(volume[key]) for key in volume}
    return [_plain(each) for each in volume] if isinstance(volume, Sequence) and not isinstance(volume, str) else volume


def same_verdicts(
    manifests: Sequence[Mapping[str, Any]], given: Mapping[str, Any], config: Mapping[str, Mapping[str, Any]] | None = None
) -> set[tuple[str, str]]:
    """What the whole pack says of a set's values, which is what it says of the rendered runner set."""
    told = verdicts(RELEASE, {"chart": SET, "version": "0.14.2", "values": given}, config)
    (runner_set,) = [props for token, props in resources(manifests) if token == RUNNER_SET]
    assert verdicts(RUNNER_SET, runner_set, config) == told
    return told


BROKEN: dict[str, tuple[dict[str, Any], set[str]]] = {
    "root, privileged, from elsewhere": (
        values(containers=[{**RUNNER, "image": "evil.example.com/a", "securityContext": {"privileged": True, "runAsUser": 0}}]),
        {"images-pinned", "runner-no-privileged"},
    ),
    "a listener on the node's network": (
        values()
        | {"listenerTemplate": {"spec": {"hostNetwork": True, "containers": [{"name": "listener"}, {**SIDE, "image": "a"}]}}},
        {"images-pinned", "runner-no-privileged"},
    ),
    "a GPU pod without a limit": (values(nodeSelector={"gpu-ci/pool": "t4"}), {"gpu-limits-required"}),
    "no group": (without("runnerGroup", of=values()), {"runner-group-scoped"}),
    "a token in the environment": (
        values(containers=[{**RUNNER, "env": [{"name": "T", "value": f"ghp_{'A1b2' * 9}"}]}]),
        {"no-long-lived-credentials"},
    ),
    "Docker with its default images": (CASES["dind without containers"][0], {"images-pinned", "runner-no-privileged"}),
    "Docker of the values, left out": (CASES["dind beside others"][0], {"images-pinned", "runner-no-privileged"}),
}
ALL = {**{name: given for name, (given, _) in CASES.items()}, **{name: given for name, (given, _) in BROKEN.items()}}
EACH = pytest.mark.parametrize("given", ALL.values(), ids=ALL)


@EACH
def test_our_small_chart_makes_of_values_what_rules_believe(given: dict[str, Any], tmp_path: Path) -> None:
    hold_to(set_of(OURS / SET, given, tmp_path), given)


@EACH
def test_rules_say_of_values_what_they_say_of_our_small_charts_manifests(given: dict[str, Any], tmp_path: Path) -> None:
    same_verdicts(set_of(OURS / SET, given, tmp_path), given)


def test_a_set_that_is_rendered_with_others_is_as_alone(tmp_path: Path) -> None:
    given = BROKEN["a listener on the node's network"][0]
    assert set_of(OURS / SET, given, tmp_path) == render_alone(OURS / SET, given, tmp_path)


OPERATOR_VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "off and on": {"driver": {"enabled": False}, "dcgm": {"enabled": True}, "sandboxWorkloads": {"enabled": True}},
    "own version": {"driver": {"version": "580.173.02"}, "toolkit": {"repository": "example.com/x", "image": "kit"}},
}


@pytest.mark.parametrize("given", OPERATOR_VALUES.values(), ids=OPERATOR_VALUES)
def test_images_that_values_and_defaults_give_are_those_of_our_small_operator(given: dict[str, Any], tmp_path: Path) -> None:
    chart_has = {"operator", "validator", "driver", "driver.manager", "toolkit", "dcgm", "vfioManager"}
    told = {
        named.reference
        for named in named_in({"chart": "gpu-operator", "values": given})
        if named.path.removeprefix("values.") in chart_has
    }
    assert told == running(resources(render(OURS / "gpu-operator", given, tmp_path)))


_RELOADER = "--prometheus-config-reloader="
"""Argument of Prometheus's operator: the image of a container that it adds to Prometheus and to Alertmanager."""


def _arguments(props: Mapping[str, Any]) -> Iterator[str]:
    pod = props.get("spec", {}).get("template", {}).get("spec", {}) if isinstance(props.get("spec"), Mapping) else {}
    for container in pod.get("containers", ()):
        yield from container.get("args", ())


def running(manifests: Iterable[tuple[str, dict[str, Any]]]) -> set[str]:
    """References of all images in manifests: of pods, and of what a ClusterPolicy or Prometheus's operator starts."""
    later = Later()
    found = set()
    for token, props in manifests:
        seen = read_once(json.dumps(props))
        for pod in pod_specs(token, seen, later):
            found |= {body["image"] for each in containers_of(pod, later) if (body := each.body).get("image")}
        if token.startswith("kubernetes:monitoring.coreos.com/") and "image" in props["spec"]:
            found.add(props["spec"]["image"])
        for argument in _arguments(props):
            if argument.startswith(_RELOADER):
                found.add(argument.removeprefix(_RELOADER))
        if token.endswith(":ClusterPolicy"):
            found |= {named.reference for named in of_policy(seen, later)}
    assert not later
    return found


# -- as the published charts are rendered ------------------------------------------------------------------------------


@pytest.mark.reference
@EACH
def test_the_published_chart_makes_of_values_what_rules_believe(given: dict[str, Any], tmp_path: Path) -> None:
    hold_to(set_of(published(SET), given, tmp_path), given)


@pytest.mark.reference
@EACH
def test_rules_say_of_values_what_they_say_of_the_published_charts_manifests(given: dict[str, Any], tmp_path: Path) -> None:
    same_verdicts(set_of(published(SET), given, tmp_path), given)


@pytest.mark.parametrize(("given", "rules"), BROKEN.values(), ids=BROKEN)
def test_what_is_compared_breaks_rules(given: dict[str, Any], rules: set[str]) -> None:
    told = verdicts(RELEASE, {"chart": SET, "version": "0.14.2", "values": given})
    assert rules <= {rule for rule, _ in told}, "else the comparison would prove nothing"


def releases(stack: str) -> Iterator[dict[str, Any]]:
    """The properties of the stack's releases; those of ArgoCD's as if they were of Pulumi's."""
    for each in recorded(stack).resources:
        inputs: Any = each.inputs
        if each.type == RELEASE:
            yield {key: inputs[key] for key in ("chart", "version", "name", "namespace", "values")}
        elif each.type == APPLICATION:
            source = inputs["spec"]["source"]
            yield {
                "chart": source["chart"],
                "version": source["targetRevision"],
                "name": source["helm"]["releaseName"],
                "namespace": inputs["spec"]["destination"]["namespace"],
                "values": source["helm"]["valuesObject"],
            }


def properties(stack: str) -> dict[str, dict[str, Any]]:
    """The stack's own config of each rule. Exceptions are of the release, so none is needed for what it renders."""
    return {
        name: {key: value for key, value in entry.items() if key not in ("enforcementLevel", "exceptions", "requireDigest")}
        for name, entry in policy_settings(stack, ROOT).items()
        if isinstance(entry, Mapping)
    }


def made_of(stack: str, scratch: Path) -> Iterator[tuple[dict[str, Any], str, list[dict[str, Any]]]]:
    """(properties, chart, manifests) of each release of a stack. A chart that is not at hand skips the test after all others."""
    skipped = None
    every = [(inputs, inputs["chart"].rpartition("/")[2]) for inputs in releases(stack)]
    sets = [(inputs["values"], inputs["name"], inputs["namespace"]) for inputs, chart in every if chart == SET]
    for inputs, chart in every:
        names = {key: inputs[key] for key in ("name", "namespace")}
        try:
            if chart == SET:
                render_sets(published(SET), sets, scratch)
            manifests = render(published(chart), inputs["values"], scratch, KUBERNETES, **names)
        except pytest.skip.Exception as error:
            skipped = error
        else:
            yield inputs, chart, manifests
    if skipped:
        raise skipped


@pytest.mark.reference
@pytest.mark.parametrize("stack", STACKS)
def test_the_manifests_of_our_own_stacks_are_what_rules_believe_and_break_none(stack: str, tmp_path: Path) -> None:
    judged, config = 0, properties(stack)
    rules = [(rule, json.dumps(config.get(rule.id))) for rule in RULES if isinstance(rule, Rule)]
    for inputs, chart, manifests in made_of(stack, tmp_path):
        if chart == SET:
            hold_to(manifests, inputs["values"])
            assert same_verdicts(manifests, inputs["values"], config) == set()
        there = list(resources(manifests, inputs["namespace"]))
        if chart != SET:
            assert {named.reference for named in named_in(inputs)} == running(there), chart
        for token, props in there:
            text = json.dumps(props)
            for rule, own in rules:
                if token in rule.types:
                    judged += 1
                    verdict = of_text(rule, token, text, own)
                    assert not verdict.unknown
                    assert not verdict.messages, (chart, token, props["metadata"]["name"])
    assert judged


_CACHED = re.compile(r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/gpu-ci/")
"""What a cluster's registry puts before the image of another one."""


def references(part: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """(place, reference) of each image in a manifest: its keys `image`, and those by digest in arguments and variables."""
    if isinstance(part, Mapping):
        for key in part:
            yield from references(part[key], f"{at}.{key}")
    elif isinstance(part, list):
        for index, each in enumerate(part):
            yield from references(each, f"{at}[{index}]")
    elif isinstance(part, str) and (at.endswith(".image") or "@sha256:" in part):
        yield at, part.rpartition("=")[2]


def rows_of(chart: str, given: Mapping[str, Any]) -> set[str]:
    """The images of the table's rows for a chart, as they are to run, and the driver that a stack chose."""
    if chart == SET:
        return {row.reference for row in versions.IMAGES.values()}
    rows = versions.CHART_IMAGES[chart].values()
    if chart == "cluster-autoscaler":
        return {f"{row.reference}:{minor.cluster_autoscaler}" for row in rows for minor in versions.KUBERNETES.values()}
    # The operator writes a digest without a tag.
    driver = f"nvcr.io/nvidia/driver:{given.get('driver', {}).get('version', versions.OPERATOR_DRIVER)}"
    return {driver} | {re.sub(":[^:]+@", "@", row.reference) if row.form == "version" else row.reference for row in rows}


@pytest.mark.reference
@pytest.mark.parametrize("stack", STACKS)
def test_each_image_that_our_own_stacks_render_is_a_reference_and_that_of_its_row(stack: str, tmp_path: Path) -> None:
    for inputs, chart, manifests in made_of(stack, tmp_path):
        rows = rows_of(chart, inputs["values"])
        for manifest in manifests:
            found = (
                [(named.path, named.reference) for named in of_policy(as_read(manifest), Later())]
                if manifest["kind"] == "ClusterPolicy"
                else references(manifest)
            )
            for place, image in found:
                assert parsed(image), (chart, place, image)
                assert _CACHED.sub("", image) in rows, (chart, manifest["kind"], place)


@pytest.mark.reference
def test_no_runner_ends_a_pod_that_serves_each_node(tmp_path: Path) -> None:
    """Runners of pools with placeholders end pods of a lower priority; this class of Kubernetes is above all others."""
    found = {
        (chart, each["metadata"]["name"].removeprefix(f"{chart}-"), each["spec"]["template"]["spec"].get("priorityClassName"))
        for _, chart, manifests in made_of("monitoring", tmp_path)
        for each in of_kind(manifests, "DaemonSet")
    }
    assert {priority for _, _, priority in found} == {"system-node-critical"}
    assert {name for _, name, _ in found} > {"prometheus-node-exporter", "dcgm-exporter", "nvidia-device-plugin"}


def test_a_chart_that_lacks_a_chart_inside_it_skips_the_test_only_if_that_one_is_on(tmp_path: Path) -> None:
    folder = tmp_path / "outer" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "values.yaml").write_text("inner: {enabled: true}")
    entry = {"name": "inner", "version": "2.3.4", "condition": "inner.absent,inner.enabled"}
    skip_if_on(folder, entry, {"inner": {"enabled": False}})
    skip_if_on(folder, entry, {"inner": {"absent": False}})
    for values in ({}, {"inner": {"absent": True, "enabled": False}}):
        with pytest.raises(pytest.skip.Exception, match=r"outer/1\.0\.0 lacks the subchart inner 2\.3\.4"):
            skip_if_on(folder, entry, values)


@cache
def of_text(rule: Rule, token: str, props: str, config: str) -> Verdict:
    """What a rule says of a manifest that several stacks have."""
    return judge_read(rule, token, read_once(props), json.loads(config))


@cache
def read_once(props: str) -> Any:
    """The properties of a manifest as rules read them."""
    return as_read(json.loads(props))


@pytest.mark.reference
@pytest.mark.parametrize("name", ["nvidia-device-plugin", "gpu-operator"])
def test_published_gpu_charts_take_of_the_node_what_the_table_says(name: str, tmp_path: Path) -> None:
    assert charts.NODE[name]
    manifests = render(published(name), {}, tmp_path, name=name, namespace=name)
    hosts = [volume for each in of_kind(manifests, "DaemonSet") for volume in each["spec"]["template"]["spec"]["volumes"]]
    assert any("hostPath" in volume for volume in hosts), "it takes of the node, as the table says"


@pytest.mark.reference
def test_argo_cds_processes_read_the_parameters_that_ours_sets(tmp_path: Path) -> None:
    """The chart hands any key on to its ConfigMap: one that no process reads would be as if it were not there."""
    inputs, manifests = next((inputs, made) for inputs, chart, made in made_of("gitops", tmp_path) if chart == "argo-cd")
    params = inputs["values"]["configs"]["params"]
    assert params == argo_cd("argocd").values["configs"]["params"]
    workloads = [each for kind in ("StatefulSet", "Deployment") for each in of_kind(manifests, kind)]
    containers = [container for each in workloads for container in each["spec"]["template"]["spec"]["containers"]]
    sources = [variable.get("valueFrom", {}) for container in containers for variable in container.get("env", [])]
    read = {
        held["key"]
        for held in (each.get("configMapKeyRef", {}) for each in sources)
        if held.get("name") == "argocd-cmd-params-cm"
    }
    assert params
    assert set(params) <= read


def test_our_own_charts_are_the_ones_of_the_table() -> None:
    made = (
        arc_controller(),
        argo_cd("argocd"),
        device_plugin(),
        cluster_autoscaler("c", "us-west-2", "1.34"),
    )
    assert {each.chart for each in made} < set(charts.IMAGES)
    assert release(GPU_POD)["chart"].endswith(SET)
