"""What code of a job can reach on a runner."""

from fleet.facts.nested import at, items, part, parts, text_at
from gpu_ci.audit.model import RunnerClass

_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock")


def privileges(one: RunnerClass) -> str:
    """Why code of a job can reach more than its own pod or machine, in words; empty if the file shows no such way."""
    pod = one.pod
    for container in (*parts(pod, "initContainers"), *parts(pod, "containers")):
        if at(container, "securityContext", "privileged") is True:
            return f"container {text_at(container, 'name')} is privileged"
        if added := items(container, "securityContext", "capabilities", "add"):
            return f"container {text_at(container, 'name')} has the capabilities {', '.join(map(str, added))}"
    if one.mode == "dind":
        return "containerMode dind runs a privileged container"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key) is True:
            return f"its pod has {key}"
    for volume in parts(pod, "volumes"):
        if path := text_at(part(volume, "hostPath"), "path"):
            return f"its pod mounts {'the socket ' if path in _SOCKETS else ''}{path} of the node"
    return "" if one.ephemeral else "its runner is not ephemeral, so a job leaves files for the next"
