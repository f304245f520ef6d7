"""The table of remarks: the code says each row, with all of its fields."""

from __future__ import annotations

import ast
import re
import tomllib
from string import Formatter

from tests.builders import ROOT
from tests.sources import parsed

REMARKS: dict[str, str] = tomllib.loads((ROOT / "fleet" / "facts" / "remarks.toml").read_text(encoding="utf-8"))


def test_every_row_is_said_with_its_fields() -> None:
    """No test makes every remark. A row without one of its fields would end the plan with an error of Python."""
    files = [path for folder in ("fleet", "components") for path in (ROOT / folder).rglob("*.py")]
    paths = [path for path in files if "said(" in path.read_text(encoding="utf-8")]
    calls = [node for path in paths for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    said = [call for call in calls if ast.unparse(call.func) == "said"]
    rows = [str(ast.literal_eval(call.args[0])) for call in said]
    assert sorted(rows) == sorted(REMARKS), "each row once"
    for row, call in zip(rows, said, strict=True):
        fields = {re.split(r"[.\[]", field)[0] for _, field, *_ in Formatter().parse(REMARKS[row]) if field is not None}
        assert {keyword.arg for keyword in call.keywords} == fields, row
