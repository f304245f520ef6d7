"""resource-policy-closed: what a stack stores is open to its own accounts alone.

Judged: the policies of buckets, repositories, keys, topics, queues, secrets and file systems, and public ACLs. A policy may name
principals of the stack's accounts, and everybody or a service of AWS with a condition that names such an account, an
organization or a network. The accounts are those of `accounts`, of the providers' allowedAccountIds and of the stack's roles.
"""

from .kinds import IAM_ROLE, listed
from .principals import accounts_of, component_waits, strangers
from .read import Later, line, shown, text, walk
from .rule import NOTHING, Stack, StackRule, Violations, facts, said

DOCUMENTS = listed("documents")
FIELDS = ("policy", "repositoryPolicy")
"""Where a resource has its document."""
ACLS = frozenset(("aws:s3/bucketAcl:BucketAcl", "aws:s3/bucket:Bucket"))
PUBLIC_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_CLOSED = ("", "private", "bucket-owner-read", "bucket-owner-full-control")


def _check(stack: Stack, later: Later) -> Violations:
    accounts = accounts_of(stack)
    for resource in stack.resources:
        for field in FIELDS if resource.type in DOCUMENTS and not any(component_waits(resource, name) for name in FIELDS) else ():
            for where, who in strangers(later.walk(resource.props, field), accounts, (), later, services=True):
                yield said("open_resource", field=field, where=where, who=line(who, 120)), resource.urn
        if resource.type in ACLS and (acl := text(later.walk(resource.props, "acl"))) not in _CLOSED:
            yield f"acl is {shown(acl)}: others than the bucket's owner may use it; write private", resource.urn
        for flag in FLAGS if resource.type == PUBLIC_BLOCK else ():
            with later:
                if (value := walk(resource.props, flag)) is not True:
                    yield f"{flag} is {shown(value)}: the bucket can be opened to everybody; write true", resource.urn


RULE = StackRule(**facts(__name__), types=DOCUMENTS | ACLS | {PUBLIC_BLOCK, IAM_ROLE}, check=_check, in_manifests=NOTHING)
