"""The rules of the pack, in the catalogue's order: one module a rule, named after its id."""

from __future__ import annotations

from . import gpu_limits_required, gpu_node_taint, imds_v2_hop_one, spot_required_nonprod
from .rule import Rule

RULES: tuple[Rule, ...] = (
    gpu_limits_required.RULE,
    gpu_node_taint.RULE,
    spot_required_nonprod.RULE,
    imds_v2_hop_one.RULE,
)

__all__ = ["RULES", "Rule"]
