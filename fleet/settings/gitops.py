"""Settings of a cluster that ArgoCD syncs from a Git repository."""

from typing import Annotated, Literal

from pydantic import Field, Tag

from fleet.settings.model import DnsLabel, Model, selected_by
from fleet.settings.refusals import matching

SECRET_WAYS = ("external-secrets", "sealed-secrets", "sops", "program")

_PATH = r"[\w-][\w.-]*(/[\w-][\w.-]*)*"
_CIPHERTEXT = r"Ag[A-D][A-Za-z0-9+/]{697,}={0,2}"
"""The output of `kubeseal --raw` in base64: two bytes of length (512 for RSA 4096), an RSA block of that length, the ciphertext
(bitnami-labs/sealed-secrets v0.36.6 pkg/crypto)."""

# Errors with private=True do not show the value, because people may paste a token or the App's key there.
_GIT = r"(https://[A-Za-z0-9.-]+(:[0-9]+)?/|ssh://([a-z]+@)?[A-Za-z0-9.-]+(:[0-9]+)?/|[a-z]+@[A-Za-z0-9.-]+:)[\w./-]*\w"
Repository = Annotated[str, matching("git_repository", _GIT, private=True)]
Revision = Annotated[str, matching("git_revision", r"[A-Za-z0-9][\w.+/-]*")]
Folder = Annotated[str, matching("git_path", _PATH)]
SecretFile = Annotated[str, matching("secret_file", _PATH, private=True)]
SealedKey = Annotated[str, matching("sealed_key", _CIPHERTEXT, private=True)]
SecretKey = Annotated[str, matching("secret_key__store", r"[\w.:/-]+", private=True)]
ObjectName = Annotated[str, matching("object_name__git", r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", most=253, private=True)]


class ExternalSecrets(Model):
    """The External Secrets operator fetches the key from an existing secret store."""

    by: Literal["external-secrets"] = "external-secrets"
    """The External Secrets operator fetches the key from a secret store. Mark: first."""
    store: ObjectName = "gpu-ci"
    """Name of the ClusterSecretStore. Mark: first."""
    key: SecretKey = "github-app"
    """Name of the entry in the store. Mark: first."""
    property: SecretKey | None = None
    """Name of the value, if the entry has several. Default: the whole entry. Example: `private-key`"""


class SealedSecrets(Model):
    """The Sealed Secrets controller decrypts a ciphertext that is safe to commit."""

    by: Literal["sealed-secrets"]
    """The Sealed Secrets controller decrypts a ciphertext that is safe to commit. Example: `sealed-secrets`"""
    private_key: SealedKey
    """The key as `kubeseal --raw --scope cluster-wide --from-file key.pem` prints it, about a thousand characters
    (docs/gitops.md). Every namespace of a runner set gets it."""


class Sops(Model):
    """ArgoCD decrypts a Secret that SOPS encrypted, with KSOPS in its repository server."""

    by: Literal["sops"]
    """ArgoCD decrypts a file that SOPS encrypted. Example: `sops`"""
    file: SecretFile
    """The encrypted Secret, below the folder of the stack file. Example: `secrets/github-app.enc.yaml`"""


class ByProgram(Model):
    """`pulumi up` writes the Secret, as it does with delivery by Helm."""

    by: Literal["program"]
    """`pulumi up` writes the Secret from `gpu-ci:githubPrivateKey`. Example: `program`"""


GitSecrets = ExternalSecrets | SealedSecrets | Sops | ByProgram


AnyGitSecrets = Annotated[
    Annotated[ExternalSecrets, Tag("external-secrets")]
    | Annotated[SealedSecrets, Tag("sealed-secrets")]
    | Annotated[Sops, Tag("sops")]
    | Annotated[ByProgram, Tag("program")],
    selected_by("by", SECRET_WAYS, "git_secrets", "the GitHub App's key comes by"),
]
"""How the GitHub App's key gets into the cluster, selected by `by`."""


class GitOps(Model):
    """Where ArgoCD finds the output of `make render`, and how the secrets get into the cluster."""

    repository: Repository
    """URL of the Git repository, without user and password."""
    revision: Revision = "main"
    """Branch, tag or commit that ArgoCD follows."""
    path: Folder
    """Folder of this cluster in the repository. `make render` writes its files."""
    namespace: DnsLabel = "argocd"
    """Namespace of ArgoCD. Example: `argo-cd`"""
    project: ObjectName = "default"
    """ArgoCD's project. It must allow this repository and that of every chart. Example: `gpu-ci`"""
    secrets: AnyGitSecrets | None = None
    """How the GitHub App's key gets into the cluster; `by` selects the keys. Default: `pulumi up` if it creates the cluster, else
    the External Secrets operator. Mark: first."""
    scope_secrets: dict[DnsLabel, AnyGitSecrets] = Field(default_factory=dict)
    """The same for further scopes of `gpu-ci:github`, by name. Required for each App that is not that of `gpu-ci:github`, unless
    `pulumi up` writes the keys. Default: `secrets`. Example: `{research: {by: external-secrets, key: github-app-research}}`"""
