"""required-tags: resources that cost money have tags for owner, cost center, stack and time to live.

Judged: AWS resources by `tags` and their provider's `defaultTags`; Auto Scaling groups by tags that propagate to machines; OCI
resources by `freeformTags` or, in any namespace, `definedTags`; Kubernetes namespaces by labels, if the stack requires some. A
tag counts only if it has a value. The policy `launched-tags` checks the tags that a launch template sets.

A remediation adds the tags that have a value in the config.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from . import kinds
from .read import Data, Later, entries, keys, label, parsed, strings, text, true, walk
from .record import Provider
from .rule import Args, Mendable, Rule, facts, mending, setting, stack_file

TAGGED = kinds.listed("tagged") | {kinds.EKS_COMPONENT}
_LABELS = "metadata.labels"
_OWN = ("tags", "freeformTags")


def _faults(args: Args, later: Later) -> Iterator[Mendable]:
    """A remedy adds tags and labels. It leaves lists alone, because it cannot know which entry to change."""
    values = args.config.get("values")
    for path, missing in _missing(args, later):
        names, own = ", ".join(missing), path in (*_OWN, _LABELS)
        fixes = {(*path.split("."), name): value for name in missing if own and (value := text(walk(values, name)))}
        if path == _LABELS:
            yield f"Missing required labels: {names}. Add them to {path}, or change {setting('labels')}.", fixes
        elif path in _OWN:
            yield f"Missing required tags: {names}. Set {stack_file('tags')}.", fixes
        else:
            yield f"Missing required tags in {path}: {names}. Set {stack_file('tags')}.", fixes


def _missing(args: Args, later: Later) -> Iterator[tuple[str, list[str]]]:
    """Where tags are missing, and which."""
    token, props, config = args.type, args.props, args.config
    if token == kinds.NAMESPACE:
        yield from _lacking(_LABELS, strings(config, "labels"), props, later)
        return
    unread = Later()
    if token == kinds.AUTO_SCALING_GROUP:
        path = "tags (with propagateAtLaunch)"
        present = {propagated(tag, unread) for _, tag in entries(props, "tags", unread)}
    elif token.startswith("oci:"):
        # OCI's defined tags are "namespace.key".
        path = "freeformTags"
        present = {name.rpartition(".")[2] for name in set_tags(unread.walk(props, "definedTags"), unread)}
    else:
        path, present = "tags", set_tags(unread.get(partial(_default_tags, args.provider), None), unread)
    absent = [name for name in strings(config, "tags") if name and name not in present]
    places = _lacking(path, absent, props, later) if path in _OWN else [(path, absent)] if absent else []
    # The unknown value may be the missing tag.
    if (missing := list(places)) and later.clear(unread):
        yield from missing


def _lacking(path: str, names: Iterable[str], holder: Data, later: Later) -> Iterator[tuple[str, list[str]]]:
    """The path, and the names that are missing in the object at that path. A name with an unknown value may be there."""
    missing = [name for name in names if name and not label(later.get(partial(walk, holder, *path.split("."), name), True))]
    if missing:
        yield path, missing


def set_tags(tags: Data, later: Later) -> set[str]:
    """Names of the tags that have a value. `later` collects unknown ones."""
    return {name for name in keys(tags) if label(later.walk(tags, name))}


def propagated(tag: Data, later: Later) -> str:
    """The key of a tag of an Auto Scaling group that new machines get; "" for any other tag. `later` collects unknown values."""
    passes_on = true(later.walk(tag, "propagateAtLaunch")) and label(later.walk(tag, "value"))
    return text(later.walk(tag, "key")) if passes_on else ""


def _default_tags(provider: Provider) -> Data:
    """The provider's default tags. Its inputs are JSON text on the wire."""
    tags = walk(provider.props, "defaultTags")
    return walk(parsed(tags) if isinstance(tags, str) else tags, "tags")


RULE = Rule(**facts(__name__), types=TAGGED | {kinds.AUTO_SCALING_GROUP, kinds.NAMESPACE}, **mending(_faults))
