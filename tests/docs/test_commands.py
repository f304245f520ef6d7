"""Commands, manifests and links of the documentation hold what they promise, without a cluster."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from fleet.facts import versions
from fleet.facts.offer import for_runners
from fleet.facts.scheduling import EKS_PROFILE, GPU_RESOURCE, POOL_LABEL, Toleration
from fleet.prove import placement
from fleet.prove.namespace_limits import limit_range, resource_quota
from fleet.providers import fleet as settings
from fleet.settings.github import PRIVATE_KEY
from fleet.settings.model import Cpu, Memory
from policies.rules.gpu_limits_required import RULE
from tests.deployments.builders import ours
from tests.docs.inside import READ_AT, Inside, insides, stack
from tests.docs.kubectl import HEREDOC, Call, calls
from tests.docs.markdown import ROOT, Fence, anchors, fences, inline_code, links, pages
from tests.fleet.test_isolation import admitted
from tests.fleet.test_pod_security import violations
from tests.policies.harness import CLEAN, judge

SHELLCHECK = Path(sys.executable).parent / "shellcheck"
MAKEFILE = (ROOT / "Makefile").read_text()
FLEET = stack("staging")
(CLUSTER,) = FLEET.clusters
KUBERNETES = FLEET.clusters[CLUSTER].kubernetes_version
RUNNERS = insides()[0].runners

# -- blocks --------------------------------------------------------------------------------------------------------------

SHELLS = ("bash", "sh")
SHELL = [pytest.param(fence, id=fence.place) for fence in fences() if fence.language in SHELLS]


def test_every_block_says_what_it_is():
    unknown = [
        fence.place
        for fence in fences()
        if fence.language not in (*SHELLS, "yaml", "toml", "text", "markdown", "python", "json", "typescript")
    ]
    assert not unknown, "a block of no language, or of another shell, is not checked: name sh, bash, yaml or text"


def test_every_toml_block_parses():
    blocks = [fence for fence in fences() if fence.language == "toml"]
    assert blocks
    for fence in blocks:
        tomllib.loads(fence.text)


def test_the_operators_pages_have_commands():
    told = {fence.page.name for fence in fences() if fence.language in SHELLS}
    assert {"operate.md", "troubleshooting.md"} <= told


@pytest.mark.skipif(not SHELLCHECK.exists(), reason="shellcheck is not installed beside this Python")
@pytest.mark.parametrize("fence", SHELL)
def test_shellcheck_finds_nothing_in_a_shell_block(fence):
    done = subprocess.run(
        [str(SHELLCHECK), f"--shell={fence.language}", "-"], input=fence.text, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{fence.place}: {done.stdout}"


# -- manifests -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Manifest:
    """A Kubernetes object that a page holds, and the namespace that its command names."""

    place: str
    namespace: str | None
    body: dict[str, Any]


def documents() -> Iterator[tuple[Fence, str | None, str]]:
    for fence in fences():
        if fence.language == "yaml":
            yield fence, None, fence.text
        for match in HEREDOC.finditer(fence.text) if fence.language in SHELLS else ():
            line = fence.text[fence.text.rfind("\n", 0, match.start()) + 1 : match.start()]
            yield fence, Call(fence.place, tuple(line.split())).namespace, match[2]


def manifests() -> Iterator[Manifest]:
    for fence, namespace, text in documents():
        for body in YAML(typ="safe", pure=True).load_all(text):
            # ARC's set is not a kind of Kubernetes itself: tests/docs/test_pod_template_page.py compares it.
            if isinstance(body, dict) and "apiVersion" in body and body["kind"] != "AutoscalingRunnerSet":
                yield Manifest(f"{fence.place} {body['metadata']['name']}", namespace, body)


def pods() -> list[Any]:
    return [pytest.param(found, id=found.place) for found in manifests() if found.body["kind"] == "Pod"]


@pytest.mark.parametrize("manifest", [pytest.param(found, id=found.place) for found in manifests()])
def test_a_manifest_is_what_the_api_takes(manifest):
    kubernetes_validate.validate(manifest.body, KUBERNETES, strict=True)


def test_a_misspelt_field_is_not_what_the_api_takes():
    spec: dict[str, Any] = {"containers": [{"name": "a"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    spec["nodeSelectors"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


@pytest.mark.parametrize("manifest", pods())
def test_a_pod_passes_our_own_policy(manifest):
    assert judge(RULE, "kubernetes:core/v1:Pod", manifest.body) == CLEAN


@pytest.mark.parametrize("manifest", pods())
def test_a_pod_of_a_runners_namespace_is_admitted_there(manifest):
    assert manifest.namespace in RUNNERS, f"{manifest.place}: run it where runners run"
    assert violations(manifest.body["spec"]) == [], "the namespace enforces the restricted standard"
    (chart,) = [chart for chart in insides()[0].charts.values() if chart.namespace == manifest.namespace]
    assert all(admitted(limit_range(chart), container) for container in manifest.body["spec"]["containers"]), "its LimitRange"
    asked = sum(container["resources"]["limits"][GPU_RESOURCE] for container in manifest.body["spec"]["containers"])
    room = int(resource_quota(chart)["hard"][f"requests.{GPU_RESOURCE}"]) - chart.values["maxRunners"] * asked
    assert room >= asked, "there is room in the quota though every runner works"


@pytest.mark.parametrize("manifest", pods())
def test_a_pod_lands_on_a_pool_of_staging(manifest):
    spec = manifest.body["spec"]
    host = placement.pool_host(FLEET.clusters[CLUSTER], spec["nodeSelector"][POOL_LABEL])
    assert any(Toleration(**held).covers(EKS_PROFILE.gpu_taint) for held in spec["tolerations"])
    for machine in host.machines:
        offer = for_runners(machine, host.disk, host.daemonsets)
        for container in spec["containers"]:
            asked = container["resources"]["requests"]
            assert TypeAdapter(Cpu).validate_python(asked["cpu"]) <= offer.cpu, manifest.place
            assert TypeAdapter(Memory).validate_python(asked["memory"]) <= offer.memory, manifest.place
            assert container["resources"]["limits"][GPU_RESOURCE] <= offer.gpus, manifest.place


@pytest.mark.parametrize("manifest", pods())
def test_a_pod_runs_once(manifest):
    assert manifest.body["spec"]["restartPolicy"] == "Never", "a smoke test that restarts never ends"


# -- names ---------------------------------------------------------------------------------------------------------------

PROVIDER_LABELS = frozenset(("node.kubernetes.io/instance-type",))
KINDS = frozenset(kind for inside in insides() for _, kind in inside.objects) | {"secret", "job", "statefulset", "pod"}
RAW = re.compile(r"/api/v1/namespaces/([^/]+)/services/([^/:]+):[^/]+/proxy/\S+")
"""A path of the API that leads to a Service's pods; groups: namespace, Service."""
SMOKE = frozenset(found.body["metadata"]["name"] for found in manifests())


def wrong_names(call: Call) -> list[str]:
    """What a call names and none of the clusters has: the faults of the cluster that it fits best."""
    # A cluster without the namespace is never the one that was meant.
    fit = [inside for inside in insides() if call.namespace is None or call.namespace in inside.namespaces]
    return min((list(wrong_in(inside, call)) for inside in fit or insides()), key=len)


def wrong_in(inside: Inside, call: Call) -> Iterator[str]:
    """What a call names and this cluster does not have."""
    before = call.words[: call.words.index("--")] if "--" in call.words else call.words
    call = Call(call.place, before)
    if call.namespace is not None and call.namespace not in inside.namespaces:
        yield f"namespace {call.namespace}"
        return
    nodes = bool({"node", "nodes"} & set(before))
    known = inside.node_labels if nodes else inside.pod_labels(call.namespace) if call.namespace else {}
    for selector in (call.option("-l", "--selector") or "").split(","):
        key, _, value = selector.partition("=")
        if selector and value not in known.get(key, ()):
            yield f"label {selector}"
    columns = {*(inside.label_columns if nodes else known), *PROVIDER_LABELS}
    for key in (call.option("-L", "--label-columns") or "").split(","):
        if key and key not in columns:
            yield f"label column {key}"
    for word in before:
        yield from _wrong_object(inside, call.namespace, word.removeprefix("--from="))
    if "label" in before[:3]:
        for key, _, value in (word.partition("=") for word in before if "=" in word and not word.startswith("-")):
            if value not in inside.node_labels.get(key, ()):
                yield f"label {key}={value}"


def _wrong_object(inside: Inside, namespace: str | None, word: str) -> Iterator[str]:
    if word.startswith("/api"):
        path = RAW.fullmatch(word)
        if path is None or path[2] not in inside.objects.get((path[1], "service"), ()):
            yield f"path {word}"
        return
    kind, slash, name = word.partition("/")
    if kind == "pod" and namespace in inside.runners and name in SMOKE:
        return
    if slash and kind in KINDS and name not in inside.objects.get((namespace, kind), ()):
        yield f"{kind} {name} in {namespace}"


CALLS = [call for fence in fences() if fence.language in SHELLS for call in calls(fence.text, fence.place)]


def test_names_were_read_at_the_versions_that_are_pinned():
    pinned = {name: versions.CHARTS[name].version for name in READ_AT}
    assert pinned == READ_AT, "read names and labels of the new version's templates, then write the version here"
    assert versions.KUBERNETES[KUBERNETES].addons["eks-node-monitoring-agent"] == "v1.7.2-eksbuild.1"


def test_the_pages_look_into_every_namespace_of_every_cluster():
    """Runner sets are many and alike: one of each kind is enough."""
    looked = {call.namespace for call in CALLS}
    for inside in insides():
        assert inside.namespaces - inside.runners <= looked, f"{inside.name}: a page says how to see what is there"
    launchers = {namespace for inside in insides() for namespace, kind in inside.objects if kind == "cronjob"}
    assert launchers & looked


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("kubectl -n arc-runners get pods", ["namespace arc-runners"]),
        ("kubectl get pods --namespace=metrics", ["namespace metrics"]),
        ("kubectl -n kube-system get pods -l name=nvidia-device-plugin-ds", ["label name=nvidia-device-plugin-ds"]),
        ("kubectl get nodes -l gpu-ci/pool=t9", ["label gpu-ci/pool=t9"]),
        ("kubectl get nodes -l nvidia.com/gpu", ["label nvidia.com/gpu"]),
        ("kubectl get nodes -L accelerators,gpu", ["label column accelerators"]),
        ("X=$(kubectl -n arc-systems logs deployment/arc) # why", ["deployment arc in arc-systems"]),
        ("true | kubectl -n kube-system get daemonset/a", ["daemonset a in kube-system"]),
        ("kubectl label node a nvidia.com/gpu.present=yes", ["label nvidia.com/gpu.present=yes"]),
        ("kubectl -n runners-gpu-t4 exec pod/gpu-smoke -- ls -n x", []),
        ("kubectl -n gpu-operator get pods -l app=nvidia-driver-daemonset", ["label app=nvidia-driver-daemonset"]),
        ("kubectl -n gpu-operator get pods -l app=nvidia-dcgm-exporter", []),
        ("kubectl -n gpu-operator get daemonset/nvidia-mig-manager", ["daemonset nvidia-mig-manager in gpu-operator"]),
        (
            "kubectl -n gpu-operator get daemonset/nvidia-container-toolkit-daemonset",
            ["daemonset nvidia-container-toolkit-daemonset in gpu-operator"],
        ),
        ("kubectl -n gpu-operator rollout restart daemonset/nvidia-device-plugin-daemonset", []),
        ("kubectl -n argocd get applications.argoproj.io/gpu-operator", []),
        ("kubectl -n argocd get applications.argoproj.io/kueue", ["applications.argoproj.io kueue in argocd"]),
        ("kubectl -n argocd logs deployment/argocd-dex-server", ["deployment argocd-dex-server in argocd"]),
        ("kubectl -n argocd get pods -l app.kubernetes.io/name=argocd-repo-server", []),
        ("kubectl -n ai exec deployment/ollama -- nvidia-smi", []),
        ("kubectl -n ai get pods -l app.kubernetes.io/name=ollama2", ["label app.kubernetes.io/name=ollama2"]),
        ("kubectl get nodes -L nvidia.com/gpu.replicas,nvidia.com/gpu.copies", ["label column nvidia.com/gpu.copies"]),
        ("kubectl -n kube-system get daemonset/nvidia-gpu-device-plugin", []),
        ("kubectl -n runners-gpu-a10g get cronjob/launcher-sweep", ["cronjob launcher-sweep in runners-gpu-a10g"]),
        ("kubectl -n runners-oracle-vm-gpu-a10-1 create job now --from=cronjob/launcher-sweep", []),
        (
            "kubectl -n runners-oracle-vm-gpu-a10-1 create job now --from=cronjob/sweep",
            ["cronjob sweep in runners-oracle-vm-gpu-a10-1"],
        ),
        ("kubectl get --raw /api/v1/namespaces/gpu-operator/services/nvidia-dcgm-exporter:9400/proxy/metrics", []),
        (
            "kubectl get --raw /api/v1/namespaces/arc-systems/services/a:1/proxy/b",
            ["path /api/v1/namespaces/arc-systems/services/a:1/proxy/b"],
        ),
    ],
)
def test_a_name_that_nobody_makes_is_found(line, wrong):
    assert [fault for call in calls(line, "here") for fault in wrong_names(call)] == wrong


NEW = {stack for fence in fences() for stack in re.findall(r"^make init STACK=(\w+)", fence.text, re.MULTILINE)}
"""Stacks that a page creates with `make init` before it uses them."""


def _there(path: str) -> bool:
    """Whether a file exists, or `make init` of a page writes it."""
    written = {f"Pulumi.{stack}.yaml" for stack in NEW} | {f"policies/config/{stack}.json" for stack in NEW}
    return (ROOT / path).exists() or path in written


def pulumi_faults(words: list[str]) -> Iterator[str]:
    """What a call of pulumi names and the project in its folder does not have: stack, secret, pack, config."""
    folder = words[words.index("-C") + 1] if "-C" in words else "."
    for option in ("--policy-pack", "--policy-pack-config", "--config"):
        if option in words and not _there(words[words.index(option) + 1]):
            yield words[words.index(option) + 1]
    deployed = [key for stack in ours().stacks.values() for key in stack.secrets.values()]
    secrets = (
        deployed
        if folder == "deployments"
        else [f"{settings.NAMESPACE}:{PRIVATE_KEY}", f"{settings.NAMESPACE}:{PRIVATE_KEY}-research"]
    )
    if "--secret" in words and words[words.index("--secret") + 1] not in secrets:
        yield words[words.index("--secret") + 1]
    if "-s" in words and not _there(str(Path(folder, f"Pulumi.{words[words.index('-s') + 1]}.yaml"))):
        yield f"stack {words[words.index('-s') + 1]}"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pulumi up -s stagin", ["stack stagin"]),
        ("pulumi up -s main", ["stack main"]),
        ("pulumi -C deployments up -s main", []),
        ("pulumi -C deployments up -s prod", ["stack prod"]),
        ("pulumi -C bootstrap up -s main", []),
        ("pulumi up -s acme", []),
        ("pulumi -C deployments up -s acme", ["stack acme"]),
        ("pulumi config set --secret gpu-ci:key", ["gpu-ci:key"]),
        ("pulumi -C deployments config set --secret gpu-ci:githubPrivateKey", ["gpu-ci:githubPrivateKey"]),
        ("pulumi preview --policy-pack policy", ["policy"]),
    ],
)
def test_a_stack_secret_or_pack_that_is_not_there_is_found(line, wrong):
    assert list(pulumi_faults(line.split())) == wrong


def make_faults(line: str) -> list[str]:
    """Targets and variables of a make call that the Makefile does not have."""
    faults = []
    for word in re.split(r" [#|>]", line)[0].split()[1:]:
        name, sets, _ = word.partition("=")
        if not re.fullmatch(r"[A-Za-z]+", name):
            continue
        if not re.search(rf"^{name} [?:]=" if sets else rf"^{name}:", MAKEFILE, re.MULTILINE):
            faults.append(word)
    return faults


def test_make_has_every_target_and_variable_that_pages_name():
    told = [(fence.page, line) for fence in fences() if fence.language in SHELLS for line in fence.text.splitlines()]
    lines = [(page, text.strip()) for page, text in (*told, *inline_code()) if text.strip().startswith("make ")]
    assert lines, "no page has a call of make"
    assert [f"{page.relative_to(ROOT)}: {line}" for page, line in lines if make_faults(line)] == []


def test_a_target_that_make_lacks_is_found():
    assert make_faults("make deploy STACK=staging") == ["deploy"]
    assert make_faults("make plan STAGE=staging") == ["STAGE=staging"]
    assert make_faults("make plan STACK=staging ARGS=--json") == []
    assert make_faults("make plan STAGE=staging  # what it would do") == ["STAGE=staging"]


# -- links ---------------------------------------------------------------------------------------------------------------


def dead(page: Path, target: str) -> bool:
    """Whether a link within the project leads nowhere. The head of a generated page is read in the folder of the page."""
    path, _, anchor = target.partition("#")
    folder = ROOT / "docs" if page.name.endswith("_head.md") else page.parent
    there = (folder / path).resolve() if path else page
    return not there.exists() or (anchor != "" and anchor not in anchors(there))


def test_links_within_the_project_lead_somewhere():
    inside = [(page, target) for page in pages() for target in links(page) if not re.match(r"[a-z]+:", target)]
    assert inside, "no page has a link within the project"
    assert [f"{page.relative_to(ROOT)}: {target}" for page, target in inside if dead(page, target)] == []


def test_a_dead_link_is_found():
    page = ROOT / "docs" / "operate.md"
    assert dead(page, "operation.md")
    assert dead(page, "troubleshooting.md#no-such-heading")
    assert dead(page, "#no-such-heading")
    assert not dead(page, "#smoke-tests")


def test_no_link_goes_over_plain_http():
    assert [target for page in pages() for target in links(page) if target.startswith("http:")] == []
