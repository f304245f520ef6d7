"""Declares deployment settings, drift schedule, approval and policy group of each stack, and the agent pools.

Empty and false values are omitted wherever the provider omits them on reading. Otherwise each refresh would find a difference
(pulumi/pulumi-pulumiservice, provider/pkg/resources/deployment_settings.go, ToPropertyMap).
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pulumi_pulumiservice as cloud
from pulumi import Config
from pulumi_pulumiservice import api

from fleet.loading.deployments import OPERATION, PROJECT, Approval, Aws, Deployment, Deployments, PolicyPack

_POLICY_CONFIG = Path(__file__).resolve().parent.parent / "policies" / "config"
_READS = "preview|detect-drift"
"""The operations that read alone."""
_TAKE = re.sub(r"^#.*\n|\\\n *|\n$", "", (Path(__file__).parent / "take-role.sh").read_text(), flags=re.MULTILINE)
"""Takes a role, as one line."""
_CREATE_NOTHING = "preview|detect-drift|refresh|destroy"
"""The operations that create nothing."""
Pools = Mapping[str, cloud.AgentPool]


def declare(settings: Deployments, config: Config) -> Pools:
    """Declare the resources of every stack. `config` has the secrets. Returns the agent pools by name."""
    of = {"organization_name": settings.organization, "description": f"Runs {PROJECT} where its endpoints are reached"}
    pools = {name: cloud.AgentPool(name, name=name, **of) for name in settings.agent_pools}
    for name, stack in settings.stacks.items():
        if stack.approval is not None:
            _approval(settings.organization, name, stack.approval)
        _drift(settings, name, stack, _settings(settings, name, stack, pools, config))
        if settings.policy_pack is not None:
            _policies(settings.organization, name, settings.policy_pack)
    return pools


def _settings(settings: Deployments, name: str, stack: Deployment, pools: Pools, config: Config) -> cloud.DeploymentSettings:
    first = (*_kept(stack), *_gate(settings.organization, stack.approval), *_roles(stack.aws))
    commands = [*first, *stack.pre_run_commands, _plan(name), _pending(settings.organization, name)]
    variables = {**stack.variables, **{variable: config.require_secret(key) for variable, key in stack.secrets.items()}}
    # GitHub Actions previews with the pull request's own policies; a second preview would wait in the stack's queue. A review
    # stack would create a fleet for each pull request.
    vcs: Any = dict.fromkeys(("preview_pull_requests", "pull_request_template"), False)
    vcs |= {"provider": "github", "repository": settings.repository, "deploy_commits": stack.deploy_on_push}
    vcs |= {"paths": [*stack.paths]} if stack.paths else {}
    return cloud.DeploymentSettings(
        name,
        organization=settings.organization,
        project=PROJECT,
        stack=name,
        source_context={"git": {"branch": settings.branch}},
        vcs=vcs,
        # No setting installs dependencies: Pulumi.yaml configures that, and pip checks the hashes of the lock file.
        operation_context=cloud.DeploymentSettingsOperationContextArgs(
            environment_variables=variables or None,
            pre_run_commands=commands,
            # Only the last of several pushes is deployed.
            options=cloud.OperationContextOptionsArgs(skip_intermediate_deployments=True) if stack.deploy_on_push else None,
        ),
        executor_context={"executor_image": stack.executor_image} if stack.executor_image else None,
        agent_pool_id=pools[stack.agent_pool].agent_pool_id if stack.agent_pool else None,
        # Self-hosted agents have their own cache.
        cache_options=None if stack.agent_pool else {"enable": True},
    )


def _roles(aws: Aws | None) -> tuple[str, ...]:
    """The command that takes the role of a run by its token, after the approval.

    The settings of Pulumi Deployments know one role for all operations. A run finds its token in a variable, and what a command
    adds to /PULUMI_ENV is a variable of all that follows (pulumi.com/docs/deployments, OIDC setup and environment variables).
    """
    if aws is None:
        return ()
    session = re.sub(r"\$\{(\w+)\.name\}", lambda name: f"$PULUMI_CI_{name[1].upper()}", aws.session_name)
    for key, variable in (("version", "NUMBER"), ("id", "ID")):
        session = session.replace(f"${{deployment.{key}}}", f"$PULUMI_CI_BUILD_{variable}")
    either = f"role={aws.read_role_arn} seconds=3600 ;; *) role={aws.role_arn} seconds={aws.duration}"
    return (f'case "${OPERATION}" in {_READS}) {either} ;; esac; session="{session}"; {_TAKE}',)


def _drift(settings: Deployments, name: str, stack: Deployment, after: pulumi.Resource) -> None:
    """The schedule, which needs the deployment settings first."""
    if stack.drift is None:
        return
    of = {"organization": settings.organization, "project": PROJECT, "stack": name}
    how = {"schedule_cron": stack.drift.schedule, "auto_remediate": stack.drift.auto_remediate}
    cloud.DriftSchedule(name, **of, **how, opts=pulumi.ResourceOptions(depends_on=[after]))


def _approval(organization: str, name: str, approval: Approval) -> None:
    """An empty environment, and a rule that opening it needs an approval."""
    project, _, environment = approval.environment.partition("/")
    yaml = pulumi.StringAsset(f"values:\n  stack: {name}\n")
    door = cloud.Environment(f"{name}-approval", organization=organization, project=project, name=environment, yaml=yaml)
    team = {"eligibilityType": "team_member", "teamName": approval.team}
    rule: Any = {"ruleType": "approval_required", "numApprovalsRequired": approval.approvals, "eligibleApprovers": [team]}
    rule |= {"allowSelfApproval": False, "requireReapprovalOnChange": True}
    # `ApprovalRule` covers only updates of an environment. This resource, still a preview, covers opening it.
    api.Gate(
        f"{name}-approval",
        org_name=organization,
        name=f"{PROJECT} {name}",
        enabled=True,
        target={"entityType": "environment", "qualifiedName": approval.environment, "actionTypes": ["open"]},
        rule=rule,
        opts=pulumi.ResourceOptions(depends_on=[door]),
    )


def _kept(stack: Deployment) -> tuple[str, ...]:
    """The command that fails a destroy: Pulumi Cloud has no deletion protection of stacks (pulumiservice 1.5.0)."""
    why = "protect is true in deployments, so Pulumi Deployments destroys nothing: docs/destroy.md"
    return (f'case "${OPERATION}" in destroy) echo "{why}" >&2; exit 1 ;; esac',) if stack.protect else ()


def _gate(organization: str, approval: Approval | None) -> tuple[str, ...]:
    """The command that fails a run that may change resources, unless the person who started it has an approval."""
    if approval is None:
        return ()
    return (_except(_READS, f"pulumi env open {organization}/{approval.environment} > /dev/null"),)


def _plan(name: str) -> str:
    """The command that fails a run with a violation before it creates anything.

    An update ends at the first violation, and keeps what it has created until then, unless a preview came first. The command
    installs what it needs, which a run may do only after its pre-run commands. Its plan sees the checkout as they left it.
    """
    return _except(_CREATE_NOTHING, f"pulumi install --no-plugins && .venv/bin/python -m gpu_ci plan -- {name}")


def _pending(organization: str, name: str) -> str:
    """The command that ends a run if an earlier one was interrupted: an update would create the same things once more.

    It comes after the plan, which has installed what it needs. A failed export gives it nothing to read, and ends the run too.
    """
    export = f"pulumi stack export --stack {organization}/{PROJECT}/{name}"
    return _except(_CREATE_NOTHING, f"{export} | .venv/bin/python -m gpu_ci pending --state - -- {name}")


def _except(operations: str, command: str) -> str:
    """The command for runs of all operations but these. An unknown operation may change something."""
    return f'case "${OPERATION}" in {operations}) ;; *) {command} ;; esac'


def _policies(organization: str, name: str, pack: PolicyPack) -> None:
    """The group that makes every run of a stack load the published pack, with the same config as the plan."""
    file = _POLICY_CONFIG / f"{name}.json"
    # An entry without a config has no key for it.
    config = {"config": json.loads(file.read_text())} if file.exists() else {}
    cloud.PolicyGroup(
        name,
        name=f"{PROJECT}-{name}",
        organization_name=organization,
        entity_type="stacks",
        # An audit group only reports; this one stops the run.
        mode="preventative",
        stacks=[{"name": name, "routing_project": PROJECT}],
        policy_packs=[{"name": pack.name, "version_tag": pack.version, **config}],
    )
