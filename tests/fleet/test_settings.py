"""The settings as a whole: valid settings load, others fail with FleetError and a path that can be found in the file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from fleet.facts.errors import FleetError, Problem, shown
from fleet.facts.quantities import cpu_text, memory_text
from fleet.loading.config import CONFIG_KEYS, check_keys, load
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.github import PRIVATE_KEY
from fleet.settings.model import Cpu, Duration, Memory, go_duration
from tests.builders import cluster, config, oke_cluster, oke_pool, oke_runner, pool, runner, staging, vm, vm_per_job
from tests.cases import cases
from tests.examples import WHOLE, examples
from tests.strategies import FULL, configs, parent_of, slips

few = settings(max_examples=examples(25), database=None)
whole = settings(max_examples=examples(25, WHOLE), database=None)


@whole
@given(configs())
def test_any_valid_config_loads_and_keeps_every_name(document: dict[str, Any]) -> None:
    fleet = load(document)
    assert list(fleet.clusters) == list(document["clusters"]), "clusters come in the file's order"
    written = [
        (name, runner_set, held.get("kind", "pod"), held.get("pool"))
        for name, cluster in document["clusters"].items()
        for runner_set, held in cluster["runners"].items()
    ]
    read = [(name, set_name, held.kind, getattr(held, "pool", None)) for name, set_name, held in fleet.runner_sets()]
    assert read == written


def test_every_model_of_a_fleet_is_frozen() -> None:
    models = {type(model): model for document in FULL for model in _models(load(document).written)}
    assert len(models) > 40, "every kind of model, once"
    for kind, model in models.items():
        for name in kind.model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(model, name, None)


def _models(value: object) -> Iterator[BaseModel]:
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _models(getattr(value, name))
    elif isinstance(value, dict | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _models(inner)


@settings(few, max_examples=examples(300))
@given(slips())
@example(config(clusters={"[key]": {}}))
@example(config(clusters={"usw2": cluster(provider=None)}))
@example(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(cpu={"request": "9" * 400, "limit": 4})})}))
@example(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(memory={"request": "1Gi", "limit": "1Gi"})})}))
@example(config(clusters={"usw2": cluster(zones=[1, 2])}))
@example(config(clusters={"sjc": oke_cluster(runners={"a10": vm(kind=None)})}))
@example(config(clusters={"sjc": oke_cluster(runners={"a10": ["pod"]})}))
@example(config(clusters={"sjc": oke_cluster(runners={"a10": vm(kind=["vm"], shapes=None)})}))
@example(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool(instanceTypes=["VM.GPU.A10.9"])})}))
@example(
    config(
        clusters={
            "sjc": oke_cluster(enablement="gpu-operator", pools={"p100": oke_pool(instanceTypes=["VM.GPU2.1"], image="ubuntu")})
        }
    )
)
def test_a_slip_loads_or_fails_with_paths_that_lead_into_the_file(document: dict[str, Any]) -> None:
    for problem in _told(document):
        _leads_into({f"gpu-ci:{key}": value for key, value in document.items()}, problem)


def _told(document: dict[str, Any]) -> tuple[Problem, ...]:
    """The problems of a config, none if it loads. Any other exception than FleetError passes, and fails the test."""
    try:
        load(document)
    except FleetError as error:
        return error.problems or (Problem((), "an error without a problem", ""),)
    return ()


def _leads_into(document: Any, problem: Problem) -> None:
    """The path's last step may be a key that is missing, its parent may not."""
    assert problem.path, "a problem points somewhere"
    assert problem.message, problem
    holder = parent_of(document, problem.path)
    assert isinstance(holder, dict | list), f"{problem.where} has no parent in the file"
    if isinstance(holder, list):
        assert int(problem.path[-1]) < len(holder), f"{problem.where} is not in the file"


def test_a_key_that_looks_like_a_mark_of_the_validator_is_named_in_full() -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"[key]": {}}))
    assert {problem.where for problem in caught.value.problems} == {"gpu-ci:clusters.[key]", "gpu-ci:clusters.[key].provider"}


def test_a_cluster_named_like_its_provider_keeps_its_path() -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"eks": cluster(region=5)}))
    assert caught.value.problems[0].where == "gpu-ci:clusters.eks.region"


def test_all_problems_are_told_at_once() -> None:
    broken = cluster(region=5, pools={"t4": pool(role="ci", capacity="SPOT")})
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": broken}))
    assert [problem.where.removeprefix("gpu-ci:clusters.usw2.") for problem in caught.value.problems] == [
        "region",
        "pools.t4.capacity",
        "pools.t4.role",
    ]
    assert str(caught.value).count("\n") == 2, "one line a problem"


def test_the_config_keys_are_those_of_the_stack_file() -> None:
    assert CONFIG_KEYS == ("github", "clusters", "tags", "permissionsBoundary")
    assert PRIVATE_KEY not in CONFIG_KEYS, "a secret never enters the model"


def test_staging_loads_and_reads_as_written() -> None:
    fleet = staging()
    assert fleet.github.app_id == "123456"
    usw2 = fleet.clusters["usw2"]
    assert usw2.pools["t4-spot"].idle_delay == 300
    assert usw2.pools["t4-release"].idle_delay == 600, "ten minutes unless said otherwise"
    runner = usw2.runners["gpu-t4"]
    assert (runner.cpu.request, runner.cpu.limit) == (4000, 8000), "CPU is held in millicores"
    assert (runner.memory.request, runner.memory.limit) == (16 * 1024, 32 * 1024), "memory is held in MiB"
    assert [name for name, _ in fleet.clusters_by_name()] == ["usw2"]
    assert fleet.group_of("usw2", runner) == "gpu", "a set without a group takes the scope's"


def test_sets_of_one_name_may_live_in_two_groups() -> None:
    second = cluster(region="us-east-1", zones=["us-east-1a", "us-east-1b"], runners={"gpu-t4": runner(group="east")})
    fleet = load(config(clusters={"usw2": cluster(), "use1": second}))
    assert [fleet.group_of(of, runner) for of, _, runner in fleet.runner_sets()] == ["default", "east"]


def test_the_configs_that_are_to_be_broken_are_valid_and_use_every_key() -> None:
    unused: dict[str, set[str]] = {}
    for model in (model for document in FULL for model in _models(load(document).written)):
        unused.setdefault(type(model).__name__, set(type(model).model_fields)).difference_update(model.model_fields_set)
    assert {name: fields for name, fields in unused.items() if fields} == {
        # The model of clusters on own machines. The classes of EKS and OKE extend it and use the others, too.
        # Only EKS has pools without GPUs, so only its classes have one for the runners' own pods.
        "PodRunner": {"pools", "rerun_first_on", "rerun_on", "same_as", "same_as_order", "schedules", "runner_pool"},
        "OkePodRunner": {"runner_pool"},
        # One pool of EKS has classes of two domains.
        # The autoscaler of OKE has one delay for all pools, so a pool that has its own is refused, and so are schedules.
        "OkePool": {"idle_delay", "schedules", "accept_shared_nodes"},
        # Caches, quotas and the like are a cloud's, and no GPU of an own machine has a profile for jobs. Own machines always run.
        # Its path in Git ends with its first name.
        "TalosCluster": {"admission", "budget", "caches", "declare_quotas", "protect", "jobs", "was"},
        "TalosPool": {"idle_delay", "placeholders", "reservation", "schedules", "accept_shared_nodes"},
    }


@cases(
    ("network", "zones", "gateways"),
    [
        ({}, 3, 1),
        ({"natGateways": "one"}, 3, 1),
        ({"natGateways": "per-zone"}, 3, 3),
        ({"vpcId": "vpc-01234567", "privateSubnets": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}}, 2, 0),
    ],
)
def test_nat_gateways_are_counted_for_a_new_vpc_only(network: dict[str, Any], zones: int, gateways: int) -> None:
    fleet = load(config(clusters={"usw2": cluster(network=network)}))
    assert fleet.clusters["usw2"].network.nat_count(zones) == gateways


# -- quantities --------------------------------------------------------------------------------------------------------


@cases(
    ("kind", "text", "value"),
    [
        (Cpu, "4", 4000),
        (Cpu, '"4"', 4000),
        (Cpu, "0.5", 500),
        (Cpu, '"1.25"', 1250),
        (Cpu, '"500m"', 500),
        (Memory, '"16Gi"', 16384),
        (Memory, '"512Mi"', 512),
        (Duration, '"90s"', 90),
        (Duration, '"10m"', 600),
        (Duration, '"2h"', 7200),
    ],
)
def test_quantities_are_held_in_one_unit(kind: Any, text: str, value: int) -> None:
    assert TypeAdapter(kind).validate_json(text) == value


@cases("text", ['"٣"', '"4 "', '"+4"', '"1e3"', "-1", "0", '"0m"', '"4k"', "true", "null", '"0.0001"', '""'])
def test_what_is_no_cpu_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="CPU quantity"):
        TypeAdapter(Cpu).validate_json(text)


@few
@given(st.integers(1, 10**8))
def test_cpu_text_reads_back(millicores: int) -> None:
    assert TypeAdapter(Cpu).validate_json(f'"{cpu_text(millicores)}"') == millicores


@few
@given(st.integers(1, 10**8))
def test_memory_text_reads_back(mebibytes: int) -> None:
    assert TypeAdapter(Memory).validate_json(f'"{memory_text(mebibytes)}"') == mebibytes


@few
@given(st.integers(0, 10**6))
def test_a_go_duration_adds_up_and_is_normal(seconds: int) -> None:
    parts = re.fullmatch(r"(?:(\d+)h)?(\d+)m(\d+)s", go_duration(seconds))
    assert parts, go_duration(seconds)
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    assert hours * 3600 + minutes * 60 + rest == seconds
    assert minutes < 60
    assert rest < 60


def test_go_durations_are_written_as_go_writes_them() -> None:
    assert [go_duration(seconds) for seconds in (60, 600, 5400, 86_400)] == ["1m0s", "10m0s", "1h30m0s", "24h0m0s"]


def test_a_long_value_is_cut_in_the_error_line() -> None:
    assert shown("x" * 100) == '"' + "x" * 58 + "…"
    assert len(shown(["x" * 100])) == 60
    assert shown("x" * 58) == '"' + "x" * 58 + '"', "what fits is shown whole"


def test_an_error_is_one_line_whatever_the_keys_and_values_are() -> None:
    problem = Problem(("gpu-ci:tags", "a\nb"), "a rule", shown("é\u2028\x85\u202e"))
    assert str(problem) == r'gpu-ci:tags."a\nb": a rule (got "\u00e9\u2028\u0085\u202e")'
    assert shown("é") == '"é"'


def test_a_fleet_holds_no_secret() -> None:
    names = {field.alias or name for name, field in Fleet.model_fields.items()}
    github = {field.alias or name for name, field in Fleet.model_fields["github"].annotation.model_fields.items()}  # type: ignore[union-attr]
    assert not [name for name in names | github if re.search("key|token|secret|password", name, re.I)]


@pytest.mark.parametrize(("provider", "held"), [("eks", cluster), ("oke", oke_cluster)])
def test_a_target_that_cannot_start_a_first_node_refuses_min_0(
    monkeypatch: pytest.MonkeyPatch, provider: str, held: Callable[..., dict[str, Any]]
) -> None:
    row = PROVIDERS[provider]
    monkeypatch.setattr(type(row), "profile", dataclasses.replace(row.profile, from_zero=False))
    (name, empty), *_ = held()["pools"].items()
    load(config(clusters={"one": held(pools={name: empty | {"nodes": {"min": 1, "max": 2}}})}))
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"one": held(pools={name: empty | {"nodes": {"min": 0, "max": 2}}})}))
    assert str(caught.value) == (
        f"gpu-ci:clusters.one.pools.{name}.nodes.min: the autoscaler of provider {provider} cannot start the first node of a "
        "pool; raise min to 1 (got 0)"
    )


def test_the_clusters_delay_stands_for_all_pools_of_oke() -> None:
    assert load(config(clusters={"sjc": oke_cluster(idleDelay="5m")})).clusters["sjc"].idle_delay == 300


# -- kinds of runners --------------------------------------------------------------------------------------------------


def test_a_fleet_mixes_clouds_and_kinds_of_runners() -> None:
    sets = {"oci-a10": oke_runner(), "standing": vm(), "per-job": vm_per_job()}
    fleet = load(config(clusters={"usw2": cluster(), "sjc": oke_cluster(runners=sets)}))
    assert {(where, name): (type(held).__name__, held.span.min, held.span.max) for where, name, held in fleet.runner_sets()} == {
        ("usw2", "gpu-t4"): ("EksPodRunner", 0, 2),
        ("sjc", "oci-a10"): ("OkePodRunner", 0, 2),
        ("sjc", "standing"): ("VmRunner", 1, 1),
        ("sjc", "per-job"): ("VmPerJobRunner", 0, 2),
    }


@pytest.mark.parametrize("machines", [vm, vm_per_job])
@pytest.mark.parametrize(
    ("of_pod", "of_machines", "told"),
    [
        (["vision"], ["Vision"], "label 'Vision' already selects set usw2/gpu-t4"),
        (["gpu"], ["cuda"], "sets usw2/gpu-t4 (gpu) and sjc/a10 (cuda) both have generic labels"),
        ([], ["gpu-t4"], "label 'gpu-t4' is the name of a runner set"),
        ([], ["one", "ONE"], "label given twice: ONE, one"),
    ],
)
def test_labels_are_told_apart_whatever_runs_the_jobs(
    machines: Callable[..., dict[str, Any]], of_pod: list[str], of_machines: list[str], told: str
) -> None:
    pods = cluster(runners={"gpu-t4": runner(labels=of_pod)})
    with pytest.raises(FleetError, match=re.escape(told)):
        load(config(clusters={"usw2": pods, "sjc": oke_cluster(runners={"a10": machines(labels=of_machines)})}))


def test_sets_of_machines_and_of_pods_have_names_of_their_own() -> None:
    with pytest.raises(FleetError, match="cluster usw2 has a runner set with that name in group default; rename one"):
        load(config(clusters={"usw2": cluster(), "sjc": oke_cluster(runners={"gpu-t4": vm()})}))


@pytest.mark.parametrize("machines", [vm, vm_per_job])
def test_a_machine_on_a_provider_without_is_one_error_a_set(machines: Callable[..., dict[str, Any]]) -> None:
    broken = cluster(runners={"a10": machines(), "gpu-t4": runner(gpus=-1)})
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": broken}))
    assert [problem.where for problem in caught.value.problems] == [
        "gpu-ci:clusters.usw2.runners.a10.kind",
        "gpu-ci:clusters.usw2.runners.gpu-t4.gpus",
    ]


@cases(
    ("held", "where"),
    [
        (oke_cluster(runners={"pod": oke_runner(gpus=-1)}), "runners.pod.gpus"),
        (oke_cluster(runners={"vm": vm(count=0)}), "runners.vm.count"),
        (oke_cluster(runners={"oke": vm(image={"id": "", "driver": "580.159.03"})}), "runners.oke.image.id"),
        (oke_cluster(runners={"a10": vm_per_job(places=[{}])}), "runners.a10.places.0.region"),
        (oke_cluster(runners={"a10": vm(pod=1)}), "runners.a10.pod"),
        (cluster(runners={"gpu-t4": runner(pod=1)}), "runners.gpu-t4.pod"),
        (cluster(runners={"gpu-t4": runner(vm=1)}), "runners.gpu-t4.vm"),
        (cluster(oke=1), "oke"),
    ],
)
def test_a_unions_tag_is_never_part_of_a_path_and_a_key_of_that_name_always(held: dict[str, Any], where: str) -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"one": held}))
    assert caught.value.problems[0].where == f"gpu-ci:clusters.one.{where}"


@cases(
    ("keys", "secret", "message"),
    [
        (["github", "clusters", "githubPrivateKey"], ["githubPrivateKey"], ""),
        (["tag"], [], "gpu-ci:tag: unknown key; did you mean tags?"),
        (["owner"], [], "gpu-ci:owner: unknown key; known keys: clusters, github, githubPrivateKey, permissionsBoundary, tags"),
        (["tags"], ["tags"], "gpu-ci:tags: contains a secret, which would be in clear text in tags and values; move it out"),
        (["githubPrivateKey"], [], "gpu-ci:githubPrivateKey: a secret in clear text; a private key must not be in a file"),
    ],
)
def test_keys_are_known_and_secret_where_they_must_be_and_nowhere_else(keys: list[str], secret: list[str], message: str) -> None:
    if not message:
        check_keys(dict.fromkeys(keys), secret)
        return
    with pytest.raises(FleetError, match=re.escape(message)):
        check_keys(dict.fromkeys(keys), secret)


def test_a_set_of_machines_may_be_the_one_default_set() -> None:
    sets = {"standing": vm(labels=["gpu", "self-hosted"]), "per-job": vm_per_job(labels=["a10"])}
    fleet = load(config(clusters={"usw2": cluster(), "sjc": oke_cluster(runners=sets)}))
    assert fleet.clusters["sjc"].runners["standing"].labels == ("gpu", "self-hosted")


@pytest.mark.parametrize("names", [("sjc", "use1"), ("use1", "sjc")])
def test_the_default_set_is_one_of_pods_whatever_the_order_of_clusters(names: tuple[str, str]) -> None:
    """Pulumi sorts the names of a mapping, so the file's order is not known."""
    held = {
        "sjc": oke_cluster(runners={"job": vm_per_job(labels=["gpu"])}),
        "use1": cluster(runners={"t4": runner(labels=["gpu"])}),
    }
    with pytest.raises(FleetError) as caught:
        load(config(clusters={name: held[name] for name in names}))
    assert str(caught.value) == (
        "gpu-ci:clusters.sjc.runners.job.labels: sets use1/t4 (gpu) and sjc/job (gpu) both have generic labels; only one default "
        "set per GitHub scope may have them, and jobs select every other set by its name or its own label; keep them on "
        "use1/t4, whose runners "
        'are pods (got ["gpu"])'
    )


def test_clusters_of_two_tenancies_are_no_fleet() -> None:
    held = {
        "sjc": oke_cluster(),
        "iad": oke_cluster(region="us-ashburn-1", zones=["efgh:US-ASHBURN-AD-1"], runners={}),
    }
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"usw2": cluster(), **held}))
    assert str(caught.value) == (
        "gpu-ci:clusters.iad.zones.0: the tenancy's prefix is efgh here and abcd at clusters.sjc.zones.0, "
        'and a tenancy has only one prefix; use yours everywhere (got "efgh:US-ASHBURN-AD-1")'
    )


@cases(
    ("clusters", "where"),
    [
        ({"one": cluster(pools={"t4": pool(nodes={"max": 1000})})}, ""),
        ({"one": cluster(pools={"t4": pool(nodes={"max": 1001})})}, "pools.t4.nodes.max"),
        ({"one": cluster(system={"nodes": {"min": 1, "max": 1001}})}, "system.nodes.max"),
        ({"one": oke_cluster(pools={"a10": oke_pool(nodes={"max": 1001})})}, "pools.a10.nodes.max"),
        ({"one": cluster(runners={"gpu-t4": runner(scale={"max": 10_000})})}, ""),
        ({"one": cluster(runners={"gpu-t4": runner(scale={"max": 10_001})})}, "runners.gpu-t4.scale.max"),
        ({"one": oke_cluster(runners={"job": vm_per_job(scale={"max": 10_001})})}, "runners.job.scale.max"),
    ],
)
def test_no_count_is_beyond_what_its_service_takes(clusters: dict[str, Any], where: str) -> None:
    most = 10_000 if "scale" in where else 1000
    lines = [f"gpu-ci:clusters.one.{where}: must be at most {most}; lower it (got {most + 1})"] if where else []
    assert [str(problem) for problem in _told(config(clusters=clusters))] == lines


def test_more_nodes_than_ekss_default_quota_are_a_remark() -> None:
    pools = {"t4": pool(nodes={"max": 901}), "t4-more": pool(nodes={"max": 900})}
    sets = {"gpu-t4": runner(), "gpu-more": runner(pool="t4-more")}
    quota, *disks = load(config(clusters={"usw2": cluster(pools=pools, runners=sets)})).clusters["usw2"].remarks
    assert ["of local NVMe on" in each for each in disks] == [True, True]
    assert quota == (
        "pool t4: by default EKS allows 450 nodes per node group, and a pool has one group per zone; ask AWS for more, add a "
        "zone, or lower nodes.max"
    )


def test_what_gets_no_job_is_told_of_a_cluster_of_eks_too() -> None:
    more = load(config(clusters={"usw2": cluster(pools={"t4": pool(), "more": pool()})})).clusters["usw2"]
    assert more.remarks[0] == "pool more: no runner set uses it, so it gets no jobs; use it in one, or remove it"
    empty = load(config(clusters={"usw2": cluster(runners={})})).clusters["usw2"]
    assert empty.remarks[0] == "runners: the cluster has none, so it runs no job; add one"


def test_a_name_in_two_groups_is_told_of() -> None:
    clusters = {name: cluster(runners={"gpu-t4": runner(group=group)}) for name, group in (("usw2", "one"), ("use1", "two"))}
    assert load(config(clusters=clusters)).shared_names == ("gpu-t4",)


@cases(("lifetime", "loads"), [("9m", False), ("10m", True), ("144h", True), ("145h", False), ("1440h", False)])
def test_a_maximum_lifetime_ends_a_day_after_github_does(lifetime: str, loads: bool) -> None:
    """GitHub ends a job on a self-hosted runner after five days (docs.github.com, Actions limits)."""
    document = config(clusters={"usw2": cluster(runners={"gpu-t4": runner(maxLifetime=lifetime)})})
    if loads:
        assert load(document).clusters["usw2"].pod_runners["gpu-t4"].max_lifetime >= 600
        return
    with pytest.raises(FleetError, match="a maximum lifetime is from 10m to 144h"):
        load(document)
