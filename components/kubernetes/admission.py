"""The rules that the API server itself holds people with kubectl to."""

from collections.abc import Iterable

from components.component import Component, Resources
from components.kubernetes.custom import custom
from fleet.facts.manifest import Manifest


class Admission(Component[Iterable[Manifest], Resources]):
    """ValidatingAdmissionPolicies and their bindings. `ready` must exist before: the control plane.

    Nothing waits for them: the program's own objects pass, and its account may delete the policies.
    """

    def declare(self, name: str, rules: Iterable[Manifest], ready: Resources) -> None:
        for manifest in rules:
            custom(f"{name}.{manifest['metadata']['name']}", manifest, parent=self, depends_on=ready)
