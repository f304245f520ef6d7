"""The GitHub App's secret as Git may have it: a reference or a ciphertext, never the key."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.charts import APP_SECRET
from fleet.render.gitops.application import API, FINALIZER, IN_CLUSTER, Manifest, folder, sync_policy
from fleet.render.gitops.waves import WAVE, WAVE_OF_SECRETS
from fleet.settings.github import GitHub
from fleet.settings.gitops import ExternalSecrets, GitOps, GitSecrets, SealedSecrets, Sops

KEY = "github_app_private_key"
"""Key of the Secret that has the App's key, as the scale-set chart asks for it."""
SECRETS_FOLDER = "secrets"
"""Beside the tiers: what SOPS encrypted is read by Applications of its own."""
_CLUSTER_WIDE = {"sealedsecrets.bitnami.com/cluster-wide": "true"}


def github_app(namespace: str, github: GitHub, git: GitOps, secrets: GitSecrets) -> tuple[Manifest, ...]:
    """What makes the Secret of a runner set's namespace; nothing where the program writes it."""
    if isinstance(secrets, ExternalSecrets):
        return (_external(namespace, _identity(github), secrets),)
    if isinstance(secrets, SealedSecrets):
        return (_sealed(namespace, _identity(github), secrets),)
    return (_decrypted(namespace, git),) if isinstance(secrets, Sops) else ()


def _identity(github: GitHub) -> dict[str, str]:
    """What says which App it is. Neither number is secret."""
    return {"github_app_id": github.app_id, "github_app_installation_id": github.installation_id}


def _external(namespace: str, identity: Mapping[str, str], secrets: ExternalSecrets) -> Manifest:
    remote = {"key": secrets.key} | ({"property": secrets.property} if secrets.property else {})
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": APP_SECRET, "namespace": namespace},
        "spec": {
            "refreshInterval": "1h",
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": secrets.store},
            "target": {"name": APP_SECRET, "template": {"engineVersion": "v2", "data": dict(identity) | {KEY: "{{ .key }}"}}},
            "data": [{"secretKey": "key", "remoteRef": remote}],
        },
    }


def _sealed(namespace: str, identity: Mapping[str, str], secrets: SealedSecrets) -> Manifest:
    return {
        "apiVersion": "bitnami.com/v1alpha1",
        "kind": "SealedSecret",
        "metadata": {"name": APP_SECRET, "namespace": namespace, "annotations": dict(_CLUSTER_WIDE)},
        "spec": {
            "encryptedData": {KEY: secrets.private_key},
            # Merged with what is decrypted; name and namespace of the Secret are those above.
            "template": {"type": "Opaque", "data": dict(identity)},
        },
    }


def _decrypted(namespace: str, git: GitOps) -> Manifest:
    """An Application that builds the set's folder of secrets with Kustomize, whose plugin KSOPS opens them."""
    return {
        "apiVersion": API,
        "kind": "Application",
        "metadata": {
            # In front: a runner set may be called x-secret.
            "name": f"secret-{namespace}",
            "namespace": git.namespace,
            "annotations": {WAVE: str(WAVE_OF_SECRETS)},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "project": git.project,
            "source": folder(git, f"{SECRETS_FOLDER}/{namespace}"),
            "destination": {"server": IN_CLUSTER, "namespace": namespace},
            "syncPolicy": sync_policy(),
        },
    }


ENCRYPTED = "github-app.enc.yaml"
"""The Secret that SOPS encrypted, in the folder of each set."""


def sops_folder(namespace: str) -> dict[str, Manifest]:
    """What Kustomize reads beside `ENCRYPTED` in a set's folder. The namespace is Kustomize's: one file serves all sets."""
    return {
        "kustomization.yaml": {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": namespace,
            "generators": ["./ksops.yaml"],
        },
        "ksops.yaml": {
            "apiVersion": "viaduct.ai/v1",
            "kind": "ksops",
            "metadata": {"name": APP_SECRET, "annotations": {"config.kubernetes.io/function": "exec:\n  path: ksops\n"}},
            "files": [f"./{ENCRYPTED}"],
        },
    }
