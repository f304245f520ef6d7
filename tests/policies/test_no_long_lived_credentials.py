"""no-long-lived-credentials: each kind of credential in every place that can have one. No message has its value."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
from typing import Any

import pytest

from fleet.loading.stackfile import STAND_IN
from policies.rules import kinds
from policies.rules.kinds import (
    APPLICATION,
    APPLICATION_SET,
    CONFIG_MAPS,
    EC2_INSTANCE,
    EC2_NODE_CLASS,
    LAUNCH_TEMPLATE,
    LIST_PATHS,
    OKE_NODE_POOL,
    POD_PATHS,
    RELEASE,
    SECRET,
    SECRETS,
)
from policies.rules.no_long_lived_credentials import FORBIDDEN, RULE
from policies.rules.userdata import MACHINES
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, POD, STANDING_PROPS, pod, release
from tests.policies.harness import CLEAN, changed, judge, said, secret
from tests.policies.suite import Suite, in_pods

HIDDEN = "A1b2" * 9
GITHUB = f"ghp_{HIDDEN}"
# Of AWS's own documentation.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{HIDDEN}\n"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
OBJECT = (
    "values.githubConfigSecret is an object: everybody who may read Helm releases can read their values; "
    "write the name of a Secret"
)
KINDS = {
    GITHUB: "a GitHub token",
    f"gho_{HIDDEN}": "a GitHub token",
    f"ghs_{HIDDEN}": "a GitHub token",
    f"github_pat_{HIDDEN}_{HIDDEN}": "a GitHub token",
    AWS: "an AWS access key id",
    AWS.replace("AKIA", "ASIA"): "an AWS access key id",
    PEM: "a private key",
    PEM.replace("RSA ", ""): "a private key",
    PEM.replace("RSA ", "EC "): "a private key",
    PEM.replace("RSA", "OPENSSH"): "a private key",
}


def holds(path: str, kind: str = "a GitHub token") -> str:
    return (
        f"{path} holds {kind}: it works for anybody who reads it, until it is revoked; "
        "remove it, and use a role, a workload identity or a GitHub App instead"
    )


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def with_env(value: Any) -> dict[str, Any]:
    return dict(changed(GPU_POD, "containers", 0, "env", [{"name": "CI", "value": "true"}, {"name": "TOKEN", "value": value}]))


ENV = "containers[0].env[1].value"


def test_a_token_of_a_service_account_without_end_is_one() -> None:
    told = (
        "type is kubernetes.io/service-account-token: the token of a service account in it never expires; let pods ask for theirs"
    )
    assert judge(RULE, kinds.SECRET, {"type": "kubernetes.io/service-account-token"}) == said(told)
    assert judge(RULE, kinds.SECRET, {"type": "Opaque"}) == CLEAN


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DEPLOY_TOKEN", "q7we9rt2yu4io6pa8sd1fg3h", True),
        ("github_token", "0123456789abcdef0123456789abcdef01234567", True),
        ("MAX_TOKENS", "4096", False),
        ("TOKENIZERS_PARALLELISM", "q7we9rt2yu4io6pa8sd1fg3h", False),
        ("TOKEN", "$(TOKEN_OF_ANOTHER_VARIABLE)", False),
        ("API_KEY", "short1", False),
    ],
)
def test_a_variable_with_the_name_of_a_credential_has_no_value(name: str, value: str, told: bool) -> None:
    props = pod(changed(GPU_POD, "containers", 0, "env", [{"name": name, "value": value}]))
    fault = f"spec.containers[0].env[0] is {name} with a value, which everybody reads who may read pods; use a Secret"
    assert judge(RULE, POD, props) == (said(fault) if told else CLEAN)


def test_an_annotation_and_an_object_of_any_kind_may_hold_one() -> None:
    value = next(iter(KINDS))
    noted = {"metadata": {"annotations": {"a": value}}, "spec": GPU_POD}
    (told,) = judge(RULE, POD, noted).messages
    assert told.startswith("spec: annotation a holds ")
    assert value[:24] not in told
    (found,) = judge(RULE, "kubernetes:example.com/v1:Thing", {"spec": {"a": {"b": value}}}).messages
    assert found.startswith("spec.a.b holds ")
    assert value[:24] not in found


@pytest.mark.parametrize(("value", "kind"), KINDS.items(), ids=range(len(KINDS)))
@pytest.mark.parametrize("wrapped", [False, True])
def test_each_kind_of_credential_is_found_and_never_shown(value: str, kind: str, wrapped: bool) -> None:
    told = judge(RULE, POD, pod(with_env(secret(value) if wrapped else value)))
    assert told == said(holds(f"spec.{ENV}", kind))
    assert value[:24] not in told.messages[0]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ghp_short",
        "ghp_" + "x" * 35,
        "AKIA",
        "AKIASHORT",
        "xAKIA" + "A" * 16,
        "AKIA" + "A" * 17,
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "ssh-ed25519 AAAA",
        f"sha256:{'a' * 64}",
        "$(GITHUB_TOKEN)",
        7,
        None,
    ],
)
def test_what_only_looks_like_one_passes(value: Any) -> None:
    assert judge(RULE, POD, pod(with_env(value))) == CLEAN


PACKED = {
    "as it is": lambda text: f"export TOKEN={text}",
    "in base64": b64,
    "compressed": lambda text: b64(gzip.compress(text.encode())),
    "within": lambda text: (
        f"#cloud-config\nwrite_files:\n  - content: {b64(gzip.compress(f'{text} and what follows it'.encode()))}\n"
    ),
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (LAUNCH_TEMPLATE, {"userData": "{}"}, ("userData",)),
        (EC2_INSTANCE, {"userDataBase64": "{}"}, ("userDataBase64",)),
        ("oci:Core/instance:Instance", {"metadata": {"user_data": "{}"}}, ("metadata", "user_data")),
        ("oci:Core/instance:Instance", {"extendedMetadata": {"ci": "{}"}}, ("extendedMetadata", "ci")),
        (
            "oci:Core/instanceConfiguration:InstanceConfiguration",
            STANDING_PROPS,
            ("instanceDetails", "launchDetails", "metadata", "user_data"),
        ),
        (OKE_NODE_POOL, {"nodeMetadata": {"user_data": "{}"}}, ("nodeMetadata", "user_data")),
        (EC2_NODE_CLASS, {"spec": {"userData": "{}"}}, ("spec", "userData")),
        (RELEASE, {"chart": "any", "values": {"a": ["{}"]}}, ("values", "a", 0)),
        (SECRET, {"data": {"a": "{}"}}, ("data", "a")),
        (SECRET, {"stringData": {"a": "{}"}}, ("stringData", "a")),
        (CONFIG_MAP, {"data": {"a": "{}"}}, ("data", "a")),
        (CONFIG_MAP, {"binaryData": {"a": "{}"}}, ("binaryData", "a")),
    ],
)
def test_it_is_found_wherever_it_stands_and_however_it_is_packed(token: str, props: dict[str, Any], path: Any, pack: Any) -> None:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    assert judge(RULE, token, changed(props, *path, pack(GITHUB))) == said(holds(where))


@pytest.mark.parametrize("field", ["command", "args"])
def test_a_command_is_read_too(field: str) -> None:
    spec = changed(GPU_POD, "initContainers", 0, field, ["--token", GITHUB])
    assert judge(RULE, POD, pod(spec)) == said(holds(f"spec.initContainers[0].{field}[1]"))


def test_two_kinds_in_one_text_are_two_faults() -> None:
    found = judge(RULE, POD, pod(with_env(f"{PEM} {AWS} {GITHUB} {GITHUB}")))
    assert [message.split(" holds ")[1].split(":")[0] for message in found.messages] == [
        "a GitHub token",
        "an AWS access key id",
        "a private key",
    ]


@pytest.mark.parametrize("token", sorted(SECRETS))
def test_a_github_apps_key_belongs_into_a_secret_under_its_own_name(token: str) -> None:
    def place(key: str, field: str, value: str) -> dict[str, Any]:
        props = {field: {key: value}}
        return {"items": [props]} if token.endswith("List") else props

    prefix = "items[0]." if token.endswith("List") else ""
    assert judge(RULE, token, place("github_app_private_key", "stringData", PEM)) == CLEAN
    assert judge(RULE, token, place("github_app_private_key", "data", b64(PEM))) == CLEAN
    assert judge(RULE, token, place("github_app_private_key", "stringData", GITHUB)) == said(
        holds(f"{prefix}stringData.github_app_private_key")
    ), "a token is not a key"
    tls = place("tls.key", "stringData", PEM)
    assert judge(RULE, token, tls) == said(holds(f'{prefix}stringData["tls.key"]', "a private key"))
    assert judge(RULE, token, tls, {"secretKeys": ["tls.key"]}) == CLEAN


def test_a_config_map_is_no_place_for_a_key() -> None:
    assert judge(RULE, CONFIG_MAP, {"data": {"github_app_private_key": PEM}}) == said(
        holds("data.github_app_private_key", "a private key")
    )


def test_what_stands_in_for_a_secret_offline_is_no_credential() -> None:
    assert judge(RULE, SECRET, {"stringData": {"github_app_private_key": STAND_IN}}) == CLEAN


# -- the scale-set chart -----------------------------------------------------------------------------------------------


def set_with(given: Any) -> dict[str, Any]:
    return dict(changed(release(GPU_POD), "values", "githubConfigSecret", given))


def test_credentials_in_a_sets_values_are_one_fault() -> None:
    assert judge(RULE, RELEASE, set_with({"github_token": GITHUB})) == said(OBJECT)
    assert judge(RULE, RELEASE, set_with({"github_app_private_key": PEM})) == said(OBJECT)
    assert judge(RULE, RELEASE, set_with("github-app")) == CLEAN
    assert judge(RULE, RELEASE, set_with(GITHUB)) == said(holds("values.githubConfigSecret"))


def test_another_chart_may_have_an_object_of_that_name() -> None:
    props = {"chart": "any", "values": {"githubConfigSecret": {"name": "a"}}}
    assert judge(RULE, RELEASE, props) == CLEAN


def test_a_key_that_is_a_credential_is_not_shown() -> None:
    (message,) = judge(RULE, CONFIG_MAP, {"data": {GITHUB: GITHUB}}).messages
    assert message == holds('data["***"]')


# -- kinds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", sorted(FORBIDDEN))
def test_a_kind_that_is_a_credential_is_refused_whatever_it_says(token: str) -> None:
    expected = said(f"{FORBIDDEN[token]}: this credential works for anybody who has it, and never expires")
    assert judge(RULE, token, {}) == expected
    assert judge(RULE, token, {"user": "ci"}, unknown=("user",)) == expected


@pytest.mark.parametrize("token", sorted(FORBIDDEN))
def test_the_kinds_are_the_providers_own(token: str) -> None:
    package, module, _, name = token.replace("/", ":").split(":")
    assert hasattr(importlib.import_module(f"pulumi_{package}.{module.lower()}"), name)


# -- unknowns ----------------------------------------------------------------------------------------------------------


def test_an_unknown_text_may_be_a_credential() -> None:
    assert judge(RULE, POD, pod(with_env("x")), unknown=("spec", *_steps(ENV))).unknown == f"spec.{ENV}"
    assert judge(RULE, SECRET, {"data": {"a": "x"}}, unknown=("data", "a")).unknown == "data.a"
    assert judge(RULE, LAUNCH_TEMPLATE, {"userData": "x"}, unknown=("userData",)).unknown == "userData"


@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (POD, pod(GPU_POD), ("spec", "containers", 0, "image")),
        (POD, pod(GPU_POD), ("metadata",)),
        (LAUNCH_TEMPLATE, {"imageId": "ami", "userData": ""}, ("imageId",)),
        (SECRET, {"metadata": {"namespace": "a"}}, ("metadata", "namespace")),
    ],
)
def test_what_holds_no_text_of_its_owners_may_be_unknown(token: str, props: dict[str, Any], path: Any) -> None:
    assert judge(RULE, token, props, unknown=path) == CLEAN


def test_a_late_key_is_judged_when_it_is_known() -> None:
    props = {"data": {"launcher.json": json.dumps({"token": GITHUB}), "b": "x"}}
    path = ("data", "launcher.json")
    assert judge(RULE, CONFIG_MAP, props) == said(holds('data["launcher.json"]'))
    assert judge(RULE, CONFIG_MAP, props, unknown=path) == CLEAN
    assert judge(RULE, CONFIG_MAP, props, {"lateKeys": []}, path).unknown == "data.launcher.json"
    assert judge(RULE, CONFIG_MAP, props, {"lateKeys": ["b"]}, ("data", "b")) == said(holds('data["launcher.json"]'))


def _steps(path: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in path.replace("[", ".").replace("]", "").split(".")]


GOOD_OF = {
    **{token: {"stringData": {"github_app_private_key": PEM, "a": "b"}} for token in SECRETS},
    **{token: {"data": {"a": "b"}} for token in CONFIG_MAPS},
    **{token: {"userData": "#!/bin/bash\necho ready"} for token in MACHINES},
    "oci:Core/instance:Instance": {"metadata": {"user_data": b64("#!/bin/bash\necho ready")}},
    "oci:Core/instanceConfiguration:InstanceConfiguration": STANDING_PROPS,
    OKE_NODE_POOL: {"nodeMetadata": {"user_data": "IyEvYmluL2Jhc2g="}},
    EC2_NODE_CLASS: {"spec": {"userData": "[settings]"}},
}


def _listed(token: str, props: Any) -> Any:
    return {"items": [props]} if token.endswith("List") else props


def _broken(token: str) -> Case:
    prefix = "items[0]." if token.endswith("List") else ""
    if token in SECRETS | CONFIG_MAPS:
        return Case(token, _listed(token, {"data": {"a": b64(GITHUB)}}), (holds(f"{prefix}data.a"),))
    paths: dict[str, tuple[str, ...]] = {
        "oci:Core/instance:Instance": ("metadata", "user_data"),
        "oci:Core/instanceConfiguration:InstanceConfiguration": ("instanceDetails", "launchDetails", "metadata", "user_data"),
        OKE_NODE_POOL: ("nodeMetadata", "user_data"),
        EC2_NODE_CLASS: ("spec", "userData"),
    }
    path = paths.get(token, ("userData",))
    return Case(token, changed(GOOD_OF[token], *path, b64(f"TOKEN={GITHUB}")), (holds(".".join(path)),))


# -- ArgoCD -----------------------------------------------------------------------------------------------------------


def sourced(**helm: Any) -> dict[str, Any]:
    """An Application of a folder in Git that has a chart."""
    source = {"repoURL": "https://github.com/example/fleet", "path": "charts/app", "targetRevision": "main", "helm": helm}
    return {"metadata": {"name": "app"}, "spec": {"source": source}}


@pytest.mark.parametrize(
    ("helm", "path"),
    [
        ({"parameters": [{"name": "token", "value": GITHUB}]}, "parameters[0].value"),
        ({"valuesObject": {"deep": {"er": [GITHUB]}}}, "valuesObject.deep.er[0]"),
        ({"values": f"token: {GITHUB}"}, "values.token"),
        ({"values": f"token: {b64(GITHUB)}"}, "values.token"),
        ({"values": f"not: yaml: {GITHUB}"}, "values"),
    ],
)
def test_what_argo_cd_tells_helm_is_judged_wherever_the_chart_lies(helm: dict[str, Any], path: str) -> None:
    assert judge(RULE, APPLICATION, sourced(**helm)).messages == (holds(f"spec.source.helm.{path}"),)
    of_set = {"spec": {"template": sourced(**helm)}}
    assert judge(RULE, APPLICATION_SET, of_set).messages == (holds(f"spec.template.spec.source.helm.{path}"),)


def test_a_text_that_is_not_read_is_undeterminable() -> None:
    assert judge(RULE, APPLICATION, sourced(values="not: yaml: at all")).unknown == "spec.source.helm.values"


PODS = {*POD_PATHS, *LIST_PATHS, RELEASE}
"""Kinds whose pods are read by field. A ConfigMap is read as text."""

SUITE = Suite(
    RULE,
    passing=(
        *in_pods(with_env("none"), tokens=PODS),
        *(Case(token, _listed(token, props)) for token, props in GOOD_OF.items()),
        Case(SECRET, {"stringData": {"tls.key": PEM}}, config={"secretKeys": ["tls.key"]}),
    ),
    violating=(
        Case(POD, pod(with_env(GITHUB)), (holds(f"spec.{ENV}"),)),
        *in_pods(with_env(PEM), holds(f"{{pod}}.{ENV}", "a private key"), tokens=PODS),
        *(_broken(token) for token in GOOD_OF),
        *(
            Case(token, {"name": "ci"}, (f"{told}: this credential works for anybody who has it, and never expires",))
            for token, told in FORBIDDEN.items()
        ),
        Case(RELEASE, set_with({"github_token": GITHUB}), (OBJECT,)),
        Case(CONFIG_MAP, {"data": {"launcher.json": GITHUB}}, (holds('data["launcher.json"]'),), config={"lateKeys": []}),
    ),
    forbidden=frozenset(FORBIDDEN),
)
