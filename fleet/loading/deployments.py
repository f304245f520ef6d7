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
from fleet.facts.remark import todo
from fleet.facts.tables import toml
from fleet.loading.stackfile import StackConfig, load as load_stack, wrong
from fleet.providers import fleet as fleet_settings
from fleet.settings.endpoint import Endpoint
from fleet.settings.model import Duration, Model, QuotedText, between, go_duration, matching, problem, refusal
from fleet.settings.reading import read
from fleet.settings.runner import ImageReference

PROJECT = fleet_settings.NAMESPACE
"""The project whose stacks are deployed."""
NAMESPACE = "gpu-ci-deployments"
"""The project in `deployments/`, whose config these settings are."""
FILE = "deployments/Pulumi.main.yaml"
"""The file of these settings."""
OPERATION = "PULUMI_CI_OPERATION"
"""The variable with the operation of a run: a preview or a change. Pulumi Deployments sets it."""


_ORGANIZATION_RULE = "an organization of Pulumi Cloud is lower case; write it as its URL does"
Organization = Annotated[str, matching("organization", _ORGANIZATION_RULE, r"[a-z0-9][a-z0-9_-]*")]
_REPOSITORY_RULE = "not a GitHub repository; write owner/name without https://"
Repository = Annotated[str, matching("repository", _REPOSITORY_RULE, r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")]
Branch = Annotated[str, matching("branch", "not the short name of a branch; write for example main", r"(?!refs/)[^\s:~^?*\[\\]+")]
_STACK_RULE = "a stack's name has 1 to 100 letters, digits, _ . or -; correct it"
StackName = Annotated[str, matching("stack_name", _STACK_RULE, r"[A-Za-z0-9_.-]{1,100}")]
_NAME_RULE = "a name has letters, digits, _ . and -, no space; correct it"
Name = Annotated[str, matching("cloud_name", _NAME_RULE, r"[A-Za-z0-9][A-Za-z0-9_.-]*")]
_ENVIRONMENT_NAME_RULE = "not an ESC environment; write project/name without the organization"
EnvironmentName = Annotated[str, matching("environment_name", _ENVIRONMENT_NAME_RULE, r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")]
_FILTER = "a path filter is a glob for the whole path in the repository, and a leading ! excludes; write for example fleet/**"
PathFilter = Annotated[str, matching("path_filter", _FILTER, r"!?(?!\./|/)[^\s!]+")]
_VARIABLE_RULE = "an environment variable has letters, digits and _; rename it"
Variable = Annotated[str, matching("variable", _VARIABLE_RULE, r"[A-Za-z_][A-Za-z0-9_]*")]
_KEY_RULE = "a config key of this project has letters and digits; rename it"
SecretKey = Annotated[str, matching("secret_key", _KEY_RULE, r"[A-Za-z][A-Za-z0-9]*")]
Version = Annotated[QuotedText, matching("version", 'not a published version; write for example "0.1.0"', r"\d+\.\d+\.\d+")]
_ROLE = "not the ARN of an IAM role; write arn:aws:iam::<account>:role/<name>"
RoleArn = Annotated[str, matching("role_arn", _ROLE, r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")]
_IN_NAMES = r"organization\.name|project\.name|stack\.name|deployment\.version|deployment\.id"
_SESSION = (
    "a session name has letters, digits, _ + = , . @ - and ${organization.name}, ${project.name}, ${stack.name}, "
    "${deployment.version} or ${deployment.id}; correct it"
)
SessionName = Annotated[str, matching("session_name", _SESSION, rf"(?=.{{2,}})([\w+=,.@-]|\$\{{({_IN_NAMES})\}})+")]
_LINE_RULE = "a pre-run command is one line, and each runs in its own shell; write one command per entry"
Line = Annotated[str, matching("command", _LINE_RULE, r"\S(.*\S)?")]

_CRON_FIELD = r"[\d*/,A-Za-z-]+"
_CRON_RULE = 'a schedule has five fields, in UTC; write for example "0 5 * * *"'
Cron = Annotated[str, matching("cron", _CRON_RULE, rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}")]


# AWS STS, AssumeRoleWithWebIdentity: DurationSeconds.
_LENGTH = between("session", "AWS allows a session of 15m to 12h, up to the role's own limit; correct it", 900, 43200)
_CLEAR_SECRET = re.compile(r"(key|secret|token|password|passphrase|credential)(?!.*_(path|file)$)", re.IGNORECASE)
"""Names of variables that contain a secret instead of the path to one."""


class Aws(Model):
    """The IAM role that a deployment assumes with its OIDC token."""

    role_arn: RoleArn
    session_name: SessionName = "gpu-ci-${stack.name}-${deployment.version}"
    """CloudTrail shows it. Pulumi Cloud replaces the names in braces and cuts the result to AWS's limit of 64 characters."""
    duration: Annotated[Duration, _LENGTH] = 3600

    @property
    def go_duration(self) -> str:
        """The duration as the provider returns it, so that a preview shows no change."""
        return go_duration(self.duration)


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
        if self.deploy_on_push and self.approval is not None:
            why = "a push has no approved grant, so its run would always fail; set deployOnPush: false, or remove approval"
            raise problem("push_and_approval", why, at=("deployOnPush",))
        if self.paths and not self.deploy_on_push:
            message = "paths selects the pushes that deploy, and no push deploys this stack; remove paths"
            raise problem("paths", message, at=("paths",))
        if self.approval is not None and self.drift is not None and self.drift.auto_remediate:
            message = "remediation is an update without an approval; remove autoRemediate, or approval"
            raise problem("remediate_past_approval", message, at=("drift", "autoRemediate"))
        for key, names in (("variables", self.variables), ("secrets", self.secrets)):
            if OPERATION in names:
                why = "Pulumi Deployments sets it, and a run decides by it whether it needs a plan and an approval; remove it"
                raise problem("operation_set", why, at=(key, OPERATION))
        for name in self.variables:
            if name in self.secrets:
                raise problem("variable_twice", "it is also in secrets; remove one of them", at=("variables", name))
            if _CLEAR_SECRET.search(name):
                fix = "list it under secrets, with the config key that contains it"
                message = f"by its name a secret, but here in clear text; {fix}"
                raise problem("variable_secret", message, at=("variables", name), value="(not shown)")


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
                if key in CONFIG_KEYS:
                    message = "that key is a setting; use another key for the secret"
                    raise problem("secret_is_setting", message, at=("stacks", name, "secrets", variable), value=key)

    @property
    def agent_pools(self) -> tuple[str, ...]:
        """Names of the agent pools that stacks name, each once."""
        return tuple(dict.fromkeys(stack.agent_pool for stack in self.stacks.values() if stack.agent_pool is not None))

    def require_reach(self, stack: str, fleet: fleet_settings.Fleet) -> None:
        """Raise FleetError, with the lines of the stack file, for private endpoints that the stack's runs cannot reach."""
        fix = f"name an agentPool at stacks.{stack} in {FILE}, or set publicCidrs here"
        message = f"Pulumi's own runners deploy stack {stack} and cannot reach a private endpoint; {fix}"
        names = [name for name, endpoint in self._hosted_endpoints(stack, fleet) if endpoint.private]
        if names:
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
                why = f"Pulumi's own runners deploy this stack and may come from {', '.join(out)}, which is not allowed"
                yield todo(f"{name}: endpoint.publicCidrs: {why}; name an agentPool in {FILE}, or add it")
            else:
                why = "allows Pulumi's own runners, and all of Pulumi's customers share their addresses"
                yield f"{name}: endpoint.publicCidrs {why}; an agentPool in {FILE} uses yours"

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
