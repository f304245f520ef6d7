"""Finds a resource of AWS of which only the inputs are known, by the calls in `imports.toml`. The calls only read."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fleet.facts.nested import at
from fleet.facts.tables import beside
from fleet.providers.provider import Search

IMPORTS: dict[str, dict[str, Any]] = beside(__file__, "imports.toml")
"""The table, by Pulumi's type."""
_SERVICES = {"s3api": "s3"}
"""Services by another name in the AWS CLI than in the API."""
_MISSING = re.compile(r"NotFound|NoSuch")
"""Codes of errors that say that nothing exists."""
Client = Callable[[str, str], Any]
"""The client of a service in a region."""


def search(kind: str, inputs: Mapping[str, Any], region: str, stack: str, account: str, client: Client) -> Search | None:
    """How to find what these inputs created; None if the table has no way or an input is unknown."""
    if (row := IMPORTS.get(kind, {})).get("again"):
        return Search("", again=True)
    fields = {"stack": stack, "account": account or "ACCOUNT"}
    try:
        words = [_filled(word, inputs, fields) for word in shlex.split(row["look"])]
        identity = _filled(row["id"], inputs, {**fields, "found": "{found}"})
    except KeyError:
        return None
    return Search(shlex.join(["aws", *words, "--region", region]), partial(_ids, words, identity, region, client))


def _filled(text: str, inputs: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    """The text with its fields. Raises KeyError for another input than a text: a secret is an object in a state."""

    def value(match: re.Match[str]) -> str:
        if not isinstance(found := fields.get(match[1], at(inputs, *match[1].split("."))), str):
            raise KeyError(match[1])
        return found

    return re.sub(r"\{([\w.]+)\}", value, text)


def _ids(words: Sequence[str], identity: str, region: str, client: Client) -> list[str]:
    """The ids by which Pulumi imports what the call finds."""
    import jmespath  # noqa: PLC0415 - of the optional extra boto3
    from botocore.exceptions import ClientError  # noqa: PLC0415

    service, operation, *rest = words
    query = rest[rest.index("--query") + 1]
    try:
        found = [jmespath.search(query, one) for one in _pages(client(_SERVICES.get(service, service), region), operation, rest)]
    except ClientError as error:
        if _MISSING.search(error.response["Error"]["Code"]):
            return []
        raise
    values = [value for page in found if page for value in ([page] if isinstance(page, str) else page)]
    return [identity.replace("{found}", value) for value in dict.fromkeys(values)]


def _pages(client: Any, operation: str, rest: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    from botocore import xform_name  # noqa: PLC0415

    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
    members = {f"--{xform_name(name, '-')}": (name, member.type_name) for name, member in shape.members.items()}
    request: dict[str, Any] = {}
    for word in rest[: rest.index("--query")]:
        if word in members:
            name, form = members[word]
        elif form == "list":
            request.setdefault(name, []).append(_filter(word))
        else:
            request[name] = word
    if client.can_paginate(method):
        yield from client.get_paginator(method).paginate(**request)
    else:
        yield getattr(client, method)(**request)


def _filter(word: str) -> str | dict[str, Any]:
    """A filter of EC2, or a name."""
    match = re.fullmatch(r"Name=([^,]*),Values=(.*)", word)
    return {"Name": match[1], "Values": [match[2]]} if match else word
