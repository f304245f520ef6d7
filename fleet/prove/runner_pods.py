"""What the pod of one of our runners reserves."""

from fleet.charts.arc import runner_pod
from fleet.charts.container_jobs import service_size
from fleet.facts.scheduling import GPU_RESOURCE
from fleet.prove.pod import PodAsk, pod_of
from fleet.settings.runner import RunnerPod


def runner_ask(runner: RunnerPod) -> RunnerPod | PodAsk:
    """What each job of a class reserves on a node: its own sizes, or those of its whole pod if it has more than them.

    A job in a container has its services beside it, and one container action at a time.
    """
    if not (runner.volumes or runner.template or runner.in_containers):
        return runner
    spec = runner_pod(runner)
    if runner.in_containers:
        # A container action has a pod of its own, on the same nodes.
        beside = {"resources": service_size(runner.services)}
        spec = spec | {"containers": [*spec["containers"], *([beside] * (runner.services.most + 1))]}
    return pod.ask(GPU_RESOURCE) if (pod := pod_of(runner.kind, {"spec": spec})) is not None else runner
