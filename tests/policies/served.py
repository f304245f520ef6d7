"""The pack's server without its process: what the SDK does with a request, in this process and with each message read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pulumi_policy
import pytest
from google.protobuf import json_format
from pulumi_policy import deserialize, policy as sdk, proxy

from policies import pack
from policies.rules import RULES
from policies.rules.record import plain
from tests.day import AS_OF
from tests.policies.harness import Pack


class _Once:
    """A function that is called once with an object, until it forgets. It keeps the object, so that no other has its `id`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.results: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        if id(value) not in self.results:
            self.results[id(value)] = value, self._function(value)
        return self.results[id(value)][1]


@contextmanager
def served() -> Iterator[Pack]:
    """The pack as its process serves it. The SDK reads a resource for each policy again, here for all of them once."""
    readers = {
        "MessageToDict": _Once(json_format.MessageToDict),
        "deserialize_properties": _Once(deserialize.deserialize_properties),
        "unknown_checking_proxy": _Once(proxy.unknown_checking_proxy),
        "serialize_properties": _Once(deserialize.serialize_properties),
        "plain": _Once(plain),
    }
    policies = [*(pack.policy(rule, AS_OF) for rule in RULES), pack.types_judged()]
    # The arguments that `PolicyPack` gets from those in policies/__main__.py.
    server = sdk._PolicyAnalyzerServicer("gpu-ci", "0.0.1", policies, pulumi_policy.EnforcementLevel.ADVISORY)

    def call(method: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def called(request: Any, timeout: float = 0) -> Any:
            for reader in readers.values():
                reader.results.clear()
            return method(request, None)

        return called

    def read(value: Any, *, secrets: bool = False) -> Any:
        return plain(value, secrets=True) if secrets else readers["plain"](value)

    names = ("GetAnalyzerInfo", "Configure", "Analyze", "AnalyzeStack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdk, "json_format", SimpleNamespace(MessageToDict=readers["MessageToDict"]))
        patch.setattr(sdk, "deserialize_properties", readers["deserialize_properties"])
        patch.setattr(sdk, "unknown_checking_proxy", readers["unknown_checking_proxy"])
        patch.setattr(pack, "serialize_properties", readers["serialize_properties"])
        patch.setattr(pack, "plain", read)
        yield Pack(cast("Any", None), SimpleNamespace(**{name: call(getattr(server, name)) for name in names}), "")
