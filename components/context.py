"""The names and tags that all components of a stack share."""

from collections.abc import Mapping
from dataclasses import field

import pulumi

from components.generations import Generations
from fleet.facts.record import Record
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import physical_name

PrivateKeys = Mapping[str, pulumi.Input[str]]
"""Private keys of GitHub Apps by the name of the scope. They are secrets."""


class Context(Record):
    """The stack's names and tags, and what it has already. `owner_tags` are those of the stack file."""

    project: str
    stack: str
    owner_tags: dict[str, str]
    generations: Generations = field(default_factory=Generations)

    @property
    def tags(self) -> dict[str, str]:
        """Tags of every cloud resource, by the provider's default tags."""
        return self.owner_tags | {STACK_TAG: self.stack}

    def cluster_name(self, cluster: str) -> str:
        """Physical name of a cluster."""
        return physical_name(self.project, self.stack, cluster)
