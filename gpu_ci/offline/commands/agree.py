"""`gpu-ci agree`: the policy values that a fleet needs, with reasons and price."""

import typer

from fleet.facts.day import day_of
from fleet.loading.home import ROOT
from gpu_ci.app import WRITE, Stack, app, console
from gpu_ci.offline import words
from gpu_ci.offline.agree import Agreement, Edit, agreement, replace_files, require_consent
from gpu_ci.offline.plan import require_sdk
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.report import report


@app.command(rich_help_panel=WRITE)
def agree(stack: Stack, edit: Edit) -> None:
    """Allow what a stack's fleet needs: policy values with reasons, 25 % above it.

    It prints the change and the price, asks on a terminal, and writes nothing unless the plan then passes.
    """
    require_sdk("agree")
    with Progress() as progress:
        agreed = agreement(stack, ROOT, edit.file, day_of(edit.as_of), progress, page=edit.file is None)
    out = console()
    if not agreed.after.passes():
        report(agreed.after, out, quiet=True)
        out.print(agreed.left, soft_wrap=True)
        raise typer.Exit(1)
    if agreed.diff:
        require_consent(agreed.diff, price(agreed), "Write these values?", edit)
    else:
        out.print("Nothing to agree: no policy value refuses the fleet.")
    replace_files(agreed.files, ROOT)
    if agreed.files:
        out.print(f"Wrote {', '.join(agreed.files)}.")
    report(agreed.after, out, quiet=True)


def price(agreed: Agreement) -> list[str]:
    """What the fleet costs, and the limits of its cost before and after."""
    limits = []
    for key, word in (("idleUsdPerHour", "idle"), ("worstUsdPerHour", "worst")):
        configs = ([each.config for each in plan.policies if key in each.config] for plan in (agreed.before, agreed.after))
        values = [config[key] for config, *_ in configs]
        limits.append(f"{word} {' → '.join(f'{value:.2f}' for value in dict.fromkeys(values))}")
    costs = words.hourly(agreed.after.average, agreed.after.cost[1])
    return [f"The fleet costs {costs}.", f"Its limits, USD an hour: {', '.join(limits)}."]
