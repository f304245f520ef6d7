"""Plans of the same settings share one recording in a test process: the recording is most of a plan's time.

A recording depends on nothing but the settings, as tests/offline/test_record.py holds.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet
from offline import plan
from offline.record import Recording, Remedy
from offline.remedies import Remedies
from tests.builders import ROOT

Declared = tuple[Recording | None, Recording | None]
alone = plan.declared
"""For a test that must record for itself."""
_LIMIT = 24
"""Recordings that a process keeps: some MiB each."""
_kept: dict[Hashable, Declared] = {}


def declared(root: Path, config: StackConfig, fleet: Fleet, remedy: Remedy | None = None, *, preview: bool = True) -> Declared:
    """What `offline.plan.declared` gives, from memory where a plan of the same settings asked before."""
    changes = remedy is not None and not (isinstance(remedy, Remedies) and not remedy._by_type)
    if root != ROOT or changes:
        return alone(root, config, fleet, remedy, preview=preview)
    key = (config.project, config.stack, tuple(sorted(config.values.items())), config.secret_keys, preview)
    # The last one used is last.
    _kept[key] = found = _kept.pop(key, None) or alone(root, config, fleet, preview=preview)
    if len(_kept) > _LIMIT:
        _kept.pop(next(iter(_kept)))
    return found


def share() -> None:
    """Let every plan of this process use it."""
    plan.declared = declared
