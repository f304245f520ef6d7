"""Jobs in containers: the two pods of a job, the rights of its runner, and what both need of a fleet."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest

from fleet.charts.container_jobs import OWN_POD, hook
from fleet.charts.runner_sets import PodSet
from fleet.facts.errors import FleetError
from fleet.facts.manifest import Manifest
from fleet.loading.config import load
from fleet.prove.bill import waiting, waiting_per_node
from fleet.prove.placement import overbooked, place
from fleet.prove.remarks import full_pools, own_pods
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set_of
from fleet.render.container_jobs import container_jobs
from fleet.render.isolation import network_policy
from tests.builders import cluster, config, oke_cluster, oke_runner, pool, runner, talos_cluster
from tests.cases import cases
from tests.fleet.test_isolation import reaches
from tests.strategies import CONTAINER_FIELDS, POD_FIELDS

OWN = pool(instanceTypes=["m6i.large"], nodes={"max": 2})
JOBS = "runners-gpu-t4-jobs"


def fleet(**changes: Any) -> Fleet:
    of_class = runner(**{"containers": "job", "runnerPool": "own"} | changes)
    settings = cluster(runners={"gpu-t4": of_class})
    return load(config(clusters={"usw2": settings | {"pools": settings["pools"] | {"own": OWN}}}))


def fleet_of_two_pools(**changes: Any) -> Fleet:
    of_class = runner(pool=None, pools=["t4", "more"], containers="job", runnerPool="own", **changes)
    pools = {"t4": pool(), "more": pool(), "own": OWN}
    return load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": of_class})}))


def pods(made: Fleet | None = None, **changes: Any) -> PodSet:
    made = made or fleet(**changes)
    settings = made.clusters["usw2"]
    return pod_set_of(settings, "gpu-t4", settings.pod_runners["gpu-t4"], made.github)


def objects(**changes: Any) -> dict[tuple[str, str], Manifest]:
    made = container_jobs(pods(**changes))
    found = {(entry["kind"], entry["metadata"].get("namespace", "")): entry for entry in made}
    assert len(found) == len(made), "one object of a kind in a namespace"
    return found


def own_spec(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = pods(**changes).chart.values["template"]["spec"]
    return spec


def container(template: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [entry for entry in template["spec"]["containers"] if entry["name"] == name]
    return dict(found)


def _rules(of_set: PodSet) -> str:
    (policy,) = (entry for entry in container_jobs(of_set) if entry["kind"] == "ValidatingAdmissionPolicy")
    return json.dumps(policy["spec"]["validations"])


def test_the_policy_admits_the_toleration_that_the_api_server_adds_for_a_resource() -> None:
    """EKS has the admission plugin ExtendedResourceToleration: a pod with a slice of a GPU tolerates a taint of its name."""
    slices = pods().model_copy(update={"gpu_resource": "nvidia.com/mig-1g.5gb"})
    assert "t.key in ['nvidia.com/gpu', 'nvidia.com/mig-1g.5gb']" in _rules(slices)


def test_without_a_priority_class_no_job_takes_one_of_the_system() -> None:
    assert "startsWith('system-')" in _rules(pods().model_copy(update={"priority_class": ""}))
    assert "startsWith('system-')" not in _rules(pods())


@cases("volume", [{"github": {"path": "/x", "claim": "a"}}, {"models": {"path": "/__w/models", "claim": "a"}}])
def test_a_volume_of_the_class_is_none_of_the_hooks(volume: dict[str, Any]) -> None:
    with pytest.raises(
        FleetError, match="GitHub's hooks have a volume of that name or at that path in each job; give yours another"
    ):
        fleet(volumes=volume)
    fleet(volumes=volume, containers="none", runnerPool=None)


SIZE = {"cpu": "1", "memory": "1Gi"}
BESIDE = {"image": "example@sha256:" + "0" * 64, "resources": {"requests": SIZE, "limits": SIZE}}


@cases(
    ("changes", "at"),
    [
        ({"template": {"volumes": [{"name": "github", "emptyDir": {}}]}}, "template.volumes"),
        ({"template": {"containers": [BESIDE | {"name": "job"}]}}, "template.containers"),
        ({"template": {"initContainers": [BESIDE | {"name": "fs-init"}]}}, "template.initContainers"),
    ],
)
def test_a_template_has_no_name_that_github_s_hooks_use_in_the_pod_of_a_job(changes: dict[str, Any], at: str) -> None:
    fleet(containers="none", runnerPool=None, **changes)
    with pytest.raises(FleetError, match=f"runners.gpu-t4.{at}: GitHub's hooks have"):
        fleet(**changes)


# -- the two pods ------------------------------------------------------------------------------------------------------


def test_the_runners_own_pod_has_no_gpu_and_is_on_its_own_pool() -> None:
    spec = own_spec()
    (only,) = spec["containers"]
    assert "gpu" not in json.dumps(only["resources"])
    assert only["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "2Gi"}
    assert only["resources"]["limits"] == {"memory": "1Gi", "ephemeral-storage": "22Gi"}, "what a job sends fills no node"
    assert spec["nodeSelector"] == {"gpu-ci/pool": "own"}
    assert [row["key"] for row in spec["tolerations"]] == ["gpu-ci/cpu"]
    assert own_spec(runnerPool=None)["nodeSelector"] == {"gpu-ci/pool": "system"}, "else beside the controllers"
    assert own_spec(runnerPool=None)["tolerations"] == []


def test_the_runner_starts_our_hook_in_the_namespace_of_its_jobs() -> None:
    spec = own_spec(image="ghcr.io/example/runner:1.0", imageSize="12Gi")
    (only,) = spec["containers"]
    env = {row["name"]: row.get("value") for row in only["env"]}
    timeout = env.pop("ACTIONS_RUNNER_PREPARE_JOB_TIMEOUT_SECONDS")
    assert timeout is not None
    assert int(timeout) >= 600, "a new node with a large image takes longer than the hooks wait by default"
    assert env == {
        "ACTIONS_RUNNER_POD_NAME": None,
        "ACTIONS_RUNNER_CONTAINER_HOOKS": "/etc/gpu-ci/hooks/index.js",
        "ACTIONS_RUNNER_KUBERNETES_NAMESPACE": JOBS,
        "ACTIONS_RUNNER_IMAGE": "ghcr.io/example/runner:1.0",
        "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER": "true",
    }
    assert only["image"] == "ghcr.io/example/runner:1.0"
    assert spec["volumes"] == [{"name": "hooks", "configMap": {"name": "container-jobs"}}]
    assert only["volumeMounts"] == [{"name": "hooks", "mountPath": "/etc/gpu-ci/hooks", "readOnly": True}]


def test_charts_role_for_its_kubernetes_modes_is_never_made() -> None:
    """It would read every Secret of the set's namespace (gha-runner-scale-set 0.14.2, templates/kube_mode_role.yaml)."""
    values = pods().chart.values
    assert "containerMode" not in values
    assert values["template"]["spec"]["serviceAccountName"] == "runner"


def test_the_jobs_pod_has_what_a_runner_of_the_class_would_have() -> None:
    plain = pods(containers="none", runnerPool=None, **POD_FIELDS).chart.values["template"]["spec"]
    job = pods(**POD_FIELDS).templates["job.json"]
    main, of_class = container(job, "$job"), plain["containers"][0]
    assert [row for row in main["env"] if row not in of_class["env"]] == [
        {"name": "NODE_EXTRA_CA_CERTS", "value": "/etc/gpu-ci/ca/all.crt"}
    ], "ARC's chart sets it in the runner's pod alone, and actions run in the job's"
    assert len(main["env"]) == len(of_class["env"]) + 1
    assert main["env"][-1] in container(pods(**POD_FIELDS).templates["step.json"], "$job")["env"]
    assert main["resources"] == of_class["resources"]
    assert [mount for mount in main["volumeMounts"] if mount not in of_class["volumeMounts"]] == [
        {"name": "github-server-tls-cert", "mountPath": "/etc/gpu-ci/ca", "readOnly": True}
    ], "ARC's chart mounts it into the runner's pod alone"
    for key in ("nodeSelector", "tolerations", "priorityClassName", "initContainers", "hostAliases", "dnsConfig"):
        assert job["spec"][key] == plain[key], key
    assert job["spec"]["automountServiceAccountToken"] is False
    assert "imagePullSecrets" not in job["spec"], "it would replace the credentials of the job's own image"
    assert "image" not in main
    assert "command" not in main


def test_a_class_of_several_pools_takes_them_in_order() -> None:
    found = pods(fleet_of_two_pools())
    for name, template in found.templates.items():
        assert "gpu-ci/pool" in json.dumps(template["spec"]["affinity"]), name
    assert found.chart.values["template"]["spec"]["nodeSelector"] == {"gpu-ci/pool": "own"}


@cases("file", ("job.json", "step.json"))
def test_no_template_gives_a_gpu_to_anything_but_the_job(file: str) -> None:
    template = pods().templates[file]
    for entry in template["spec"]["containers"]:
        has_gpu = "nvidia.com/gpu" in entry["resources"]["limits"]
        assert has_gpu is (file == "job.json" and entry["name"] == "$job"), entry["name"]
        void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
        assert (void in entry["env"]) is not has_gpu, "CUDA's images ask NVIDIA's runtime for all"


def test_a_container_action_has_the_nodes_and_volumes_of_the_class_and_the_size_of_a_service() -> None:
    found = pods(**POD_FIELDS, services={"cpu": "500m", "memory": "1Gi"})
    job, step = found.templates["job.json"]["spec"], found.templates["step.json"]
    main = container(step, "$job")
    assert main["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert step["spec"]["nodeSelector"] == job["nodeSelector"]
    assert {volume["name"] for volume in step["spec"]["volumes"]} == {*POD_FIELDS["volumes"], "github-server-tls-cert"}
    assert len(step["spec"]["containers"]) == 1, "no sidecar of the class runs a second time"
    assert "initContainers" not in step["spec"]


@cases(("level", "root"), [("baseline", True), ("restricted", False)])
def test_baseline_admits_root_and_restricted_does_not(level: str, root: bool) -> None:
    job = pods(podSecurity=level).templates["job.json"]
    security = job["spec"]["securityContext"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["fsGroup"] == 1001, "the hooks' own init container makes the workspace"
    assert ("runAsNonRoot" not in security) is root
    assert ("securityContext" not in container(job, "$job")) is root
    assert job["spec"]["initContainers"] == [], "our hook writes the hooks' own before them"


def test_kubelet_ends_a_jobs_pod_that_nothing_else_ends() -> None:
    for template in pods(maxLifetime="7h").templates.values():
        assert template["spec"]["activeDeadlineSeconds"] == 7 * 3600


# -- rights ------------------------------------------------------------------------------------------------------------


def test_the_runners_account_has_its_rights_where_the_app_has_no_secret() -> None:
    found = objects()
    roles = {where for kind, where in found if kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")}
    assert roles == {JOBS}
    assert found["RoleBinding", JOBS]["subjects"] == [{"kind": "ServiceAccount", "name": "runner", "namespace": "runners-gpu-t4"}]
    rules = {rule["resources"][0]: set(rule["verbs"]) for rule in found["Role", JOBS]["rules"]}
    assert rules == {
        "pods": {"get", "list", "create", "delete"},
        "pods/exec": {"get", "create"},
        "pods/log": {"get", "list", "watch"},
        "secrets": {"get", "list", "create", "delete"},
    }, "what the hooks ask for before they start, and no more"


def test_the_account_of_jobs_has_no_rights_and_the_pull_secrets() -> None:
    account = objects(pullSecrets=["ghcr"])["ServiceAccount", JOBS]
    assert account["metadata"]["name"] == "jobs"
    assert account["imagePullSecrets"] == [{"name": "ghcr"}]
    assert account["automountServiceAccountToken"] is False
    assert objects(serviceAccount="trainers")["ServiceAccount", JOBS]["metadata"]["name"] == "trainers"


def test_runners_reach_the_api_server_and_their_jobs_do_not() -> None:
    wall = objects()["NetworkPolicy", JOBS]["spec"]
    assert wall == network_policy(pods().closed_networks)
    assert not reaches(wall, "10.100.0.1")


def test_the_jobs_namespace_has_one_of_each_wall_and_the_standard_of_the_class() -> None:
    found = objects(**CONTAINER_FIELDS)
    labels = found["Namespace", ""]["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert objects()["Namespace", ""]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "baseline"}
    assert found["ResourceQuota", JOBS]["spec"] == {"hard": {"pods": "10"}}, "a quota of GPUs would fail jobs"


def test_a_helper_without_amounts_gets_those_of_a_service_and_a_job_fits_its_own_limit() -> None:
    (row,) = objects(services={"cpu": "500m", "memory": "1Gi"})["LimitRange", JOBS]["spec"]["limits"]
    assert row["defaultRequest"] == {"cpu": "500m", "memory": "1Gi"}
    assert row["default"]["memory"] == "1Gi"
    assert row["max"] == {"cpu": "4", "memory": "16Gi"}
    large = objects(services={"cpu": 1, "memory": "20Gi"})["LimitRange", JOBS]["spec"]["limits"][0]
    assert large["max"]["memory"] == "20Gi", "a service may be larger than its job"


def test_the_config_map_has_the_hook_and_both_templates() -> None:
    data = objects()["ConfigMap", "runners-gpu-t4"]["data"]
    assert data.keys() == {"index.js", "job.json", "step.json"}
    assert data["index.js"] == hook()
    assert {name: json.loads(data[name]) for name in ("job.json", "step.json")} == pods().templates


def test_kubernetes_takes_every_object() -> None:
    for entry in container_jobs(pods(**POD_FIELDS, **CONTAINER_FIELDS)):
        kubernetes_validate.validate(entry, "1.34", strict=True)


def test_a_class_without_containers_has_no_objects_of_its_own() -> None:
    assert container_jobs(pods(containers="none", runnerPool=None)) == ()


# -- placement and price -----------------------------------------------------------------------------------------------


def errors(**changes: Any) -> list[str]:
    return [row.error for row in place(fleet(**changes)) if row.error]


def test_a_placement_counts_the_services_and_the_own_pods() -> None:
    job, own = place(fleet(services={"most": 2, "cpu": "500m", "memory": "1Gi"}))
    assert job.asks == "1 GPU, 5.5 CPU, 19Gi with services", "4 CPU and 16Gi, two services, and one container action"
    assert (own.host.name, own.asks) == ("own", "0.25 CPU, 0.5Gi")
    assert (job.pods, own.pods) == ("gpu-t4", "gpu-t4 (runners)")


def test_a_class_that_fits_alone_may_not_fit_with_its_services() -> None:
    whole = {"cpu": {"request": 7, "limit": 7}, "memory": {"request": "24Gi", "limit": "24Gi"}}
    assert errors(**whole, containers="none", runnerPool=None) == []
    (error,) = errors(**whole)
    assert error == (
        "a job with 2 services and a container action asks for 7750m CPU, g4dn.2xlarge leaves pods 7700m of 8; the smallest type "
        "that is large enough is g4dn.4xlarge"
    )


def many(**pools: Any) -> Fleet:
    of_class = runner(containers="job", runnerPool="own" if "own" in pools else None, scale={"max": 40})
    pools = {"t4": pool(nodes={"max": 40})} | pools
    return load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": of_class})}))


def test_more_runners_than_their_own_pool_holds_wait() -> None:
    made = many(own=OWN | {"nodes": {"max": 1}})
    assert [line for line in overbooked(place(made)) if "(runners)" in line] == [
        "usw2/own: 40 gpu-t4 (runners) runners need 6 nodes, the pool has at most 1: jobs beyond that wait"
    ]


def test_jobs_in_containers_that_find_their_pool_full_do_not_only_wait() -> None:
    runners = {"gpu-t4": runner(containers="job", runnerPool="own"), "bare": runner(scale={"max": 3})}
    settings = cluster(pools={"t4": pool(nodes={"max": 4}), "own": OWN}, runners=runners)
    made = load(config(clusters={"usw2": settings}))
    (line,) = overbooked(place(made))
    assert line.startswith("usw2/t4: ")
    assert line.endswith("jobs beyond that wait, and those in containers then fail")


def test_more_jobs_than_their_pools_hold_would_fail_and_are_refused() -> None:
    with pytest.raises(
        FleetError, match=r"fails instead of waiting; here all of them need 3 nodes, and the pools have at most 2;"
    ):
        fleet(scale={"max": 3})


def test_own_pods_leave_the_jobs_of_their_pool_less_room() -> None:
    small = {"cpu": {"request": 1, "limit": 1}, "memory": {"request": "1Gi", "limit": "2Gi"}, "shm": "1Gi"}
    of_class = runner(pool="own", gpus=0, scale={"max": 2}, containers="job", services={"most": 0}, labels=[], **small)
    pools = {"own": OWN | {"nodes": {"max": 2}}}
    with pytest.raises(FleetError, match="need 2 nodes, and the pools have at most 1"):
        load(config(clusters={"usw2": cluster(pools=pools, runners={"builds": of_class | {"runnerPool": "own"}})}))
    load(config(clusters={"usw2": cluster(pools=pools, runners={"builds": of_class})}))


def test_a_plan_says_where_other_sets_may_leave_a_job_no_node() -> None:
    both = {"gpu-t4": runner(containers="job", scale={"max": 2}), "other": runner(scale={"max": 1})}
    assert [str(line) for line in full_pools(load(config(clusters={"usw2": cluster(runners=both)})))] == [
        "usw2/gpu-t4: its jobs in containers need 2 nodes, and other sets may leave it 1; a job that gets no node within 26 "
        "minutes fails; give it pools of its own, or lower scale.max of the others"
    ]
    assert list(full_pools(fleet())) == []


def test_runners_on_the_system_pool_need_room_there() -> None:
    assert errors(runnerPool=None) == []
    (error,) = [row.error for row in place(many())]
    assert error == (
        "its 40 runners need 250m CPU and 512Mi each for their own pods, and the system pool has no room for them beside the "
        "pods of charts; name a pool without GPUs in runnerPool, or raise system.nodes.min"
    )
    assert (OWN_POD.cpu, OWN_POD.memory) == (250, 512)


def test_a_waiting_runner_keeps_its_own_node_and_no_gpu() -> None:
    settings = fleet(scale={"min": 2, "max": 2}).clusters["usw2"]
    (waits,) = waiting("usw2", settings)
    assert (waits.pools, waits.least) == (("own",), 2)
    assert waiting_per_node(settings, settings.pod_runners["gpu-t4"]) == 7
    on_system = fleet(runnerPool=None, scale={"min": 2, "max": 2}).clusters["usw2"]
    assert list(waiting("usw2", on_system)) == []
    assert waiting_per_node(on_system, on_system.pod_runners["gpu-t4"]) == 1


def test_other_clouds_run_them_with_runners_on_the_system_nodes() -> None:
    name, of_class = next(iter(talos_cluster()["runners"].items()))
    clouds = {
        "sjc": oke_cluster(runners={"oci-a10": oke_runner(containers="job")}),
        "home": talos_cluster(runners={name: of_class | {"containers": "job"}}),
    }
    for cloud, settings in clouds.items():
        made = load(config(clusters={cloud: settings}))
        ((of_set, found),) = made.clusters[cloud].pod_runners.items()
        values = pod_set_of(made.clusters[cloud], of_set, found, made.github).chart.values
        assert values["template"]["spec"]["nodeSelector"] == dict(made.clusters[cloud].system_selector)
        assert [row.error for row in place(made)] == [""], cloud
        unknown = [] if cloud == "sjc" else [f"home: up to {found.span.max} runners of {of_set} have pods of 250m CPU and 512Mi"]
        assert [line.partition(" on nodes")[0] for line in own_pods(made)] == unknown


def test_sets_of_one_class_run_the_same_containers() -> None:
    first = cluster(runners={"gpu-t4": runner(labels=["t4"])})
    second = cluster(region="us-east-1", zones=["us-east-1a", "us-east-1b"])
    other = runner(labels=["t4"], containers="job", sameAs="usw2/gpu-t4")
    with pytest.raises(FleetError, match="containers is job here and none there"):
        load(config(clusters={"usw2": first, "use1": second | {"runners": {"gpu-t4-east": other}}}))
