"""Where ArgoCD reads, and by whom the GitHub App's key comes: what may be written, and what counts where nothing is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter, ValidationError

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.settings.cluster import Cluster
from fleet.settings.gitops import (
    SECRET_WAYS,
    ByProgram,
    ExternalSecrets,
    GitOps,
    SealedSecrets,
    Sops,
)
from tests.builders import SEALED, cluster, config, gitops, oke_cluster, talos_cluster
from tests.cases import cases
from tests.examples import examples

Make = Callable[..., dict[str, Any]]
WAY: dict[str, dict[str, Any]] = {
    "external-secrets": {"by": "external-secrets"},
    "sealed-secrets": {"by": "sealed-secrets", "privateKey": SEALED},
    "sops": {"by": "sops", "file": "github-app.enc.yaml"},
    "program": {"by": "program"},
}
MODEL = {"external-secrets": ExternalSecrets, "sealed-secrets": SealedSecrets, "sops": Sops, "program": ByProgram}
each_made = pytest.mark.parametrize("make", [cluster, oke_cluster], ids=["eks", "oke"])


def by_git(make: Make, **changes: Any) -> Cluster:
    """A cluster that ArgoCD fills."""
    held = load(config(clusters={"one": make(delivery="argocd", gitops=gitops(**changes))})).clusters["one"]
    assert isinstance(held, Cluster)
    return held


def lines(make: Make, **changes: Any) -> list[str]:
    """What is wrong with its repository, a line each, without the settings' path."""
    try:
        by_git(make, **changes)
    except FleetError as error:
        return [str(problem).removeprefix("gpu-ci:clusters.one.gitops.") for problem in error.problems]
    return []


def repository(**changes: Any) -> GitOps:
    """The settings of a repository by themselves."""
    return TypeAdapter(GitOps).validate_json(json.dumps(gitops(**changes)))


# -- who delivers ------------------------------------------------------------------------------------------------------


@each_made
def test_helm_delivers_unless_argocd_is_asked_to(make: Make) -> None:
    plain = load(config(clusters={"one": make()})).clusters["one"]
    assert (plain.by_git, plain.gitops, plain.secrets_by) == (False, None, ByProgram(by="program"))
    assert by_git(make).by_git


def test_argocd_delivers_to_own_machines_without_being_asked() -> None:
    assert load(config(clusters={"home": talos_cluster()})).clusters["home"].by_git


@each_made
@cases("changes", [{"delivery": "argocd"}, {"gitops": gitops()}, {"delivery": "helm", "gitops": gitops()}])
def test_delivery_and_repository_belong_together(make: Make, changes: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match=r"delivery argocd and gitops .* belong together; give both or neither") as caught:
        load(config(clusters={"one": make(**changes)}))
    (problem,) = caught.value.problems
    assert problem.path[-1] in changes, "the path is one that is in the file"


def test_clusters_of_one_stack_may_be_filled_each_in_its_way() -> None:
    held = {"usw2": cluster(), "sjc": oke_cluster(delivery="argocd", gitops=gitops())}
    assert {name: each.by_git for name, each in load(config(clusters=held)).clusters_by_name()} == {"usw2": False, "sjc": True}


# -- by whom the key comes ---------------------------------------------------------------------------------------------


def test_the_ways_are_those_of_the_models() -> None:
    assert list(WAY) == list(MODEL) == list(SECRET_WAYS)


@pytest.mark.parametrize(
    ("make", "secrets"),
    [
        (cluster, ByProgram(by="program")),
        (oke_cluster, ByProgram(by="program")),
        (talos_cluster, ExternalSecrets(store="gpu-ci", key="github-app", property=None)),
    ],
    ids=["eks", "oke", "talos"],
)
def test_the_program_makes_secrets_where_it_makes_the_cluster_and_an_operator_does_elsewhere(make: Make, secrets: object) -> None:
    assert by_git(make).secrets_by == secrets


@cases("way", WAY)
@cases(
    ("make", "refused", "why"),
    [
        (cluster, "sops", "the ArgoCD that the program installs has no plugin that decrypts them"),
        (oke_cluster, "sops", "the ArgoCD that the program installs has no plugin that decrypts them"),
        (talos_cluster, "program", "pulumi up is not available for this cluster"),
    ],
)
def test_each_way_works_but_for_the_one_that_a_provider_cannot_go(make: Make, refused: str, why: str, way: str) -> None:
    told = lines(make, secrets=WAY[way])
    if way != refused:
        assert told == []
        assert type(by_git(make, secrets=WAY[way]).secrets_by) is MODEL[way]
    else:
        (line,) = told
        others = [each for each in SECRET_WAYS if each != refused]
        assert line.startswith(f"secrets.by: {why}; use ")
        assert sorted(line.partition("; use ")[2].partition(" (got")[0].replace(" or ", ", ").split(", ")) == sorted(others)


@cases("secrets", [{}, {"by": "vault"}, {"by": None}, {"by": ["sops"]}, "sops", {"privateKey": SEALED}])
def test_what_names_no_way_is_told_all_of_them(secrets: object) -> None:
    (line,) = lines(talos_cluster, secrets=secrets)
    assert line.startswith(
        "secrets: the GitHub App's key comes by external-secrets, sealed-secrets, sops or program; name one in by"
    )


@cases(
    ("way", "key", "owner"),
    [
        ("external-secrets", "file", "sops"),
        ("external-secrets", "privateKey", "sealed-secrets"),
        ("sealed-secrets", "store", "external-secrets"),
        ("sops", "property", "external-secrets"),
    ],
)
def test_a_key_of_another_way_is_told_as_its(way: str, key: str, owner: str) -> None:
    (line,) = lines(talos_cluster, secrets=WAY[way] | {key: "x"})
    assert line.startswith(f"secrets.{key}: unknown key; it belongs to by {owner}, remove it or change by")


# -- what is a secret --------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), database=None)
@given(st.binary(min_size=512, max_size=512), st.binary(min_size=17, max_size=4000))
def test_what_kubeseal_prints_of_any_key_is_taken(session_key: bytes, ciphertext: bytes) -> None:
    """Length and RSA block of the session key, then AES-GCM: the key and a tag of 16 bytes."""
    sealed = base64.b64encode(b"\x02\x00" + session_key + ciphertext).decode()
    held = repository(secrets={"by": "sealed-secrets", "privateKey": sealed}).secrets
    assert isinstance(held, SealedSecrets)
    assert held.private_key == sealed


PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA\n" * 60 + "-----END RSA PRIVATE KEY-----\n"
CLEAR = {
    "a key in clear": PEM,
    "a key in base64, as a Secret has it": base64.b64encode(PEM.encode()).decode(),
    "a ciphertext cut off": SEALED[:600],
    "a ciphertext with a line break": f"{SEALED[:400]}\n{SEALED[400:]}",
    "nothing": "",
}


@cases("text", CLEAR.values())
def test_what_kubeseal_does_not_print_is_refused_and_not_shown(text: str) -> None:
    (line,) = lines(talos_cluster, secrets={"by": "sealed-secrets", "privateKey": text})
    assert line.startswith("secrets.privateKey: not what kubeseal prints; ")
    assert "(got" not in line


def test_the_apps_own_key_where_its_name_belongs_is_not_shown() -> None:
    (line,) = lines(talos_cluster, secrets={"by": "external-secrets", "key": PEM})
    assert line.startswith("secrets.key: not the name of a key in a secret store; ")
    assert "BEGIN" not in line


@cases(
    "url",
    [
        "https://ci:ghp_token@github.com/example/homelab",
        "https://ghp_token@github.com/example/homelab",
        "ssh://git:password@git.example.com/ci/fleet",
        "http://github.com/example/homelab",
        "https://github.com/example/homelab?token=ghp_token",
    ],
)
def test_a_repository_with_a_password_is_refused_and_none_is_shown(url: str) -> None:
    (line,) = lines(talos_cluster, repository=url)
    assert line.startswith("repository: not the URL of a Git repository without user and password; ")
    assert url not in line


# -- addresses ---------------------------------------------------------------------------------------------------------


@cases(
    "url",
    [
        "https://github.com/example/homelab",
        "https://github.com/example/homelab.git",
        "https://git.example.com:8443/a/b/c",
        "git@github.com:example/homelab.git",
        "ssh://git@git.example.com:2222/ci/fleet",
        "ssh://git.example.com/ci/fleet",
    ],
)
def test_a_repository_is_reached_by_https_or_ssh(url: str) -> None:
    assert repository(repository=url).repository == url


@cases("url", ["", "github.com/example/homelab", "file:///srv/git", "../homelab", "https://github.com", "oci://x/y"])
def test_what_no_git_server_answers_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="not the URL of a Git repository"):
        repository(repository=url)


_FOLDERS = [
    "home",
    "clusters/home",
    "clusters/gpu-ci.home_1",
    ".",
    "..",
    "../home",
    "/home",
    "home/",
    "a//b",
    "a/../b",
    "a/.",
    "",
    "a b",
]


@cases("path", _FOLDERS)
def test_a_path_stays_below_the_repositorys_root(path: str) -> None:
    fine = path in _FOLDERS[:3]
    assert (lines(talos_cluster, path=path) == []) is fine
    told = lines(talos_cluster, secrets={"by": "sops", "file": path})
    assert [line.partition(";")[0] for line in told] == (
        [] if fine else ["secrets.file: not a file in the stack file's folder or below"]
    )


@cases(
    ("revision", "fine"),
    [("main", True), ("v1.2.0", True), ("release/2026-11", True), ("0" * 40, True), ("", False), ("-x", False), ("a b", False)],
)
def test_a_revision_is_a_branch_a_tag_or_a_commit(revision: str, fine: bool) -> None:
    assert (lines(talos_cluster, revision=revision) == []) is fine


def test_argocd_is_where_it_is_installed_by_default() -> None:
    held = repository()
    assert (held.revision, held.namespace, held.project, held.secrets) == ("main", "argocd", "default", None)


KEY_TEXT = "-----BEGIN RSA PRIVATE KEY-----"


@cases(
    "git",
    [
        {"secrets": KEY_TEXT},
        {"secrets": {"privateKey": KEY_TEXT}},
        {"secrets": {"by": KEY_TEXT}},
        {"secrets": {"by": "sealed-secrets", "privateKey": [KEY_TEXT]}},
        {"secrets": {"by": "external-secrets", "store": KEY_TEXT}},
        {"secrets": {"by": "external-secrets", "key": KEY_TEXT}},
        {"secrets": {"by": "sops", "file": KEY_TEXT}},
        {"repository": f"https://example.com/x?token={KEY_TEXT}"},
    ],
)
def test_a_key_pasted_anywhere_is_in_no_error(git: dict[str, Any]) -> None:
    with pytest.raises(FleetError) as refused:
        load(config(clusters={"home": talos_cluster(gitops=gitops() | git)}))
    assert "BEGIN" not in str(refused.value)
