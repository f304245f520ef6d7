"""Jobs on a cluster as functions: send, follow, run, run several, delete.

job = create_gpu_job("mnist-7", "ghcr.io/example/mnist:1.4", gpu_count=1, gpu_type="a10g", command=["python", "train.py"])
result = run(job, connect(namespace="ml"))
print(result.ok, result.exit_code)
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
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
        result = follower.so_far()
    # A second Ctrl-C meanwhile goes through, and ends at once.
    return _ended(result, found, cluster, ways, tell)


def run(job: Object, cluster: Cluster, ways: Ways = DEFAULT, teller: Teller | None = None) -> Result:
    """Send a Job and follow it until it ends. Raises as `send` does."""
    tell = teller or Plain()
    try:
        sent = send(job, cluster, ways, tell)
    except KeyboardInterrupt:
        tell.say(name(job), f"interrupted while it was being sent; look whether it was made: {_command('follow', job, cluster)}")
        return _unsure(job, cluster)
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


def _unsure(job: Object, cluster: Cluster) -> Result:
    return Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "while it was being sent")


def _not_sent(job: Object, cluster: Cluster) -> Result:
    return Result(name(job), cluster.namespace, Outcome.INTERRUPTED, "not sent")


class _Running(threading.Thread):
    """A Job that is followed beside others. No executor's thread: those are waited for, even where everything is to end."""

    def __init__(self, job: Object, cluster: Cluster, ways: Ways, teller: Teller) -> None:
        super().__init__(name=f"follow {name(job)}", daemon=True)
        self.follower = Follower(cluster, job, teller, ways.limits, ways.pace)
        self.ended: Future[Result] = Future()
        self._tick = ways.pace.tick
        self._rest = (job, cluster, ways, teller)

    def run(self) -> None:
        if not self.ended.set_running_or_notify_cancel():
            return
        try:
            with self.follower:
                result = self.follower.result()
            self.ended.set_result(_ended(result, *self._rest))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self.ended.set_exception(error)

    def stop(self) -> None:
        """End following soon. One that Ctrl-C kept from starting does not start any more."""
        self.follower.stop()
        self.ended.cancel()

    def result(self) -> Result:
        """How the Job ended. Looks up now and then: a signal just before a wait begins does not end that wait."""
        while not self.ended.done():
            wait([self.ended], timeout=self._tick)
        return _ended(self.follower.so_far(), *self._rest) if self.ended.cancelled() else self.ended.result()


def _together(jobs: Sequence[Object], cluster: Cluster, ways: Ways, teller: Teller) -> list[Result]:
    """Each Job followed in a thread of its own; Ctrl-C comes to this one, which stops the others."""
    results: dict[int, Result] = {}
    running: dict[int, _Running] = {}
    try:
        for index, job in enumerate(jobs):
            results[index] = _unsure(job, cluster)
            try:
                sent = send(job, cluster, ways, teller)
            except SubmitError as error:
                results[index] = _refused(job, cluster, error, teller)
                continue
            running[index] = _Running(sent.job, cluster, ways, teller)
            running[index].start()
        for each in running.values():
            each.result()
    except KeyboardInterrupt:
        for each in running.values():
            each.stop()
    results |= {index: each.result() for index, each in running.items()}
    return [results.get(index) or _not_sent(job, cluster) for index, job in enumerate(jobs)]


# -- endings -------------------------------------------------------------------------------------------------------------


def _ended(result: Result, job: Object, cluster: Cluster, ways: Ways, teller: Teller) -> Result:
    """Tell the end, and delete the Job if that was asked for. Where it was interrupted, the Job goes on or is deleted, once."""
    follow_it, delete_it = _command("follow", job, cluster), _command("delete", job, cluster)
    if result.outcome is Outcome.INTERRUPTED:
        if not ways.cancel:
            teller.say(result.job, f"goes on; follow it: {follow_it}; delete it: {delete_it}")
            return result
        teller.say(result.job, "interrupted, deleting it")
        return replace(result, reason=_removed(job, cluster, ways, teller) or "deleted")
    teller.say(result.job, f"{result.outcome} after {span(result.seconds)}{f': {result.reason}' if result.reason else ''}")
    if ways.clean_up and result.outcome is not Outcome.DELETED:
        _removed(job, cluster, ways, teller)
    elif result.outcome in (Outcome.STUCK, Outcome.LATE):
        teller.say(result.job, f"it is still there; delete it: {delete_it}")
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
