"""Releases of charts in an Application: which sources form one release, and the values of each."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.kinds import APPLICATION, APPLICATION_SET, RELEASE
from policies.rules.read import Later, known, walk
from policies.rules.record import UnknownError
from policies.rules.releases import Release, releases, sources
from tests.policies.harness import UNKNOWN, as_read, changed

OPERATOR: dict[str, Any] = {
    "repoURL": "https://helm.ngc.nvidia.com/nvidia",
    "chart": "gpu-operator",
    "targetRevision": "v26.7.0",
    "helm": {"releaseName": "gpus", "valuesObject": {"driver": {"enabled": False}}},
}
GIT: dict[str, Any] = {"repoURL": "https://github.com/example/fleet.git", "path": "apps", "targetRevision": "main"}
REF: dict[str, Any] = {"repoURL": "https://github.com/example/fleet.git", "ref": "values", "targetRevision": "main"}


def app(*several: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An Application of one source, or of several."""
    held = {"source": several[0]} if len(several) == 1 else {"sources": list(several)} if several else {}
    destination = {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"}
    return {"metadata": {"name": "operator", "namespace": "argocd"}, "spec": {"destination": destination} | held | spec}


def app_set(application: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "set"}, "spec": {"generators": [{"list": {}}], "template": application} | spec}


def found(props: dict[str, Any], token: str = APPLICATION, later: Later | None = None) -> list[Release]:
    return list(releases(token, as_read(props), Later() if later is None else later))


def only(props: dict[str, Any], token: str = APPLICATION) -> Release:
    (release,) = found(props, token)
    return release


# -- which sources -----------------------------------------------------------------------------------------------------


def test_a_source_with_a_chart_is_a_release() -> None:
    release = only(app(OPERATOR))
    assert (release.name, release.namespace, release.chart_name) == ("gpus", "gpu-operator", "gpu-operator")
    assert (release.version, release.repository) == ("v26.7.0", "https://helm.ngc.nvidia.com/nvidia")
    assert walk(release.values, "driver", "enabled") is False
    assert [release.chart_path, release.path("version"), release.path("repository"), release.values_path] == [
        "spec.source.chart",
        "spec.source.targetRevision",
        "spec.source.repoURL",
        "spec.source.helm.valuesObject",
    ]


@pytest.mark.parametrize("source", [GIT, REF, {}, {"chart": ""}, {"chart": None}, {"chart": 7}, {"repoURL": "ghcr.io/x"}])
def test_a_source_without_a_chart_is_none(source: dict[str, Any]) -> None:
    assert found(app(source)) == []


@pytest.mark.parametrize("spec", [None, [], "x", {}, {"source": []}, {"sources": {}}, {"sources": ["x", None]}])
def test_junk_is_no_release(spec: Any) -> None:
    assert found({"metadata": {"name": "x"}, "spec": spec}) == []


def test_of_several_sources_each_with_a_chart_is_one() -> None:
    held = found(app(GIT, OPERATOR, REF, changed(OPERATOR, "chart", "other")))
    assert [each.chart for each in held] == ["gpu-operator", "other"]
    assert [each.values_path for each in held] == [
        "spec.sources[1].helm.valuesObject",
        "spec.sources[3].helm.valuesObject",
    ]


def test_several_sources_stand_alone() -> None:
    assert [each.chart for each in found(app(GIT, GIT, source=OPERATOR))] == []
    assert [each.chart for each in found(app(OPERATOR, sources=[]))] == ["gpu-operator"]


def test_an_oci_repository_is_a_chart_by_itself() -> None:
    release = only(app({"repoURL": "oci://registry.example.com/charts/gpu-operator", "path": ".", "targetRevision": "v26.7.0"}))
    assert (release.chart_name, release.chart_path) == ("gpu-operator", "spec.source.repoURL")


def test_the_chart_of_a_registry_is_that_of_a_release_of_pulumis() -> None:
    ours = Release(as_read({"chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"}))
    theirs = only(app({"repoURL": "ghcr.io/actions/actions-runner-controller-charts", "chart": "gha-runner-scale-set"}))
    assert ours.is_scale_set
    assert theirs.is_scale_set


def test_of_another_resource_nothing_is_a_release() -> None:
    assert found(app(OPERATOR), "kubernetes:core/v1:ConfigMap") == []
    assert list(sources(RELEASE, as_read({"chart": "x"}), Later())) == []


# -- what each says ----------------------------------------------------------------------------------------------------


def test_a_release_is_called_as_its_application_and_stands_where_that_is_sent() -> None:
    bare = changed(OPERATOR, "helm", {})
    assert (only(app(bare)).name, only(app(bare)).namespace) == ("operator", "gpu-operator")
    own = changed(OPERATOR, "helm", {"namespace": "elsewhere"})
    assert only(app(own)).namespace == "elsewhere", "what charts call .Release.Namespace"


@pytest.mark.parametrize(
    ("destination", "here"),
    [
        ({}, True),
        ({"namespace": "x"}, True),
        ({"server": "https://kubernetes.default.svc"}, True),
        ({"name": "in-cluster"}, True),
        ({"server": "https://203.0.113.4:6443"}, False),
        ({"name": "edge"}, False),
    ],
)
def test_a_release_may_land_in_another_cluster(destination: dict[str, str], here: bool) -> None:
    assert only(app(OPERATOR, destination=destination)).is_here is here


def test_values_are_an_object_or_else_a_text() -> None:
    text = changed(OPERATOR, "helm", {"values": "driver:\n  enabled: yes\n"})
    assert walk(only(app(text)).values, "driver", "enabled") is True
    assert only(app(text)).values_path == "spec.source.helm.values"
    both = changed(text, "helm", "valuesObject", {"driver": {"enabled": False}})
    assert walk(only(app(both)).values, "driver", "enabled") is False, "ArgoCD then takes no notice of the text"
    assert only(app(both)).values_path == "spec.source.helm.valuesObject"
    neither = changed(OPERATOR, "helm", {})
    assert (only(app(neither)).values, only(app(neither)).values_path) == ({}, "spec.source.helm.valuesObject")


@pytest.mark.parametrize("content", ["a: b: c", "just a text", "[1]", "{{ .values }}"])
def test_a_text_that_is_no_object_is_unknown_and_named(content: str) -> None:
    release = only(app(changed(OPERATOR, "helm", {"values": content})))
    with pytest.raises(UnknownError) as raised:
        _ = release.values
    assert raised.value.value.path == ("spec", "source", "helm", "values")
    assert list(release.unread("do harm", Later())) == [
        "spec.source.helm.values: values that are not a plain YAML object may do harm and are not read; "
        "write them as valuesObject"
    ]


def test_what_sets_values_besides_is_named() -> None:
    helm = {
        "valueFiles": ["$values/operator.yaml"],
        "fileParameters": [{"name": "a", "path": "b"}],
        "parameters": [{"name": "driver.enabled", "value": "true"}],
        "ignoreMissingValueFiles": True,
    }
    assert list(only(app(changed(OPERATOR, "helm", helm))).unread("x", Later())) == [
        "spec.source.helm.valueFiles: files may x and are not read; move them to valuesObject",
        "spec.source.helm.fileParameters: files may x and are not read; move them to valuesObject",
        "spec.source.helm.parameters: parameters may x and are not read; move them to valuesObject",
    ]
    assert list(only(app(changed(OPERATOR, "helm", {"valueFiles": [], "parameters": []}))).unread("x", Later())) == []


# -- what is unknown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [("spec",), ("spec", "source"), ("spec", "source", "chart"), ("spec", "sources")], ids=".".join)
def test_a_chart_that_is_unknown_is_put_off(path: tuple[str, ...]) -> None:
    later = Later()
    assert found(changed(app(OPERATOR), *path, UNKNOWN), later=later) == []
    assert later


def test_unknown_values_are_unknown_to_whoever_reads_them() -> None:
    release = only(changed(app(OPERATOR), "spec", "source", "helm", "valuesObject", UNKNOWN))
    with pytest.raises(UnknownError):
        _ = release.values


def test_a_template_of_applications_is_read_like_one() -> None:
    release = only(app_set(app(OPERATOR)), APPLICATION_SET)
    assert (release.name, release.chart_name) == ("gpus", "gpu-operator")
    assert release.values_path == "spec.template.spec.source.helm.valuesObject"
    (second,) = found(app_set(app(GIT, OPERATOR)), APPLICATION_SET)
    assert second.at == "spec.template.spec.sources[1]."


def test_what_generators_fill_in_is_unknown_and_the_rest_is_not() -> None:
    template = changed(app(OPERATOR), "spec", "source", "targetRevision", "{{ .version }}")
    template = changed(template, "spec", "source", "helm", "valuesObject", "tags", ["a", "{{ .tag }}"])
    release = only(app_set(template), APPLICATION_SET)
    assert release.chart_name == "gpu-operator"
    assert walk(release.values, "driver", "enabled") is False
    assert walk(release.values, "tags")[0] == "a"
    with pytest.raises(UnknownError) as raised:
        _ = release.version
    assert raised.value.value.path == ("spec", "template", "spec", "source", "targetRevision")
    with pytest.raises(UnknownError):
        _ = known(walk(release.values, "tags")[1])
    assert only(template).version == "{{ .version }}", "of an Application it is a text like any other"


def test_a_patch_of_the_template_may_change_all_of_it() -> None:
    later = Later()
    assert len(found(app_set(app(OPERATOR), templatePatch="spec: {{ .patch }}"), APPLICATION_SET, later)) == 1
    with pytest.raises(UnknownError) as raised:
        later.settle()
    assert raised.value.value.path == ("spec", "templatePatch")
    unsure = Later()
    assert found(app_set(app(GIT), templatePatch="spec: {{ .patch }}"), APPLICATION_SET, unsure) == []
    assert not unsure, "without a chart there is nothing to judge"
