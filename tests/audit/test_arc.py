"""Values of ARC's charts, however a repository holds and joins them."""

import pytest

from gpu_ci.audit.finding import Edit, diff_of
from tests.audit.reading import seen, unread

BASE = """\
githubConfigUrl: https://github.com/acme
maxRunners: 5
containerMode: {type: dind}
listenerTemplate: {spec: {containers: [{name: listener}]}}
template:
  spec:
    nodeSelector: {a: b}
    containers: [{name: runner, image: acme/runner:1}]
odd: 1
"""
OVER = """\
maxRunners: 9
template: {spec: {nodeSelector: {c: d}}}
"""
ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: gpu}
spec:
  project: default
  sources:
  - {repoURL: https://github.com/acme/fleet.git, ref: values}
  - chart: gha-runner-scale-set
    repoURL: ghcr.io/actions/actions-runner-controller-charts
    targetRevision: 0.15.1
    helm:
      valueFiles: [%s]
      valuesObject: %s
  destination: {namespace: arc}
"""


def classes(folder, **files):
    return seen(folder, **files).classes


def test_a_file_of_values_alone_is_a_set(tmp_path):
    found = seen(tmp_path, base=BASE)
    (one,) = found.classes
    assert (one.name, one.maximum, one.listener) == ("", 5, {"containers": [{"name": "listener"}]})
    assert unread(found) == ["odd"]


def test_an_application_has_the_values_of_its_file_which_is_no_set_of_its_own(tmp_path):
    found = seen(tmp_path, sets__gpu=BASE, argo=ARGO % ("$values/sets/gpu.yaml", "{}"))
    (one,) = found.classes
    assert (one.name, one.version, one.maximum, one.runs_containers) == ("gpu", "0.15.1", 5, True)
    assert one.at.place.endswith("argo.yaml:8")
    assert unread(found) == ["odd"]
    assert "+++ b/" in diff_of([Edit(one.values, ("maxRunners",), 7)])
    assert "sets/gpu.yaml" in diff_of([Edit(one.values, ("maxRunners",), 7)])


@pytest.mark.parametrize(
    ("files", "inline", "maximum", "selector"),
    [
        ("$values/base.yaml", "{maxRunners: 1}", 1, {"a": "b"}),
        ("$values/base.yaml, over.yaml", "{}", 9, {"a": "b", "c": "d"}),
        ("over.yaml, base.yaml", "{}", 5, {"a": "b", "c": "d"}),
        ("base.yaml, over.yaml", "{maxRunners: 2, template: {spec: {nodeSelector: {a: x}}}}", 2, {"a": "x", "c": "d"}),
    ],
)
def test_values_lie_over_each_other_in_order(tmp_path, files, inline, maximum, selector):
    found = seen(tmp_path, base=BASE, over=OVER, argo=ARGO % (files, inline))
    (one,) = found.classes
    assert (one.maximum, one.pod["nodeSelector"]) == (maximum, selector)
    assert unread(found) == ["odd"]


def test_a_file_that_is_not_in_the_folder_is_unread(tmp_path):
    found = seen(tmp_path, argo=ARGO % ("elsewhere.yaml", "{maxRunners: 1}"))
    assert [one.maximum for one in found.classes] == [1]
    assert unread(found) == ["spec.sources[1].helm.valueFiles"]


SETS = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: sets}
spec:
  generators: %s
  template:
    metadata: {name: "{{name}}-set"}
    spec:
      source:
        chart: gha-runner-scale-set
        targetRevision: "{{ .version }}"
        helm: {valuesObject: {githubConfigUrl: https://github.com/acme, maxRunners: "{{most}}", odd: 1}}
"""


def test_a_list_generator_makes_a_set_of_each_element(tmp_path):
    found = seen(
        tmp_path, sets=SETS % "[{list: {elements: [{name: a, version: 0.15.1, most: 3}, {name: b, version: 0.14.2, most: 4}]}}]"
    )
    assert [(one.name, one.version, one.maximum) for one in found.classes] == [("a-set", "0.15.1", 3), ("b-set", "0.14.2", 4)]
    assert unread(found) == ["spec.template.spec.source.helm.valuesObject.odd"]


def test_the_name_that_another_generator_makes_is_unknown(tmp_path):
    found = seen(tmp_path, sets=SETS % "[{clusters: {}}]")
    assert [one.name for one in found.classes] == [""]
    assert "spec.generators[0].clusters" not in unread(found)
    assert "spec.template.spec.source.helm.valuesObject.odd" in unread(found)


CHART = """\
apiVersion: v2
name: runners
dependencies:
- {name: gha-runner-scale-set, alias: gpu, version: 0.15.1, repository: "oci://ghcr.io/actions"}
- {name: gha-runner-scale-set-controller, version: 0.15.0}
- {name: other, version: 1.0.0}
"""


def test_dependencies_of_a_chart_are_sets_and_controllers(tmp_path):
    values = "other: {a: 1}\ngpu:\n" + "".join(f"  {line}\n" for line in BASE.splitlines())
    found = seen(tmp_path, set__Chart=CHART, set__values=values, **{"set__values-prod": "gpu: {maxRunners: 8}\n"})
    (one,) = found.classes
    assert (one.version, one.maximum, one.name) == ("0.15.1", 8, "")
    assert [controller.version for controller in found.controllers] == ["0.15.0"]
    assert unread(found) == ["gpu.odd"]


def test_values_below_the_name_of_the_chart_are_a_set(tmp_path):
    values = "other: {a: 1}\ngha-runner-scale-set:\n" + "".join(f"  {line}\n" for line in BASE.splitlines())
    found = seen(tmp_path, values=values)
    assert [(one.maximum, one.version) for one in found.classes] == [(5, "")]
    assert unread(found) == ["gha-runner-scale-set.odd"]


def test_a_chart_with_the_dependency_does_not_count_twice(tmp_path):
    values = "gha-runner-scale-set:\n" + "".join(f"  {line}\n" for line in BASE.splitlines())
    found = seen(tmp_path, Chart=CHART.replace("alias: gpu, ", ""), values=values)
    assert [(one.maximum, one.version) for one in found.classes] == [(5, "0.15.1")]


def test_releases_of_helmfile(tmp_path):
    given = "values: [base.yaml, {maxRunners: 2}], set: [x]"
    text = f"releases:\n- {{name: gpu, namespace: arc, chart: oci/gha-runner-scale-set, version: 0.15.1, {given}}}\n"
    found = seen(tmp_path, helmfile=text, base=BASE)
    assert [(one.name, one.version, one.maximum) for one in found.classes] == [("gpu", "0.15.1", 2)]
    assert unread(found) == ["odd", "releases[0].set"]


def test_files_of_a_kustomization(tmp_path):
    given = "valuesFile: base.yaml, additionalValuesFiles: [over.yaml]"
    text = f"helmCharts:\n- {{name: gha-runner-scale-set, repo: x, version: 0.15.1, releaseName: gpu, {given}}}\n"
    found = seen(tmp_path, kustomization=text, base=BASE, over=OVER)
    assert [(one.name, one.maximum) for one in found.classes] == [("gpu", 9)]
    assert unread(found) == ["odd"]


def test_values_that_flux_takes_from_an_object_are_unread(tmp_path):
    text = (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: gpu}\nspec:\n  interval: 5m\n"
        "  chart: {spec: {chart: gha-runner-scale-set, version: 0.15.1}}\n"
        "  values: {githubConfigUrl: x}\n  valuesFrom: [{kind: ConfigMap, name: x}]\n"
    )
    assert unread(seen(tmp_path, flux=text)) == ["spec.valuesFrom"]
