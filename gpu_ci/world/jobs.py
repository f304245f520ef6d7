"""The jobs of a run: so many for all runner classes, or a file of batches."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from fleet.facts.errors import FleetError, InputError
from fleet.facts.yaml_text import read_yaml
from fleet.settings.cluster import Cluster
from fleet.settings.model import Duration, Model
from fleet.settings.reading import read

MOST = 100_000
"""Jobs of one run."""


class Batch(Model):
    """Equal jobs that are queued at once, at a time after the start. A run divides times by its factor.

    `runs_on` are labels, or the name of a runner class alone.
    """

    runs_on: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    count: Annotated[int, Field(ge=1, le=MOST)] = 1
    takes: Duration = 60
    at: Duration = 0


class Jobs(Model):
    """A file of jobs: `jobs: [{runsOn: [gpu-t4], count: 20, takes: 10m, at: 5m}]`."""

    jobs: Annotated[tuple[Batch, ...], Field(min_length=1, strict=False)]


def batches(text: str, cluster: Cluster) -> tuple[Batch, ...]:
    """The batches of a number or a file. A number of jobs is shared among the classes of pods by their `scale.max`.

    Raises InputError for a number out of range, a file that cannot be read, and a field that is wrong.
    """
    if not text.isdecimal():
        try:
            if not isinstance(content := read_yaml(Path(text)).value, dict):
                raise InputError(f"--jobs: {text} must have the key jobs; write jobs: [{{runsOn: [gpu-t4], count: 20}}]")
            return read(Jobs, "--jobs", content).jobs
        except FleetError as error:
            raise InputError(str(error)) from None
        except OSError as error:
            raise InputError(f"--jobs: {text} cannot be read ({error.strerror}); give a number, or a YAML file") from None
    count, classes = int(text), {name: runner.scale.max for name, runner in cluster.pod_runners.items() if runner.scale.max}
    if not 1 <= count <= MOST:
        raise InputError(f"--jobs: must be 1 to {MOST:,}; got {text}; give another number")
    if not classes:
        raise InputError("--jobs: no runner class of the cluster has pods; give a stack with one whose scale.max is above 0")
    parts = {name: count * most // sum(classes.values()) for name, most in classes.items()}
    parts[next(iter(parts))] += count - sum(parts.values())
    return tuple(Batch(runsOn=(name,), count=part) for name, part in parts.items() if part)
