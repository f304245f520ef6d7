"""The build caches of an EKS cluster: buckets, and the roles of the CI jobs that use them."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component
from components.eks.in_cluster import InCluster
from fleet.providers.eks.build_caches import AUDIENCE, CLOSED, ISSUER, RIGHTS, bucket_policy, permissions, trust
from fleet.settings.build_caches import BuildCache as Settings, BuildCaches


class BuildCache(Component[InCluster, BuildCaches]):
    """A private bucket per cache with its expiry, its policy, and a role to read and one to write.

    Jobs in the network of the cluster `here` read without credentials. With its `protect`, S3 refuses to delete a bucket with
    objects.
    Encryption is SSE-S3: a reader without credentials cannot use a KMS key (S3 user guide, default bucket encryption).
    """

    def declare(self, name: str, here: InCluster, caches: BuildCaches) -> None:
        self._here, self._account, trusted = here, caches.account, list[pulumi.Resource]()
        if caches.oidc_provider == "create":
            url = f"https://{ISSUER}"
            trusted.append(aws.iam.OpenIdConnectProvider(f"{name}-github", url=url, client_id_lists=[AUDIENCE], opts=self._child))
        for bucket, cache in caches.buckets.items():
            for right in RIGHTS:
                self._role(bucket, cache, right, trusted)
            self._bucket(bucket, cache)

    def _role(self, bucket: str, cache: Settings, right: str, trusted: list[pulumi.Resource]) -> None:
        name = f"{self._name}.{bucket}-{right}"
        policy, opts = json.dumps(trust(self._account, cache, right)), self._below(*trusted, delete_before_replace=True)
        # Workflow files and the bucket's policy name the role.
        role = aws.iam.Role(name, name=f"{bucket}-{right}", assume_role_policy=policy, opts=opts)
        aws.iam.RolePolicy(name, role=role.id, policy=json.dumps(permissions(bucket, right)), opts=self._child)

    def _bucket(self, bucket: str, cache: Settings) -> None:
        name = f"{self._name}.{bucket}"
        # A cache can be built again, so its objects keep only the bucket of a protected cluster from being deleted.
        storage = aws.s3.Bucket(name, bucket=bucket, force_destroy=not self._here.settings.protect, opts=self._child)
        of_bucket = {"bucket": storage.id, "opts": self._child}
        blocked = aws.s3.BucketPublicAccessBlock(f"{name}-block", **dict.fromkeys(CLOSED, True), **of_bucket)
        encryption = {"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}
        aws.s3.BucketServerSideEncryptionConfiguration(f"{name}-encryption", rules=[encryption], **of_bucket)
        expiry: Mapping[str, Any] = {"id": "expire", "status": "Enabled", "filter": {"prefix": ""}}
        ends = {"expiration": {"days": cache.days}, "abort_incomplete_multipart_upload": {"days_after_initiation": 1}}
        aws.s3.BucketLifecycleConfiguration(f"{name}-expiry", rules=[{**expiry, **ends}], **of_bucket)
        document = partial(bucket_policy, self._account, bucket)
        policy = pulumi.Output.from_input(self._here.cluster.vpc_id).apply(lambda vpc: json.dumps(document(vpc)))
        aws.s3.BucketPolicy(f"{name}-policy", bucket=storage.id, policy=policy, opts=self._below(blocked))
