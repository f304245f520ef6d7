"""State files as `pulumi stack export` prints them."""

from __future__ import annotations

from typing import Any

STACK = "urn:pulumi:staging::gpu-ci::pulumi:pulumi:Stack::gpu-ci-staging"
AWS = "urn:pulumi:staging::gpu-ci::pulumi:providers:aws::usw2-aws"
KUBERNETES = "urn:pulumi:staging::gpu-ci::pulumi:providers:kubernetes::usw2-kubernetes"
CLUSTER = "gpu-ci-staging-usw2"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:cipher-that-nobody-needs"}
"""A secret of a state."""


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:staging::gpu-ci::{kind}::{name}"


def resource(kind: str, name: str, provider: str = AWS, **fields: Any) -> dict[str, Any]:
    """A resource with its provider, below the stack."""
    return {"urn": urn(kind, name), "type": kind, "custom": True, "parent": STACK, "provider": f"{provider}::1"} | fields


def pending(kind: str, name: str, inputs: dict[str, Any], provider: str = AWS, operation: str = "creating") -> dict[str, Any]:
    """A pending operation."""
    return {"type": operation, "resource": resource(kind, name, provider, inputs=inputs)}


def state(*operations: dict[str, Any], resources: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A state with the stack, the providers of AWS and Kubernetes, and more."""
    home = {"custom": True, "id": "1", "parent": STACK}
    providers = [
        {"urn": AWS, "type": "pulumi:providers:aws", "inputs": {"region": "us-west-2", "version": "7.51.1"}, **home},
        {"urn": KUBERNETES, "type": "pulumi:providers:kubernetes", "inputs": {"clusterIdentifier": CLUSTER}, **home},
    ]
    deployment = {
        "manifest": {},
        "resources": [{"urn": STACK, "type": "pulumi:pulumi:Stack", "custom": False}, *providers, *resources],
        "pending_operations": list(operations),
    }
    return {"version": 3, "deployment": deployment}
