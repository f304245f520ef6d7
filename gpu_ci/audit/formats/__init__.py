"""The files that an audit reads, a reader for each kind of file.

A reader takes a document and what was seen so far, adds what the document declares, and says whether it knew the document. It
reads through `Keys`: a key that no reader takes is listed as unread.
"""

from collections.abc import Callable, Iterator

from gpu_ci.audit.formats import arc, groups, karpenter, machines, manifests, osdc, stacks
from gpu_ci.audit.model import Keys, Seen

READERS: tuple[Callable[[Keys, Seen], bool], ...] = (
    arc.read,
    karpenter.read,
    groups.read,
    osdc.read,
    machines.read,
    stacks.read,
    manifests.read,
)
"""The first that knows a document reads it."""
FINISHERS: tuple[Callable[[Seen], None], ...] = (arc.finish, karpenter.finish, osdc.finish, manifests.finish, machines.finish)
"""Each joins what several documents say, once all are read."""


def each(keys: Keys) -> Iterator[Keys]:
    """The objects of a document: the items of a List of Kubernetes, or the document itself."""
    if isinstance(kind := keys.get("kind").value, str) and kind.endswith("List") and "items" in keys:
        keys.skip("kind", "apiVersion", "metadata")
        for item in keys.items("items"):
            yield from each(item)
        return
    yield keys
