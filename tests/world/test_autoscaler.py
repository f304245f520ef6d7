"""The simulated cloud as a provider of Cluster Autoscaler: over the wire, and with the real program."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import pytest

from fleet.charts.cluster_autoscaler import AUTOSCALER, PRIORITIES
from fleet.loading.config import load
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from gpu_ci.world import autoscaler
from gpu_ci.world.autoscaler import CALLS, MESSAGES, answers
from gpu_ci.world.cloud import REFUSED, Cloud, groups
from gpu_ci.world.parts import find
from gpu_ci.world.plane import Followed, Plane, control_plane
from gpu_ci.world.processes import Processes
from tests.builders import read_stack
from tests.fleet.conformance import cluster_charts
from tests.world.clouds import STAGING, Memory, Time, clouded, group

Call = Callable[..., Any]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Cloud, Memory, Time, Call]]:
    """A cloud, and how an autoscaler calls it."""
    cloud, api, clock = clouded()
    file, stop = autoscaler.serve(cloud, tmp_path)
    channel = grpc.insecure_channel(json.loads(file.read_text(encoding="ascii"))["address"])

    def call(name: str, **fields: Any) -> Any:
        asked, told = CALLS[name]
        method = f"/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{name}"
        of = channel.unary_unary(method, MESSAGES[asked].SerializeToString, MESSAGES[told].FromString)
        return of(MESSAGES[asked](**fields), timeout=10)

    yield cloud, api, clock, call
    channel.close()
    stop()


def test_the_autoscaler_sees_the_groups_with_their_sizes(served: tuple[Cloud, Memory, Time, Call]) -> None:
    cloud, _, _, call = served
    told = {each.id: (each.minSize, each.maxSize) for each in call("NodeGroups").nodeGroups}
    assert told == {name: (one.span.min, one.span.max) for name, one in cloud.groups.items()}
    at = group(cloud, "t4-spot")
    call("NodeGroupIncreaseSize", id=at, delta=2)
    assert call("NodeGroupTargetSize", id=at).targetSize == 2
    call("NodeGroupDecreaseTargetSize", id=at, delta=-1)
    assert call("NodeGroupTargetSize", id=at).targetSize == 1
    with pytest.raises(grpc.RpcError, match="at most 2"):
        call("NodeGroupIncreaseSize", id=at, delta=2)


def test_the_autoscaler_knows_gpus_as_the_cloud_names_them(served: tuple[Cloud, Memory, Time, Call]) -> None:
    *_, call = served
    assert call("GPULabel").label == "k8s.amazonaws.com/accelerator"
    assert [each.key for each in call("GetAvailableGPUTypes").gpuTypes] == ["nvidia-tesla-t4"]


def test_a_refused_machine_has_an_error_and_goes_by_its_id(served: tuple[Cloud, Memory, Time, Call]) -> None:
    cloud, _, clock, call = served
    at = group(cloud, "t4-spot")
    call("NodeGroupIncreaseSize", id=at, delta=1)
    cloud.refuse("t4-spot")
    call("NodeGroupIncreaseSize", id=at, delta=1)
    clock.now += 10
    cloud.once()
    running, refused = call("NodeGroupNodes", id=at).instances
    assert (running.status.instanceState, running.status.errorInfo.errorCode) == (1, "")
    error = refused.status.errorInfo
    assert (refused.status.instanceState, error.errorCode, error.instanceErrorClass) == (2, REFUSED, 1)
    assert call("NodeGroupForNode", node={"providerID": running.id}).nodeGroup.id == at
    assert call("NodeGroupForNode", node={"providerID": "gpu-ci-world:///us-west-2a/unknown"}).nodeGroup.id == ""
    call("NodeGroupDeleteNodes", id=at, nodes=[{"name": refused.id}])
    assert [each.id for each in call("NodeGroupNodes", id=at).instances] == [running.id]


def test_a_template_is_the_node_that_the_group_would_make(served: tuple[Cloud, Memory, Time, Call]) -> None:
    cloud, _, _, call = served
    at = group(cloud, "t4-spot")
    node = MESSAGES["Node"].FromString(call("NodeGroupTemplateNodeInfo", id=at).nodeBytes)
    said = cloud.groups[at].template()
    assert {each.key: each.value for each in node.metadata.labels} == said["metadata"]["labels"]
    assert {each.key: each.value.string for each in node.status.allocatable} == said["status"]["allocatable"]
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.spec.taints]
    assert taints == said["spec"]["taints"]


def test_each_pool_has_its_delays_of_idle_and_broken_nodes_over_the_factor(served: tuple[Cloud, Memory, Time, Call]) -> None:
    cloud, _, time, call = served
    time.now += 60
    defaults = {"down": 0.5, "unneeded": {"seconds": 7}, "unready": {"seconds": 1200}, "provision": {"seconds": 900}}

    def times(pool: str) -> list[float]:
        told = call("NodeGroupGetOptions", id=group(cloud, pool), defaults=defaults).nodeGroupAutoscalingOptions
        assert (told.down, told.provision.seconds) == (0.5, 900), "the rest is the autoscaler's own"
        return [each.seconds + each.nanos / 1e9 for each in (told.unneeded, told.unready)]

    unready = 1200 / cloud.factor
    assert [*map(times, ("t4-spot", "t4-release", "system"))] == [[30, unready], [60, unready], [7, 1200]]
    cloud.factor = 40
    assert times("t4-spot") == [7.5, 30]


def test_a_group_with_a_node_that_starts_leaves_its_options_to_the_autoscaler(served: tuple[Cloud, Memory, Time, Call]) -> None:
    """The message cannot say how long a node may start. An answer would mean no time at all, and a second node."""
    cloud, _, time, call = served
    at = group(cloud, "t4-spot")

    def answered() -> bool:
        told = call("NodeGroupGetOptions", id=at, defaults={"down": 0.5})
        return bool(told.HasField("nodeGroupAutoscalingOptions"))

    time.now += 60
    assert answered()
    cloud.increase(at, 1)
    assert not answered(), "it boots"
    boots = cloud.of(at)[-1].due - time.now
    time.now += boots + 1
    assert not answered(), "it may not be ready yet"
    time.now += 60
    assert answered()


def test_what_the_autoscaler_can_do_without_is_not_implemented(served: tuple[Cloud, Memory, Time, Call]) -> None:
    cloud, *_ = served
    assert "PricingNodePrice" not in CALLS
    assert CALLS.keys() - answers(cloud).keys() == {"Cleanup", "Refresh"}, "every other call has an answer"


def test_times_of_the_chart_pass_faster_and_other_flags_stay() -> None:
    arguments = {"expander": "priority", "max-node-provision-time": "20m", "scale-down-delay-after-add": "30s", "balance": True}
    expected = ["--expander=priority", "--max-node-provision-time=60s", "--scale-down-delay-after-add=1.5s", "--balance=True"]
    assert autoscaler.flags(arguments, 20) == expected


# -- the real program --------------------------------------------------------------------------------------------------

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "cluster-autoscaler")
FACTOR = 30


class Rehearsal:
    """Staging's cloud with the real autoscaler, and pods with the spec of its runners."""

    def __init__(self, plane: Plane, stop: Event) -> None:
        fleet = load(read_stack(STAGING))
        settings = fleet.clusters["usw2"]
        self.charts = cluster_charts(fleet, "usw2", "staging")
        self.plane, self.cloud = plane, Cloud(plane.api, groups("usw2", settings, fleet.github), FACTOR)
        self.cloud.start(stop)
        self.pods = Followed(plane.api, "/api/v1/namespaces/default/pods", stop)
        self.nodes = Followed(plane.api, "/api/v1/nodes", stop)
        priorities = {"priorities": PROVIDERS[settings.provider].priorities("usw2", settings)}
        place = {"name": PRIORITIES, "namespace": "kube-system"}
        plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": priorities})

    def start(self, file: Path) -> None:
        """Start the autoscaler with the flags of its chart."""
        of_world = {
            "cloud-provider": "externalgrpc",
            "cloud-config": file,
            "kubeconfig": self.plane.kubeconfig(),
            "namespace": "kube-system",
            "leader-elect": False,
            "address": "127.0.0.1:0",
            "scan-interval": "1s",
        }
        flags = autoscaler.flags(self.charts[AUTOSCALER].values["extraArgs"], FACTOR)
        self.plane.processes.start(
            AUTOSCALER, [self.plane.parts[AUTOSCALER], *autoscaler.flags(of_world, 1), *flags], needed=True
        )

    def jobs(self, runner_set: str, *names: str) -> None:
        """Runners of a set that wait for a node."""
        spec: Mapping[str, Any] = self.charts[runner_set].values["template"]["spec"]
        chosen = {key: spec[key] for key in ("affinity", "nodeSelector", "tolerations") if key in spec}
        containers = [
            {"name": each["name"], "image": "none", "resources": each.get("resources", {})} for each in spec["containers"]
        ]
        for name in names:
            pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
            self.plane.api.call("POST", self.pods.path, pod | {"spec": chosen | {"containers": containers}})

    def end(self) -> None:
        """All jobs end, and then all nodes of pools go."""
        self.plane.api.call("DELETE", self.pods.path)
        self.plane.wait(lambda: {each["metadata"]["labels"]["gpu-ci/pool"] for each in self.nodes.values()} == {"system"}, "idle")

    def placed(self, count: int) -> dict[str, list[str]]:
        """The pods of each pool, once so many run."""

        def on_nodes() -> list[tuple[str, str]]:
            return sorted(
                (pod["spec"]["nodeName"], pod["metadata"]["name"]) for pod in self.pods.values() if "nodeName" in pod["spec"]
            )

        self.plane.wait(lambda: len(on_nodes()) == count, f"{count} pods")
        pools: dict[str, list[str]] = {}
        for node, pod in on_nodes():
            pools.setdefault(node.rpartition("-")[0], []).append(pod)
        return {name: sorted(pods) for name, pods in pools.items()}


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    if absent := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(f"not on PATH: {', '.join(absent)}")
    stop = Event()
    with Processes(tmp_path_factory.mktemp("world")) as processes:
        made = Rehearsal(control_plane(processes, find()), stop)
        file, end = autoscaler.serve(made.cloud, processes.folder)
        made.start(file)
        yield made
        stop.set()
        end()


@pytest.mark.world
def test_spot_fills_first_and_all_pools_go_back_to_zero(rehearsal: Rehearsal) -> None:
    rehearsal.jobs("gpu-t4", *(f"job-{number}" for number in range(7)))
    rehearsal.jobs("gpu-t4-release", "release")
    pools = rehearsal.placed(8)
    assert {name: len(pods) for name, pods in pools.items()} == {"t4-spot": 5, "t4-ondemand": 2, "t4-release": 1}
    assert pools["t4-release"] == ["release"]
    assert {one.zone for one in rehearsal.cloud.instances.values() if one.group.pool == "t4-spot"} == {
        "us-west-2a",
        "us-west-2b",
        "us-west-2c",
    }
    rehearsal.end()
    assert rehearsal.cloud.usage().peak == {"system": 2, "t4-spot": 5, "t4-ondemand": 2, "t4-release": 1}


@pytest.mark.world
def test_a_refused_zone_is_left_alone_and_a_refused_pool_is_replaced_by_the_next(rehearsal: Rehearsal) -> None:
    rehearsal.cloud.refuse("t4-spot", "us-west-2a")
    rehearsal.jobs("gpu-t4", "first", "second")
    assert rehearsal.placed(2) == {"t4-spot": ["first", "second"]}
    assert {one.zone for one in rehearsal.cloud.instances.values() if one.group.pool == "t4-spot"} <= {"us-west-2b", "us-west-2c"}
    rehearsal.cloud.refuse("t4-spot")
    rehearsal.jobs("gpu-t4", "third")
    assert rehearsal.placed(3)["t4-ondemand"] == ["third"]
    rehearsal.end()
