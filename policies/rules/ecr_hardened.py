"""ecr-hardened: tags in ECR are immutable, and ECR scans images.

Judged: repositories. The rule does not see scanning that the whole registry configures. `ecr-lifecycle` covers old images.
"""

from functools import partial

from .draft import Draft
from .read import Faults, Later, entries, shown, some, text, true, walk
from .rule import Args, Rule, facts

ECR_REPOSITORY = "aws:ecr/repository:Repository"

_MUTABILITY, _IMMUTABLE = "imageTagMutability", "IMMUTABLE"
_SCAN = ("imageScanningConfiguration", "scanOnPush")


def _check(args: Args, later: Later) -> Faults:
    props = args.props
    with later:
        mutability = walk(props, _MUTABILITY)
        if text(mutability) != _IMMUTABLE:
            yield f"{_MUTABILITY} is {shown(mutability)}: somebody can then move a tag to another image; write {_IMMUTABLE}"
    with later:
        scan = walk(props, *_SCAN)
        if not true(scan):
            yield f"{'.'.join(_SCAN)} is {shown(scan)}: ECR does not scan images for known vulnerabilities; write true"
    if true(args.config.get("requireKms")):
        hidden, listed = Later(), partial(entries, props, "encryptionConfigurations")
        encrypted = some(listed, lambda entry: text(walk(entry[1], "encryptionType")) in ("KMS", "KMS_DSSE"), hidden)
        if not encrypted and later.clear(hidden):
            yield "encryptionConfigurations has no entry of type KMS: this stack requires its own key; add {encryptionType: KMS}"


def _remediate(args: Args, draft: Draft) -> None:
    """Sets the two flags. It leaves the encryption alone, because a change of it replaces the repository."""
    later = Later()
    with later:
        if text(walk(args.props, _MUTABILITY)) != _IMMUTABLE:
            draft.put(_IMMUTABLE, _MUTABILITY)
    with later:
        if not true(walk(args.props, *_SCAN)):
            draft.put(True, *_SCAN)


RULE = Rule(**facts(__name__), types=frozenset((ECR_REPOSITORY,)), check=_check, remedy=_remediate)
