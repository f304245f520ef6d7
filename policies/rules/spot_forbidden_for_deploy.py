"""spot-forbidden-for-deploy: release and deploy jobs do not run on spot machines.

Judged: pools by their role label, Auto Scaling groups by the tag from which Cluster Autoscaler reads the role, and runner sets of
chart gha-runner-scale-set whose runner pod has a role. If jobs run in containers, the templates of their pods are judged alike.
A pod's role is in its label or annotation `gpu-ci/role`, or in its node selector. It runs on spot if its node selector asks for
spot. A launcher runs on spot if its annotation asks for a
spot machine. If a Karpenter pool may use spot, the rule assumes that it does.
"""

from functools import partial

from fleet.facts.hardware import SPOT
from fleet.facts.scheduling import CAPACITY_LABEL, MACHINE_CAPACITY, ROLE_LABEL

from .kinds import AUTO_SCALING_GROUP, CONFIG_MAP, HELM, POOLS, fields
from .pods import hook_templates
from .pools import bought, role
from .read import Data, Faults, Later, Named, label, line, provided, strings, walk
from .releases import releases
from .rule import Args, Rule, facts, said

_FIXES = fields("capacity")


def _check(args: Args, later: Later) -> Faults:
    roles = frozenset(strings(args.config, "roles"))
    for release in releases(args.type, args.props, later):
        with later:
            if release.is_scale_set:
                yield from _pod(f"{release.values_path}.template", walk(release.values, "template"), roles, later)
    for path, template in hook_templates(args.type, args.props, later):
        yield from _pod(path, template, roles, later)
    if args.type not in HELM | {CONFIG_MAP}:
        yield from _pool(args.type, args.props, roles, later)


def _pool(token: str, props: Data, roles: frozenset[str], later: Later) -> Faults:
    unread = Later()
    spot = unread.get(lambda: SPOT in bought(token, props), False)
    return provided(spot, unread, partial(_role_faults, token, props, roles), later)


def _role_faults(token: str, props: Data, roles: frozenset[str], later: Later) -> Faults:
    with later:
        if (role_label := role(token, props)) and role_label in roles:
            path, fix = _FIXES[token]
            yield f"{path} lets the pool buy {SPOT}, and its role is {line(role_label)}: its jobs must not be interrupted; {fix}"


def _pod(path: str, template: Data, roles: frozenset[str], later: Later) -> Faults:
    unread, unnamed = Later(), Later()
    places = (("metadata", "annotations", MACHINE_CAPACITY), ("spec", "nodeSelector", CAPACITY_LABEL))
    if not ((on_spot := list(_places(path, template, places, frozenset((SPOT,)), unread))) or unread):
        return
    holders = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
    roled = list(_places(path, template, [(*holder, ROLE_LABEL) for holder in holders], roles, unnamed))
    if on_spot and roled:
        yield said("release_on_spot", on_spot=on_spot, spot=SPOT, roled=roled)
    elif roled or unnamed:
        later.join(unread)
        later.join(unnamed)


def _places(path: str, template: Data, places: Data, values: frozenset[str], later: Later) -> Named:
    """Path and value of each place with one of the wanted values."""
    for place in places:
        with later:
            if (value := label(walk(template, *place))) in values:
                yield f"{'.'.join((path, *place[:-1]))}[{place[-1]}]", value


RULE = Rule(**facts(__name__), types=POOLS | {AUTO_SCALING_GROUP, CONFIG_MAP} | HELM, check=_check)
