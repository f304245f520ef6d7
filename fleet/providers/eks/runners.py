"""Runner classes of an EKS cluster: pods, whose jobs may have an IAM role."""

from typing import Annotated

from fleet.providers.eks.ecr import ROLE
from fleet.settings.refusals import matching, refusal, refuse
from fleet.settings.runner import PodRunner

POD_IDENTITY_AGENT = "169.254.170.23/32"
"""Where the agent of EKS Pod Identity gives a pod the credentials of its role (AWS, EKS user guide, Pod Identity agent)."""


class EksPodRunner(PodRunner):
    """A runner scale set whose runners are pods of an EKS cluster."""

    role: Annotated[str, matching("job_role", ROLE)] | None = None
    """IAM role that every job of the class has, by EKS Pod Identity (docs/pod-template.md#a-cloud-role). It must exist. Needs
    `serviceAccount`. Example: `arn:aws:iam::111122223333:role/use1-models`"""

    @property
    def cloud_role(self) -> str:
        """As in the base class: the role's ARN."""
        return self.role or ""

    @property
    def opens(self) -> tuple[str, ...]:
        """As in the base class: the agent, for a class with a role."""
        return (POD_IDENTITY_AGENT,) if self.role else ()

    @refusal
    def _role_rules(self) -> None:
        """Refuse a role without the service account that gets it."""
        refuse("role", role_account=self.role and not self.service_account)
