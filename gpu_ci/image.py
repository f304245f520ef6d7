"""`gpu-ci image`: builds, tests and pushes the runner image of images/runner-gpu, and shows on which pools it runs.

Exit status: 0 success, 1 a build, a test or a push fails, 2 the input is wrong.
"""

import subprocess
import sys
from itertools import groupby

import typer

from fleet.facts.errors import InputError
from fleet.facts.record import Record
from fleet.loading.config import read_fleet
from fleet.loading.home import TREE
from gpu_ci.app import RUN, File, Program, Stack, app as program, reply
from images.image import Built, build_command, built, cells, find_tool, push_script, run_test

app = Program(no_args_is_help=True, help=__doc__)
program.add_typer(app, name="image", rich_help_panel=RUN)


class Chosen(Record, kw_only=True):
    """Options that choose an image of the matrix, and the tool for it."""

    cuda: str = "12.1"
    ubuntu: str = "22.04"
    flavour: str = "devel"
    tool: str = ""

    @property
    def image(self) -> Built:
        """The image. Raises InputError if the matrix lacks it."""
        return built(self.cuda, self.ubuntu, self.flavour)


@app.command()
def build(chosen: Chosen, build_arg: list[str] | None = None) -> None:
    """Build an image of the matrix."""
    command = build_command(find_tool(chosen.tool), chosen.image, dict(map(_argument, build_arg or ())))
    raise typer.Exit(min(subprocess.run(command, check=False).returncode, 1))  # noqa: S603 - the command is ours


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--build-arg {text} has no value; write it as NAME=VALUE")
    return name, value


@app.command("test")
def run_tests(chosen: Chosen, on_gpu: bool = False) -> None:
    """Test a built image in a container: user, tools, hooks, and a CUDA program."""
    raise typer.Exit(min(run_test(find_tool(chosen.tool), chosen.image, gpu=on_gpu), 1))


@app.command()
def push(
    stack: Stack, file: File = None, *, chosen: Chosen, image_repository: str = "gpu-ci/runner-gpu", run: bool = False
) -> None:
    """Print or run the commands that push a built image to the registry of each region of a stack."""
    fleet = read_fleet(stack, file)
    # The commands are also useful on a machine without any of the tools.
    tool = find_tool(chosen.tool) if run else chosen.tool or "docker"
    script = push_script(fleet, tool, chosen.image, image_repository, _commit())
    if not run:
        sys.stdout.write(script)
        return
    raise typer.Exit(min(subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=False).returncode, 1))  # noqa: S603, S607


def _commit() -> str:
    """The commit of the working tree, with -dirty if it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    result = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    if result.returncode:
        raise InputError("the tag of an image has the commit that it was built from, and this folder is not a git checkout")
    return result.stdout.strip()


@app.command()
def matrix(stack: Stack, file: File = None) -> None:
    """Print which image of the matrix runs on which GPU pool of a stack."""
    images = list(cells(read_fleet(stack, file)))
    rows = [("pool", "GPU", "driver", "images", "result")]
    for pool, same in groupby(images, lambda cell: (cell.pool, cell.gpus, cell.driver, cell.verdict)):
        rows.append((*pool[:3], ", ".join(cell.image for cell in same), pool[3]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    reply(line.rstrip() for line in lines)
