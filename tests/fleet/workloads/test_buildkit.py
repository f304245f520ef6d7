"""BuildKit: a pod without root on a pool without GPUs, which only jobs of its runner sets reach."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from fleet.facts.errors import FleetError
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import CPU_TAINT, POOL_LABEL
from fleet.loading.config import load
from fleet.prove import room
from fleet.prove.bill import bill
from fleet.providers.installed import pod_set_of
from fleet.render.isolation import homes, network_policy
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner
from policies.rules.runner_no_privileged import RULE
from tests.builders import cluster, config, pool, runner
from tests.charts import objects
from tests.day import AS_OF
from tests.fleet.workloads.test_room import fleet
from tests.fleet.workloads.world import with_workloads, workload
from tests.policies.harness import CLEAN, judge

BUILDER = {"kind": "buildkit", "pool": "cpu", "runners": ["gpu-t4"]}
PORT = 1234
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def of_cpu(**changes: Any) -> dict[str, Any]:
    """A cluster with a pool without GPUs, and a second runner set that builds nothing."""
    pools = {"t4": pool(), "cpu": pool(instanceTypes=["m6i.2xlarge"], nodes={"max": 1})}
    return cluster(pools=pools, runners={"gpu-t4": runner(), "plain": runner()}, **changes)


def made(**changes: Any) -> tuple[Cluster, dict[str, Manifest]]:
    """A cluster with the workload `builder`, and its manifests by kind."""
    settings = with_workloads(of_cpu(), builder=BUILDER | changes)
    return settings, {manifest["kind"]: manifest for manifest in workload_objects(settings, "builder")}


def pod(**changes: Any) -> Manifest:
    spec: Manifest = made(**changes)[1]["Deployment"]["spec"]["template"]["spec"]
    return spec


# -- its pod -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", ["1.33", "1.36"])
def test_the_api_takes_every_manifest(minor: str) -> None:
    manifests = list(objects(with_workloads(of_cpu(), builder=BUILDER)))
    assert [manifest["kind"] for manifest in manifests] == [
        "Namespace",
        "NetworkPolicy",
        "Service",
        "NetworkPolicy",
        "Deployment",
    ]
    for manifest in manifests:
        kubernetes_validate.validate(manifest, minor, strict=True)


def test_it_runs_in_its_pool_and_takes_no_gpu() -> None:
    spec = pod()
    assert spec["nodeSelector"] == {POOL_LABEL: "cpu"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == [CPU_TAINT.key]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "50Gi"},
        "limits": {"cpu": "4", "memory": "8Gi"},
    }


def test_it_has_neither_root_nor_a_token_and_only_lacks_two_profiles() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    security = spec["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 1000)
    assert {key for key, value in security.items() if value == {"type": "Unconfined"}} == {"seccompProfile", "appArmorProfile"}
    (container,) = spec["containers"]
    assert "securityContext" not in container
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert made()[0].team_namespaces == {"builds": "privileged"}


def test_only_a_client_with_a_certificate_can_build() -> None:
    spec = pod(certificates="builder-tls")
    (container,) = spec["containers"]
    assert {"--tlscacert=/certs/ca.pem", "--tlscert=/certs/cert.pem", "--tlskey=/certs/key.pem"} <= set(container["args"])
    (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == "/certs"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert mount["readOnly"]
    assert volumes[mount["name"]]["secret"] == {"secretName": "builder-tls"}


@pytest.mark.parametrize(("scratch", "most"), [("50Gi", 42949), ("100Gi", 85899)])
def test_its_cache_stays_below_its_disk(scratch: str, most: int) -> None:
    spec = pod(scratch=scratch)
    (container,) = spec["containers"]
    assert f"--oci-worker-gc-keepstorage=0,0,{most}" in container["args"], "MB, 80 % of the GiB"
    assert {"emptyDir": {"sizeLimit": scratch}, "name": "cache"} in spec["volumes"]
    assert container["resources"]["requests"]["ephemeral-storage"] == scratch


# -- who reaches it ----------------------------------------------------------------------------------------------------


def test_jobs_of_its_runner_sets_reach_it_and_no_others() -> None:
    settings, manifests = made()
    (rule,) = manifests["NetworkPolicy"]["spec"]["ingress"]
    assert rule == {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "runners-gpu-t4"}}}],
        "ports": [{"protocol": "TCP", "port": PORT}],
    }
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    reached = {name: _builders(settings, name) for name in ("gpu-t4", "plain")}
    assert reached == {"gpu-t4": ("builds",), "plain": ()}
    opened = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "builds"}}}], "ports": rule["ports"]}
    assert opened in network_policy(builders=reached["gpu-t4"])["egress"]
    assert opened not in network_policy(builders=reached["plain"])["egress"]


def _builders(settings: Cluster, name: str) -> tuple[str, ...]:
    runner_set = settings.runners[name]
    assert isinstance(runner_set, PodRunner)
    return pod_set_of(settings, name, runner_set, load(config()).github).builders


def test_its_service_leads_to_its_port() -> None:
    _, manifests = made()
    (port,) = manifests["Service"]["spec"]["ports"]
    (container,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert port["port"] == PORT
    assert container["ports"] == [{"name": port["targetPort"], "containerPort": PORT}]
    assert f"--addr=tcp://0.0.0.0:{PORT}" in container["args"]


def test_its_pods_reach_registries_and_not_the_nodes_metadata() -> None:
    (home,) = homes(made()[0]).values()
    internet = [rule for rule in home.wall["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert "169.254.0.0/16" in internet[0]["to"][0]["ipBlock"]["except"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"pool": "t4"}, "workloads.builder.pool: the pool has GPUs, and BuildKit takes none"),
        ({"runners": ["gpu-t5"]}, "workloads.builder.runners.0: no runner set of pods of that name in this cluster"),
        ({"runners": []}, "workloads.builder.runners"),
        ({"shm": "1Gi"}, "workloads.builder.shm"),
        ({"namespace": "ai"}, "another user of that namespace requires the Pod Security Standard"),
        ({"namespace": "coral"}, "workload stick is in that namespace, and BuildKit has its own"),
    ],
)
def test_what_cannot_build_is_refused(changes: dict[str, Any], error: str) -> None:
    others = {"ai": {"chat": workload("ollama")}, "coral": {"stick": workload("coral")}}
    workloads = {"builder": BUILDER | changes, **others.get(changes.get("namespace", ""), {})}
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": of_cpu(workloads=workloads)}))
    assert error in str(caught.value)


def test_no_runner_set_shares_the_pool_of_a_builder() -> None:
    runners = {"gpu-t4": runner(), "build": runner(pool="cpu", gpus=0)}
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": of_cpu(workloads={"builder": BUILDER}) | {"runners": runners}}))
    assert "workloads.builder.pool: runner set build uses that pool too, and BuildKit has its nodes alone" in str(caught.value)


def test_two_sets_of_a_class_reach_the_same_builders() -> None:
    here = of_cpu(workloads={"builder": BUILDER})
    there = of_cpu() | {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    here["runners"], there["runners"] = ({"gpu-t4": runner()}, {"gpu-t4-east": runner(sameAs="usw2/gpu-t4")})
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": here, "use1": there}))
    assert "BuildKit's namespace is none here and builds there" in str(caught.value)


def test_a_gpu_workload_is_refused_in_a_pool_without_gpus() -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": of_cpu(workloads={"chat": workload("ollama", pool="cpu")})}))
    assert "workloads.chat.pool: the pool has no GPUs" in str(caught.value)


def test_a_builder_that_no_node_holds_is_refused() -> None:
    refused = room.refusals(fleet(of_cpu(), builder=BUILDER | {"cpu": {"request": 9, "limit": 9}}))
    assert [(refusal.workload, refusal.error.partition(",")[0]) for refusal in refused] == [("builder", "asks for 9 CPU")]
    assert list(room.refusals(fleet(of_cpu(), builder=BUILDER))) == []


def test_it_keeps_a_node_that_the_bill_has() -> None:
    lines = {line.item: line.least for line in bill(fleet(of_cpu(), builder=BUILDER), AS_OF)}
    assert lines["pool cpu"] == 1


# -- the policy --------------------------------------------------------------------------------------------------------


def test_the_policy_names_the_two_profiles_until_the_stack_lists_the_pod() -> None:
    _, manifests = made()
    messages = judge(RULE, DEPLOYMENT, manifests["Deployment"]).messages
    assert [message.partition(" is ")[0] for message in messages] == [
        "spec.template.spec.securityContext.seccompProfile.type",
        "spec.template.spec.securityContext.appArmorProfile.type",
    ]
    assert judge(RULE, DEPLOYMENT, manifests["Deployment"], {"unconfined": ["builds/builder"]}) == CLEAN
    assert judge(RULE, DEPLOYMENT, manifests["Deployment"], {"unconfined": ["builds/other"]}).messages == messages
