"""runner-ephemeral: a runner runs one job, and then the runner and its machine end.

Judged: the kinds and the chart of ARC's older controller, whose runners may run several jobs; machines whose user data
registers a runner (EC2 instances, spot requests and launch templates, OCI instances and their configurations). Chart
gha-runner-scale-set creates only ephemeral runners. The rule reads user data as plain text, base64 or compressed, also inside
cloud-config, and ignores comment lines. A machine that a launcher boots for one job is not a resource, so the rule does not see
it. Its user data is the same as a standing machine's, which the rule judges.
"""

import re

from .kinds import HELM, api_tokens
from .read import Faults, Later
from .releases import releases
from .rule import Args, Rule, facts, said
from .userdata import MACHINES, script, user_data

_KINDS = ("Runner", "RunnerDeployment", "RunnerReplicaSet", "RunnerSet", "HorizontalRunnerAutoscaler")
LEGACY = api_tokens("actions.summerwind.dev", ("v1alpha1",), _KINDS, ("", "Patch"))
"""Kinds of the older controller (actions-runner-controller 0.23.7)."""
LEGACY_CHART = "actions-runner-controller"

# A configuration script registers a runner, or the runner gets its registration as an argument (actions/runner,
# CommandSettings.cs: each argument is also an environment variable ACTIONS_RUNNER_INPUT_<NAME>).
_REGISTERS = re.compile(r"\bconfig\.(?:sh|cmd)\b|\bRunner\.Listener\b|--jitconfig(?![\w-])|\bACTIONS_RUNNER_INPUT_")
_ONE_JOB = re.compile(r"--(?:ephemeral|jitconfig)(?![\w-])|\bACTIONS_RUNNER_INPUT_(?:EPHEMERAL|JITCONFIG)\b")
_ENDS = re.compile(r"\bpoweroff\b|\bshutdown\b|\bhalt\b|\bterminate-instances\b|\binstance\s+terminate\b")


def _check(args: Args, later: Later) -> Faults:
    if args.type in LEGACY:
        kind = args.type.rpartition(":")[2]
        yield f"a {kind} of ARC's older controller: its runners may run several jobs; use chart gha-runner-scale-set"
    for release in releases(args.type, args.props, later):
        with later:
            if release.chart_name == LEGACY_CHART:
                yield said("older_chart", release=release, chart=LEGACY_CHART)
    if args.type in MACHINES:
        for path, content in user_data(args.type, args.props, later):
            yield from (f"{path} registers a runner {fault}" for fault in _faults(script(content)))


def _faults(commands: str) -> Faults:
    if not _REGISTERS.search(commands):
        return
    if not _ONE_JOB.search(commands):
        yield "for more than one job: a job may run what an earlier job left; use config.sh --ephemeral, or run.sh --jitconfig"
    if not _ENDS.search(commands):
        yield "and never ends the machine: it costs money, and may be misused, after its job; end the script with poweroff"


RULE = Rule(**facts(__name__), types=LEGACY | HELM | MACHINES, check=_check)
