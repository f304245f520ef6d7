"""`gpu-ci explain`: why a pod runs or would stay pending in each pool of a stack."""

from typing import Any

import typer

from fleet.facts.errors import InputError
from fleet.loading.config import read_fleet
from fleet.prove.pending import Explanation, explain
from fleet.prove.pod import Pod, pod_of
from gpu_ci.app import PROVE, Cluster, File, Json, Stack, app, reply
from gpu_ci.offline.manifests.tree import read_tree


@app.command(name="explain", rich_help_panel=PROVE)
def explain_pods(stack: Stack, manifest: str, cluster: Cluster = None, file: File = None, as_json: Json = False) -> None:
    """Explain why a pod would stay pending in each pool, with a fix for each reason.

    Exit status: 0 every pod would run, 1 a pod would stay pending, 2 the input is wrong.
    """
    fleet = read_fleet(stack, file)
    explanations = [explain(fleet, pod, cluster) for pod in _pods(stack, manifest)]
    paragraphs = ("".join(f"{line}\n" for line in explanation.lines()) for explanation in explanations)
    reply({"stack": stack, "pods": list(map(_json, explanations))} if as_json else "\n".join(paragraphs))
    raise typer.Exit(0 if all(explanation.runs for explanation in explanations) else 1)


def _json(explanation: Explanation) -> dict[str, Any]:
    pools = []
    for answer in explanation.answers:
        reasons = [{"reason": reason.text, "fix": reason.fix} for reason in answer.reasons]
        pools.append({"pool": answer.nodes.name, "runs": not reasons, "reasons": reasons})
    return {"pod": explanation.pod.label, "runs": explanation.runs, "pools": pools, "unknown": explanation.unknown}


def _pods(stack: str, target: str) -> list[Pod]:
    """The pods of every object below a path. Raises InputError if none of them has a pod."""
    created = (pod_of(manifest.place, manifest.resource.inputs) for manifest in read_tree(stack, target).manifests)
    if not (pods := [pod for pod in created if pod is not None]):
        raise InputError(f"POD.yaml: {target} has no object with a pod; name a Pod, a Job or another object that creates pods")
    return pods
