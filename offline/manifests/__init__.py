"""Manifests from anywhere, judged by the policies: a tree of Git, somebody's YAML, what `helm template` wrote."""
