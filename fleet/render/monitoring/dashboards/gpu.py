"""The dashboard of the GPUs: what grafana.com dashboard 12239 shows, by pool, runner class, job or GPU, and panels for jobs."""

from __future__ import annotations

import re
from dataclasses import replace

from fleet.render.monitoring.dashboards.panels import Board, Variable, panels
from fleet.render.monitoring.rules.rule import renamed
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace

_VIEWS = {"pool": "pool", "runner class": "scale_set", "job": "exported_pod", "GPU": "kubernetes_node, gpu"}


def _chosen(metric: str) -> str:
    """The series of the pools and jobs that are chosen at the top, with the labels `pool` and `scale_set`.

    While every job is chosen, idle GPUs are among them. The namespace of a runner set has its name.
    """
    of_pool = f'{metric}{{exported_pod=~"$job"}} * on (kubernetes_node) group_left (pool) gpu_ci:node_pool{{pool=~"$pool"}}'
    return renamed(of_pool, "scale_set", "exported_namespace", runner_namespace("(.+)"))


def board(cluster: Cluster) -> Board:
    """The dashboard of one cluster."""
    variables = (
        Variable("by", values=_VIEWS, several=False),
        Variable("pool", values={name: name for name in cluster.pools}),
        Variable("job", 'label_values(DCGM_FI_DEV_FB_USED{exported_pod!=""}, exported_pod)'),
    )
    shown = (
        replace(
            panel,
            queries={
                legend: re.sub(r"<(.+?)>", lambda metric: _chosen(metric[1]), query) for legend, query in panel.queries.items()
            },
        )
        for panel in panels("gpu.toml")
    )
    return Board("gpu-ci-gpu", "GPU", tuple(shown), variables)
