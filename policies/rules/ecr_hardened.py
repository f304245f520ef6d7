"""ecr-hardened: tags in ECR are immutable, and ECR scans images.

Judged: repositories. The rule does not see scanning that the whole registry configures. `ecr-lifecycle` covers old images.
"""

from collections.abc import Callable, Iterator
from functools import partial

from .read import Data, Later, entries, label, shown, some, text, true, walk
from .rule import Args, Mendable, Rule, facts, mending, said

ECR_REPOSITORY = "aws:ecr/repository:Repository"

_DEMANDS: tuple[tuple[tuple[str, ...], Callable[[Data], bool], Data, str], ...] = (
    (("imageTagMutability",), lambda now: now == "IMMUTABLE", "IMMUTABLE", "somebody can then move a tag to another image"),
    (("imageScanningConfiguration", "scanOnPush"), true, True, "ECR does not scan images for known vulnerabilities"),
)
"""Path of each property, whether its value is right, the right value, and what goes wrong with another."""


def _faults(args: Args, later: Later) -> Iterator[Mendable]:
    """A remedy leaves the encryption alone, because a change of it replaces the repository."""
    for path, fits, right, harm in _DEMANDS:
        with later:
            if not fits(value := walk(args.props, *path)):
                yield f"{'.'.join(path)} is {shown(value)}: {harm}; write {label(right)}", {path: right}
    if true(args.config.get("requireKms")):
        hidden, listed = Later(), partial(entries, args.props, "encryptionConfigurations")
        encrypted = some(listed, lambda entry: text(walk(entry[1], "encryptionType")) in ("KMS", "KMS_DSSE"), hidden)
        if not encrypted and later.clear(hidden):
            yield said("no_kms_entry"), {}


RULE = Rule(**facts(__name__), types=frozenset((ECR_REPOSITORY,)), **mending(_faults))
