"""Runner sets that ARC has stopped for good.

A runner that ends with exit code 7 makes its set `Outdated`. ARC 0.14.2 then deletes the set's listener, runners and registration
at GitHub, and stays there: only another spec of the set, or a patch of its status, starts it again
(actions-runner-controller@gha-runner-scale-set-0.14.2 controllers/actions.github.com/ephemeralrunner_controller.go:373 and
autoscalingrunnerset_controller.go:168-269; #4595, #4596).
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.kube_state_metrics import SET_INFO
from fleet.render.arc import freeing_command
from fleet.render.monitoring.rules.rule import Rule, alert, one_of
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace


def set_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The rule of stopped runner sets; none for a cluster without sets."""
    if not cluster.runners:
        return
    spaces = one_of(map(runner_namespace, cluster.runners))
    free = freeing_command("{{ $labels.namespace }}", "{{ $labels.name }}")
    yield alert(
        "GpuCiRunnerSetOutdated",
        f'max by (namespace, name) ({SET_INFO}{{namespace=~"{spaces}", phase="Outdated"}})',
        text={"command": free},
    )
