"""Plans of the same settings share one recording in a test process: the recording is most of a plan's time.

A recording depends on nothing but the settings, as tests/offline/test_record.py holds.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet
from gpu_ci.offline import plan
from gpu_ci.offline.record import Recording, Remedy
from gpu_ci.offline.remedies import Remediation, Remedies
from tests.builders import ROOT

Declared = tuple[Recording | None, Recording | None]
alone = plan.declared
"""For a test that must record for itself."""
_LIMIT = 24
"""Recordings that a process keeps: some MiB each."""
_kept: dict[Hashable, tuple[Declared, list[Remediation]]] = {}


def declared(root: Path, config: StackConfig, fleet: Fleet, remedy: Remedy | None = None, *, preview: bool = True) -> Declared:
    """What `offline.plan.declared` gives, from memory where a plan of the same settings and remedies asked before."""
    if root != ROOT or not isinstance(remedy, Remedies | None):
        return alone(root, config, fleet, remedy, preview=preview)
    remedies = remedy or Remedies([])
    changing = [(token, each.policy.id, repr(each.config)) for token, by in remedies._by_type.items() for each in by]
    key = (config.project, config.stack, repr(sorted(config.values.items())), config.secret_keys, repr(changing), preview)
    if key in _kept:
        found, done = _kept.pop(key)
        remedies.done.extend(done)
    else:
        found = alone(root, config, fleet, remedies, preview=preview)
    _kept[key] = found, list(remedies.done)
    if len(_kept) > _LIMIT:
        # The one whose last use is the longest ago.
        _kept.pop(next(iter(_kept)))
    return found


def share() -> None:
    """Let every plan of this process use it."""
    plan.declared = declared
