"""Builds the documentation site into build/site: `.venv/bin/python .ci/pages.py [REPOSITORY-URL]`.

It exits with 1 on a broken link, and prints an error line for it.

Zensical reads pages of one folder. So the script copies docs/ and points links to other files of the repository at GitHub.
The site's first page is the README.
Zensical's strict mode finds missing pages and anchors. The script finds what Zensical does
not look for: links to missing files, and pages that the navigation lacks.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

DOCS = Path("docs")
HOME = Path("README.md")
PAGES = Path("build/site-pages")
"""The `docs_dir` of zensical.toml."""
INDEX = "index.md"
"""The name of the README among the pages."""
REPOSITORY = "https://github.com/example/gpu-ci"
_LINK = re.compile(r"(?P<before>\]\(|<img [^>]*?src=\")(?P<target>[^)\s\"#]+)")
_PIPE_IN_CODE = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def site_text(page: Path, repository: str = REPOSITORY) -> tuple[str, list[str]]:
    """The text of a page with links to what the site lacks as URLs of the repository, and an error line for each missing file."""
    text, errors = page.read_text(encoding="utf-8"), []
    code = [fence.span() for fence in _FENCE.finditer(text)]

    def url(link: re.Match[str]) -> str:
        target = link["target"]
        if ":" in target or any(start <= link.start() < end for start, end in code):
            return link[0]
        if not (file := Path(os.path.normpath(page.parent / target))).exists():
            errors.append(f"{page}: {target} does not exist; correct the link")
        if file == HOME or (file.is_relative_to(DOCS) and not file.is_dir()):
            return f"{link['before']}{os.path.relpath(_place(file), _place(page).parent)}"
        kind = "tree" if file.is_dir() else "blob"
        return f"{link['before']}{repository}/{kind}/main/{file}"

    # GitHub reads Markdown inside HTML, Zensical only where an attribute asks for it.
    text = _LINK.sub(url, text).replace("<details>", "<details markdown>")
    # In the code of a table GitHub wants a pipe escaped, and Zensical would show the escape.
    return _PIPE_IN_CODE.sub(lambda code: code[0].replace(r"\|", "|"), text), errors


def _place(file: Path) -> Path:
    """Where the site has the README or a file of docs/."""
    return Path(INDEX) if file == HOME else file.relative_to(DOCS)


def write_pages(repository: str) -> Iterator[str]:
    """Copy docs/ to the folder that Zensical reads. Yields error lines."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES)
    for page in [HOME, *sorted(DOCS.rglob("*.md"))]:
        text, errors = site_text(page, repository)
        (PAGES / _place(page)).write_text(text, encoding="utf-8")
        yield from errors


def navigation_errors(nav: object, pages: set[str]) -> Iterator[str]:
    """An error line for each page that the navigation lacks, and for each that does not exist: Zensical skips both silently."""
    listed = set(_files(nav))
    yield from (f"zensical.toml: nav has no {DOCS / page}; add it" for page in sorted(pages - listed))
    yield from (f"zensical.toml: nav has {page}, which is not in {DOCS}; correct it" for page in sorted(listed - pages))


def _files(nav: object) -> Iterator[str]:
    """The files of a navigation: a file, a title with its value, or a list of them."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list | dict):
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _files(part)


def main(repository: str = REPOSITORY) -> int:
    """Build the site. Returns the exit status."""
    nav = tomllib.loads(Path("zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = {INDEX, *(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))}
    errors = [*navigation_errors(nav, pages), *write_pages(repository)]
    sys.stderr.writelines(f"error: {line}\n" for line in errors)
    zensical = Path(sys.executable).with_name("zensical")
    build = subprocess.run(  # noqa: S603 - a program of the lock
        [zensical, "build", "--strict", "--clean"], capture_output=True, text=True, check=False
    )
    if build.returncode:
        # A traceback of Zensical follows its own report.
        sys.stderr.write(build.stdout + build.stderr.partition("Traceback")[0])
    return 1 if errors or build.returncode else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
