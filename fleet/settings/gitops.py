"""Settings of a cluster whose inside ArgoCD keeps as a Git repository has it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Tag

from fleet.settings.model import DnsLabel, Model, problem, told_by

SECRET_WAYS = ("external-secrets", "sealed-secrets", "sops", "program")
WAYS = f"the GitHub App's key comes by {', '.join(SECRET_WAYS[:-1])} or {SECRET_WAYS[-1]}; name one in by"
"""What is wrong where settings name none of them."""

_REPOSITORY = re.compile(
    r"(https://[A-Za-z0-9.-]+(:[0-9]+)?/|ssh://([a-z]+@)?[A-Za-z0-9.-]+(:[0-9]+)?/|[a-z]+@[A-Za-z0-9.-]+:)[\w./-]*\w"
)
_REVISION = re.compile(r"[A-Za-z0-9][\w.+/-]*")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PATH = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*")
_CIPHERTEXT = re.compile(r"Ag[A-D][A-Za-z0-9+/]{697,}={0,2}")
"""What `kubeseal --raw` prints: base64 of a length (512, of RSA 4096) in two bytes, as long an RSA block, and the ciphertext
(bitnami-labs/sealed-secrets v0.36.6 pkg/crypto)."""
_SECRET_KEY = re.compile(r"[\w.:/-]+")


def _repository(url: str) -> str:
    if not _REPOSITORY.fullmatch(url):
        raise problem(
            "git_repository",
            "not the URL of a Git repository without user and password; write for example https://github.com/example/homelab",
            # Private, for a token may stand in it.
            private=True,
        )
    return url


def _revision(name: str) -> str:
    if not _REVISION.fullmatch(name):
        raise problem("git_revision", "not a branch, tag or commit; write for example main")
    return name


def _path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise problem("git_path", "not a folder below the repository's root; write for example clusters/home")
    return path


def _file(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise problem(
            "secret_file",
            "not a file beside the stack file or below; write for example secrets/github-app.enc.yaml",
            private=True,
        )
    return path


def _ciphertext(text: str) -> str:
    if not _CIPHERTEXT.fullmatch(text):
        raise problem(
            "sealed_key",
            "not what kubeseal prints; seal the key with: kubeseal --raw --scope cluster-wide --from-file key.pem",
            private=True,
        )
    return text


def _secret_key(text: str) -> str:
    if not _SECRET_KEY.fullmatch(text):
        # Private, for it may be the App's own key that stands there.
        raise problem(
            "secret_key",
            "not the name of a key in a secret store; write letters, digits and ._/-, such as gpu-ci/github-app",
            private=True,
        )
    return text


def _object_name(text: str) -> str:
    if len(text) > 253 or not _OBJECT_NAME.fullmatch(text):
        # Private, for it may be the App's own key that stands there.
        raise problem(
            "object_name", "not the name of a Kubernetes object; write lower-case letters, digits, '-' and '.'", private=True
        )
    return text


ObjectName = Annotated[str, AfterValidator(_object_name)]
SecretKey = Annotated[str, AfterValidator(_secret_key)]


class ExternalSecrets(Model):
    """The External Secrets operator fetches the key from a store that is not made here."""

    by: Literal["external-secrets"] = "external-secrets"
    store: ObjectName = "gpu-ci"
    """Name of the ClusterSecretStore."""
    key: SecretKey = "github-app"
    """Of the entry in the store."""
    property: SecretKey | None = None
    """Of the value in the entry, where an entry holds several."""


class SealedSecrets(Model):
    """The Sealed Secrets controller opens a ciphertext, which is safe to commit."""

    by: Literal["sealed-secrets"]
    private_key: Annotated[str, AfterValidator(_ciphertext)]
    """The key as `kubeseal --raw --scope cluster-wide` prints it: every runner set's namespace has it."""


class Sops(Model):
    """ArgoCD itself opens a Secret that SOPS encrypted, by KSOPS in its repository server."""

    by: Literal["sops"]
    file: Annotated[str, AfterValidator(_file)]
    """The encrypted Secret, beside the stack file."""


class ByProgram(Model):
    """`pulumi up` writes the Secret, as it does where Helm delivers."""

    by: Literal["program"]


GitSecrets = ExternalSecrets | SealedSecrets | Sops | ByProgram


AnyGitSecrets = Annotated[
    Annotated[ExternalSecrets, Tag("external-secrets")]
    | Annotated[SealedSecrets, Tag("sealed-secrets")]
    | Annotated[Sops, Tag("sops")]
    | Annotated[ByProgram, Tag("program")],
    Discriminator(told_by("by", SECRET_WAYS), custom_error_type="gpu_ci_git_secrets", custom_error_message=WAYS),
]
"""One way in which the GitHub App's key gets into the cluster, told by `by`."""


class GitOps(Model):
    """Where ArgoCD finds what `make render` wrote, and by whom secrets come."""

    repository: Annotated[str, AfterValidator(_repository)]
    revision: Annotated[str, AfterValidator(_revision)] = "main"
    """Branch, tag or commit that ArgoCD follows."""
    path: Annotated[str, AfterValidator(_path)]
    """Folder of this cluster in the repository."""
    namespace: DnsLabel = "argocd"
    """Where ArgoCD runs."""
    project: ObjectName = "default"
    """ArgoCD's project, which must allow the repository and every chart's."""
    secrets: AnyGitSecrets | None = None
    """By default `pulumi up` writes them where it makes the cluster, and the External Secrets operator elsewhere."""
