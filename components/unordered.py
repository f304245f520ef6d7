"""Lists whose order means nothing, in inputs whose change replaces a resource: the providers compare them in order."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi


def unordered(path: str, items: Sequence[str]) -> pulumi.ResourceOptions:
    """Options that replace a resource if the items of the list at `path` change, and keep its list in any other order.

    The engine compares the sorted items with those of the last update (pulumi/pulumi@1b594989, `shouldTriggerReplace`), and gives
    the new list to a replacement alone.
    """
    return pulumi.ResourceOptions(ignore_changes=[path], replacement_trigger=sorted(items))


def require_items(
    path: str, items: Sequence[str], resource: pulumi.Resource, deployed: pulumi.Output[Sequence[str] | None]
) -> None:
    """Raise RunError, once the resource is known, if its list has other items.

    This is so if nothing was recorded with which the engine could compare: for a resource that was imported, or that an earlier
    version of this program updated last.
    """

    def check(values: tuple[Sequence[str] | None, str]) -> None:
        there, urn = values
        if there is not None and sorted(there) != sorted(items):
            raise pulumi.RunError(
                f"{path}: the resource was made without a record of this list, so an edit cannot replace it; it has "
                f"{_listed(there)}, and the settings have {_listed(items)}; write the earlier list and "
                f"update first, or run pulumi up --replace '{urn}', which ends its running jobs"
            )

    pulumi.Output.all(deployed, resource.urn).apply(check)


def _listed(items: Sequence[str]) -> str:
    return ", ".join(sorted(items)) or "none"
