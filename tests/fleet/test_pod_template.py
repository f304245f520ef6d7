"""What a runner class adds to its pods: as the chart gets it, as the API server takes it, and as placement counts it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter, ValidationError

from fleet.charts.chart import Chart
from fleet.facts.errors import FleetError
from fleet.facts.pods import CONFINED
from fleet.facts.remark import CANNOT_WORK, kind_of
from fleet.facts.tables import rows
from fleet.loading.config import load
from fleet.prove.namespace_limits import limit_range
from fleet.prove.placement import place
from fleet.prove.runner_pods import runner_ask
from fleet.prove.same_sets import Set, difference
from fleet.prove.works import github_server
from fleet.providers.installed import pod_set
from fleet.settings.environment import EnvName, EnvValue
from fleet.settings.pod_template import API_SERVER, CA_VARIABLES, ExtraVolume, MountPath, Proxy
from policies.rules.images_pinned import RULE as PINNED
from policies.rules.kinds import RELEASE
from policies.rules.runner_no_privileged import RULE as PRIVILEGED
from tests.builders import cluster, config, existing_eks, pool, reference, runner, runner_of
from tests.cases import cases
from tests.charts import runner_set
from tests.examples import examples
from tests.fleet.values import autoscaling_runner_set, pod_of, runner_of_pod, unknown_keys
from tests.policies.fixtures import release
from tests.policies.harness import judge
from tests.policies.rendered import published, render
from tests.strategies import POD_FIELDS

KUBERNETES = "1.34"
WHOLE = runner_set("gpu-t4", runner_of(**POD_FIELDS), "https://github.com/example", "gpu")


GITHUB = load(config()).github


def validated(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


def test_the_pod_has_what_the_class_says() -> None:
    pod, container = pod_of(WHOLE)["spec"], runner_of_pod(pod_of(WHOLE))
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in container["env"]
    assert {
        "name": "WANDB_API_KEY",
        "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}},
    } in container["env"]
    assert pod["imagePullSecrets"] == [{"name": "ghcr"}]
    assert pod["automountServiceAccountToken"] is False, "a job has no token of the API server"
    volumes = {volume.pop("name"): volume for volume in map(dict, pod["volumes"])}
    assert volumes == {
        "shm": {"emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        "build": {"emptyDir": {"sizeLimit": "10Gi"}},
        "fast": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        "models": {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
        "conf": {"configMap": {"name": "conf"}},
        "keys": {"secret": {"secretName": "keys"}},
        "tmp": {"emptyDir": {"sizeLimit": "1Gi"}},
    }
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts.keys() == volumes.keys() - {"tmp"}, "a volume of the template is for its containers"
    assert {name for name, mount in mounts.items() if mount.get("readOnly")} == {"models", "conf", "keys"}
    assert mounts["build"] == {"name": "build", "mountPath": "/build"}


def test_a_class_without_additions_has_the_pod_that_it_had() -> None:
    plain = pod_of(runner_set("gpu-t4", runner_of(), "https://github.com/example", "gpu"))["spec"]
    assert "imagePullSecrets" not in plain
    assert [volume["name"] for volume in plain["volumes"]] == ["shm"]
    assert runner_ask(runner_of()) == runner_of()


def test_the_api_server_takes_the_pod() -> None:
    kubernetes_validate.validate(pod_of(WHOLE), KUBERNETES, strict=True)


@pytest.mark.reference
def test_the_chart_knows_the_values_and_the_crd_takes_the_set() -> None:
    assert unknown_keys(WHOLE, WHOLE.values) == []
    schema = json.loads(reference("schemas/actions.github.com/autoscalingrunnerset_v1alpha1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(autoscaling_runner_set(WHOLE))


@pytest.mark.reference
def test_helm_renders_what_the_class_says(tmp_path: Path) -> None:
    manifests = render(published("gha-runner-scale-set"), WHOLE.values, tmp_path)
    (spec,) = [found["spec"] for found in manifests if found["kind"] == "AutoscalingRunnerSet"]
    pod = spec["template"]["spec"]
    (runner_container,) = [found for found in pod["containers"] if found["name"] == "runner"]
    env = {entry["name"]: entry.get("value") for entry in runner_container["env"]}
    assert spec["proxy"] == WHOLE.values["proxy"]
    assert spec["githubServerTLS"] == {"certificateFrom": WHOLE.values["githubServerTLS"]["certificateFrom"]}
    assert pod["serviceAccountName"] == "jobs"
    assert pod["imagePullSecrets"] == [{"name": "ghcr"}]
    assert [found["name"] for found in pod["initContainers"]] == ["warm"]
    assert {found["name"] for found in pod["volumes"]} >= {"github-server-tls-cert", "shm", "tmp", *POD_FIELDS["volumes"]}
    # The chart's own variable has the same path, and it does not change the others.
    assert {env[name] for name in ("NODE_EXTRA_CA_CERTS", *CA_VARIABLES)} == {"/etc/gpu-ci/ca/all.crt"}
    assert not env["RUNNER_UPDATE_CA_CERTS"], "run.sh would call sudo"
    assert "/etc/gpu-ci/ca/all.crt" in {mount["mountPath"] for mount in runner_container["volumeMounts"]}


# -- placement ---------------------------------------------------------------------------------------------------------


def fleet_with(**changes: Any) -> Any:
    return load(config(clusters={"usw2": cluster(pools={"t4": pool(disk="100Gi")}, runners={"gpu-t4": runner(**changes)})}))


def test_empty_directories_on_disk_count_as_ephemeral_storage() -> None:
    before, after = runner_of(), runner_of(volumes=POD_FIELDS["volumes"])
    assert runner_ask(after).scratch == before.scratch + 10 * 1024, "10Gi on disk; a claim and memory take none"
    resources = runner_of_pod(pod_of(runner_set("gpu-t4", after, "https://github.com/example", "gpu")))["resources"]
    assert resources["requests"]["ephemeral-storage"] == "30Gi", "the scheduler sees no sizeLimit"


def test_a_directory_that_fits_no_node_is_a_placement_error_with_the_disk_that_fits() -> None:
    (fits,) = place(fleet_with())
    assert not fits.error
    (too_large,) = place(fleet_with(volumes={"build": {"path": "/build", "size": "200Gi"}}))
    assert "asks for 220Gi of disk" in too_large.error
    assert "raise the pool's disk to" in too_large.error
    (in_memory,) = place(fleet_with(volumes={"build": {"path": "/build", "size": "2Gi", "inMemory": True}}))
    assert not in_memory.error


def test_sets_of_one_class_have_the_same_environment() -> None:
    fleet = load(
        config(
            clusters={
                name: cluster(region=region, zones=[f"{region}a", f"{region}b"], runners={f"gpu-{name}": runner(env=env)})
                for name, region, env in (("usw2", "us-west-2", {"LEVEL": "1"}), ("use1", "us-east-1", {"LEVEL": "2"}))
            }
        )
    )
    clusters = fleet.clusters.items()
    sets = [Set(name, own, set_name, held) for name, own in clusters for set_name, held in own.pod_runners.items()]
    assert difference(fleet, *sets) == "env is not the same here and there: compare LEVEL", "no value, which may be private"


# -- what is refused ---------------------------------------------------------------------------------------------------


@cases(
    "name",
    ["NVIDIA_VISIBLE_DEVICES", "ACTIONS_RUNNER_HOOK_JOB_STARTED", "RUNNER_TEMP", "GITHUB_TOKEN", "GPU_CI_X", "", "1A", "A B"],
)
def test_names_of_ours_and_names_that_kubernetes_refuses(name: str) -> None:
    assert not validated(EnvName, name)
    assert validated(EnvName, "HF_HOME"), "any other name"


@settings(max_examples=examples(50), database=None)
@given(st.from_regex(r"\A[-._a-zA-Z][-._a-zA-Z0-9]{0,20}\Z"))
def test_any_other_name_that_kubernetes_takes(name: str) -> None:
    ours = ("NVIDIA_", "ACTIONS_", "RUNNER_", "GITHUB_", "GPU_CI_")
    assert validated(EnvName, name) is not name.startswith(ours)


def test_no_value_is_a_credential_and_no_error_shows_one() -> None:
    secret = "ghp_" + "a1B2" * 9
    assert not validated(EnvValue, secret)
    with pytest.raises(FleetError) as caught:
        fleet_with(env={"MINE": secret})
    assert secret not in str(caught.value)
    assert "secretEnv" in str(caught.value)


@cases("path", ["/", "/dev/shm", "/home", "/home/runner/_work", "/proc/x", "/a/../b", "a", "/a/", "/a:b"])  # noqa: S108
def test_paths_that_hide_what_a_runner_needs(path: str) -> None:
    assert not validated(MountPath, path)
    assert validated(MountPath, "/home/other/models"), "any other path"


def test_a_volume_has_one_kind_and_none_is_of_the_node() -> None:
    assert validated(ExtraVolume, {"path": "/a", "size": "1Gi"})
    for wrong in (
        {},
        {"size": "1Gi", "claim": "a"},
        {"hostPath": "/"},
        {"claim": "a", "hostPath": "/"},
        {"secret": "github-app"},
    ):
        assert not validated(ExtraVolume, {"path": "/a"} | wrong)


# -- words of other projects -------------------------------------------------------------------------------------------


def words() -> list[str]:
    return [row["word"] for row in rows("words.csv")]


@cases("word", words())
def test_a_word_of_another_project_is_answered_with_ours(word: str) -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(**{word: 1})})}))
    (problem,) = caught.value.problems
    assert problem.message.startswith(("unknown key; a word of ", "unknown key; did you mean "))
    assert problem.message.partition("; ")[2], "and says what to write"


def test_each_word_has_a_source_and_what_to_write() -> None:
    table = rows("words.csv")
    assert all(row["source"] and row["of"] and row["instead"] for row in table)
    assert len({row["word"].casefold() for row in table}) == len(table)
    (row,) = [row for row in table if row["word"] == "imagePullSecrets"]
    assert row["instead"] == "write pullSecrets of the class"


def test_a_misspelt_key_of_ours_comes_before_words_of_others() -> None:
    with pytest.raises(FleetError, match="did you mean limit"):
        load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(cpu={"request": 1, "limit": 1, "limits": 1})})}))


# -- proxy and authority -----------------------------------------------------------------------------------------------


def test_the_chart_gets_the_proxy_with_its_credentials_by_name() -> None:
    server = {"url": "http://proxy.example.com:3128", "credentialSecretRef": "proxy"}
    assert WHOLE.values["proxy"] == {"http": server, "https": server, "noProxy": ["example.net", *API_SERVER]}
    plain = runner_set("gpu-t4", runner_of(), "https://github.com/example", "gpu")
    assert not {"proxy", "githubServerTLS"} & plain.values.keys()


def test_a_bundle_is_trusted_by_every_kind_of_program_and_nothing_calls_sudo() -> None:
    assert WHOLE.values["githubServerTLS"] == {
        "certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "all.crt"}},
        "runnerMountPath": "/etc/gpu-ci/ca",
    }
    env = {entry["name"]: entry.get("value") for entry in runner_of_pod(pod_of(WHOLE))["env"]}
    # The chart mounts the key there and sets NODE_EXTRA_CA_CERTS (_helpers.tpl).
    assert {env[name] for name in CA_VARIABLES} == {"/etc/gpu-ci/ca/all.crt"}
    assert env["RUNNER_UPDATE_CA_CERTS"] == ""


@cases(
    ("name", "host", "carried"),
    [
        ("example.net", "git.example.com", True),
        ("example.com", "git.example.com", False),
        ("*.example.com", "git.example.com", False),
        ("git.example.com", "git.example.com", False),
        ("*", "git.example.com", False),
        ("10.0.0.0/8", "10.20.0.5", False),
        ("10.20.0.5", "10.20.0.5", False),
        ("10.0.0.0/8", "192.168.0.5", True),
        ("10.0.0.0/8", "git.example.com", True),
    ],
)
def test_what_a_proxy_carries(name: str, host: str, carried: bool) -> None:
    assert Proxy(url="http://proxy", noProxy=(name,)).carries(host) is carried
    assert Proxy(url="http://proxy").carries("git.example.com")


@cases("name", ["gpu", "cuda"])
def test_the_name_of_a_class_without_gpus_promises_none(name: str) -> None:
    pools = {"builds": pool(instanceTypes=["m6i.2xlarge"])}
    with pytest.raises(FleetError, match="promises a GPU"):
        load(config(clusters={"usw2": cluster(pools=pools, runners={name: runner(pool="builds", gpus=0)})}))


def test_a_role_is_reached_without_the_proxy() -> None:
    made = load(
        config(
            clusters={
                "usw2": cluster(
                    privateEgress=["10.20.0.0/16"],
                    runners={
                        "gpu-t4": runner(
                            proxy={"url": "http://10.20.0.9:3128", "noProxy": ["10.96.0.1"]},
                            role="arn:aws:iam::111122223333:role/jobs",
                            serviceAccount="jobs",
                        )
                    },
                )
            }
        )
    ).clusters["usw2"]
    chart = pod_set(made, "gpu-t4", made.pod_runners["gpu-t4"], GITHUB)
    assert chart.values["proxy"]["noProxy"] == ["10.96.0.1", *(n for n in API_SERVER if n != "10.96.0.1"), "169.254.170.23"]


@cases(
    ("installed", "role", "users"),
    [
        ([], {}, "the autoscaler"),
        (["cluster-autoscaler"], {}, ""),
        (
            ["cluster-autoscaler"],
            {"role": "arn:aws:iam::111122223333:role/jobs", "serviceAccount": "jobs"},
            "runner class gpu-t4",
        ),
        ([], {"role": "arn:aws:iam::111122223333:role/jobs", "serviceAccount": "jobs"}, "the autoscaler and runner class gpu-t4"),
    ],
)
def test_a_role_in_an_existing_cluster_needs_the_agent(installed: list[str], role: dict[str, Any], users: str) -> None:
    fleet = load(config(clusters={"usw2": existing_eks(installed=installed, runners={"gpu-t4": runner(**role)})}))
    said = [remark for remark in fleet.clusters["usw2"].remarks if "eks-pod-identity-agent must" in remark]
    assert [f"for the rights of {users};" in remark for remark in said] == ([True] if users else [])


@cases(
    ("servers", "opened", "reached"),
    [
        (["10.20.0.2"], [], False),
        (["10.20.0.2"], ["10.20.0.0/16"], True),
        (["192.0.2.53", "10.20.0.2"], [], False),
        (["9.9.9.9"], [], True),
    ],
)
def test_jobs_reach_their_name_servers_or_the_plan_fails(servers: list[str], opened: list[str], reached: bool) -> None:
    template = {"dnsPolicy": "None", "dnsConfig": {"nameservers": servers}}
    fleet = load(config(clusters={"usw2": cluster(privateEgress=opened, runners={"gpu-t4": runner(template=template)})}))
    said = [str(remark) for remark in github_server(fleet) if kind_of(remark) == CANNOT_WORK]
    assert [text.partition(" has ")[0] for text in said] == ([] if reached else ["usw2/gpu-t4: name server 10.20.0.2"])


# -- template ----------------------------------------------------------------------------------------------------------

SMALL = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "2Gi"}}
BESIDE = {"name": "cache", "image": "registry.example.com/cache:1", "resources": SMALL}


def with_template(**template: Any) -> Chart:
    return runner_set("gpu-t4", runner_of(template=template), "https://github.com/example", "gpu")


def sized(cpu: object, memory: str) -> dict[str, Any]:
    size = {"cpu": cpu, "memory": memory}
    return BESIDE | {"resources": {"requests": size, "limits": size}}


def test_containers_of_the_template_stand_beside_the_runner_confined_and_without_gpus() -> None:
    own = {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": None}, "runAsUser": 2000, "allowPrivilegeEscalation": None}
    merged = CONFINED | {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, "runAsUser": 2000}
    warm = BESIDE | {"name": "warm", "securityContext": own, "env": [{"name": "LEVEL", "value": "1"}]}
    none = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    chart = with_template(containers=[BESIDE], initContainers=[warm], dnsPolicy="ClusterFirst")
    spec = pod_of(chart)["spec"]
    assert [container["name"] for container in spec["containers"]] == ["runner", "cache"], "the runner is first"
    assert spec["containers"][1]["securityContext"] == CONFINED
    assert [container["securityContext"] for container in spec["initContainers"]] == [merged]
    assert [container["env"] for container in spec["initContainers"]] == [[none, {"name": "LEVEL", "value": "1"}]]
    assert spec["containers"][1]["env"] == [none], "whatever its image says"
    assert spec["dnsPolicy"] == "ClusterFirst"
    kubernetes_validate.validate(pod_of(chart), KUBERNETES, strict=True)


def test_placement_counts_containers_beside_the_runner_and_the_largest_before_it() -> None:
    base = runner_ask(runner_of())
    beside = runner_ask(runner_of(template={"containers": [BESIDE]}))
    assert (beside.cpu.request, beside.memory.request) == (base.cpu.request + 500, base.memory.request + 1024)
    first = runner_ask(runner_of(template={"initContainers": [sized(6, "20Gi")]}))
    assert (first.cpu.request, first.memory.request) == (6000, 20 * 1024), "it ends before the runner starts"
    sidecar = runner_ask(runner_of(template={"initContainers": [BESIDE | {"restartPolicy": "Always"}]}))
    assert sidecar.cpu.request == base.cpu.request + 500, "it runs beside the runner"
    assert beside.gpus == base.gpus == 1


def test_a_class_that_fits_alone_and_not_with_its_sidecar_is_a_placement_error() -> None:
    (alone,) = place(fleet_with())
    assert not alone.error
    (both,) = place(fleet_with(template={"containers": [sized(6, "4Gi")]}))
    assert "asks for 10 CPU" in both.error
    assert "smallest type that is large enough" in both.error


def test_the_namespace_admits_every_container_of_the_pod() -> None:
    (limits,) = limit_range(with_template(containers=[sized("6500m", "4Gi")]))["limits"]
    assert limits["max"] == {"cpu": "6500m", "memory": "16Gi"}
    assert limits["default"] == {"cpu": "4", "memory": "16Gi"}, "as without it"


@cases(
    ("key", "item", "message"),
    [
        ("containers", BESIDE, ""),
        ("containers", BESIDE | {"securityContext": {"privileged": True}}, "containers[1].securityContext.privileged is true"),
        ("initContainers", BESIDE | {"securityContext": {"runAsUser": 0}}, "initContainers[0].securityContext.runAsUser is 0"),
        ("volumes", {"name": "node", "hostPath": {"path": "/var"}}, 'volumes[1].hostPath is "/var"'),
        ("containers", BESIDE | {"image": "docker.io/library/busybox:latest"}, "containers[1].image"),
    ],
)
def test_the_policies_judge_the_template_as_part_of_the_pod(key: str, item: dict[str, Any], message: str) -> None:
    values = copy.deepcopy(dict(with_template().values))
    # Settings refuse most of these, and the policies judge charts of other programs, too.
    values["template"]["spec"].setdefault(key, []).append(item)
    props = release({}) | {"values": values}
    allowed = {"registries": ["registry.example.com/", "ghcr.io/", "docker.io/"]}
    said = [
        text
        for rule in (PRIVILEGED, PINNED)
        for text in judge(rule, RELEASE, props, allowed if rule is PINNED else None).messages
    ]
    assert any(message in text for text in said) is bool(message), said
    assert bool(said) is bool(message), said


def test_a_sidecar_without_limits_is_refused_before_any_policy() -> None:
    with pytest.raises(FleetError, match=r"without resources\.limits of cpu and memory"):
        fleet_with(template={"containers": [BESIDE | {"resources": {"requests": SMALL["requests"]}}]})
