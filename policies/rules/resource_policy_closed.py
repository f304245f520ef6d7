"""resource-policy-closed: what a stack stores is open to its own accounts alone.

Judged: the policies of buckets, repositories, keys, topics, queues, secrets and file systems, and public ACLs. A policy may name
principals of the stack's accounts, and everybody or a service of AWS with a condition that names such an account, an
organization or a network. The accounts are those of `accounts`, of the providers' allowedAccountIds and of the stack's roles.
"""

from .kinds import IAM_ROLE, KMS_KEY
from .principals import accounts_of, component_waits, strangers
from .read import Data, Later, line, shown, text, walk
from .rule import NOTHING, Resource, Stack, StackRule, Violations, facts, setting

DOCUMENTS = {
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:s3/bucket:Bucket": "policy",
    "aws:ecr/repositoryPolicy:RepositoryPolicy": "policy",
    "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate": "repositoryPolicy",
    "aws:ecr/registryPolicy:RegistryPolicy": "policy",
    "aws:kms/keyPolicy:KeyPolicy": "policy",
    KMS_KEY: "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:sns/topic:Topic": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:sqs/queue:Queue": "policy",
    "aws:secretsmanager/secretPolicy:SecretPolicy": "policy",
    "aws:secretsmanager/secret:Secret": "policy",
    "aws:efs/fileSystemPolicy:FileSystemPolicy": "policy",
}
"""Token to the property with the document."""
ACLS = frozenset(("aws:s3/bucketAcl:BucketAcl", "aws:s3/bucket:Bucket"))
PUBLIC_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_CLOSED = ("", "private", "bucket-owner-read", "bucket-owner-full-control")


def _check(stack: Stack, later: Later) -> Violations:
    accounts = accounts_of(stack)
    for resource in stack.resources:
        field = DOCUMENTS.get(resource.type, "")
        with later:
            for where, who in strangers(_document(resource, field), accounts, (), later, services=True) if field else ():
                fault = (
                    f"{field}: {where} opens it to {line(who, 120)}; name principals of your account, or add a condition on "
                    f"aws:PrincipalAccount or aws:SourceVpc; list another account of yours in {setting('accounts')}"
                )
                yield fault, resource.urn
        with later:
            if resource.type in ACLS and (acl := text(walk(resource.props, "acl"))) not in _CLOSED:
                yield f"acl is {shown(acl)}: others than the bucket's owner may use it; write private", resource.urn
        for flag in FLAGS if resource.type == PUBLIC_BLOCK else ():
            with later:
                if (value := walk(resource.props, flag)) is not True:
                    yield f"{flag} is {shown(value)}: the bucket can be opened to everybody; write true", resource.urn


def _document(resource: Resource, field: str) -> Data:
    return None if component_waits(resource, field) else walk(resource.props, field)


RULE = StackRule(
    **facts(__name__), types=frozenset((*DOCUMENTS, *ACLS, PUBLIC_BLOCK, IAM_ROLE)), check=_check, in_manifests=NOTHING
)
