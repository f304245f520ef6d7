"""The Secret with the GitHub App's key, in a form that Git may hold: a reference or a ciphertext, never the key."""

from fleet.charts.chart import part
from fleet.facts.manifest import Manifest, manifest
from fleet.render.gitops.application import application_of, folder
from fleet.render.gitops.manifest import WAVE, WAVE_OF_SECRETS
from fleet.settings.github import APP_SECRET, GitHubApp
from fleet.settings.gitops import ExternalSecrets, GitOps, GitSecrets, SealedSecrets, Sops

KEY = "github_app_private_key"
"""Key of the Secret that holds the App's private key. The scale-set chart reads it under this name."""
SECRETS_FOLDER = "secrets"
"""A folder beside the tiers. Separate Applications read it, because SOPS encrypted its files."""
ENCRYPTED = "github-app.enc.yaml"
"""The Secret that SOPS encrypted, in the folder of each set."""
_CLUSTER_WIDE = {"sealedsecrets.bitnami.com/cluster-wide": "true"}


def github_app(namespace: str, github: GitHubApp, git: GitOps, secrets: GitSecrets) -> tuple[Manifest, ...]:
    """The object that creates the Secret in a runner set's namespace. Empty if the program writes the Secret itself."""
    # The two numbers identify the App. Neither is secret.
    identity = {"github_app_id": github.app_id, "github_app_installation_id": github.installation_id}
    if isinstance(secrets, ExternalSecrets):
        return (_external(namespace, identity, secrets),)
    if isinstance(secrets, SealedSecrets):
        spec = {
            "encryptedData": {KEY: secrets.private_key},
            # The controller merges this with the decrypted data. The Secret gets the name and namespace of this object.
            "template": {"type": "Opaque", "data": identity},
        }
        return (manifest("bitnami.com/v1alpha1", "SealedSecret", APP_SECRET, namespace, spec, annotations=dict(_CLUSTER_WIDE)),)
    return (_decrypted(namespace, git),) if isinstance(secrets, Sops) else ()


def _external(namespace: str, identity: dict[str, str], secrets: ExternalSecrets) -> Manifest:
    of_store = {"store": secrets.store, "key": secrets.key, "property": secrets.property or None}
    spec = part(__file__, "external", name=APP_SECRET, data=identity | {KEY: "{{ .key }}"}, **of_store)
    return manifest("external-secrets.io/v1", "ExternalSecret", APP_SECRET, namespace, spec)


def _decrypted(namespace: str, git: GitOps) -> Manifest:
    """An Application that builds the set's folder of secrets with Kustomize. The plugin KSOPS decrypts them."""
    source = folder(git, f"{SECRETS_FOLDER}/{namespace}")
    # The word is a prefix because a runner set may be called x-secret.
    return application_of(f"secret-{namespace}", git, source, namespace, {WAVE: str(WAVE_OF_SECRETS)})


def sops_folder(namespace: str) -> dict[str, Manifest]:
    """The files that Kustomize reads beside `ENCRYPTED` in a set's folder.

    Kustomize sets the namespace, so all sets can have the same encrypted file.
    """
    return part(__file__, "sops", namespace=namespace, name=APP_SECRET, encrypted=f"./{ENCRYPTED}")
