"""ecr-lifecycle: every repository in ECR has a lifecycle policy that deletes old images.

Judged: repositories together with lifecycle policies. A policy belongs to the repository that it depends on or names.
"""

from .ecr_hardened import ECR_REPOSITORY
from .read import Later, text, walk
from .rule import Stack, StackRule, Violations, facts, said

LIFECYCLE_POLICY = "aws:ecr/lifecyclePolicy:LifecyclePolicy"


def _check(stack: Stack, later: Later) -> Violations:
    covered: set[str] = set()
    names: set[str] = set()
    unread = Later()
    for policy in stack.of(LIFECYCLE_POLICY):
        above = [target for target in policy.property_dependencies.get("repository", ()) if target.type == ECR_REPOSITORY]
        covered |= {target.urn for target in above}
        if not above:
            names.add(text(unread.walk(policy.props, "repository")))
    for repository in stack.of(ECR_REPOSITORY):
        if repository.urn in covered:
            continue
        unnamed = Later()
        with unnamed:
            if text(walk(repository.props, "name")) in names - {""}:
                continue
        if later.clear(unnamed) and later.clear(unread):
            yield said("no_lifecycle_policy"), repository.urn


RULE = StackRule(**facts(__name__), types=frozenset((ECR_REPOSITORY, LIFECYCLE_POLICY)), check=_check)
