"""The names and tags that all components of a stack share."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.settings.cluster import physical_name


@dataclass(frozen=True, slots=True)
class Context:
    """The stack's names and tags. `tags` go on every cloud resource through the provider's default tags."""

    project: str
    stack: str
    tags: dict[str, str]

    def cluster_name(self, cluster: str) -> str:
        """Physical name of a cluster."""
        return physical_name(self.project, self.stack, cluster)
