"""runner-group-scoped: a runner set is not in the default runner group, and serves an owner that the stack serves.

Judged: the values of chart gha-runner-scale-set, and ARC's runner set. A runner set of one repository needs no group, because
repositories have no runner groups.

Without `owners` the pack accepts every owner: all runner sets of the program register at a scope of `github`, so there is
nothing to compare. The pack does not read that setting, because the engine's Python host passes it only in an environment
variable with every decrypted secret of the stack (pulumi/pulumi, sdk/python/cmd/pulumi-language-python, RunPlugin). The manifests
of `offline check` have their own URLs, so `gpu-ci check` takes the owners from the stack file.
"""

import re

from .kinds import HELM
from .read import Data, Faults, Later, label, line, shown, strings, text, walk
from .releases import releases
from .rule import Args, Rule, entry, facts, said

RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
"""The rule does not judge its Patch, because a Patch does not show the fields that it keeps."""

DEFAULT_GROUP = "default"

_SCOPE = re.compile(
    r"https://(?P<host>[A-Za-z0-9.-]+(?::[0-9]+)?)/(?:(?P<owner>(?:enterprises/)?[A-Za-z0-9_.-]+)(?P<repository>/[A-Za-z0-9_.-]+)?)/?"
)


def _check(args: Args, later: Later) -> Faults:
    owners = [owner.lower().strip("/") for owner in strings(args.config, "owners")]
    if args.type == RUNNER_SET:
        yield from _faults("spec", walk(args.props, "spec"), owners, later)
    for release in releases(args.type, args.props, later):
        with later:
            if release.is_scale_set:
                yield from _faults(release.values_path, release.values, owners, later)


def _faults(path: str, settings: Data, owners: list[str], later: Later) -> Faults:
    of_repository = Later()
    scope = None
    with of_repository:
        url = walk(settings, "githubConfigUrl")
        if (scope := _SCOPE.fullmatch(text(url))) is None:
            # The part before an @ may be a password.
            yield said("no_owner_url", path=path, written="one with a password" if "@" in text(url) else shown(url))
        elif owners and (owner := f"{scope['host']}/{scope['owner']}".lower()) not in owners:
            served = line(", ".join(owners), 200)
            yield said("other_owner", path=path, url=url, owners=served, entry=entry("owners", owner))
    later.join(of_repository)
    group = walk(settings, "runnerGroup")
    is_default = label(group).strip().lower() in ("", DEFAULT_GROUP)
    if is_default and not (of_repository or (scope is not None and scope["repository"])):
        yield said("default_group", path=path, group=group)


RULE = Rule(**facts(__name__), types=HELM | {RUNNER_SET}, check=_check)
