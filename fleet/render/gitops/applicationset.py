"""The only object that an operator applies by hand. From it ArgoCD finds all others in the repository."""

from __future__ import annotations

from fleet.facts.manifest import Manifest, manifest
from fleet.render.gitops.application import API, FINALIZER, folder, spec_of, sync_policy
from fleet.render.gitops.drift import JOBS
from fleet.settings.gitops import GitOps

TIERS = ("infrastructure", "workloads")
"""Folders of a cluster, each with its own Application: the charts for GPUs and runners, and the workloads beside CI."""
NAME = "gpu-ci"


def applicationset(git: GitOps) -> Manifest:
    """An ApplicationSet that creates an Application for each tier. That Application creates all objects of its folder.

    The ApplicationSet lists the folders instead of asking Git for them. So if a path is wrong, its Application reports the error,
    and ArgoCD deletes no Application because of it.
    """
    generated = spec_of(git, folder(git, "{{ .tier }}") | {"directory": {"recurse": True}}, git.namespace)
    spec = {
        "goTemplate": True,
        "goTemplateOptions": ["missingkey=error"],
        "generators": [{"list": {"elements": [{"tier": tier} for tier in TIERS]}}],
        "template": {
            "metadata": {"name": NAME + "-{{ .tier }}", "finalizers": [FINALIZER]},
            "spec": generated | {"ignoreDifferences": JOBS, "syncPolicy": sync_policy()},
        },
    }
    return manifest(API, "ApplicationSet", NAME, git.namespace, spec)
