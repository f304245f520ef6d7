"""ECR of an EKS cluster: the runner image, copies of images, and pull-through caches of public registries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component, Text
from components.eks.iam import allow, document, trust
from components.eks.in_cluster import InCluster
from fleet.facts.versions import RUNNER_GPU_REPOSITORY
from fleet.providers.eks.ecr import KEPT_IMAGES, UPSTREAMS, EcrRegistry

CACHE_ACTIONS = ("ecr:BatchImportUpstreamImage", "ecr:CreateRepository", "ecr:TagResource")
"""What the first pull of a cached image needs besides the right to pull (ECR user guide, pull-through-cache-iam)."""
_SELECTION = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": 14}
_LEFT_OVERS = {"description": "untagged images", "selection": _SELECTION, "action": {"type": "expire"}}


class RunnerImage(Component[InCluster, EcrRegistry, Text, Sequence[Text]]):
    """Private repositories with their own KMS key, which only the nodes, `others` and the workflow's role can pull from.

    `node_role` is the name of the role of every node. `others` are the ARNs of other roles that pull.
    """

    repository_url: pulumi.Output[str]
    """Address of the runner image's repository."""

    def declare(self, name: str, here: InCluster, registry: EcrRegistry, node_role: Text, others: Sequence[Text]) -> None:
        opts = self._below(protect=here.settings.protect)
        about = f"Images of {name}"
        self._key = aws.kms.Key(f"{name}-key", description=about, enable_key_rotation=True, deletion_window_in_days=30, opts=opts)
        self._encrypted: dict[str, Any] = {"encryption_configurations": [{"encryption_type": "KMS", "kms_key": self._key.arn}]}
        readers = [here.cluster.node_role_arn, *others, *([registry.push_role] if registry.push_role else [])]
        self._readers = pulumi.Output.all(*readers).apply(pull_policy)
        # The workflow gives the image in use a tag `used-…`, which no later rule expires.
        kept = (("used-*", 50), ("build-*", KEPT_IMAGES))
        newest = [_newest(f"of {tag}", count, tagStatus="tagged", tagPatternList=[tag]) for tag, count in kept]
        image = RUNNER_GPU_REPOSITORY
        runner = self._repository(f"{name}-{image}", f"{registry.prefix}/{image}", lifecycle(*newest, _LEFT_OVERS))
        self.repository_url = runner.repository_url
        for copied in registry.repositories:
            self._repository(f"{name}-{copied}", f"{registry.prefix}/{copied}", lifecycle(_LEFT_OVERS))
        if registry.pull_through:
            self._caches(name, here, registry, node_role)

    def _repository(self, logical_name: str, name: str, expiry: str) -> aws.ecr.Repository:
        fixed: dict[str, Any] = {"image_tag_mutability": "IMMUTABLE", "image_scanning_configuration": {"scan_on_push": True}}
        repository = aws.ecr.Repository(logical_name, name=name, **fixed, **self._encrypted, opts=self._child)
        aws.ecr.LifecyclePolicy(f"{logical_name}-lifecycle", repository=repository.name, policy=expiry, opts=self._child)
        aws.ecr.RepositoryPolicy(f"{logical_name}-readers", repository=repository.name, policy=self._readers, opts=self._child)
        return repository

    def _caches(self, name: str, here: InCluster, registry: EcrRegistry, node_role: Text) -> None:
        """A rule for each registry, and the template of the repositories that ECR creates.

        Their tags stay mutable, because ECR moves a tag that moves upstream.
        """
        # With its own key or tags ECR creates repositories by a role (ECR API, CreateRepositoryCreationTemplate).
        role = aws.iam.Role(f"{name}-creates", assume_role_policy=trust("ecr.amazonaws.com"), opts=self._child)
        below = f"arn:aws:ecr:{here.settings.region}:{registry.account}:repository/{registry.prefix}"
        resources = [f"{below}/{host}/*" for host in registry.pull_through]
        creation = creation_rights(resources, here.settings.region, registry.account)
        rights = aws.iam.RolePolicy(f"{name}-creates", role=role.id, policy=creation, opts=self._child)
        caching = document(allow(CACHE_ACTIONS, resources))
        aws.iam.RolePolicy(f"{name}-caches", role=node_role, policy=caching, opts=self._child)
        for host, upstream in registry.pull_through.items():
            prefix = f"{registry.prefix}/{host}"
            template = aws.ecr.RepositoryCreationTemplate(
                f"{name}-{host}",
                prefix=prefix,
                description=f"Images of {host}",
                applied_fors=["PULL_THROUGH_CACHE"],
                custom_role_arn=role.arn,
                image_tag_mutability="MUTABLE",
                **self._encrypted,
                # ECR fetches an expired image again when a node needs it.
                lifecycle_policy=lifecycle(_newest("images", KEPT_IMAGES, tagStatus="any")),
                repository_policy=self._readers,
                resource_tags=here.disk_tags,
                opts=self._below(rights),
            )
            # A repository that exists before its template would never get its settings.
            source = {"upstream_registry_url": UPSTREAMS[host], "credential_arn": upstream.secret}
            aws.ecr.PullThroughCacheRule(f"{name}-{host}", ecr_repository_prefix=prefix, **source, opts=self._below(template))


def creation_rights(repositories: Sequence[str], region: str, account: str) -> str:
    """What ECR needs to create repositories by a template with tags, policies and a key (ECR user guide, creation templates).

    The keys are those of the account that ECR itself uses: with the ARN of the key a preview could not show the policy.
    """
    creation = ("ecr:CreateRepository", "ecr:PutLifecyclePolicy", "ecr:SetRepositoryPolicy", "ecr:TagResource")
    grants, keys = ("kms:CreateGrant", "kms:DescribeKey", "kms:RetireGrant"), f"arn:aws:kms:{region}:{account}:key/*"
    via = {"kms:ViaService": f"ecr.{region}.amazonaws.com"}
    return document(allow(creation, repositories), allow(grants, keys, StringEquals=via))


def pull_policy(readers: Sequence[str]) -> str:
    """Deny pulls to all principals but `readers`, role ARNs. Inside an account an allow alone would not limit anybody.

    AWS's own services, such as image scanning, do not read as the account, so they stay allowed.
    """
    pulls = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    others = {"ArnNotLike": {"aws:PrincipalArn": [*readers, "arn:aws:iam::*:role/aws-service-role/*"]}}
    conditions = {**others, "Bool": {"aws:PrincipalIsAWSService": "false"}}
    return document({"Effect": "Deny", "Principal": "*", "Action": pulls, "Condition": conditions})


def lifecycle(*rules: Mapping[str, Any]) -> str:
    """A lifecycle policy with rules in this order.

    A rule never expires an image that a rule before it selects (ECR user guide, LifecyclePolicies).
    """
    return json.dumps({"rules": [{"rulePriority": number, **rule} for number, rule in enumerate(rules, 1)]})


def _newest(title: str, count: int, **images: Any) -> dict[str, Any]:
    """The rule that keeps the newest of some images."""
    selection = {**images, "countType": "imageCountMoreThan", "countNumber": count}
    return {"description": f"newest {title}", "selection": selection, "action": {"type": "expire"}}
