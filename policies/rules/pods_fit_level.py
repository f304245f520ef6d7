"""pods-fit-level: a pod passes level `restricted` of Pod Security where its own namespace enforces that level.

Judged: the pods in objects of any kind whose Namespace is in the same stack or the same files. The API server would refuse such a
pod, and only the events of a controller would say so. `runner-no-privileged` holds all pods to level `baseline`. The pods of
releases and of jobs in containers have their levels from the settings of the class.
"""

from fleet.facts.scheduling import POD_SECURITY_LABEL

from .kinds import CONFIG_MAPS, HELM, NAMESPACE, is_object
from .pod_security import RESTRICTED, restricted
from .pods import pod_specs
from .read import Later, text, walk
from .rule import Stack, StackRule, Violations, facts
from .runner_sets import ByPlace, place_of


def _check(stack: Stack, later: Later) -> Violations:
    namespaces = ByPlace(stack.of(NAMESPACE), place_of)
    for resource in stack.resources:
        for pod in () if resource.type in HELM | CONFIG_MAPS else pod_specs(resource.type, resource.props, later):
            hidden = Later()
            faults = [fault for _, fault in restricted(pod, hidden)]
            with later:
                for namespace in namespaces.at(place := place_of(resource), later) if faults or hidden else ():
                    level = text(walk(namespace.props, "metadata", "labels", POD_SECURITY_LABEL))
                    # What is unknown may be what a fault misses.
                    for fault in faults if level == RESTRICTED and later.clear(hidden) else ():
                        yield f"{fault}; {place} enforces level {level}, so the API server refuses the pod", resource.urn


RULE = StackRule(**facts(__name__), types=frozenset((NAMESPACE,)), others=is_object, check=_check)
