"""monitoring-complete: a monitor says what it selects, a DCGM exporter is scraped often enough, and an alert says what to do.

Judged: PodMonitors, ServiceMonitors and PrometheusRules of Prometheus's operator. A monitor without a namespace selector selects
only in its own namespace, which is right for a monitor that Helm installs beside its target: it has the labels that it selects.
An endpoint without a port selects nothing. The rule does not know which pods a cluster has.
"""

import re

from .kinds import api_tokens, fields
from .read import Data, Faults, Later, bound, count, entries, keys, label, text, true, walk
from .rule import Args, Rule, facts, said

_GROUP = ("monitoring.coreos.com", ("v1",))
POD_MONITOR = api_tokens(*_GROUP, ("PodMonitor",), ("",))
SERVICE_MONITOR = api_tokens(*_GROUP, ("ServiceMonitor",), ("",))
PROMETHEUS_RULE = api_tokens(*_GROUP, ("PrometheusRule",), ("",))

_ENDPOINTS = {True: ("podMetricsEndpoints", ("port", "portNumber", "targetPort")), False: ("endpoints", ("port", "targetPort"))}
"""The list of endpoints and the ways to name a port: of a PodMonitor, and of a ServiceMonitor."""
_OF_ALERTS = fields("of_alerts")
_PART = re.compile(r"([0-9]+)(ms|s|m|h|d|w|y)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def _check(args: Args, later: Later) -> Faults:
    if args.type in PROMETHEUS_RULE:
        yield from _alerts(args.props, later)
        return
    most = bound(args.config, "maxIntervalSeconds")
    listed, ports = _ENDPOINTS[args.type in POD_MONITOR]
    with later:
        selector = walk(args.props, "spec", "namespaceSelector")
        if not (true(walk(selector, "any")) or count(walk(selector, "matchNames")) or _beside(args.props)):
            yield said("monitor_namespaces")
    for path, endpoint in entries(args.props, f"spec.{listed}", later):
        with later:
            if not any(walk(endpoint, port) for port in ports):
                yield f"{path} names no port, so it selects nothing; write the name of the target's port in port"
        with later:
            interval = walk(endpoint, "interval")
            if not 0 < _seconds(text(interval)) <= most and _of_exporter(args.props):
                yield said("slow_scrape", path=path, interval=interval or None, most=most)


def _beside(props: Data) -> bool:
    """Whether a chart makes the monitor and its target: Helm's label, and every label that the monitor selects."""
    labels, selected = walk(props, "metadata", "labels"), walk(props, "spec", "selector", "matchLabels")
    expected = [("app.kubernetes.io/managed-by", "Helm"), *((key, label(walk(selected, key))) for key in keys(selected))]
    return len(expected) > 1 and all(label(walk(labels, key)) == value for key, value in expected)


def _of_exporter(props: Data) -> bool:
    """Whether the monitor selects a DCGM exporter by a label."""
    labels = walk(props, "spec", "selector", "matchLabels")
    return any("dcgm" in label(walk(labels, key)) for key in keys(labels))


def _seconds(duration: str) -> float:
    """Seconds of a duration as Prometheus writes it, such as 1m30s; 0 for any other text."""
    parts = _PART.findall(duration)
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) if _PART.sub("", duration) == "" else 0


def _alerts(props: Data, later: Later) -> Faults:
    for path, alert in entries(props, "spec.groups.[].rules", later):
        for field, fault in _OF_ALERTS.items():
            with later:
                if text(walk(alert, "alert")) and not text(walk(alert, *field.split("."))):
                    yield f"{path}.{field} is not set{fault}"


RULE = Rule(**facts(__name__), types=POD_MONITOR | SERVICE_MONITOR | PROMETHEUS_RULE, check=_check)
