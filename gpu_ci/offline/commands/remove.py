"""`gpu-ci remove`: a pool, runner class, region or cluster less in a stack."""

from typer import Context

from fleet.facts.tables import beside
from gpu_ci.app import WRITE, Cluster, Program, Stack, app
from gpu_ci.offline.agree import Edit, growing
from gpu_ci.offline.grow.removals import KINDS, remove_entry

group = Program(no_args_is_help=True, help=beside(__file__, "help.toml")["remove"])
app.add_typer(group, name="remove", rich_help_panel=WRITE)


def remove(context: Context, stack: Stack, name: str, cluster: Cluster = None, references: bool = False, *, edit: Edit) -> None:
    with growing(stack, edit) as grown:
        remove_entry(grown, str(context.info_name), cluster, name, references=references)


for kind, text in KINDS.items():
    group.command(name=kind, help=text)(remove)
