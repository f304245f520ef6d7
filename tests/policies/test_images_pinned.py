"""images-pinned: image references, every kind that runs images, and the images that charts run without a value for them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.arc import arc_controller
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.charts.device_plugin import device_plugin
from fleet.facts import versions
from policies.rules.images_pinned import RULE, Reference, parsed
from policies.rules.kinds import APPLICATION, CLUSTER_POLICY, RELEASE
from policies.rules.read import line
from tests.policies.applications import application
from tests.policies.cases import Case
from tests.policies.fixtures import POD, RUNNER_SET, pod, release, template
from tests.policies.harness import CLEAN, changed, config_of, default, judge, said, secret
from tests.policies.suite import Suite, in_pods

REGISTRIES = default(RULE, "registries")
WORKLOAD_IMAGES = [name for name in REGISTRIES if name.startswith(("docker.io/", "mcr.microsoft.com/"))]

DIGEST = f"sha256:{'5' * 64}"
WRITE = "write registry/repository:version@sha256:digest"
UNTAGGED = f"without a tag it is the image that was pushed last; {WRITE}"
MOVED = f"a tag can be moved, so a digest is required; {WRITE}"
MALFORMED = f"not an image reference; {WRITE}"
ALLOWED = line(", ".join(REGISTRIES), 200)
REGISTRIES_OF = config_of(RULE.id, "extraRegistries")
DIND = 'made by containerMode.type "dind"'
POLICY = "kubernetes:nvidia.com/v1:ClusterPolicy"


def strange(repository: str) -> str:
    added = f'add "{repository}" to {REGISTRIES_OF}'
    return f"its registry is not allowed; take the image from one of {ALLOWED}, or {added}"


def wordless(tag: str) -> str:
    return f'tag "{tag}" is not a version; {WRITE}'


def running(image: Any) -> dict[str, Any]:
    return {
        "initContainers": [{"name": "warm", "image": "ghcr.io/actions/warm:1"}],
        "containers": [{"name": "a", "image": image}],
    }


def judged(image: Any, **config: Any) -> Any:
    return judge(RULE, POD, pod(running(image)), config)


def faults(image: str, *told: str) -> Any:
    return said(*(f'spec.containers[0].image is "{image}": {each}' for each in told))


# -- references --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "repository", "tag", "digest"),
    [
        ("ubuntu", "docker.io/library/ubuntu", "", ""),
        ("ubuntu:24.04", "docker.io/library/ubuntu", "24.04", ""),
        ("example/tool:1", "docker.io/example/tool", "1", ""),
        ("docker.io/library/ubuntu:1", "docker.io/library/ubuntu", "1", ""),
        ("host:5000/x", "host:5000/x", "", ""),
        ("host:5000/x/y:2", "host:5000/x/y", "2", ""),
        ("localhost/x:1", "localhost/x", "1", ""),
        (f"ghcr.io/a/b:1.2@{DIGEST}", "ghcr.io/a/b", "1.2", DIGEST),
        (f"ghcr.io/a/b@{DIGEST}", "ghcr.io/a/b", "", DIGEST),
        (f"host:5000/x@{DIGEST}", "host:5000/x", "", DIGEST),
    ],
)
def test_a_reference_has_its_parts(reference: str, repository: str, tag: str, digest: str) -> None:
    assert parsed(reference) == Reference(repository, tag, digest)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        ":1",
        "Ubuntu",
        "a b",
        "ghcr.io/a/b@sha256:12",
        "ghcr.io/a/b@",
        "ghcr.io/a/b:",
        "a//b",
        "https://ghcr.io/a/b:1",
        "a" * 600,
    ],
)
def test_what_is_no_reference_has_none(reference: str) -> None:
    assert parsed(reference) is None


@pytest.mark.parametrize("tag", ["latest", "dind", "stable", "main-latest", "LATEST-2", "nightly"])
def test_a_tag_without_a_version_moves(tag: str) -> None:
    image = f"ghcr.io/actions/runner:{tag}"
    assert judged(image) == faults(image, wordless(tag))


@pytest.mark.parametrize(
    "image", ["ghcr.io/actions/runner:2.338.0", f"ghcr.io/actions/runner:latest@{DIGEST}", f"nvcr.io/nvidia/cuda@{DIGEST}"]
)
def test_a_version_or_a_digest_is_enough_unless_a_digest_is_required(image: str) -> None:
    assert judged(image) == CLEAN
    found = judged(image, requireDigest=True)
    warm = f'spec.initContainers[0].image is "ghcr.io/actions/warm:1": {MOVED}'
    own = [] if "@" in image else [f'spec.containers[0].image is "{image}": {MOVED}']
    assert found == said(warm, *own)


def test_a_port_is_no_tag() -> None:
    assert judged("host:5000/x", registries=["host:5000", "ghcr.io/actions"]) == faults("host:5000/x", UNTAGGED)


def test_a_digest_that_is_none_pins_nothing() -> None:
    assert judged("ghcr.io/actions/runner:1@sha256:12") == faults("ghcr.io/actions/runner:1@sha256:12", MALFORMED)


@pytest.mark.parametrize(
    "image", ["ghcr.io/actions-evil/runner:1", "ghcr.io/other/actions:1", "ubuntu:24.04", "evil.ghcr.io/actions/a:1"]
)
def test_a_registry_is_allowed_as_a_whole_or_below_a_path(image: str) -> None:
    repository = {"ubuntu:24.04": "docker.io/library/ubuntu"}.get(image, image.rpartition(":")[0])
    assert judged(image) == faults(image, strange(repository))


def test_a_registry_of_ones_own_is_allowed_by_pattern() -> None:
    image = "1234.dkr.ecr.us-west-2.amazonaws.com/ci/runner:1"
    registries = ["*.dkr.ecr.*.amazonaws.com/ci", "ghcr.io"]
    assert judged(image, registries=registries) == CLEAN
    assert judged(image, extraRegistries=registries[:1]) == judged("ghcr.io/actions/a:1", extraRegistries=["x"]) == CLEAN
    other = image.replace("/ci/", "/cx/")
    assert len(judged(other, registries=registries).messages) == 1
    (message, _) = judged(other, registries=[]).messages
    assert message.endswith(f'from one of none, or add "ghcr.io/actions/warm" to {REGISTRIES_OF}'), (
        "an empty list allows no registry"
    )


@pytest.mark.parametrize("image", [None, "", [], {}])
def test_a_container_without_an_image_is_the_api_servers(image: Any) -> None:
    spec = running(image)
    assert judge(RULE, POD, pod(spec)).messages == ()


def test_an_image_volume_is_an_image() -> None:
    spec = running("ghcr.io/actions/a:1") | {"volumes": [{"name": "data", "image": {"reference": "ghcr.io/actions/data"}}]}
    assert judge(RULE, POD, pod(spec)) == said(f'spec.volumes[0].image.reference is "ghcr.io/actions/data": {UNTAGGED}')


def test_an_image_that_is_secret_is_judged_and_one_that_is_unknown_is_not_passed() -> None:
    assert judged(secret("ghcr.io/actions/a")).messages
    assert judge(RULE, POD, pod(running("a")), unknown=("spec", "containers", 0, "image")).unknown == "spec.containers[0].image"


# -- the scale-set chart -----------------------------------------------------------------------------------------------


def scale_set(values: dict[str, Any]) -> dict[str, Any]:
    return {"chart": "oci://ghcr.io/x/gha-runner-scale-set", "values": values}


def test_a_set_without_containers_runs_the_charts_own_image() -> None:
    path = "values.template.spec.containers[runner].image"
    latest = "ghcr.io/actions/actions-runner:latest"
    message = f'{path} is "{latest}", made by the chart, because template.spec.containers is not set: {wordless("latest")}'
    given: list[dict[str, Any]] = [{}, {"template": {"spec": {"nodeSelector": {}}}}]
    for values in given:
        assert judge(RULE, RELEASE, scale_set(values)) == said(message)
    assert judge(RULE, RELEASE, scale_set({"template": {"spec": {"containers": []}}})) == CLEAN, "an empty list is none at all"


def test_docker_in_docker_runs_images_that_no_value_names() -> None:
    values = {
        "containerMode": {"type": "dind"},
        "template": {"spec": {"containers": [{"name": "runner", "image": "ghcr.io/actions/a"}]}},
    }
    path = "values.template.spec"
    subject = f'{path}.initContainers[dind].image is "docker:dind", {DIND}'
    assert judge(RULE, RELEASE, scale_set(values)) == said(
        f'{path}.containers[0].image is "ghcr.io/actions/a": {UNTAGGED}',
        f'{path}.initContainers[init-dind-externals].image is "ghcr.io/actions/a", {DIND}: {UNTAGGED}',
        f"{subject}: {strange('docker.io/library/docker')}",
        f"{subject}: {wordless('dind')}",
    )


def test_a_container_that_the_chart_leaves_out_runs_nothing() -> None:
    containers = [{"name": "runner", "image": "ghcr.io/actions/a:1"}, {"name": "dind", "image": "ghcr.io/actions/b"}]
    plain = scale_set({"template": {"spec": {"containers": containers}}})
    assert judge(RULE, RELEASE, plain) == said(f'values.template.spec.containers[1].image is "ghcr.io/actions/b": {UNTAGGED}')
    messages = judge(RULE, RELEASE, changed(plain, "values", "containerMode", {"type": "dind"})).messages
    assert not [each for each in messages if "actions/b" in each]


@pytest.mark.parametrize(("token", "path"), [(RELEASE, "values"), (RUNNER_SET, "spec")])
def test_the_listener_is_judged_where_its_template_names_an_image(token: str, path: str) -> None:
    spec = {"containers": [{"name": "listener"}, {"name": "proxy", "image": "ghcr.io/actions/proxy"}]}
    base: dict[str, Any] = (
        release(running("ghcr.io/actions/a:1")) if token == RELEASE else template(running("ghcr.io/actions/a:1"))
    )
    props = changed(base, path, "listenerTemplate", {"spec": spec})
    assert judge(RULE, token, props) == said(
        f'{path}.listenerTemplate.spec.containers[1].image is "ghcr.io/actions/proxy": {UNTAGGED}'
    )


# -- other charts ------------------------------------------------------------------------------------------------------


def named(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"chart": chart, "values": values}


def test_the_charts_of_this_project_run_pinned_images_from_allowed_registries() -> None:
    for chart in (arc_controller(), device_plugin(), cluster_autoscaler("c", "us-west-2", "1.34")):
        assert judge(RULE, RELEASE, named(chart.chart, chart.values)) == CLEAN, chart.name


def test_the_images_that_a_chart_runs_by_default_have_no_digest() -> None:
    controller = versions.CHARTS["gha-runner-scale-set-controller"]
    subject = (
        f'values.image names no image, so the chart runs "ghcr.io/actions/gha-runner-scale-set-controller:{controller.version}"'
    )
    assert judge(RULE, RELEASE, named(controller.name, {}), {"requireDigest": True}) == said(f"{subject}: {MOVED}")
    for image in ({"tag": f"0.14.2@{DIGEST}"}, {"digest": DIGEST}, {"digest": "5" * 64}):
        assert judge(RULE, RELEASE, named(controller.name, {"image": image}), {"requireDigest": True}) == CLEAN


def test_a_value_goes_over_what_the_chart_would_run() -> None:
    values = {"image": {"repository": "docker.io/other/plugin"}}
    subject = 'values.image is "docker.io/other/plugin:v0.20.0"'
    assert judge(RULE, RELEASE, named("nvidia-device-plugin", values)) == said(f"{subject}: {strange('docker.io/other/plugin')}")
    empty = {"image": {"repository": "", "tag": None}}
    assert judge(RULE, RELEASE, named("nvidia-device-plugin", empty)) == CLEAN, "the chart's own"


def test_what_an_operator_does_not_start_needs_no_pin() -> None:
    def told(values: dict[str, Any]) -> list[str]:
        messages = judge(RULE, RELEASE, named("gpu-operator", values), {"requireDigest": True}).messages
        return [message.split(" ")[0].removeprefix("values.") for message in messages]

    everything = told({})
    assert {"operator", "driver", "driver.manager", "toolkit", "node-feature-discovery.image"} <= set(everything)
    assert not {"vfioManager", "ccManager", "dcgm", "gds"} & set(everything)
    assert "vfioManager" in told({"sandboxWorkloads": {"enabled": True}})
    off = told({"driver": {"enabled": False}, "nfd": {"enabled": False}})
    assert not {"driver", "driver.manager", "node-feature-discovery.image"} & set(off)


@pytest.mark.parametrize(
    ("values", "subject", "fault"),
    [
        (
            {"image": {"repository": "ghcr.io/actions/x", "tag": "latest"}},
            'values.image is "ghcr.io/actions/x:latest"',
            wordless("latest"),
        ),
        ({"a": [{"image": "ghcr.io/actions/x"}]}, 'values.a[0].image is "ghcr.io/actions/x"', UNTAGGED),
        ({"sidecar": {"image": {"tag": "edge"}}}, 'values.sidecar.image is ":edge"', wordless("edge")),
        (
            {"image": {"registry": "ghcr.io", "repository": "actions/x", "tag": "dev"}},
            'values.image is "ghcr.io/actions/x:dev"',
            wordless("dev"),
        ),
        ({"proxy.image": {"repository": "quay.io/x/y"}}, 'values["proxy.image"] is "quay.io/x/y"', strange("quay.io/x/y")),
    ],
)
def test_images_in_the_values_of_any_chart_are_judged(values: dict[str, Any], subject: str, fault: str) -> None:
    assert judge(RULE, RELEASE, named("any", values)) == said(f"{subject}: {fault}")


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"repository": "ghcr.io/actions/x", "tag": 1.2}},
        {"image": {"repository": "ghcr.io/actions/x"}},
        {"image": {"pullPolicy": "Always"}},
        {"image": {"repository": "ghcr.io/actions/x", "tag": "dev", "enabled": False}},
        {"source": {"repository": "https://charts.example.com", "version": "latest"}},
        {"annotations": {"image": "anything"}},
        {},
    ],
)
def test_what_a_chart_may_bring_itself_and_what_is_no_image_is_left_alone(values: dict[str, Any]) -> None:
    assert judge(RULE, RELEASE, named("any", values)) == CLEAN


def test_an_unknown_value_may_be_an_image_but_a_label_is_none() -> None:
    values = {"image": {"repository": "ghcr.io/actions/x", "tag": "1"}, "annotations": {"role": "arn"}}
    props = named("any", values)
    assert judge(RULE, RELEASE, props, unknown=("values", "image", "tag")).unknown == "values.image.tag"
    assert judge(RULE, RELEASE, props, unknown=("values", "annotations", "role")) == CLEAN
    assert judge(RULE, RELEASE, props, unknown=("chart",)).unknown == "chart"


def test_unknown_value_files_may_name_images() -> None:
    props = named("any", {}) | {"valueYamlFiles": []}
    assert judge(RULE, RELEASE, props) == CLEAN
    assert judge(RULE, RELEASE, props, unknown=("valueYamlFiles",)).unknown == "valueYamlFiles"


def test_a_cluster_policy_is_judged_by_what_it_names_and_does_not_switch_off() -> None:
    driver = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "latest"}
    vfio = driver | {"image": "vfio"}
    policy = {"spec": {"driver": driver, "vfioManager": vfio, "toolkit": {"enabled": True}}}
    message = f'spec.driver is "nvcr.io/nvidia/driver:latest": {wordless("latest")}'
    assert judge(RULE, POLICY, policy) == said(message), "sandbox workloads are off"
    assert judge(RULE, POLICY, changed(policy, "spec", "driver", "enabled", False)) == CLEAN
    assert judge(RULE, POLICY, changed(policy, "spec", "driver", "version", DIGEST)) == CLEAN, (
        "the operator takes a digest for it"
    )
    assert len(judge(RULE, POLICY, changed(policy, "spec", "sandboxWorkloads", {"enabled": True})).messages) == 2


def test_the_default_registries_serve_the_images_of_our_own_versions() -> None:
    for image in (versions.RUNNER_IMAGE, versions.LAUNCHER_IMAGE, versions.CNCF_LAUNCHER_IMAGE):
        assert judged(image) == CLEAN
        reference = parsed(image)
        assert reference is not None
        assert reference.digest, "pinned to its content"


# The workflow of the runner image runs the scanner, and no pod does.
@pytest.mark.parametrize("name", sorted(versions.IMAGES.keys() - {"buildkit-syft-scanner"}))
def test_every_image_of_ours_is_from_an_allowed_repository_and_only_one_names_no_version(name: str) -> None:
    image = versions.IMAGES[name].reference
    assert judged(image).messages == (
        (f'spec.containers[0].image is "{image}": {wordless("gpu")}',) if name == "tensorflow-mnist" else ()
    )


@pytest.mark.parametrize("repository", WORKLOAD_IMAGES)
def test_a_neighbour_of_an_allowed_repository_is_not_allowed(repository: str) -> None:
    assert any(f"{repository}:" in image.reference for image in versions.IMAGES.values()), "each is one of our own"
    (message,) = judged(f"{repository}-copy:1.0").messages
    assert "its registry is not allowed" in message


FILES = "valueYamlFiles: files may name other images and are not read; move them to values"
GOOD = running("ghcr.io/actions/runner:2.338.0")
OPERAND = {"spec": {"toolkit": {"enabled": True, "repository": "nvcr.io/nvidia", "image": "toolkit", "version": "v1"}}}


def test_what_argo_cd_lays_over_the_values_may_name_other_images() -> None:
    plain = application({"chart": "oci://example.com/any", "version": "1.2.3", "values": {}})
    over = changed(plain, "spec", "source", "helm", "parameters", [{"name": "image.tag", "value": "latest"}])
    assert judge(RULE, APPLICATION, plain) == CLEAN
    assert judge(RULE, APPLICATION, over) == said(
        "spec.source.helm.parameters: parameters may name other images and are not read; move them to valuesObject"
    )


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GOOD),
        *in_pods(running("host:5000/x:1"), tokens=[POD], config={"registries": ["host:5000", "ghcr.io"]}),
        *in_pods(running("host:5000/x:1"), tokens=[POD], config={"extraRegistries": ["host:5000"]}),
        *(Case(token, OPERAND) for token in sorted(CLUSTER_POLICY)),
        Case(RELEASE, named("nvidia-device-plugin", {})),
    ),
    violating=(
        *in_pods(running("ghcr.io/actions/runner"), f'{{pod}}.containers[0].image is "ghcr.io/actions/runner": {UNTAGGED}'),
        *(
            case
            for config in ({}, {"extraRegistries": ["host:5001", "host:5000/xy"]})
            for case in in_pods(
                running("host:5000/x:1"),
                f'{{pod}}.containers[0].image is "host:5000/x:1": {strange("host:5000/x")}',
                tokens=[POD],
                config=config,
            )
        ),
        Case(
            RELEASE,
            named("cluster-autoscaler", {"image": {"tag": "v1.34.5"}}),
            (f'values.image is "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.5": {MOVED}',),
            config={"requireDigest": True},
        ),
        Case(RELEASE, named("any", {}) | {"valueYamlFiles": ["text"]}, (FILES,)),
        *(
            Case(
                token,
                changed(OPERAND, "spec", "toolkit", "version", "main"),
                (f'spec.toolkit is "nvcr.io/nvidia/toolkit:main": {wordless("main")}',),
            )
            for token in sorted(CLUSTER_POLICY)
        ),
    ),
)
