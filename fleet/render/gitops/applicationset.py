"""The one object that ArgoCD is given by hand: it finds all others in the repository."""

from __future__ import annotations

from fleet.render.gitops.application import API, FINALIZER, IN_CLUSTER, Manifest, folder, sync_policy
from fleet.render.gitops.drift import JOBS
from fleet.settings.gitops import GitOps

TIERS = ("infrastructure", "workloads")
"""Folders of a cluster, an Application each: what makes GPUs and runners, and what runs on them beside CI."""
NAME = "gpu-ci"


def applicationset(git: GitOps) -> Manifest:
    """An ApplicationSet that makes an Application of each tier, and it all that is below.

    It lists the folders instead of asking Git for them: where a path is wrong an Application says so, and none is gone for that.
    """
    return {
        "apiVersion": API,
        "kind": "ApplicationSet",
        "metadata": {"name": NAME, "namespace": git.namespace},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": [{"tier": tier} for tier in TIERS]}}],
            "template": {
                "metadata": {"name": NAME + "-{{ .tier }}", "finalizers": [FINALIZER]},
                "spec": {
                    "project": git.project,
                    "source": folder(git, "{{ .tier }}") | {"directory": {"recurse": True}},
                    "destination": {"server": IN_CLUSTER, "namespace": git.namespace},
                    "ignoreDifferences": JOBS,
                    "syncPolicy": sync_policy(),
                },
            },
        },
    }
