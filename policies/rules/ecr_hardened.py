"""ecr-hardened: an image in ECR stays what it was when it was pushed, and is looked at.

Judged: repositories. Scanning that a registry does by itself is not seen here. That old images go is `ecr-lifecycle`.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import schema
from .draft import Draft
from .read import Later, entries, shown, text, true, walk
from .rule import Args, Rule, Section, Severity

ECR_REPOSITORY = "aws:ecr/repository:Repository"

_MUTABILITY, _IMMUTABLE = "imageTagMutability", "IMMUTABLE"
_SCAN = ("imageScanningConfiguration", "scanOnPush")


def _check(args: Args, later: Later) -> Iterator[str]:
    props = args.props
    with later:
        mutability = walk(props, _MUTABILITY)
        if text(mutability) != _IMMUTABLE:
            yield f"{_MUTABILITY} is {shown(mutability)}: a tag may then come to mean another image; write {_IMMUTABLE}"
    with later:
        scan = walk(props, *_SCAN)
        if not true(scan):
            yield f"{'.'.join(_SCAN)} is {shown(scan)}: nobody looks for known holes; write true"
    if true(args.get_config().get("requireKms")):
        unread = Later()
        own = False
        for _, each in entries(props, "encryptionConfigurations", unread):
            with unread:
                own = own or text(walk(each, "encryptionType")) in ("KMS", "KMS_DSSE")
        if not (own or unread):
            yield "encryptionConfigurations has no entry of type KMS: this stack asks for its own key; add {encryptionType: KMS}"
        if not own:
            later.join(unread)


def _mend(args: Args, draft: Draft) -> None:
    """Sets the two flags; how a repository is encrypted cannot be changed without replacing it."""
    later = Later()
    with later:
        if text(walk(args.props, _MUTABILITY)) != _IMMUTABLE:
            draft.put(_IMMUTABLE, _MUTABILITY)
    with later:
        if not true(walk(args.props, *_SCAN)):
            draft.put(True, *_SCAN)


RULE = Rule(
    id="ecr-hardened",
    order=(Section.SUPPLY_CHAIN, 80),
    title="Images in ECR keep their tags and are scanned",
    severity=Severity.MEDIUM,
    types=frozenset((ECR_REPOSITORY,)),
    levels={"dev": "remediate", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    config={"requireKms": schema.flag("Whether a repository must be encrypted with a KMS key.")},
    rationale="Whoever can move a tag of the runner's image runs code in every job that follows.",
    source="https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html",
    fix="Set imageTagMutability IMMUTABLE and imageScanningConfiguration.scanOnPush true.",
    check=_check,
    remedy=_mend,
)
