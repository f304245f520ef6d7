"""A whole stack file as a model. Only the schema and the reference use it: `fleet.loading.stackfile` reads the files."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.model import Model


class Secret(Model):
    """An encrypted value, as the Pulumi CLI writes it."""

    secure: str
    """Ciphertext. `pulumi config set --secret` writes it. Example: `"v1:6a1b2c3d4e5f6071:pXk0c2VjcmV0"`"""


class Config(Fleet):
    """The keys below `config`. Keys of other namespaces, such as `aws:region`, configure Pulumi's providers."""

    model_config = ConfigDict(
        alias_generator=lambda name: f"{NAMESPACE}:{to_camel(name)}",
        json_schema_extra={"patternProperties": {f"^(?!{NAMESPACE}:)[^:]+:": True}},
    )

    github_private_key: Secret | None = None
    """Private key of the GitHub App, encrypted. Set it with `pulumi config set --secret gpu-ci:githubPrivateKey < key.pem`.
    `pulumi up` needs it unless the secret of every cluster comes another way (`gitops.secrets`). Offline commands never decrypt
    it. Example: `{secure: "v1:6a1b2c3d4e5f6071:pXk0c2VjcmV0"}`"""
    disable_default_providers: tuple[Literal["*"], ...] = Field(
        min_length=1, max_length=1, alias="pulumi:disable-default-providers"
    )
    """Packages without a default provider: always `["*"]`, all of them. Each resource must then name its provider, so that none
    lands in the wrong account or region. Source: pulumi.com/docs/iac/concepts/resources/options/provider. Example: `["*"]`"""


class StackFile(Model):
    """A file `Pulumi.<stack>.yaml`: the settings of one stack."""

    model_config = ConfigDict(alias_generator=str.lower)

    config: Config
    """The settings. Each key has its namespace before a colon; those of this project start with `gpu-ci:`."""
    secretsprovider: str | None = None
    """How the CLI encrypts the secrets of the stack: `passphrase`, `default`, or the URL of a key. `pulumi stack init
    --secrets-provider` writes it. Source: pulumi.com/docs/iac/concepts/secrets. Example:
    `awskms://alias/gpu-ci?region=us-west-2`"""
    encryptedkey: str | None = None
    """The data key of the stack, encrypted by a cloud's key service. The CLI writes it. Example: `AQICAHhFbmNyeXB0ZWRLZXk=`"""
    encryptionsalt: str | None = None
    """Salt of the passphrase that encrypts the stack's secrets. The CLI writes it. Example: `"v1:c2FsdA==:v1:bm9uY2U="`"""
    environment: Any = None
    """Pulumi ESC environments whose values the CLI adds to the settings. Offline commands do not read them. Source:
    pulumi.com/docs/esc. Example: `[gpu-ci/staging]`"""
    main_environment: Any = Field(default=None, alias="mainEnvironment")
    """The ESC environment that belongs to the stack itself. The CLI writes it. Offline commands do not read it. Example:
    `gpu-ci/staging`"""
