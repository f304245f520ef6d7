"""ecr-hardened: tags in ECR are immutable, and ECR scans images.

Judged: repositories. The rule does not see scanning that the whole registry configures. `ecr-lifecycle` covers old images.
"""

from collections.abc import Callable
from functools import partial

from .draft import Draft
from .read import Data, Faults, Later, entries, label, shown, some, text, true, walk
from .rule import Args, Rule, facts

ECR_REPOSITORY = "aws:ecr/repository:Repository"

_DEMANDS: tuple[tuple[tuple[str, ...], Callable[[Data], bool], Data, str], ...] = (
    (("imageTagMutability",), lambda now: now == "IMMUTABLE", "IMMUTABLE", "somebody can then move a tag to another image"),
    (("imageScanningConfiguration", "scanOnPush"), true, True, "ECR does not scan images for known vulnerabilities"),
)
"""Path of each property, whether its value is right, the right value, and what goes wrong with another."""


def _check(args: Args, later: Later) -> Faults:
    for path, fits, right, harm in _DEMANDS:
        with later:
            if not fits(value := walk(args.props, *path)):
                yield f"{'.'.join(path)} is {shown(value)}: {harm}; write {label(right)}"
    if true(args.config.get("requireKms")):
        hidden, listed = Later(), partial(entries, args.props, "encryptionConfigurations")
        encrypted = some(listed, lambda entry: text(walk(entry[1], "encryptionType")) in ("KMS", "KMS_DSSE"), hidden)
        if not encrypted and later.clear(hidden):
            yield "encryptionConfigurations has no entry of type KMS: this stack requires its own key; add {encryptionType: KMS}"


def _remediate(args: Args, draft: Draft) -> None:
    """Sets the two flags. It leaves the encryption alone, because a change of it replaces the repository."""
    for path, fits, right, _ in _DEMANDS:
        with Later():
            if not fits(walk(args.props, *path)):
                draft.put(right, *path)


RULE = Rule(**facts(__name__), types=frozenset((ECR_REPOSITORY,)), check=_check, remedy=_remediate)
