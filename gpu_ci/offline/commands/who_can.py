"""`gpu-ci who-can`: which actor reaches which secret, role, state and cache of a stack."""

from fleet.loading.home import ROOT
from gpu_ci.app import PROVE, File, Json, Stack, app, console, reply
from gpu_ci.offline import who_can as reaching
from gpu_ci.offline.layout import show_table
from gpu_ci.offline.plan import require_sdk


@app.command("who-can", rich_help_panel=PROVE)
def who_can(stack: Stack, file: File = None, as_json: Json = False) -> None:
    """Show which job, person and role reaches each secret, role, state and cache of a stack, and by which resource."""
    require_sdk("who-can")
    reached = reaching.who_can(stack, ROOT, file)
    if as_json:
        reply({"stack": stack, "reaches": [one._asdict() for one in reached]})
    else:
        show_table(console(), reaching.Reach._fields, reached)
