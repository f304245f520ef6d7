"""ECR as the registry of an EKS cluster."""

from typing import Annotated

from pydantic import Field

from fleet.facts.hardware import unit_price
from fleet.facts.pricing import quoted
from fleet.facts.remark import said
from fleet.settings.model import AccountId, Model
from fleet.settings.refusals import matching, problem, refusal, refuse, refuse_if
from fleet.settings.registry import Mirror, Registry, RunnerImage, parts

_BY_HOST = ("ghcr.io", "public.ecr.aws", "quay.io", "registry.gitlab.com", "registry.k8s.io")
UPSTREAMS = {"docker.io": "registry-1.docker.io", **{host: host for host in _BY_HOST}}
"""Registries that ECR can pull through, and their URL in a rule (ECR API, CreatePullThroughCacheRule), which lacks nvcr.io."""
KEPT_IMAGES = 20
"""Images that a repository keeps."""
_NEED_SECRET = ("docker.io", "ghcr.io", "registry.gitlab.com")
_SECRET = "ecr-pullthroughcache/"  # noqa: S105 - the start of a secret's name, which ECR requires

ROLE = r"arn:aws:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+"
_SECRET_ARN = rf"arn:aws:secretsmanager:[a-z0-9-]+:[0-9]{{12}}:secret:{_SECRET}[A-Za-z0-9/_+=.@-]+"
SecretArn = Annotated[str, matching("cache_secret", _SECRET_ARN, most=612, private=True, secret=_SECRET)]


class Upstream(Model):
    """A registry that ECR pulls through. `secret` is the ARN of the secret with its user name and access token."""

    secret: SecretArn | None = None
    """ARN of the secret with user name and access token of the registry, in Secrets Manager. docker.io, ghcr.io and
    registry.gitlab.com need one. Example:
    `"arn:aws:secretsmanager:us-west-2:111122223333:secret:ecr-pullthroughcache/docker-hub-Ab12Cd"`"""


class EcrRegistry(Registry):
    """ECR in the cluster's account and region."""

    account: AccountId
    """AWS account of the registry, in quotes. `pulumi up` fails if the credentials belong to another one."""
    push_role: Annotated[str, matching("push_role", ROLE)] | None = None
    """ARN of the IAM role of the workflow that builds and copies images. Besides the nodes only this role can pull."""
    pull_through: dict[str, Upstream] = Field(default_factory=dict)
    """Public registries that ECR caches, by host. Example: `{quay.io: {}}`"""

    def mirror(self, region: str) -> Mirror:
        """From where the cluster's nodes pull."""
        return self.mirror_at(f"{self.account}.dkr.ecr.{region}.amazonaws.com", self.pull_through)

    def require_region(self, region: str) -> None:
        """Refuse a secret of another account or region than the registry's, which ECR could not read."""
        for host, upstream in self.pull_through.items():
            if upstream.secret is not None and upstream.secret.split(":")[3:5] != [region, self.account]:
                raise problem("secret_place", at=("registry", "pullThrough", host, "secret"), region=region, account=self.account)

    @refusal
    def _cache_rules(self) -> None:
        """Refuse registries that ECR does not cache, missing and needless secrets, and copies of cached images."""
        for host, upstream in self.pull_through.items():
            at = ("pullThrough", host)
            refuse_if("pull_through", host not in UPSTREAMS, at=at, value=host, hosts=", ".join(UPSTREAMS))
            refuse_if("cache_credential", host in _NEED_SECRET and upstream.secret is None, at=at, start=_SECRET)
            refuse(*at, "secret", cache_credential__needless=host not in _NEED_SECRET and upstream.secret is not None)
        for index, copy in enumerate(self.copies):
            refuse_if("cached_copy", parts(copy).host in self.pull_through, at=("copies", str(index)), host=parts(copy).host)


def cold_start_nat(image: RunnerImage, region: str) -> str:
    """What a NAT gateway would charge for the pull of the runner image at a cold start, in words."""
    if image.size_gb is None:
        return "registry: what a cold start saves on NAT is not measured; add runnerImage.sizeGb, as ECR shows it"
    per_gb = quoted(unit_price("nat-gateway-gb", region))
    return said("cold_start", image=image, per_gb=per_gb, usd=per_gb.times(image.size_gb))
