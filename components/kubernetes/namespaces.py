"""Namespaces: a chart's own, and those of teams with their isolation, which caches, jobs, queues and workloads share."""

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component, Resources
from components.kubernetes.custom import custom
from fleet.charts.chart import Chart
from fleet.facts.scheduling import POD_SECURITY_LABEL
from fleet.render.isolation import Home


def namespace(logical_name: str, chart: Chart, *, parent: pulumi.Resource, depends_on: Resources) -> kubernetes.core.v1.Namespace:
    """A chart's own namespace. The API server enforces a Pod Security Standard for its pods."""
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=chart.namespace, labels={POD_SECURITY_LABEL: chart.pod_security})
    options = pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on), delete_before_replace=True)
    return kubernetes.core.v1.Namespace(logical_name, metadata=metadata, opts=options)


class Namespaces(Component[Mapping[str, Home], Resources]):
    """The namespaces that a cluster's settings name and no chart owns, each with its NetworkPolicy and LimitRange.

    Logical names contain the namespace and not its user, so a new user does not replace the object. `of` are each namespace's own
    objects, by its name (`fleet.render.isolation.homes`). `ready` must exist before.
    """

    spaces: dict[str, kubernetes.core.v1.Namespace]
    """The namespaces by name."""
    walls: dict[str, Resources]
    """The isolation of each, which must exist before its pods."""

    def declare(self, name: str, of: Mapping[str, Home], ready: Resources) -> None:
        self.spaces, self.walls = {}, {}
        for namespace, home in of.items():
            # The dot keeps logical names with names from the settings distinct.
            logical_name, opts = f"{name}.{namespace}", self._below(*ready, delete_before_replace=True)
            space = kubernetes.core.v1.Namespace(logical_name, metadata=home.namespace["metadata"], opts=opts)
            self.spaces[namespace] = space
            place, objects = {"namespace": space.metadata.name}, {"network": home.wall, "limits": home.limits}
            self.walls[namespace] = [
                custom(f"{logical_name}-{role}", {**each, "metadata": each["metadata"] | place}, parent=self)
                for role, each in objects.items()
                if each is not None
            ]
