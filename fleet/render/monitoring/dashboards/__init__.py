"""Grafana dashboards of a fleet."""
