"""The settings of the project in `deployments/`: how Pulumi Deployments runs each stack, and which endpoints its runs reach.

Facts: pulumi.com/docs/deployments; the schema of pulumi-pulumiservice 1.5.0, and its copy of Pulumi Cloud's OpenAPI document.
"""

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fleet.facts.errors import FleetError, Problem, instead
from fleet.facts.remark import said, todo
from fleet.facts.tables import toml
from fleet.loading.stackfile import StackConfig, load as load_stack, wrong
from fleet.providers import fleet as fleet_settings
from fleet.settings.endpoint import Endpoint
from fleet.settings.model import Duration, Model, QuotedText
from fleet.settings.reading import read
from fleet.settings.refusals import between, matching, refusal, refuse, refuse_if
from fleet.settings.runner import ImageReference

PROJECT = fleet_settings.NAMESPACE
"""The project whose stacks are deployed."""
NAMESPACE = "gpu-ci-deployments"
"""The project in `deployments/`, whose config these settings are."""
FILE = "deployments/Pulumi.main.yaml"
"""The file of these settings."""
OPERATION = "PULUMI_CI_OPERATION"
"""The variable with the operation of a run: a preview or a change. Pulumi Deployments sets it."""


Organization = Annotated[str, matching("organization", r"[a-z0-9][a-z0-9_-]*")]
Repository = Annotated[str, matching("repository__github", r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")]
Branch = Annotated[str, matching("branch", r"(?!refs/)[^\s:~^?*\[\\]+")]
StackName = Annotated[str, matching("stack_name", r"[A-Za-z0-9_.-]{1,100}")]
Name = Annotated[str, matching("cloud_name", r"[A-Za-z0-9][A-Za-z0-9_.-]*")]
EnvironmentName = Annotated[str, matching("environment_name", r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")]
PathFilter = Annotated[str, matching("path_filter", r"!?(?!\./|/)[^\s!]+")]
Variable = Annotated[str, matching("variable__deployment", r"[A-Za-z_][A-Za-z0-9_]*")]
SecretKey = Annotated[str, matching("secret_key__config", r"[A-Za-z][A-Za-z0-9]*")]
Version = Annotated[QuotedText, matching("version", r"\d+\.\d+\.\d+")]
RoleArn = Annotated[str, matching("role_arn", r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")]
_IN_NAMES = r"organization\.name|project\.name|stack\.name|deployment\.version|deployment\.id"
SessionName = Annotated[str, matching("session_name", rf"(?=.{{2,}})([\w+=,.@-]|\$\{{({_IN_NAMES})\}})+")]
Line = Annotated[str, matching("command", r"\S(.*\S)?")]

_CRON_FIELD = r"[\d*/,A-Za-z-]+"
Cron = Annotated[str, matching("cron", rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}")]


# AWS STS, AssumeRoleWithWebIdentity: DurationSeconds.
_LENGTH = between("session", 900, 43200)
_CLEAR_SECRET = re.compile(r"(key|secret|token|password|passphrase|credential)(?!.*_(path|file)$)", re.IGNORECASE)
"""Names of variables that contain a secret instead of the path to one."""


class Aws(Model):
    """The IAM roles that a deployment assumes with its OIDC token."""

    role_arn: RoleArn
    """The role of a run that may change something."""
    read_role_arn: RoleArn
    """The role of a preview and of drift detection."""
    session_name: SessionName = "gpu-ci-${stack.name}-${deployment.version}"
    """CloudTrail shows it. The run replaces the names in braces and cuts the result to AWS's limit of 64 characters."""
    duration: Annotated[Duration, _LENGTH] = 3600
    """The session of the role that may change something. A preview has an hour."""


class Drift(Model):
    """When Pulumi Cloud compares the cloud with the state."""

    schedule: Cron
    auto_remediate: bool = False
    """Whether an automatic update reverts the differences."""


class Approval(Model):
    """An ESC environment that a run must open before it changes anything, and who approves that."""

    environment: EnvironmentName
    team: Name
    """Team of Pulumi Cloud whose members approve. Its members cannot approve their own requests."""
    approvals: Annotated[int, Field(ge=1)] = 1


class PolicyPack(Model):
    """The published policy pack that every run of a stack must load."""

    name: Name
    version: Version


class Deployment(Model):
    """How one stack is deployed."""

    deploy_on_push: bool
    """Whether a push to the branch runs `pulumi up`."""
    paths: tuple[PathFilter, ...] = ()
    """Changes of which files deploy; without a filter all files."""
    approval: Approval | None = None
    protect: bool = False
    """Whether Pulumi Deployments refuses to destroy the stack."""
    agent_pool: Name | None = None
    """Name of the pool of your own agents that run the stack. None: Pulumi's runners."""
    aws: Aws | None = None
    drift: Drift | None = None
    variables: dict[Variable, str] = Field(default_factory=dict)
    secrets: dict[Variable, SecretKey] = Field(default_factory=dict)
    """The config key of this project that has the encrypted value, by environment variable."""
    pre_run_commands: tuple[Line, ...] = ()
    executor_image: ImageReference | None = None
    """Replaces `pulumi/pulumi`, which contains Python, the AWS CLI and uv."""

    @refusal
    def _rules(self) -> None:
        """Refuse settings that bypass the approval or the plan, path filters without effect, and a secret in clear text."""
        refuse("deployOnPush", push_and_approval=self.deploy_on_push and self.approval is not None)
        refuse("paths", paths=self.paths and not self.deploy_on_push)
        refuse("drift", "autoRemediate", remediate_past_approval=self.approval and self.drift and self.drift.auto_remediate)
        for key, names in (("variables", self.variables), ("secrets", self.secrets)):
            refuse(key, OPERATION, operation_set=OPERATION in names)
        for name in self.variables:
            refuse("variables", name, variable_twice=name in self.secrets)
            refuse_if("variable_secret", _CLEAR_SECRET.search(name), at=("variables", name), value="(not shown)")


class Deployments(Model):
    """Every stack that Pulumi Deployments runs, and the repository that it comes from."""

    organization: Organization
    repository: Repository
    branch: Branch
    policy_pack: PolicyPack | None = None
    """None: no published pack is enforced."""
    stacks: Annotated[dict[StackName, Deployment], Field(min_length=1)]

    @refusal
    def _secret_keys(self) -> None:
        """Refuse a secret under a key of these settings, because the whole setting would be secret."""
        for name, stack in self.stacks.items():
            for variable, key in stack.secrets.items():
                refuse_if("secret_is_setting", key in CONFIG_KEYS, at=("stacks", name, "secrets", variable), value=key)

    @property
    def agent_pools(self) -> tuple[str, ...]:
        """Names of the agent pools that stacks name, each once."""
        return tuple(dict.fromkeys(stack.agent_pool for stack in self.stacks.values() if stack.agent_pool is not None))

    def require_reach(self, stack: str, fleet: fleet_settings.Fleet) -> None:
        """Raise FleetError, with the lines of the stack file, for private endpoints that the stack's runs cannot reach."""
        message = said("private_endpoint", stack=stack, file=FILE)
        if names := [name for name, endpoint in self._hosted_endpoints(stack, fleet) if endpoint.private]:
            paths = ((f"{PROJECT}:clusters", name, "endpoint", "private") for name in names)
            raise FleetError(tuple(Problem(path, message, "true") for path in paths))

    def remarks(self, stack: str, fleet: fleet_settings.Fleet) -> Iterator[str]:
        """Warnings about public endpoints that the stack's runs cannot reach, or that all customers of Pulumi reach."""
        for name, endpoint in self._hosted_endpoints(stack, fleet):
            # Another warning covers example addresses, which allow no client.
            if endpoint.private or endpoint.reserved_cidrs:
                continue
            networks = [ipaddress.ip_network(cidr) for cidr in endpoint.public_cidrs]
            if out := [ip for ip in hosted_addresses() if not any(ipaddress.ip_address(ip) in block for block in networks)]:
                yield todo(said("hosted_runners_closed", name=name, addresses=", ".join(out), file=FILE))
            else:
                yield said("hosted_runners_open", name=name, file=FILE)

    def _hosted_endpoints(self, stack: str, fleet: fleet_settings.Fleet) -> Iterator[tuple[str, Endpoint]]:
        """The endpoints that the program creates, by cluster, if Pulumi's own runners deploy the stack.

        A stack without an entry is deployed by hand. The endpoints of existing clusters are in no setting.
        """
        if stack in self.stacks and self.stacks[stack].agent_pool is None:
            yield from ((name, cluster.endpoint) for name, cluster in fleet.clusters.items() if cluster.found is None)


CONFIG_KEYS = tuple(field.alias or name for name, field in Deployments.model_fields.items())
"""The config keys of the settings. The stacks' secrets have other keys."""


def load(config: Mapping[str, object], secret: Collection[str] = ()) -> Deployments:
    """The settings from the project's parsed config. Keys have no namespace; `secret` are the encrypted keys.

    Raises FleetError with every problem, including a secret in clear text and a key that no setting and no stack names.
    """
    problems = [*_wrong_keys(config, secret)]
    try:
        settings = read(Deployments, NAMESPACE, {key: value for key, value in config.items() if key in CONFIG_KEYS})
    except FleetError as error:
        raise FleetError((*error.problems, *problems)) from None
    if problems:
        raise FleetError(tuple(problems))
    return settings


def reach(config: StackConfig, fleet: fleet_settings.Fleet, root: Path) -> tuple[str, ...]:
    """Remarks on how deployments of a stack reach its endpoints; none for a project without deployments.

    Raises InputError for wrong settings, with their lines, and for a private endpoint that no deployment can reach, with its line
    in the stack file.
    """
    path = root / FILE
    if not path.parent.exists():
        return ()
    settings = load_stack("main", path.parent, stack_file=path)
    try:
        deployments = load(*settings.of(NAMESPACE))
    except FleetError as error:
        raise wrong(settings, error) from error
    try:
        deployments.require_reach(config.stack, fleet)
    except FleetError as error:
        raise wrong(config, error) from error
    return tuple(deployments.remarks(config.stack, fleet))


def _wrong_keys(config: Mapping[str, object], secret: Collection[str]) -> Iterator[Problem]:
    secrets = _named_secrets(config)
    for key in sorted(config):
        if key not in (*CONFIG_KEYS, *secrets):
            usable = (*CONFIG_KEYS, *secrets)
            message = f"unknown key; {instead(key, usable, 'known keys: ' + ', '.join(usable))}"
        elif key in CONFIG_KEYS and key in secret:
            message = "contains a secret, but is read in clear text; move the secret to its own key"
        elif key in secrets and key not in secret:
            message = f"a secret in clear text; set it with: pulumi -C deployments config set --secret {key}"
        else:
            continue
        yield Problem((f"{NAMESPACE}:{key}",), message, "")


def _named_secrets(config: Mapping[str, object]) -> list[str]:
    """Config keys that stacks name under `secrets`. The settings are not validated yet."""
    stacks = config.get("stacks")
    entries = stacks.values() if isinstance(stacks, Mapping) else ()
    mappings = [entry.get("secrets") for entry in entries if isinstance(entry, Mapping)]
    keys = [key for mapping in mappings if isinstance(mapping, Mapping) for key in mapping.values() if isinstance(key, str)]
    return [key for key in dict.fromkeys(keys) if key not in CONFIG_KEYS]


@cache
def hosted_addresses() -> tuple[str, ...]:
    """The IP addresses of Pulumi's own runners (`data/pulumi_cloud.toml`)."""
    return tuple(toml("pulumi_cloud.toml")["hosted-runners"]["addresses"])
