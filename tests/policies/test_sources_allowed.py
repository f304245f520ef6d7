"""sources-allowed: charts and manifests come from repositories of the lists, and of the stack's owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.facts.versions import CHARTS
from policies.rules.kinds import APPLICATION, RELEASE
from policies.rules.sources_allowed import RULE, owner_of
from tests.policies.cases import Member, alone
from tests.policies.harness import CLEAN, NAME, config_of, judge_stack
from tests.policies.suite import SCALE_SET, Suite

OWNERS = {"owners": ["github.com/example"]}
ARC = "oci://ghcr.io/actions/actions-runner-controller-charts"
ARGO_HELM = "https://argoproj.github.io/argo-helm"
FLUX = "kubernetes:helm.toolkit.fluxcd.io/v2:HelmRelease"
INDEX = "kubernetes:source.toolkit.fluxcd.io/v1:HelmRepository"
IMAGE = "kubernetes:source.toolkit.fluxcd.io/v1beta2:OCIRepository"
GIT = "kubernetes:source.toolkit.fluxcd.io/v1:GitRepository"


def helm(chart: str, repository: str = "") -> dict[str, Any]:
    return {"chart": chart, "version": "1.2.3"} | ({"repositoryOpts": {"repo": repository}} if repository else {})


def git(address: Any) -> dict[str, Any]:
    return {"metadata": {"name": "app", "namespace": "argocd"}, "spec": {"source": {"repoURL": address, "path": "."}}}


def told(token: str, props: Mapping[str, Any], config: Mapping[str, Any] = OWNERS) -> tuple[str, ...]:
    return judge_stack(RULE, [Member(token, NAME, props)], config).messages


def alien(path: str, shown: str, allowed: str) -> str:
    where = config_of(RULE.id, "extraRepositories")
    return f'{path} comes from "{shown}": this repository is not allowed; take another, or add "{allowed}" to {where}'


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_each_chart_of_ours_comes_from_its_own_repository_and_no_other(chart: Any) -> None:
    whole = f"{chart.repository}/{chart.name}"
    ours = helm(whole) if whole.startswith("oci://") else helm(chart.name, chart.repository)
    assert told(RELEASE, ours) == ()
    elsewhere = next(other.repository for other in CHARTS.values() if other.repository.startswith("https") and other is not chart)
    if elsewhere != chart.repository:
        (message,) = told(RELEASE, helm(chart.name, elsewhere))
        assert f"chart {chart.name} is in {chart.repository}; write that" in message
    mirror = f"oci://registry.example.com/charts/{chart.name}"
    assert told(RELEASE, helm(mirror), {"extraRepositories": [mirror]}) == ()
    assert told(RELEASE, helm(mirror), {"extraRepositories": [mirror.rpartition("/")[0]]}), "a name is worth a whole address"


@pytest.mark.parametrize(
    "repository",
    [
        "https://evil.example/charts",
        f"{ARGO_HELM}.evil.example",
        "https://argoproj.github.io@evil.example/argo-helm",
        f"{ARGO_HELM}/../evil",
        f"{ARGO_HELM}?x=1",
        f"{ARGO_HELM}%2f..%2fevil",
        "http://argoproj.github.io/argo-helm",
        "oci://argoproj.github.io/argo-helm",
        "https://github.com/example/charts",
    ],
)
def test_an_address_that_only_looks_like_an_allowed_one_is_refused(repository: str) -> None:
    assert told(RELEASE, helm("train", ARGO_HELM)) == told(RELEASE, helm("train", f"{ARGO_HELM}/")) == ()
    (message,) = told(RELEASE, helm("train", repository), {})
    assert "this repository is not allowed" in message


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/example/gpu-ci",
        "https://GitHub.com/Example/gpu-ci.git",
        "git@github.com:example/gpu-ci.git",
        "ssh://git@github.com:22/example/gpu-ci",
    ],
)
def test_a_repository_of_an_owner_of_the_stack_passes_however_it_is_written(address: str) -> None:
    assert told(APPLICATION, git(address)) == ()


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/evil/x",
        "git@github.com:evil/x.git",
        "ssh://git@github.com/evil/x",
        "https://github.com@evil.example/example/x",
        "https://github.com.evil.example/example/x",
        "https://gitlab.com/example/x",
        "https://github.com/example/../evil/x",
        "https://github.com/example%2f..%2fevil/x",
        "http://github.com/example/x",
        "file:///srv/example/x",
        "oci://ghcr.io/evil/manifests",
    ],
)
def test_any_other_repository_is_refused(address: str) -> None:
    assert len(told(APPLICATION, git(address))) == 1


def test_a_password_of_an_address_is_not_shown() -> None:
    (message,) = told(APPLICATION, git("https://ci:hunter2@github.com/evil/x"))
    assert "hunter2" not in message
    (message,) = told(RELEASE, helm("train", "https://ci:hunter2@evil.example/charts"))
    assert "hunter2" not in message


def test_without_owners_a_git_repository_passes_and_nothing_else() -> None:
    assert told(APPLICATION, git("https://github.com/evil/x"), {}) == ()
    assert told(APPLICATION, git("oci://ghcr.io/evil/x"), {})


@pytest.mark.parametrize(
    ("token", "spec"),
    [
        ("kubernetes:argoproj.io/v1alpha1:Application", {"sources": [{"repoURL": "https://github.com/evil/x", "ref": "v"}]}),
        (
            "kubernetes:argoproj.io/v1alpha1:Application",
            {"source": {"kustomize": {"components": ["https://git.evil.example/x//y"]}}},
        ),
        (
            "kubernetes:argoproj.io/v1alpha1:ApplicationSet",
            {"generators": [{"git": {"repoURL": "https://git.evil.example/a/b"}}]},
        ),
        (
            "kubernetes:argoproj.io/v1alpha1:ApplicationSet",
            {"generators": [{"list": {"elements": [{"u": "git@evil.example:a/b"}]}}]},
        ),
        ("kubernetes:argoproj.io/v1alpha1:AppProject", {"sourceRepos": ["*"]}),
        ("kubernetes:argoproj.io/v1alpha1:Application", {"source": {"targetRevision": "refs/pull/7/head", "path": "."}}),
        ("kubernetes:source.toolkit.fluxcd.io/v1:Bucket", {"endpoint": "minio.evil.example", "bucketName": "x"}),
        ("kubernetes:fleet.cattle.io/v1alpha1:HelmOp", {"helm": {"chart": "x", "repo": "https://evil.example/charts"}}),
        ("kubernetes:pkg.crossplane.io/v1:Provider", {"package": "xpkg.evil.example/x/y:v1"}),
        (GIT, {"url": "https://git.evil.example/a/b"}),
        (INDEX, {"url": "https://evil.example/charts"}),
        (IMAGE, {"url": "oci://ghcr.io/evil/x"}),
        ("kubernetes:fleet.cattle.io/v1alpha1:GitRepo", {"repo": "https://git.evil.example/a/b"}),
        ("kubernetes:configsync.gke.io/v1beta1:RootSync", {"git": {"repo": "https://git.evil.example/a/b"}}),
        ("kubernetes:kappctrl.k14s.io/v1alpha1:App", {"fetch": [{"git": {"url": "https://git.evil.example/a/b"}}]}),
        ("kubernetes:pulumi.com/v1:Stack", {"projectRepo": "https://git.evil.example/a/b"}),
        ("kubernetes:example.com/v1:Sync", {"gitRepository": "https://github.com/evil/x"}),
        ("kubernetes:core/v1:Pod", {"volumes": [{"gitRepo": {"repository": "https://github.com/evil/x"}}]}),
    ],
)
def test_whatever_fetches_a_repository_of_others_is_refused(token: str, spec: dict[str, Any]) -> None:
    assert len(told(token, {"spec": spec})) == 1


@pytest.mark.parametrize(
    ("token", "spec"),
    [
        (
            "kubernetes:argoproj.io/v1alpha1:ApplicationSet",
            {
                "generators": [
                    {"list": {"elements": [{"url": "https://10.0.0.1/x/y"}]}},
                    {"pullRequest": {"github": {"repo": "a.b"}}},
                ]
            },
        ),
        ("kubernetes:argoproj.io/v1alpha1:Application", {"info": [{"name": "url", "value": "https://github.com/evil/x"}]}),
        ("kubernetes:argoproj.io/v1alpha1:AppProject", {"sourceRepos": [ARGO_HELM, "https://github.com/example/*", "!*"]}),
        ("kubernetes:notification.toolkit.fluxcd.io/v1:Provider", {"address": "https://hooks.example.com/a/b"}),
        ("kubernetes:example.com/v1:Hook", {"url": "https://github.com/evil/x"}),
        ("kubernetes:core/v1:Pod", {"containers": [{"env": [{"name": "REPO", "value": "https://github.com/evil/x"}]}]}),
    ],
)
def test_what_fetches_nothing_passes(token: str, spec: dict[str, Any]) -> None:
    assert told(token, {"spec": spec}) == ()


def test_the_file_of_kustomize_is_read() -> None:
    token = "kubernetes:kustomize.config.k8s.io/v1beta1:Kustomization"  # noqa: S105 - a type token
    evil = {
        "resources": ["base/app.yaml", "https://git.evil.example/x//base"],
        "helmCharts": [{"repo": "https://evil.example/x"}],
    }
    assert [said.partition(" is ")[0] for said in told(token, evil)] == ["helmCharts[0].repo", "resources[1]"]
    assert told(token, {"resources": ["../base", "github.com/example/x//base?ref=v1"], "helmCharts": [{"repo": ARGO_HELM}]}) == ()


def test_a_placeholder_may_be_any_repository() -> None:
    token = "kubernetes:argoproj.io/v1alpha1:ApplicationSet"  # noqa: S105 - a type token
    props = {"spec": {"template": git("{{ .url }}")}}
    assert judge_stack(RULE, [Member(token, NAME, props)], OWNERS).unknown


def test_values_that_make_applications_are_read() -> None:
    apps = {"applications": {"x": {"source": {"repoURL": "https://github.com/evil/x"}}}}
    (message,) = told(RELEASE, helm("argocd-apps", ARGO_HELM) | {"values": apps})
    assert message.startswith("values.applications.x.source.repoURL is ")


def flux(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "ml"}, "spec": spec}


def source(url: str, namespace: str = "ml") -> dict[str, Any]:
    return {"metadata": {"name": "charts", "namespace": namespace}, "spec": {"url": url}}


def of_flux(token: str, url: str, **spec: Any) -> Any:
    members = [Member(FLUX, "release", flux(**spec)), Member(token, "source", source(url))]
    return judge_stack(RULE, members, OWNERS)


def chart(name: str, kind: str, **reference: str) -> dict[str, Any]:
    return {"spec": {"chart": name, "version": "1.2.3", "sourceRef": {"kind": kind, "name": "charts"} | reference}}


def test_a_release_of_flux_has_its_chart_from_the_object_that_it_names() -> None:
    assert of_flux(INDEX, ARGO_HELM, chart=chart("argo-cd", "HelmRepository")) == CLEAN
    assert of_flux(INDEX, ARC, chart=chart("gha-runner-scale-set", "HelmRepository", namespace="ml")) == CLEAN
    assert of_flux(GIT, "https://github.com/example/charts", chart=chart("./charts/train", "GitRepository")) == CLEAN
    (message,) = of_flux(INDEX, ARGO_HELM, chart=chart("gha-runner-scale-set", "HelmRepository")).messages
    assert f"chart gha-runner-scale-set is in {ARC}" in message
    reference = {"kind": "OCIRepository", "name": "charts"}
    assert of_flux(IMAGE, SCALE_SET, chartRef=reference) == CLEAN
    assert len(of_flux(IMAGE, "oci://ghcr.io/evil/gha-runner-scale-set", chartRef=reference).messages) == 2
    assert "is not here" in of_flux(INDEX, ARGO_HELM, chart=chart("x", "HelmRepository", namespace="other")).undeterminable


def test_a_chart_in_the_object_itself_has_no_repository() -> None:
    token = "kubernetes:helm.cattle.io/v1:HelmChart"  # noqa: S105 - a type token
    (message,) = told(token, {"spec": {"chartContent": "H4sI"}})
    assert message == "spec.chartContent is a chart without a repository; write chart and repo"
    (message,) = told(token, {"spec": {"chart": "miner", "repo": "https://evil.example/charts"}})
    assert message.startswith('spec.chart comes from "https://evil.example/charts"')
    assert told(token, {"spec": {"chart": "argo-cd", "repo": ARGO_HELM}}) == ()


def test_an_owner_is_read_of_each_form_of_address() -> None:
    assert owner_of("https://github.com/Acme/tools.git?ref=main") == "github.com/acme"
    assert owner_of("not an address") == owner_of("https://github.com/acme") == ""


OURS, EVIL = helm(SCALE_SET), helm("oci://ghcr.io/evil/miner")
SUITE = Suite(
    RULE,
    passing=(
        alone(RELEASE, OURS),
        alone(RELEASE, helm("argo-cd", ARGO_HELM)),
        alone(RELEASE, helm("./charts/mine")),
        alone(RELEASE, EVIL, config={"extraRepositories": ["oci://ghcr.io/evil"]}),
        alone(RELEASE, helm("mine", "https://charts.example.com"), config={"repositories": ["https://*.example.com"]}),
        alone(APPLICATION, git("https://github.com/example/x"), config=OWNERS),
    ),
    violating=(
        alone(RELEASE, EVIL, (alien("chart", "oci://ghcr.io/evil", "oci://ghcr.io/evil"),)),
        alone(APPLICATION, git("https://github.com/evil/x"), told(APPLICATION, git("https://github.com/evil/x")), config=OWNERS),
    ),
)
