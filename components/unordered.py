"""Lists whose order means nothing, in inputs whose change replaces a resource: the providers compare them in order."""

from collections.abc import Sequence
from typing import Any

import pulumi

from fleet.facts.remark import said


def unordered(path: str, items: Sequence[str]) -> pulumi.ResourceOptions:
    """Options that replace a resource if the items of the list at `path` change, and keep its list in any other order.

    The engine compares the sorted items with those of the last update (pulumi/pulumi@1b594989, `shouldTriggerReplace`), and gives
    the new list to a replacement alone.
    """
    return pulumi.ResourceOptions(ignore_changes=[path], replacement_trigger=sorted(items))


def require_items(path: str, items: Sequence[str], urn: pulumi.Output[str], deployed: pulumi.Output[Any]) -> None:
    """Raise RunError if the list of the resource `urn` has other items once it is known: `deployed`, None if it is not there.

    This is so if nothing was recorded with which the engine could compare: for a resource that was imported, or that an earlier
    version of this program updated last.
    """

    def check(values: Sequence[Any]) -> None:
        there, where = values
        if there is not None and sorted(there) != sorted(items):
            raise pulumi.RunError(said("unordered_list", path=path, there=_listed(there), items=_listed(items), resource=where))

    pulumi.Output.all(deployed, urn).apply(check)


def _listed(items: Sequence[str]) -> str:
    return ", ".join(sorted(items)) or "none"
