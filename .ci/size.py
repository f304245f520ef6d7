"""Counts the lines of code outside tests: `.venv/bin/python .ci/size.py`. Exit status 1: more than pyproject.toml allows.

A line counts if it has more than blanks, a comment or a part of a docstring.
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path


def lines_of(source: str) -> int:
    """How many lines of a module are code."""
    lines = enumerate(source.splitlines(), 1)
    code = {number for number, line in lines if line.strip() and not line.lstrip().startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
            # A string's blank lines belong to it.
            code.update(_lines(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(_lines(node))
    return len(code - docstrings)


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


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
