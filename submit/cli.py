"""`python -m submit`: a GPU Job's manifest printed, or sent to a cluster and followed.

Exit status: 0 complete, 1 the Job failed, 2 the input is wrong or the cluster refuses it, 3 the contact is lost and the outcome
not known, 130 interrupted, 70 the program itself is at fault. Progress goes to stderr, logs and manifests to stdout.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from fleet.facts.credentials import mask
from fleet.facts.yaml_text import yaml_text
from fleet.settings.namespaces import SMOKE_NAMESPACE
from submit import api, smoke
from submit.describe import Described
from submit.errors import InputError, SubmitError
from submit.objects import listed, name, text
from submit.result import STATUS, Outcome, Result
from submit.sending import Existing
from submit.stack import read_fleet
from submit.story import Limits
from submit.view import Live, Plain, teller

_OUR_FAULT = 70
"""EX_SOFTWARE of sysexits.h."""
_SPAN = re.compile(r"([0-9]{1,6})(s|m|h)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3600}

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

Name = Annotated[str, typer.Argument(help="Name of the Job.")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Read this kubeconfig instead of KUBECONFIG.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig; the current one if not given.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; the context's if not given.")]
Cancel = Annotated[bool, typer.Option("--cancel-on-interrupt", help="Ctrl-C deletes the Job; else it goes on.")]
Foreground = Annotated[bool, typer.Option("--foreground", help="Delete its pods before the Job, not soon after it.")]
CleanUp = Annotated[bool, typer.Option("--clean-up", help="Delete the Job once it has ended.")]
Start = Annotated[str | None, typer.Option("--start-within", help="Give up when nothing runs after so long: 600, 30m, 2h.")]
Stuck = Annotated[str, typer.Option("--stuck-after", help="Give up when an image cannot be pulled for so long.")]
There = Annotated[Existing, typer.Option("--existing", help="A Job of that name: refuse, follow the same one, or replace it.")]


def describes(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the options of `Described` too, and gets them as one as its first argument."""
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(Described, eval_str=True).parameters

    def taking(**given: Any) -> None:
        command(Described(**{option: given.pop(option) for option in options}), **given)

    parameters = [*options.values(), *list(own.values())[1:]]
    taking.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    taking.__name__, taking.__doc__ = command.__name__, command.__doc__
    return taking


@app.command("print")
@describes
def print_manifest(described: Described, namespace: Namespace = None) -> None:
    """Print the Job's manifest, as kubectl takes it. Asks no cluster."""
    with _ends():
        job, said = described.manifest(namespace)
        sys.stderr.writelines(f"{line}\n" for line in said)
        sys.stdout.write(yaml_text(job))


@app.command()
@describes
def run(
    described: Described,
    existing: There = "refuse",
    cancel_on_interrupt: Cancel = False,
    foreground: Foreground = False,
    clean_up: CleanUp = False,
    start_within: Start = None,
    stuck_after: Stuck = "3m",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Send the Job and follow it to its end."""
    with _ends() as end:
        job, said = described.manifest(namespace)
        ways = api.Ways(existing, cancel_on_interrupt, _propagation(foreground), clean_up, _limits(start_within, stuck_after))
        with _shown() as tell:
            for line in said:
                tell.say(name(job), line)
            end(api.run(job, api.connect(kubeconfig, context, namespace or text(job, "metadata", "namespace")), ways, tell))


@app.command()
def follow(
    job: Name,
    cancel_on_interrupt: Cancel = False,
    foreground: Foreground = False,
    clean_up: CleanUp = False,
    start_within: Start = None,
    stuck_after: Stuck = "3m",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Follow a Job that is there, from its first line of log to its end."""
    with _ends() as end:
        ways = api.Ways("refuse", cancel_on_interrupt, _propagation(foreground), clean_up, _limits(start_within, stuck_after))
        with _shown() as tell:
            end(api.follow(job, api.connect(kubeconfig, context, namespace), ways, tell))


@app.command()
def delete(
    job: Name,
    foreground: Foreground = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete a Job and its pods."""
    with _ends():
        cluster = api.connect(kubeconfig, context, namespace)
        api.delete(job, cluster, _propagation(foreground))
        sys.stdout.write(f"{job}: deleted from namespace {cluster.namespace}\n")


@app.command("smoke")
def smoke_command(
    stack: Annotated[str, typer.Argument(help="The stack whose GPU pools are tested.")],
    cluster: Annotated[str | None, typer.Option(help="In this cluster of the stack; all if not given.")] = None,
    pool: Annotated[list[str] | None, typer.Option(help="This pool alone; may be given again.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Read this stack file instead.")] = None,
    start_within: Start = None,
    context: Annotated[
        str | None, typer.Option(help="The cluster's context in the kubeconfig; without it nothing is run.")
    ] = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Test that pods of each GPU pool get GPUs that work. Without --context the tests are printed, and no cluster is asked."""
    with _ends() as end:
        found = smoke.chosen(read_fleet(stack, file), cluster, pool or ())
        if context is None:
            sys.stderr.writelines(f"{line}\n" for one in found for line in one.refused)
            sys.stderr.write(
                "printed, not run; with --context (make smoke CONTEXT=…) they run on the live cluster of that name\n"
            )
            sys.stdout.write("---\n".join(one.manifests() for one in found))
            return
        if not context:
            # The client would take the current one.
            raise InputError("--context: is empty; name the cluster's context, so that none is guessed")
        if len(found) > 1:
            raise InputError(f"--context: is of one cluster; give --cluster too, one of: {listed(one.cluster for one in found)}")
        # Logs beside the progress: the report alone is for stdout.
        tell, live = Plain(logs=sys.stderr), api.connect(kubeconfig, context, SMOKE_NAMESPACE)
        limits = smoke.WAYS.limits if start_within is None else Limits(start=_span("--start-within", start_within))
        rows = smoke.run_smoke(found[0].tests, live, tell, replace(smoke.WAYS, limits=limits))
        smoke.report(found[0].cluster, rows, Console(file=sys.stdout))
        for row in rows:
            if row.result is not None:
                end(row.result)


def _propagation(foreground: bool) -> Literal["Background", "Foreground"]:
    return "Foreground" if foreground else "Background"


def _limits(start: str | None, stuck: str) -> Limits:
    return Limits(_span("--stuck-after", stuck), None if start is None else _span("--start-within", start))


def _span(option: str, words: str) -> float:
    found = _SPAN.fullmatch(words)
    if found is None:
        raise InputError(f"{option}: must be a whole number of seconds, or with a unit, s, m or h; got {words!r}; write 10m")
    return float(int(found[1]) * _SECONDS[found[2]])


@contextmanager
def _shown() -> Iterator[Live | Plain]:
    """Where progress and logs go."""
    tell = teller()
    with tell if isinstance(tell, Live) else nullcontext():
        yield tell


@contextmanager
def _ends() -> Iterator[Callable[[Result], None]]:
    """Whatever happens ends with its own exit status; for what is the input's fault a line says why."""
    # A CI system that cancels a job sends SIGTERM after SIGINT; both mean the same to a Job.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The client's pools warn of every broken connection; whether it matters is told in our own words.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    results: list[Result] = []
    try:
        yield results.append
    except SubmitError as error:
        sys.stderr.writelines(f"error: {line}\n" for line in str(error).splitlines())
        raise typer.Exit(STATUS[Outcome.REFUSED]) from error
    except KeyboardInterrupt:
        raise typer.Exit(STATUS[Outcome.INTERRUPTED]) from None
    except BrokenPipeError:
        # Who reads has gone, as `| head` does: nothing more can be told, and nothing is wrong with the Job.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(STATUS[Outcome.INTERRUPTED]) from None
    except Exception as error:
        sys.stderr.write(mask(traceback.format_exc()))
        raise typer.Exit(_OUR_FAULT) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    raise typer.Exit(max((result.status for result in results), default=0))
