"""What a cluster refuses itself: rules as data (`data/admission.toml`, whose head explains the tests).

Standard library only, because the policy pack contains this module.
"""

import tomllib
from typing import Any

from fleet.facts.record import Record
from fleet.facts.scheduling import GPU_RESOURCES
from fleet.facts.tables import entries, text

_DATA = tomllib.loads(text("admission.toml").replace("$gpu", GPU_RESOURCES))


class AdmissionRule(Record):
    """One rule: the id of the policy that says the same, a key of `KINDS`, the test, and operations in place of the kind's."""

    id: str
    policy: str
    kind: str
    message: str
    holds: Any
    operations: tuple[str, ...] = ()


RULES = tuple(entries(AdmissionRule, _DATA["rules"], "id").values())
KINDS, TESTS, SYSTEM = _DATA["kinds"], _DATA["tests"], tuple[str, ...](_DATA["system"])
"""What the API server asks about each kind; the named tests; the namespaces of what serves nodes."""
CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
"""The lists of a pod's spec that the path `containers` of a test means."""
