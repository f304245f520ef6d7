"""Jobs on a cluster as functions: send, follow, run, run several, delete.

job = create_gpu_job("mnist-7", "ghcr.io/example/mnist:1.4", gpu_count=1, gpu_type="a10g", command=["python", "train.py"])
result = run(job, connect(namespace="ml"))
print(result.ok, result.exit_code)
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from submit.errors import ApiError, SubmitError, UnreachableError
from submit.follower import Follower
from submit.kinds import JOBS
from submit.objects import Object, name, uid
from submit.pace import Pace
from submit.result import Outcome, Result, span
from submit.sending import Existing, Sent
from submit.sending import send as _send
from submit.story import Limits
from submit.view import Plain, Teller

if TYPE_CHECKING:
    from submit.cluster import Cluster

Propagation = Literal["Background", "Foreground"]
"""How a deleted Job's pods go: soon after it, or before it."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How a Job is run.

    `existing`: what to do about a Job of the same name ("refuse", "follow" it if it is the same, "replace" it).
    `cancel`: Ctrl-C deletes the Job, by `propagation`; else it goes on. `clean_up`: delete the Job once it has ended, however.
    """

    existing: Existing = "refuse"
    cancel: bool = False
    propagation: Propagation = "Background"
    clean_up: bool = False
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    pace: Pace = Pace()  # noqa: RUF009


DEFAULT = Ways()


def connect(kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None) -> Cluster:
    """A namespace of the cluster that a kubeconfig leads to, or of the one that this runs in.

    Without `kubeconfig` KUBECONFIG or ~/.kube/config; without `context` the current one; without `namespace` the context's, else
    `default`. Asks nothing of the cluster yet. Raises InputError.
    """
    from submit.kubeconfig import connect as read  # noqa: PLC0415 - the client takes a third of a second to load

    return read(kubeconfig, context, namespace)


def send(job: Object, cluster: Cluster, ways: Ways = DEFAULT, teller: Teller | None = None) -> Sent:
    """Send a Job and leave it to itself.

    Raises InputError for what is no Job or is there already, ApiError where the cluster refuses it, UnreachableError where it
    does not answer.
    """
    tell = teller or Plain()
    sent = _send(cluster, job, ways.existing, pace=ways.pace)
    for warning in sent.warnings:
        tell.say(name(sent.job), f"warning: {warning}")
    tell.say(name(sent.job), f"{'created' if sent.made else 'is there already, the same'} in namespace {cluster.namespace}")
    return sent


def follow(job: str | Object, cluster: Cluster, ways: Ways = DEFAULT, teller: Teller | None = None) -> Result:
    """Follow a Job, by name or as a manifest, until it ends: progress and logs to `teller`, then how it ended.

    Ctrl-C ends it with `Outcome.INTERRUPTED`, not with KeyboardInterrupt. Raises ApiError where there is no such Job.
    """
    tell = teller or Plain()
    # A manifest that the server has not filled in says less than what is there.
    found = job if not isinstance(job, str) and uid(job) else cluster.get(JOBS, job if isinstance(job, str) else name(job))
    follower = Follower(cluster, found, tell, ways.limits, ways.pace)
    try:
        with follower:
            result = follower.result()
    except KeyboardInterrupt:
        # A second Ctrl-C meanwhile goes through, and ends at once.
        result = follower.known() or _interrupted(found, cluster, ways, tell)
    return _ended(result, cluster, ways, tell, uid(found))


def run(job: Object, cluster: Cluster, ways: Ways = DEFAULT, teller: Teller | None = None) -> Result:
    """Send a Job and follow it until it ends. Raises as `send` does."""
    tell = teller or Plain()
    try:
        sent = send(job, cluster, ways, tell)
    except KeyboardInterrupt:
        tell.say(name(job), f"interrupted while it was being sent; look whether it was made: {_command('follow', job, cluster)}")
        return Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "while it was being sent")
    return follow(sent.job, cluster, ways, tell)


def run_all(
    jobs: Sequence[Object], cluster: Cluster, ways: Ways = DEFAULT, teller: Teller | None = None, *, together: bool = False
) -> list[Result]:
    """Run Jobs one after another, or all `together`, each to its end; a result for each, in their order.

    A Job that cannot be sent is a result as well (`Outcome.REFUSED`), and the others run all the same. Ctrl-C interrupts the one
    that runs, or all together, and what was not sent yet is not sent. `ways.clean_up` deletes each once it has ended.
    """
    tell = teller or Plain()
    if together:
        return _together(jobs, cluster, ways, tell)
    results: list[Result] = []
    for job in jobs:
        stopped = any(result.outcome is Outcome.INTERRUPTED for result in results)
        results.append(_not_sent(job, cluster) if stopped else _one(job, cluster, ways, tell))
    return results


def delete(job: str, cluster: Cluster, propagation: Propagation = "Background") -> None:
    """Delete a Job and its pods. Raises ApiError where there is none."""
    cluster.delete_job(job, propagation=propagation)


def status_of(results: Sequence[Result]) -> int:
    """One exit status for several Jobs: the greatest, so that no failure hides behind another Job's success."""
    return max((result.status for result in results), default=0)


# -- several -------------------------------------------------------------------------------------------------------------


def _one(job: Object, cluster: Cluster, ways: Ways, teller: Teller) -> Result:
    try:
        return run(job, cluster, ways, teller)
    except SubmitError as error:
        return _refused(job, cluster, error, teller)


def _refused(job: Object, cluster: Cluster, error: SubmitError, teller: Teller) -> Result:
    called = name(job) or "a Job without a name"
    teller.say(called, str(error))
    return Result(called, cluster.namespace, Outcome.REFUSED, str(error).splitlines()[0])


def _not_sent(job: Object, cluster: Cluster) -> Result:
    return Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "not sent")


def _together(jobs: Sequence[Object], cluster: Cluster, ways: Ways, teller: Teller) -> list[Result]:
    """Each Job in a thread of its own; Ctrl-C comes to this one, which stops the others."""
    results: dict[int, Result] = {}
    followers: dict[int, tuple[Follower, Object]] = {}
    for index, job in enumerate(jobs):
        try:
            sent = send(job, cluster, ways, teller)
            followers[index] = (Follower(cluster, sent.job, teller, ways.limits, ways.pace), sent.job)
        except SubmitError as error:
            results[index] = _refused(job, cluster, error, teller)
        except KeyboardInterrupt:
            results |= {late: _not_sent(jobs[late], cluster) for late in range(index, len(jobs))}
            break
    stopped = Outcome.INTERRUPTED in {result.outcome for result in results.values()}
    with ThreadPoolExecutor(max(len(followers), 1), "follow") as threads:
        futures = {index: threads.submit(_entered, follower) for index, (follower, _) in followers.items()}
        try:
            for index, future in futures.items():
                if stopped:
                    raise KeyboardInterrupt
                results[index] = future.result()
        except KeyboardInterrupt:
            for follower, _ in followers.values():
                follower.stop()
            results |= {index: future.result() for index, future in futures.items()}
    for index, (_, job) in followers.items():
        if results[index].outcome is Outcome.INTERRUPTED:
            results[index] = _interrupted(job, cluster, ways, teller)
        results[index] = _ended(results[index], cluster, ways, teller, uid(job))
    return [results[index] for index in range(len(jobs))]


def _entered(follower: Follower) -> Result:
    with follower:
        return follower.result()


# -- endings -------------------------------------------------------------------------------------------------------------


def _interrupted(job: Object, cluster: Cluster, ways: Ways, teller: Teller) -> Result:
    """What Ctrl-C means: the Job goes on, or is deleted, once."""
    called = name(job)
    result = Result(called, cluster.namespace, Outcome.INTERRUPTED, "the Job goes on")
    if not ways.cancel:
        teller.say(
            called, f"goes on; follow it: {_command('follow', job, cluster)}; delete it: {_command('delete', job, cluster)}"
        )
        return result
    teller.say(called, "interrupted, deleting it")
    return replace(result, reason=_removed(job, cluster, ways, teller) or "deleted")


def _ended(result: Result, cluster: Cluster, ways: Ways, teller: Teller, job_uid: str) -> Result:
    """Tell the end, and clean up if that was asked for."""
    if result.outcome is not Outcome.INTERRUPTED:
        why = f": {result.reason}" if result.reason else ""
        teller.say(result.job, f"{result.outcome} after {span(result.seconds)}{why}")
        job = {"metadata": {"name": result.job, "uid": job_uid}}
        if ways.clean_up and result.outcome is not Outcome.DELETED:
            _removed(job, cluster, ways, teller)
        elif result.outcome in (Outcome.STUCK, Outcome.LATE):
            teller.say(result.job, f"it is still there; delete it: {_command('delete', job, cluster)}")
    return result


def _removed(job: Object, cluster: Cluster, ways: Ways, teller: Teller) -> str:
    """Delete the very Job, once; why that failed, or nothing."""
    try:
        cluster.delete_job(name(job), uid(job), ways.propagation)
    except ApiError as error:
        if error.code == 404:
            return ""
        why = str(error).splitlines()[0]
    except UnreachableError as error:
        why = str(error)
    else:
        return ""
    teller.say(name(job), f"{why}; delete it: {_command('delete', job, cluster)}")
    return f"not deleted: {why}"


def _command(verb: str, job: Object, cluster: Cluster) -> str:
    options = f" {cluster.options}" if cluster.options else ""
    return f"python -m submit {verb} {name(job)} -n {cluster.namespace}{options}"
