"""Checks manifests of any origin by the policies: a Git tree, single YAML files, the output of `helm template`."""
