"""The folder that ArgoCD reads: valid, the same every time, without secrets, and held to the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from fleet.charts.argo_cd import ARGO_CD
from fleet.facts.errors import InputError
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import StackConfig
from fleet.providers.installed import installed
from fleet.render.gitops.application import TIERS
from fleet.render.gitops.manifest import SYNC_OPTIONS, WAVE, WAVE_OF_SECRETS
from fleet.settings.cluster import physical_name
from gpu_ci.cli import app
from gpu_ci.offline.gitops import encrypted_secret
from tests.builders import reference
from tests.components.recorded import stack_config, with_clusters
from tests.offline.git_tree import STACKS, files, of
from tests.offline.rendered import rendered_once

KEY = "gpu-ci:clusters"
HOME = "gpu-ci-homelab-home"
CUSTOM = {"argoproj.io", "bitnami.com", "external-secrets.io", "kueue.x-k8s.io"}
MINORS = ("1.33", "1.34", "1.35", "1.36")
CIPHERTEXT = "AgB" + "x" * 700


def changed(config: StackConfig, **clusters: Mapping[str, Any]) -> StackConfig:
    """The stack with keys of clusters replaced."""
    held = json.loads(config.values[KEY])
    for name, keys in clusters.items():
        held[name] |= keys
    return with_clusters(config, held)


both = pytest.mark.parametrize("name", STACKS)


@cache
def manifests(name: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Path and object of each file that ArgoCD applies of a stack. They must not be changed."""
    return tuple(
        (path, yaml.safe_load(text))
        for path, text in of(name).items()
        if path.split("/")[1] in TIERS and not path.endswith("/.keep")
    )


# -- what is there -----------------------------------------------------------------------------------------------------


def test_the_homelabs_tree_has_what_seed_004_asks_of_git():
    paths = {path.removeprefix(f"{HOME}/") for path in of("homelab")}
    assert paths >= {
        "bootstrap/applicationset.yaml",
        "infrastructure/controllers/gpu-operator/application.yaml",
        "infrastructure/controllers/gpu-operator/configs.yaml",
        "infrastructure/controllers/arc/application.yaml",
        "infrastructure/gpu/high-priority.yaml",
        "infrastructure/gpu/medium-priority.yaml",
        "infrastructure/runners/gpu-3090/application.yaml",
        "infrastructure/runners/gpu-3090/github-app.yaml",
        "workloads/ollama/deployment.yaml",
        "workloads/comfyui/deployment.yaml",
        "workloads/coral/deployment.yaml",
        "talos/talconfig.yaml",
    }


def test_the_order_of_pools_is_beside_the_autoscaler() -> None:
    config = stack_config("two-regions")
    git = {"repository": "https://github.com/example/gpu-ci", "secrets": {"by": "program"}}
    called = {name: physical_name(config.project, config.stack, name) for name in ("usw2", "use1")}
    found = files(
        changed(
            config,
            **{name: {"delivery": "argocd", "gitops": git | {"path": f"clusters/{each}"}} for name, each in called.items()},
        )
    )
    for each in called.values():
        folder = f"{each}/infrastructure/controllers/cluster-autoscaler"
        order, autoscaler = (yaml.safe_load(found[f"{folder}/{file}.yaml"]) for file in ("priorities", "application"))
        assert order["metadata"]["name"] == "cluster-autoscaler-priority-expander"
        assert order["metadata"]["namespace"] == autoscaler["spec"]["destination"]["namespace"]
        assert autoscaler["spec"]["source"]["helm"]["valuesObject"]["extraArgs"]["expander"] == "priority,least-waste"


def test_the_operator_leaves_driver_and_toolkit_to_talos():
    operator = yaml.safe_load(of("homelab")[f"{HOME}/infrastructure/controllers/gpu-operator/application.yaml"])
    source = operator["spec"]["source"]
    values = source["helm"]["valuesObject"]
    assert (values["driver"], values["toolkit"]) == ({"enabled": False}, {"enabled": False})
    assert values["hostPaths"] == {"driverInstallDir": "/usr/local"}
    configs = yaml.safe_load(of("homelab")[f"{HOME}/infrastructure/controllers/gpu-operator/configs.yaml"])
    assert values["devicePlugin"]["config"]["name"] == configs["metadata"]["name"]
    assert yaml.safe_load(configs["data"]["time-slicing-4"])["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 4}
    ]
    assert source["targetRevision"].startswith("v"), "a release, not a range"


def test_the_plugin_alone_gets_the_runtime_class_that_talos_handler_needs():
    found = files(changed(stack_config("homelab"), home={"enablement": "device-plugin"}))
    runtime = yaml.safe_load(found[f"{HOME}/infrastructure/controllers/device-plugin/runtime-class.yaml"])
    assert (runtime["kind"], runtime["metadata"]["name"], runtime["handler"]) == ("RuntimeClass", "nvidia", "nvidia")
    assert not [path for path in of("homelab") if "runtime-class" in path], "the operator makes its own"


def test_arc_under_argocd_keeps_its_labels_to_itself():
    arc = yaml.safe_load(of("homelab")[f"{HOME}/infrastructure/controllers/arc/application.yaml"])
    flags = arc["spec"]["source"]["helm"]["valuesObject"]["flags"]
    assert flags["excludeLabelPropagationPrefixes"] == ["argocd.argoproj.io/instance"]


@both
def test_every_chart_is_an_application_of_a_pinned_version_that_applies_on_the_server(name):
    charts = [held for _, held in manifests(name) if held["kind"] == "Application" and "chart" in held["spec"]["source"]]
    assert charts
    for held in charts:
        spec = held["spec"]
        assert spec["source"]["targetRevision"].lstrip("v")[0].isdigit()
        assert "://" not in spec["source"]["repoURL"] or spec["source"]["repoURL"].startswith("https://")
        assert isinstance(spec["source"]["helm"]["valuesObject"], dict)
        assert "ServerSideApply=true" in spec["syncPolicy"]["syncOptions"]
        assert held["metadata"]["finalizers"] == ["resources-finalizer.argocd.argoproj.io"]


@both
def test_every_chart_is_where_it_says_and_has_its_wave(name):
    config = stack_config(name)
    fleet = fleet_of(config)
    found = {path: held for path, held in manifests(name) if held["kind"] == "Application" and "chart" in held["spec"]["source"]}
    listed = {}
    for key, cluster in fleet.clusters_by_name():
        physical = physical_name(config.project, config.stack, key)
        for chart in installed(cluster, physical, fleet.github):
            # ArgoCD cannot be what installs itself.
            if cluster.by_git and chart.name != ARGO_CD:
                listed[f"{physical}/{chart.folder}/application.yaml"] = str(chart.wave)
    assert {path: held["metadata"]["annotations"][WAVE] for path, held in found.items()} == listed
    sets = {int(wave) for path, wave in listed.items() if "/runners/" in path}
    assert min(sets) > WAVE_OF_SECRETS, "a set needs its secret"
    assert {int(wave) for path, wave in listed.items() if "/runners/" not in path} == {0}, "controllers before all sets"


@both
def test_names_of_applications_are_told_apart_in_each_cluster(name):
    held = [(path.split("/")[0], found["metadata"]["name"]) for path, found in manifests(name) if found["kind"] == "Application"]
    assert len(set(held)) == len(held)


@both
def test_every_file_of_a_tier_is_one_object_with_a_wave_and_nothing_of_pulumis(name):
    for path, held in manifests(name):
        assert path.endswith(".yaml")
        assert {"apiVersion", "kind", "metadata"} <= held.keys(), path
        annotations = held["metadata"]["annotations"]
        assert int(annotations[WAVE]) in range(-3, 6), path
        assert not [key for key in annotations if key.startswith("pulumi.com/")], path
        assert held["kind"] != "Secret", path


def test_a_finished_job_stays_or_argocd_would_run_it_for_ever():
    jobs = [held for _, held in manifests("gitops") if held["kind"] == "Job"]
    assert len(jobs) == 2, "a job of the stack and a test"
    for job in jobs:
        assert "ttlSecondsAfterFinished" not in job["spec"]
        assert job["metadata"]["annotations"][SYNC_OPTIONS] == "Force=true", "made anew where it cannot be changed, and only then"


def test_a_claim_outlives_its_file_and_so_does_its_namespace():
    kept = [
        held
        for path, held in manifests("homelab")
        if held["kind"] == "PersistentVolumeClaim" or (held["kind"] == "Namespace" and "/namespaces/" in path)
    ]
    assert sorted(held["kind"] for held in kept) == ["Namespace", "Namespace", *["PersistentVolumeClaim"] * 2]
    for held in kept:
        annotations = held["metadata"]["annotations"]
        assert annotations[SYNC_OPTIONS] == "Delete=false,Prune=false"
        assert annotations["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"
    others = [held for path, held in manifests("homelab") if held["kind"] == "Namespace" and "/namespaces/" not in path]
    assert others
    assert not [held for held in others if SYNC_OPTIONS in held["metadata"]["annotations"]], "a runner set takes its own along"


@cache
def named_alike() -> Mapping[str, str]:
    """The files of a stack with a job called as a workload, and a runner set as a chart."""
    config = stack_config("gitops")
    held = json.loads(config.values[KEY])["use1"]
    jobs = {"device-query": held["jobs"]["baseline"]}
    return files(changed(config, use1={"jobs": jobs, "runners": {"cluster-autoscaler": held["runners"]["gpu-t4-quarter"]}}))


def test_a_job_and_a_workload_of_one_name_are_two_files():
    folder = "gpu-ci-gitops-use1/workloads/device-query"
    assert {f"{folder}/job.yaml", f"{folder}/stack-job.yaml"} <= named_alike().keys()


def test_a_runner_set_may_be_called_as_a_chart_is():
    found = named_alike()
    folder = "gpu-ci-gitops-use1/infrastructure"
    paths = (f"{folder}/controllers/cluster-autoscaler/application.yaml", f"{folder}/runners/cluster-autoscaler/application.yaml")
    names = [yaml.safe_load(found[path])["metadata"]["name"] for path in paths]
    assert names == ["cluster-autoscaler", "runners-cluster-autoscaler"]


def test_a_path_that_ends_otherwise_than_the_folder_is_refused():
    git = json.loads(stack_config("homelab").values[KEY])["home"]["gitops"]
    with pytest.raises(
        InputError, match=rf"clusters\.home\.gitops\.path: make render writes the cluster's files to the folder {HOME}; end"
    ):
        files(changed(stack_config("homelab"), home={"gitops": {**git, "path": "clusters/home"}}))


def test_the_applicationset_makes_an_application_of_each_tier():
    found = yaml.safe_load(of("homelab")[f"{HOME}/bootstrap/applicationset.yaml"])
    assert found["spec"]["generators"] == [{"list": {"elements": [{"tier": tier} for tier in TIERS]}}], (
        "listed: a folder that Git does not show must not take its Application along"
    )
    source = found["spec"]["template"]["spec"]["source"]
    assert (source["path"], source["directory"]) == (f"homelab/{HOME}/" + "{{ .tier }}", {"recurse": True})


@both
def test_every_tier_is_a_folder_that_git_has(name):
    folders = {path.split("/")[0] for path in of(name)}
    assert {f"{folder}/{tier}/.keep" for folder in folders for tier in TIERS} <= of(name).keys()


def test_what_applications_hold_is_compared_by_argocd_and_charts_by_the_server():
    tier = yaml.safe_load(of("homelab")[f"{HOME}/bootstrap/applicationset.yaml"])["spec"]["template"]
    assert "annotations" not in tier["metadata"], "a dry run of a changed Job fails, and would stop all of its tier"
    assert "ServerSideApply=true" not in tier["spec"]["syncPolicy"]["syncOptions"]
    assert tier["spec"]["syncPolicy"]["retry"]["limit"] > 0, "one that never ends keeps out the commit that fixes it"
    assert tier["spec"]["syncPolicy"]["retry"]["refresh"] is True
    chart = yaml.safe_load(of("homelab")[f"{HOME}/infrastructure/controllers/gpu-operator/application.yaml"])
    assert chart["metadata"]["annotations"]["argocd.argoproj.io/compare-options"] == "ServerSideDiff=true"


def test_a_wave_waits_for_the_applications_of_the_one_before():
    values = yaml.safe_load(of("homelab")[f"{HOME}/bootstrap/argo-cd.yaml"])
    assert "obj.status.health.status" in values["configs"]["cm"]["resource.customizations.health.argoproj.io_Application"]


# -- valid ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", MINORS)
def test_objects_of_kubernetes_are_valid(minor):
    for name in STACKS:
        native = [held for _, held in manifests(name) if held["apiVersion"].partition("/")[0] not in CUSTOM]
        for held in native:
            kubernetes_validate.validate(held, minor, strict=True)
        assert len(native) > 10


@pytest.mark.reference
@both
def test_objects_of_custom_kinds_are_valid(name):
    schemas = reference("schemas")
    judged = 0
    roots = [yaml.safe_load(text) for path, text in of(name).items() if path.endswith("/bootstrap/applicationset.yaml")]
    for held in (*roots, *(held for _, held in manifests(name))):
        group, _, version = str(held["apiVersion"]).partition("/")
        schema = schemas / group / f"{str(held['kind']).lower()}_{version}.json"
        if group in CUSTOM and schema.is_file():
            jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(held)
            judged += 1
    assert judged >= 4


# -- the same every time -------------------------------------------------------------------------------------------------


RUNNER = {"gpu-3090": {**json.loads(stack_config("homelab").values[KEY])["home"]["runners"]["gpu-3090"]}}
CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a volume": (
        {"workloads": {"ollama": {"kind": "ollama", "pool": "gpu", "storage": {"size": "300Gi", "storageClass": "local-path"}}}},
        {"workloads/ollama/volume.yaml"},
    ),
    "a runner's scale": (
        {"runners": {"gpu-3090": RUNNER["gpu-3090"] | {"scale": {"min": 0, "max": 6}}}},
        {"infrastructure/runners/gpu-3090/application.yaml", "infrastructure/runners/gpu-3090/quota.yaml"},
    ),
    "the revision": (
        {"gitops": {**json.loads(stack_config("homelab").values[KEY])["home"]["gitops"], "revision": "v2"}},
        {"bootstrap/applicationset.yaml"},
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_one_setting_touches_only_its_files(what):
    keys, wanted = CHANGES[what]
    config = stack_config("homelab")
    held = json.loads(config.values[KEY])["home"]
    before, after = of("homelab"), files(changed(config, home=_merged(held, keys)))
    astray = {path.removeprefix(f"{HOME}/") for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert astray == wanted


def _merged(held: dict[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: {**held[key], **value} if isinstance(held.get(key), dict) else value for key, value in keys.items()}


def test_a_workload_that_goes_takes_its_files_and_no_others():
    config = stack_config("homelab")
    left = {name: held for name, held in json.loads(config.values[KEY])["home"]["workloads"].items() if name != "comfyui"}
    after = files(changed(config, home={"workloads": left}))
    gone = {path.removeprefix(f"{HOME}/") for path in of("homelab").keys() - after.keys()}
    assert gone == {f"workloads/comfyui/{part}.yaml" for part in ("deployment", "service", "volume")}
    assert {path: of("homelab")[path] for path in after} == after


# -- secrets -------------------------------------------------------------------------------------------------------------


def _secrets(config: StackConfig, **secrets: str) -> StackConfig:
    held = json.loads(config.values[KEY])["home"]["gitops"]
    return changed(config, home={"gitops": {**held, "secrets": secrets}})


def test_an_external_secret_names_the_key_and_carries_what_is_no_secret():
    held = yaml.safe_load(of("homelab")[f"{HOME}/infrastructure/runners/gpu-3090/github-app.yaml"])
    assert held["spec"]["data"] == [{"secretKey": "key", "remoteRef": {"key": "gpu-ci/github-app"}}]
    assert held["spec"]["target"]["template"]["data"] == {
        "github_app_id": "123456",
        "github_app_installation_id": "12345678",
        "github_app_private_key": "{{ .key }}",
    }


def test_a_sealed_secret_holds_the_ciphertext_for_every_namespace():
    found = files(_secrets(stack_config("homelab"), by="sealed-secrets", privateKey=CIPHERTEXT))
    held = yaml.safe_load(found[f"{HOME}/infrastructure/runners/gpu-3090/github-app.yaml"])
    assert held["spec"]["encryptedData"] == {"github_app_private_key": CIPHERTEXT}
    assert held["metadata"]["annotations"]["sealedsecrets.bitnami.com/cluster-wide"] == "true", "read there and nowhere else"


ENCRYPTED = "ENC[AES256_GCM,data:Zm9v,iv:Zm9v,tag:Zm9v,type:str]"
SOPS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "github-app"},
    "stringData": dict.fromkeys(("github_app_id", "github_app_installation_id", "github_app_private_key"), ENCRYPTED),
    "sops": {"mac": ENCRYPTED, "version": "3.13.2"},
}


def _beside(folder: Path, document: object) -> StackConfig:
    """The homelab in a folder of its own with an encrypted file, or a file in its place."""
    (folder / "app.enc.yaml").write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return replace(_secrets(stack_config("homelab"), by="sops", file="app.enc.yaml"), path=folder / "Pulumi.homelab.yaml")


def test_what_sops_encrypted_is_copied_as_it_is_into_a_folder_that_kustomize_reads(tmp_path):
    found = files(_beside(tmp_path, SOPS))
    folder = f"{HOME}/secrets/runners-gpu-3090"
    assert found[f"{folder}/github-app.enc.yaml"] == (tmp_path / "app.enc.yaml").read_text()
    assert yaml.safe_load(found[f"{folder}/kustomization.yaml"])["namespace"] == "runners-gpu-3090"
    assert yaml.safe_load(found[f"{folder}/ksops.yaml"])["files"] == ["./github-app.enc.yaml"]
    held = yaml.safe_load(found[f"{HOME}/infrastructure/runners/gpu-3090/secret-runners-gpu-3090.yaml"])
    assert held["spec"]["source"]["path"] == f"homelab/{folder}"
    assert not [path for path in found if path.split("/")[1] in TIERS and "enc" in path], "no tier reads it as an object"
    (tmp_path / "app.enc.yaml").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        files(_secrets(stack_config("homelab"), by="sops", file="app.enc.yaml"))


WRONG = {
    "missing": (None, "cannot be read"),
    "no YAML": ("a: [", "is not YAML with one document"),
    "no Secret": ({"kind": "ConfigMap"}, "is not a Secret"),
    "a list": ("[1]", "is not a Secret"),
    "another name": (SOPS | {"metadata": {"name": "app"}}, "must be a Secret named github-app"),
    "a value in clear": (
        SOPS | {"stringData": SOPS["stringData"] | {"github_app_private_key": "-----BEGIN RSA PRIVATE KEY-----"}},
        "has values in clear text (github_app_private_key)",
    ),
    "half encrypted": (SOPS | {"data": {"more": "aGVsbG8="}}, "has values in clear text (more)"),
    "no sops block": ({key: value for key, value in SOPS.items() if key != "sops"}, "has values in clear text (no sops block)"),
    "one key twice, once in clear": (
        SOPS | {"data": {"github_app_private_key": "aGVsbG8="}},
        "has values in clear text (github_app_private_key)",
    ),
    "an annotation of kubectl's": (
        SOPS | {"metadata": {"name": "github-app", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}},
        "has metadata.annotations, which SOPS leaves in clear",
    ),
    "more beside the data": (SOPS | {"backup": {"key": "aGVsbG8="}}, "has backup, which SOPS leaves in clear"),
    "a comment": (f"# BEGIN RSA PRIVATE KEY\n{yaml.safe_dump(SOPS)}", "has a comment or a key in clear"),
    "an empty sops block": (SOPS | {"sops": {}}, "has values in clear text (no sops block)"),
    "a key too few": (SOPS | {"stringData": {"github_app_id": ENCRYPTED}}, "lacks github_app_installation_id, "),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_secret_in_clear_or_of_another_shape_is_refused_in_one_line_that_quotes_nothing(tmp_path, what):
    document, message = WRONG[what]
    if document is not None:
        _beside(tmp_path, document)
    with pytest.raises(InputError) as refused:
        encrypted_secret(tmp_path / "app.enc.yaml", "app.enc.yaml")
    said = str(refused.value)
    assert message in said
    assert said.startswith("gitops.secrets.file: app.enc.yaml ")
    assert "BEGIN" not in said
    assert "aGVsbG8" not in said
    assert "\n" not in said


def test_on_rented_clusters_the_program_writes_the_secret_unless_told_otherwise():
    found = of("gitops")
    assert not [path for path in found if path.startswith("gpu-ci-gitops-use1/") and "github-app" in path]
    of_sjc = [path for path in found if path.startswith("gpu-ci-gitops-sjc/") and "github-app" in path]
    assert len(of_sjc) == 2, "one a runner set, machines' sets too"


# -- drift ---------------------------------------------------------------------------------------------------------------


def run(*words: str):
    return CliRunner().invoke(app, ["render", "homelab", *words])


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Iterator[Path]:
    out: Path = tmp_path_factory.mktemp("git") / "homelab"
    with rendered_once():
        assert run("--out", str(out)).exit_code == 0
        yield out


def copy(rendered: Path, out: Path) -> Path:
    for path in rendered.rglob("*"):
        if path.is_file():
            target = out / path.relative_to(rendered)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return out


def test_a_tree_that_is_what_the_settings_give_passes_and_is_not_touched(rendered):
    stamps = {path: path.stat().st_mtime_ns for path in rendered.rglob("*")}
    done = run("--out", str(rendered), "--check")
    assert (done.exit_code, done.stdout) == (0, f"{rendered}: up to date with the settings\n")
    assert {path: path.stat().st_mtime_ns for path in rendered.rglob("*")} == stamps


def test_what_differs_is_missing_or_is_of_nothing_is_told_and_fails(rendered, tmp_path):
    out = copy(rendered, tmp_path / "homelab")
    (out / HOME / "workloads/ollama/service.yaml").unlink()
    volume = out / HOME / "workloads/ollama/volume.yaml"
    volume.write_text(volume.read_text().replace("200Gi", "100Gi"))
    (out / HOME / "workloads/mine.yaml").write_text("kind: Pod\n")
    done = run("--out", str(out), "--check")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-4:] == [
        f"{out}/{HOME}/workloads/mine.yaml: no setting creates it",
        f"{out}/{HOME}/workloads/ollama/service.yaml: missing",
        f"{out}/{HOME}/workloads/ollama/volume.yaml: differs",
        "error: 3 files differ from the settings; render again, and commit the changes",
    ]
    assert "100Gi" in volume.read_text(), "nothing is written"


def test_a_link_in_the_place_of_a_file_is_told(rendered, tmp_path):
    out = copy(rendered, tmp_path / "homelab")
    service = out / HOME / "workloads/ollama/service.yaml"
    service.rename(tmp_path / "service.yaml")
    service.symlink_to(tmp_path / "service.yaml")
    (out / "more").symlink_to(rendered, target_is_directory=True)
    done = run("--out", str(out), "--check")
    assert done.exit_code == 1
    assert [line for line in done.stderr.splitlines() if "regular" in line] == [
        f"{out}/{HOME}/workloads/ollama/service.yaml: is not a regular file",
        f"{out}/more: is not a regular file",
    ]


@pytest.mark.usefixtures("rendered")
def test_a_folder_that_was_never_rendered_is_wrong_input(tmp_path):
    done = run("--out", str(tmp_path), "--check")
    assert done.exit_code == 2
    assert "was not rendered by gpu-ci; run make render with it once, and commit the result" in done.stderr


@pytest.mark.usefixtures("rendered")
def test_the_committed_tree_is_what_the_settings_give():
    done = run("--out", "homelab", "--check")
    assert done.exit_code == 0, f"{done.stderr}\nrun: make render STACK=homelab OUT=homelab"
