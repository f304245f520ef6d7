"""launched-tags: instances that a launch template starts have the required tags, and so have their volumes.

Judged: launch templates with the node groups and Auto Scaling groups that use them. The provider's default tags do not reach what
a template launches.

- An instance gets the tags of the template's `tagSpecifications`, and those of its Auto Scaling group that are propagated at
  launch. EKS makes the Auto Scaling group of a node group; `aws.autoscaling.Tag` adds tags to it.
- Tags of an Auto Scaling group do not reach volumes, and EKS replaces every node when a tag of the template changes. So a volume
  may have, in place of the required tags, fixed ones that lead to its owner.
- `required-tags` judges the tags of templates and groups themselves, and those of Auto Scaling groups that the program declares.
"""

from collections.abc import Iterable, Mapping, Sequence

from .kinds import AUTO_SCALING_GROUP, AUTO_SCALING_TAG, EKS_NODE_GROUP, LAUNCH_TEMPLATE
from .read import Later, entries, strings, text
from .required_tags import propagated, set_tags
from .rule import NOTHING, Resource, Stack, StackRule, Violations, facts, said, stack_file

_ByTarget = Mapping[str, Sequence[Resource]]
"""Resources by the URN of each resource that they refer to."""


def _check(stack: Stack, later: Later) -> Violations:
    required = strings(stack.config, "tags")
    fixed = strings(stack.config, "volumeTags")
    users = _by_target(stack.of(EKS_NODE_GROUP, AUTO_SCALING_GROUP), "launchTemplate")
    tags = _by_target(stack.of(AUTO_SCALING_TAG), "autoscalingGroupName")
    for template in stack.of(LAUNCH_TEMPLATE):
        yield from _instances(template, users.get(template.urn, ()), tags, required, later)
        unread = Later()
        specified = _specified(template, "volume", unread)
        missing, unfixed = ([name for name in names if name not in specified] for names in (required, fixed))
        if missing and (unfixed or not fixed) and later.clear(unread):
            tag_names = f"{', '.join(missing)}, or the fixed tags {', '.join(fixed)}" if fixed else ", ".join(missing)
            yield f"Missing tags in tagSpecifications of volume: {tag_names}. Set {stack_file('tags')}.", template.urn


def _instances(
    template: Resource, users: Sequence[Resource], tags: _ByTarget, required: Sequence[str], later: Later
) -> Violations:
    """Missing tags of the instances: of each node group that uses the template, or of a template that none uses.

    `tags` are the Auto Scaling tags by the URN of their node group.
    """
    unread = Later()
    specified = _specified(template, "instance", unread)
    missing = [name for name in required if name not in specified]
    # What is unknown may be just what is missing.
    if not (missing and later.clear(unread)):
        return
    if not users:
        names = ", ".join(missing)
        yield f"Missing required tags in tagSpecifications of instance: {names}. Set {stack_file('tags')}.", template.urn
    for user in users:
        if user.type == AUTO_SCALING_GROUP:
            # required-tags judges the tags that such a group propagates.
            continue
        unsure = Later()
        reached = {propagated(unsure.walk(tag.props, "tag"), unsure) for tag in tags.get(user.urn, ())}
        if (lacking := [name for name in missing if name not in reached]) and later.clear(unsure):
            yield said("instances_without_tags", lacking=", ".join(lacking)), user.urn


def _by_target(resources: Iterable[Resource], field: str) -> _ByTarget:
    """Resources by the URN of each resource that their property refers to, or that they depend on."""
    by_target: dict[str, list[Resource]] = {}
    for resource in resources:
        targets = (*resource.property_dependencies.get(field, ()), *resource.dependencies)
        for urn in dict.fromkeys(target.urn for target in targets):
            by_target.setdefault(urn, []).append(resource)
    return by_target


def _specified(template: Resource, kind: str, later: Later) -> set[str]:
    """Names of the tags that a template gives to one kind of what it launches."""
    specifications = (entry for _, entry in entries(template.props, "tagSpecifications", later))
    of_kind = [entry for entry in specifications if text(later.walk(entry, "resourceType")) == kind]
    return {name for entry in of_kind for name in set_tags(later.walk(entry, "tags"), later)}


_TYPES = frozenset((LAUNCH_TEMPLATE, EKS_NODE_GROUP, AUTO_SCALING_GROUP, AUTO_SCALING_TAG))
RULE = StackRule(**facts(__name__), types=_TYPES, check=_check, in_manifests=NOTHING)
