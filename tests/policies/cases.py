"""The cases of a rule: resources, and what the rule reports for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.policies import harness
from tests.policies.harness import NAME


@dataclass(frozen=True)
class Case:
    """One resource and what the rule says of it: `messages` in order, none for one that passes.

    `config` overrides defaults; `unremedied` marks a fault that the rule's remedy rightly leaves alone.
    `parent` is the type of the resource's parent; `protect` is its option.
    """

    token: str
    props: Mapping[str, Any]
    messages: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    unremedied: bool = False
    parent: str = ""
    protect: bool = False
    provider: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Member:
    """One resource of a stack. `provider` are the properties of its provider, `parent` the name of another member.

    `depends_on` are names of members, `property_depends` those that a property comes from.
    """

    token: str
    name: str
    props: Mapping[str, Any]
    provider: Mapping[str, Any] | None = None
    parent: str = ""
    depends_on: tuple[str, ...] = ()
    protect: bool = False
    property_depends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def seen(self) -> Any:
        """The properties as a rule gets them. A stack is judged hundreds of times with one other member each."""
        return harness.as_read(self.props)

    @cached_property
    def seen_provider(self) -> Any:
        """The provider's, if it has one."""
        return None if self.provider is None else harness.as_read(self.provider)


@dataclass(frozen=True)
class StackCase:
    """Resources of one stack and what the rule says of them: message to the name of the member that it is of ("" for none)."""

    members: tuple[Member, ...]
    messages: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


def alone(
    token: str, props: Mapping[str, Any], messages: tuple[str, ...] = (), *, config: Mapping[str, Any] | None = None
) -> StackCase:
    """A stack of one resource, and what a rule says of it."""
    return StackCase((Member(token, NAME, props),), dict.fromkeys(messages, NAME), config or {})
