"""Jobs on a cluster as functions: send, follow, run, run several, delete.

job = create_gpu_job("mnist-7", "ghcr.io/example/mnist:1.4", gpu_count=1, gpu_type="a10g", command=["python", "train.py"])
result = run(job, connect(namespace="ml"))
print(result.ok, result.exit_code)
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.follower import Follower
from gpu_ci.submit.objects import JOBS, Object, name, uid
from gpu_ci.submit.runs import DEFAULT, Outcome, Output, Propagation, Result, RunOptions, span
from gpu_ci.submit.sending import send


def connect(kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None) -> Cluster:
    """A namespace of the cluster of a kubeconfig, or of the cluster that this process runs in.

    Without `kubeconfig` KUBECONFIG or ~/.kube/config is read. Defaults: the current context; the namespace of the context, else
    `default`. Sends no request yet. Raises InputError.
    """
    from gpu_ci.submit.kubeconfig import connect as connect_  # noqa: PLC0415 - loading the client takes a third of a second

    return connect_(kubeconfig, context, namespace)


def follow(job: str | Object, cluster: Cluster, options: RunOptions = DEFAULT, output: Output | None = None) -> Result:
    """Follow a Job, given by name or as a manifest, until it ends; show progress and logs.

    Ctrl-C ends it with `Outcome.INTERRUPTED`, without KeyboardInterrupt. Raises ApiError if there is no such Job.
    """
    # A manifest that the server has not completed has no uid and no selector.
    stored = job if not isinstance(job, str) and uid(job) else cluster.get(JOBS, job if isinstance(job, str) else name(job))
    return _follow([stored], cluster, options, output or Output())[0]


def run(job: Object, cluster: Cluster, options: RunOptions = DEFAULT, output: Output | None = None) -> Result:
    """Send a Job and follow it until it ends. Raises the errors of `send`."""
    output = output or Output()
    try:
        sent = send(job, cluster, options, output)
    except KeyboardInterrupt:
        return _interrupted_while_sending(job, cluster, output)
    return follow(sent.job, cluster, options, output)


def run_all(
    jobs: Sequence[Object], cluster: Cluster, options: RunOptions = DEFAULT, output: Output | None = None
) -> list[Result]:
    """Run Jobs at the same time; gives a result for each, in their order.

    If a Job cannot be sent, its outcome is `Outcome.REFUSED` and the others still run. Ctrl-C interrupts the Jobs that run; those
    not sent yet are not sent. `options.clean_up` deletes each Job when it has ended.
    """
    output = output or Output()
    results = {index: Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "not sent") for index, job in enumerate(jobs)}
    sent: dict[int, Object] = {}
    interrupted = False
    for index, job in enumerate(jobs):
        try:
            sent[index] = send(job, cluster, options, output).job
        except SubmitError as error:
            title = name(job) or "a Job without a name"
            output.progress(title, str(error))
            results[index] = Result(title, cluster.namespace, Outcome.REFUSED, error.headline)
        except KeyboardInterrupt:
            results[index] = _interrupted_while_sending(job, cluster, output)
            interrupted = True
            break
    results |= zip(sent, _follow(list(sent.values()), cluster, options, output, interrupted=interrupted), strict=True)
    return list(results.values())


def delete(job: str, cluster: Cluster, propagation: Propagation = "Background") -> None:
    """Delete a Job and its pods. Raises ApiError if there is none."""
    cluster.delete(JOBS, job, propagation=propagation)


def status_of(results: Sequence[Result]) -> int:
    """One exit status for several Jobs: the highest, so that a success hides no failure."""
    return max((result.status for result in results), default=0)


def _follow(
    jobs: Sequence[Object], cluster: Cluster, options: RunOptions, output: Output, *, interrupted: bool = False
) -> list[Result]:
    """Follow Jobs at the same time until each has ended. A second Ctrl-C raises KeyboardInterrupt."""
    followers = [Follower(cluster, job, output, options) for job in jobs]
    results: dict[int, Result] = {}
    try:
        if interrupted:
            raise KeyboardInterrupt
        while True:
            for index, follower in enumerate(followers):
                if index not in results and (result := follower.step()):
                    results[index] = _finish(result, jobs[index], cluster, options, output)
            if len(results) == len(jobs):
                break
            time.sleep(options.timing.poll / 2)
    except KeyboardInterrupt:
        for index, follower in enumerate(followers):
            if index not in results:
                results[index] = _finish(follower.interrupted(), jobs[index], cluster, options, output)
    return [results[index] for index in range(len(jobs))]


def _interrupted_while_sending(job: Object, cluster: Cluster, output: Output) -> Result:
    command = _command("follow", job, cluster)
    output.progress(name(job), f"interrupted while it was being sent; check whether it was created: {command}")
    return Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "while it was being sent")


def _finish(result: Result, job: Object, cluster: Cluster, options: RunOptions, output: Output) -> Result:
    """Show how a Job ended, and delete it if the options say so."""
    follow_it, delete_it = _command("follow", job, cluster), _command("delete", job, cluster)
    if result.outcome is Outcome.INTERRUPTED:
        if not options.cancel_on_interrupt:
            output.progress(result.job, f"continues; follow it: {follow_it}; delete it: {delete_it}")
            return result
        output.progress(result.job, "interrupted, deleting it")
        return replace(result, reason=_delete(job, cluster, options, output) or "deleted")
    output.progress(result.job, f"{result.outcome} after {span(result.seconds)}{f': {result.reason}' if result.reason else ''}")
    if options.clean_up and result.outcome is not Outcome.DELETED:
        _delete(job, cluster, options, output)
    elif result.outcome in (Outcome.STUCK, Outcome.LATE):
        output.progress(result.job, f"it still exists; delete it: {delete_it}")
    return result


def _delete(job: Object, cluster: Cluster, options: RunOptions, output: Output) -> str:
    """Delete this Job, not a later one of its name; gives why that failed, or an empty text."""
    try:
        cluster.delete(JOBS, name(job), uid(job), options.propagation)
    except SubmitError as error:
        if error.code == 404:
            return ""
        output.progress(name(job), f"{error.headline}; delete it: {_command('delete', job, cluster)}")
        return f"not deleted: {error.headline}"
    return ""


def _command(verb: str, job: Object, cluster: Cluster) -> str:
    return f"gpu-ci submit {verb} {name(job)} -n {cluster.namespace} {cluster.options}".rstrip()
