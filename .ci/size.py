"""Counts the lines of code outside tests: `.venv/bin/python .ci/size.py`. Exit status 1: more than pyproject.toml allows.

A line counts if it has a token that is neither a comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def lines_of(source: str) -> int:
    """How many lines of a module are code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                code.difference_update(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return len(code)


def main() -> int:
    """Print the lines by folder and in sum."""
    names = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()  # noqa: S607
    sizes: Counter[str] = Counter()
    for name in names:
        if not name.startswith("tests/") and Path(name).is_file():
            sizes[name.split("/")[0]] += lines_of(Path(name).read_text(encoding="utf-8"))
    most = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["gpu-ci"]["most-lines"]
    sys.stdout.writelines(f"{count:7,} {folder}\n" for folder, count in sizes.most_common())
    sys.stdout.write(f"{sizes.total():7,} of at most {most:,} lines of code outside tests\n")
    return int(sizes.total() > most)


if __name__ == "__main__":
    sys.exit(main())
