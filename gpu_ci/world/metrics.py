"""Metrics and alerts of a world: kube-state-metrics, and Prometheus with the rules of the program.

Jobs and boots of a world are shorter than on a cluster by a factor. Prometheus keeps a real clock, so the times in the rules are
divided by the factor. The second that ARC or the scheduler needs is as long as ever, so it counts `factor` times as much.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError

from fleet.charts.kube_prometheus import STACK, kube_prometheus, sanitized
from fleet.facts.errors import InputError
from fleet.facts.groups import grouped
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.objects import Target
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.render.monitoring.rules.rule import record
from fleet.render.sweeps.api import Api, Object
from fleet.settings.cluster import Cluster
from fleet.settings.monitoring import Monitoring
from gpu_ci.world.plane import Plane, filled, passes
from gpu_ci.world.processes import free_port

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_PART = r"(\d+)(ms|[smhdwy])"
_TIME = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
_PLACES = re.compile(rf""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[[^]]*\]|\boffset\s+-?{_TIME.pattern}""")
"""Texts of a query, which stay, and where it has times: ranges, steps of subqueries, offsets."""
_AGE = re.compile(r"(?:.*time\(\) - kube_pod_created|gpu_ci:queue_seconds).* > \d+", re.DOTALL)
"""Queries that compare an age with seconds."""


def shorter(text: str, factor: float, least: int = 1) -> str:
    """The text with each time in it, such as 1h30m, divided by `factor`, in whole milliseconds and not below `least`."""

    def divided(found: re.Match[str]) -> str:
        whole = sum(int(number) * _UNITS[unit] for number, unit in re.findall(_PART, found[0]))
        return f"{max(least, round(whole / factor))}ms"

    return _TIME.sub(divided, text)


def in_world_time(groups: Iterable[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    """The groups with `interval`, `for` and `keep_firing_for` divided by `factor`, and in queries all ranges, steps and offsets.

    Seconds that a query compares an age with are divided too. Days of the calendar, labels and words stay. A group is evaluated
    once a second at most.
    """

    def of_rule(rule: dict[str, Any]) -> dict[str, Any]:
        query = _PLACES.sub(lambda found: found[0] if found[0][0] in "\"'" else shorter(found[0], factor), rule["expr"])
        waits = {key: shorter(rule[key], factor) for key in ("for", "keep_firing_for") if key in rule}
        return rule | waits | {"expr": f"{query} / {factor:g}" if _AGE.fullmatch(query) else query}

    def of_group(group: dict[str, Any]) -> dict[str, Any]:
        return group | {"interval": shorter(group["interval"], factor, 1000), "rules": list(map(of_rule, group["rules"]))}

    return list(map(of_group, groups))


Scraped = tuple[dict[str, str], str]
"""Labels of a target, and its address."""
Targets = Callable[[], Iterable[Scraped]]
MOST_FACTOR = 60
"""With more the shortest times of the rules, a minute, would be less than the second from one scrape to the next."""


def of_pods(
    monitors: Iterable[Target], space: str, pods: Iterable[Object], ports: Callable[[str, str], Mapping[int, int]]
) -> Iterator[Scraped]:
    """What the program's PodMonitors select, with the labels that Prometheus's operator gives it (its promcfg.go).

    `space` is the namespace of the PodMonitors. `ports` has the local ports of a pod, as `Hands.ports`. A pod without a process
    is left out.
    """
    scraped = [target for target in monitors if not target.service]
    for pod in pods:
        space_of_pod, name, own = pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"].get("labels", {})
        places = [(one["name"], port) for one in pod["spec"]["containers"] for port in one.get("ports", ())]
        meta = {f"__meta_kubernetes_pod_label_{sanitized(key)}": value for key, value in own.items()}
        for target in scraped:
            if space_of_pod == target.namespace and target.labels.items() <= own.items():
                copied = ((rule, meta.get(rule["sourceLabels"][0], "")) for rule in target.relabel)
                matches = {rule["targetLabel"]: re.fullmatch(rule.get("regex", "(.*)"), value) for rule, value in copied}
                labels = {label: match[1] for label, match in matches.items() if match}
                labels |= {"job": f"{space}/gpu-ci-{target.name}", "namespace": target.namespace, "pod": name}
                for container, port in (place for place in places if place[1].get("name") == target.port):
                    with suppress(KeyError):
                        address = f"127.0.0.1:{ports(target.namespace, name)[port['containerPort']]}"
                        yield labels | {"container": container, "endpoint": target.port}, address


def exporter(cluster: Cluster) -> dict[str, Any]:
    """What stands for DCGM's exporter, as rules over the nodes: a series for each GPU that a node offers, and its Xid errors.

    A node with the condition `Xid79` has had error 79 on its GPU 0. No other field has a source here, and no kubelet.
    """
    node, rules = 'label_replace({}, "kubernetes_node", "$1", "node", "(.+)")', []
    firsts = ((pool, pool.machines[0]) for pool in cluster.gpu_pools.values())
    machines = [(sanitized(pool.resource), pool.units(first), first.gpus) for pool, first in firsts]
    # Where pools share the GPUs of one resource differently, the smallest share hides a loss, and no share makes one up.
    shares = dict(sorted(((resource, units // gpus) for resource, units, gpus in machines), reverse=True))
    for gpu in range(max((gpus for _, _, gpus in machines), default=0)):
        offers = (f'kube_node_status_allocatable{{resource="{resource}"}} > {gpu * share}' for resource, share in shares.items())
        rules.append(record("DCGM_FI_DEV_GPU_TEMP", node.format(" or ".join(offers)), {"gpu": str(gpu)}))
    had = 'kube_node_status_condition{condition=~"Xid.+",status="true"} == 1'
    xids = node.format(f'label_replace({had}, "xid", "$1", "condition", "Xid(.+)")')
    rules.append(record("DCGM_EXP_XID_ERRORS_COUNT", xids, {"gpu": "0"}))
    return {"name": "world-exporter", "interval": "15s", "rules": rules}


def require_factor(factor: float) -> None:
    """Raise InputError for a time factor with which scrapes would be too rare for the rules."""
    if not 1 <= factor <= MOST_FACTOR:
        raise InputError(f"time factor: must be from 1 to {MOST_FACTOR}, so that scrapes keep up with it (got {factor:g})")


class Metrics:
    """kube-state-metrics and Prometheus of a cluster, until `close`.

    `targets` lists what Prometheus shall scrape beside the former. `history` has what fired first when: seconds since 1970,
    name and labels. Raises InputError for a wrong factor or a cluster without monitoring, WorldError as `Plane.wait` does.
    """

    def __init__(self, plane: Plane, fleet: Fleet, name: str, targets: Targets, factor: float = 1) -> None:
        require_factor(factor)
        cluster, port = fleet.clusters[name], free_port()
        monitoring: Monitoring | None = cluster.monitoring
        if monitoring is None:
            raise InputError(f"gpu-ci:clusters.{name}.monitoring: the cluster has no alerts; add `prometheus: install`")
        self._plane, self._targets, self._folder = plane, targets, plane.folder / "metrics"
        self._folder.mkdir(exist_ok=True)
        self.history: list[tuple[float, str, dict[str, str]]] = []
        states = free_port()
        plane.run("kube-state-metrics", {"port": states, **_states(plane, cluster, monitoring, name)})
        groups = [exporter(cluster), *rule_groups(fleet, name), *cost_groups(fleet, name)]
        self._write("targets.json", "[]")
        self._write("rules.json", json.dumps({"groups": in_world_time(groups, factor)}))
        often, space = shorter("15s", factor, 1000), monitoring.namespace
        self._write("prometheus.yaml", filled("prometheus.yaml", often=often, states=states, namespace=space, cluster=name))
        # Several scrapes, also where 5 minutes are as short as one.
        lookback = shorter("5m", factor, 5000)
        plane.run("prometheus", {"web.listen-address": f"127.0.0.1:{port}", "query.lookback-delta": lookback})
        self._api = Api(f"http://127.0.0.1:{port}")
        plane.wait(lambda: bool(self._api.call("GET", "/api/v1/rules")["data"]["groups"]), "Prometheus")
        self._stop = Event()
        self._thread = passes(self._once, Event(), self._stop, 0.5)

    def close(self) -> None:
        """End both programs."""
        self._stop.set()
        self._thread.join()
        for program in ("prometheus", "kube-state-metrics"):
            self._plane.processes.stop(program)

    def alerts(self, state: str = "firing") -> dict[str, list[dict[str, str]]]:
        """The labels of the alerts that are `firing` or `pending`, by name. Raises OSError or urllib.error.HTTPError."""
        alerts = self._api.call("GET", "/api/v1/alerts")["data"]["alerts"]
        return grouped((alert["labels"].pop("alertname"), alert["labels"]) for alert in alerts if alert["state"] == state)

    def _once(self) -> None:
        listed = [{"targets": [address], "labels": labels} for labels, address in self._targets()]
        self._write("targets.json", json.dumps(listed))
        fired = [(name, labels) for _, name, labels in self.history]
        now = [(name, labels) for name, every in self.alerts().items() for labels in every]
        self.history += [(time.time(), *alert) for alert in now if alert not in fired]

    def _write(self, name: str, text: str) -> Path:
        """Write a file of Prometheus at once: it must not read half of one."""
        file, new = self._folder / name, self._folder / "new"
        new.write_text(text, encoding="utf-8")
        return new.replace(file)


def _states(plane: Plane, cluster: Cluster, monitoring: Monitoring, name: str) -> dict[str, object]:
    """The flags of kube-state-metrics that its chart has with the program's values.

    It has the rights of its own account, if the chart is installed.
    """
    values = kube_prometheus(cluster, monitoring, name).values["kube-state-metrics"]
    try:
        token = plane.account(monitoring.namespace, f"{STACK}-kube-state-metrics")
    except HTTPError:
        token = ""
    return {
        "kubeconfig": plane.kubeconfig(token),
        "resources": ",".join(values["collectors"]),
        "metric-labels-allowlist": ",".join(values["metricLabelsAllowlist"]),
        "custom-resource-state-config": json.dumps(values["customResourceState"]["config"]),
    }
