"""Metrics, alerts and dashboards of a cluster, as manifests."""
