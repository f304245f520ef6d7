"""Free-form tags as an argument of OCI components."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fleet.providers.tags import OCI_TAGS
from fleet.settings.model import TagKey, TagValue, problem


def _key(key: str) -> str:
    if not OCI_TAGS.key.fullmatch(key):
        raise problem("provider_tag", f"OCI has tags with keys of {OCI_TAGS.words}; rename it")
    return key


FreeformTags = Annotated[dict[Annotated[TagKey, AfterValidator(_key)], TagValue], Field(max_length=OCI_TAGS.most)]
