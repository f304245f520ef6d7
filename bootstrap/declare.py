"""What `pulumi -C bootstrap up` declares."""

import json
from collections.abc import Iterable
from typing import Any

import pulumi
import pulumi_aws as aws

from bootstrap import rights
from bootstrap.config import OWN_TAG, Bootstrap, Source, State
from bootstrap.rights import CONTEXT, Document, Target
from fleet.providers.eks.build_caches import AUDIENCE, CLOSED, ISSUER
from fleet.providers.fleet import NAMESPACE
from fleet.providers.tags import STACK_TAG

PULUMI = "api.pulumi.com/oidc"
ALIAS = "alias/gpu-ci-state"
CHANGING = ("update", "refresh", "destroy")
"""The operations of Pulumi Deployments that may take a deploy role. The others read."""
_PREVIEW_HOURS = 2
"""The longest session of a preview role."""
_OLD_DAYS = 90
"""How long the bucket keeps the replaced and deleted versions of an object. An update writes a version for each resource."""


def declare(settings: Bootstrap, targets: Iterable[Target]) -> dict[str, Any]:
    """Declare everything. Returns the outputs: ARNs of the roles by stack, and how to log in to the bucket."""
    default_tags = aws.ProviderDefaultTagsArgs(tags={STACK_TAG: OWN_TAG})
    provider = aws.Provider("aws", region=settings.region, allowed_account_ids=[settings.account], default_tags=default_tags)
    opts = pulumi.ResourceOptions(provider=provider)
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=_issuers(settings, opts)))
    targets = list(targets)
    stored, outputs = _state(settings.state, settings.region, targets, opts) if settings.state is not None else ({}, {})
    read = _policy("read", f"{NAMESPACE}-read", rights.reading(), opts)
    roles: dict[str, dict[str, Any]] = {"deployments": {}, "preview": {}}
    for target in targets:
        stack = target.stack
        _policy(f"{stack}-boundary", target.role("boundary"), rights.boundary(target), opts)
        documents = rights.changes(target).items()
        change = {part: _policy(f"{stack}-{part}", target.role(part), document, opts) for part, document in documents}
        source = settings.stacks[stack].preview_from or Source(environment=f"preview-{stack}")
        preview_trust = [_federated(settings, ISSUER, AUDIENCE, settings.subject(source)), *_by_pulumi(settings, stack, "*")]
        for purpose, trust in (("preview", preview_trust), ("deployments", _deploy_trust(settings, stack))):
            policies = {"read": read} | (change if purpose == "deployments" else {})
            policies |= {"state": stored[stack, purpose]} if stored else {}
            hours = settings.stacks[stack].session_hours if purpose == "deployments" else _PREVIEW_HOURS
            logical, trusting = f"{stack}-{purpose}", json.dumps(rights.document(trust))
            of_role: Any = {"name": target.role(purpose), "max_session_duration": hours * 3600}
            role = aws.iam.Role(logical, **of_role, assume_role_policy=trusting, opts=after)
            for part, policy in policies.items():
                aws.iam.RolePolicyAttachment(f"{logical}-{part}", role=role.name, policy_arn=policy.arn, opts=opts)
            roles[purpose][stack] = role.arn
    return outputs | {"deployRoles": roles["deployments"], "previewRoles": roles["preview"]}


def _state(
    state: State, region: str, targets: Iterable[Target], opts: pulumi.ResourceOptions
) -> tuple[dict[tuple[str, str], aws.iam.Policy], dict[str, Any]]:
    """The state bucket: the policies of those who read and write it, by stack and purpose, and the outputs."""
    protected = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True))
    key = None
    if state.encryption_key:
        key = aws.kms.Key("state-key", description="Pulumi state and its secrets", enable_key_rotation=True, opts=protected)
        aws.kms.Alias("state-key", name=ALIAS, target_key_id=key.key_id, opts=opts)
    arn = f"arn:aws:s3:::{state.bucket}"
    _protect(aws.s3.Bucket("state", bucket=state.bucket, opts=protected), arn, key, opts)
    policies, secrets = {}, {}
    for target in targets:
        stack = target.stack
        for purpose, write in (("preview", False), ("deployments", True)):
            document = rights.state(arn, key.arn if key else None, region, stack, write=write)
            part = f"state-{purpose}"
            policies[stack, purpose] = _policy(f"{stack}-{part}", target.role(part), document, opts)
        secrets[stack] = f"awskms://{ALIAS}?region={region}&context_{CONTEXT}={stack}" if key else "passphrase"
    return policies, {"backend": f"s3://{state.bucket}", "secretsProviders": secrets}


def _protect(bucket: aws.s3.Bucket, arn: str, key: aws.kms.Key | None, opts: pulumi.ResourceOptions) -> None:
    """Versions for some time, encryption, no public access, TLS only."""
    on = {"status": "Enabled"}
    versions = aws.s3.BucketVersioning("state-versions", bucket=bucket.id, versioning_configuration=on, opts=opts)
    ends = {"noncurrent_version_expiration": {"noncurrent_days": _OLD_DAYS}, "expiration": {"expired_object_delete_marker": True}}
    expiry: Any = {"id": "old-versions", "status": "Enabled", "filter": {"prefix": ""}, **ends}
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[versions]))
    aws.s3.BucketLifecycleConfiguration("state-expiry", bucket=bucket.id, rules=[expiry], opts=after)
    how: Any = {"sse_algorithm": "AES256"} if key is None else {"sse_algorithm": "aws:kms", "kms_master_key_id": key.arn}
    rules = [{"apply_server_side_encryption_by_default": how, "bucket_key_enabled": key is not None}]
    aws.s3.BucketServerSideEncryptionConfiguration("state-encryption", bucket=bucket.id, rules=rules, opts=opts)
    aws.s3.BucketPublicAccessBlock("state-block", bucket=bucket.id, **dict.fromkeys(CLOSED, True), opts=opts)
    clear = {"Resource": [arn, f"{arn}/*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    tls = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", **clear}
    aws.s3.BucketPolicy("state-tls", bucket=bucket.id, policy=json.dumps(rights.document([tls])), opts=opts)


def _issuers(settings: Bootstrap, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """The OIDC providers that the account does not have yet. AWS checks both issuers by its own certificate authorities."""
    issuers = {"github": (ISSUER, AUDIENCE)} | ({"pulumi": (PULUMI, settings.organization)} if settings.organization else {})
    return [
        aws.iam.OpenIdConnectProvider(name, url=f"https://{issuer}", client_id_lists=[audience], opts=opts)
        for name, (issuer, audience) in issuers.items()
        if name not in settings.existing_providers
    ]


def _policy(name: str, physical: str, document: Any, opts: pulumi.ResourceOptions) -> aws.iam.Policy:
    text = pulumi.Output.json_dumps(document, separators=(",", ":"))
    return aws.iam.Policy(name, name=physical, policy=text, opts=opts)


def _deploy_trust(settings: Bootstrap, stack: str) -> list[Document]:
    access = settings.stacks[stack]
    trust = [_federated(settings, ISSUER, AUDIENCE, settings.subject(access.deploy_from))] if access.deploy_from else []
    trust += _by_pulumi(settings, stack, *(f"operation:{operation}:scope:write" for operation in CHANGING))
    if access.operators:
        trust.append({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": list(access.operators)}})
    return trust


def _by_pulumi(settings: Bootstrap, stack: str, *ends: str) -> list[Document]:
    """Trust in the runs of a stack whose subject has one of these ends (pulumi.com/docs/deployments/guides/oidc)."""
    runs = f"pulumi:deploy:org:{settings.organization}:project:{NAMESPACE}:stack:{stack}"
    subjects = [f"{runs}:{end}" for end in ends]
    return [_federated(settings, PULUMI, settings.organization, *subjects)] if settings.organization is not None else []


def _federated(settings: Bootstrap, issuer: str, audience: str, *subjects: str) -> Document:
    """Trust in subjects of an issuer. Only Pulumi's have a part that may be anything."""
    condition: Document = {"StringEquals": {f"{issuer}:aud": audience}}
    operator = "StringLike" if subjects[0].endswith("*") else "StringEquals"
    condition.setdefault(operator, {})[f"{issuer}:sub"] = subjects[0] if len(subjects) == 1 else list(subjects)
    return {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": f"arn:aws:iam::{settings.account}:oidc-provider/{issuer}"},
        "Condition": condition,
    }
