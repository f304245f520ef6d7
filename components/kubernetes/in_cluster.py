"""What components inside one cluster share."""

from collections.abc import Mapping
from dataclasses import field

import pulumi

from components.component import Resources, Text
from components.generations import Generations
from fleet.facts.record import Record
from fleet.settings.caches import Volumes
from fleet.settings.cluster import Cluster
from fleet.settings.gitops import GitOps


class Backing(Record):
    """A cloud's storage for a cache: how volumes are created, and the resources that must exist before.

    `ids` are further parameters of the storage class, known once the cloud's resources exist.
    """

    volumes: Volumes
    ids: Mapping[str, Text] = field(default_factory=dict)
    ready: Resources = ()


class Inside(Record):
    """What the contents of a cluster need.

    `name` is its name in the settings. `ready` must exist before any chart: control plane and system nodes. `opts` name the
    cluster's Kubernetes provider. `backings` are the cloud's storage for each of its caches. With `git` each chart is an ArgoCD
    Application.
    `furnished` says that another program creates the teams' namespaces and their caches. `cloud` are the cloud's resources that
    the provider's own charts need. `moves` have the digits of a pool's later generation, and the nodes that leave for it.
    `physical_name` is the cluster's name in its cloud, and `disk_tags` are tags of the volumes of its own charts. `generations`
    are those of its runner sets, if the stack records them.
    """

    name: str
    settings: Cluster
    ready: Resources
    opts: pulumi.ResourceOptions
    backings: Mapping[str, Backing] = field(default_factory=dict)
    git: GitOps | None = None
    furnished: bool = False
    cloud: Resources = ()
    moves: Mapping[str, tuple[str, Resources]] = field(default_factory=dict)
    physical_name: str = ""
    disk_tags: Mapping[str, str] = field(default_factory=dict)
    generations: Generations | None = None
