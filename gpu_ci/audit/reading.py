"""Reads a folder: every file whose form an audit knows. A file that cannot be read is a line of the report."""

from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from gpu_ci.audit.formats import READERS
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import Seen
from gpu_ci.offline.folders import files
from gpu_ci.workflows.job import File

_FIX = "name a folder with workflows, Helm values, node pools or manifests, or one file"


def audit(root: Path) -> Seen:
    """Read a folder or one file. Raises InputError if it does not exist or has nothing that an audit knows."""
    seen = Seen()
    for path in files("PATH", root, (".yaml", ".yml", ".json"), _FIX):
        # A link may lead to another file of the machine.
        if path != root and path.is_symlink():
            continue
        try:
            # The text after a last `---` is an empty document.
            for document in (entry for entry in documents(path) if entry.value is not None):
                _read(seen, path, document)
        except InputError as error:
            seen.not_read += str(error).splitlines()
        except OSError as error:
            seen.not_read.append(f"{path}: cannot be read ({error.strerror})")
    if seen.empty:
        raise InputError(f"PATH: {root} has no workflow, nothing of ARC and no node pool; {_FIX}")
    return seen


def _read(seen: Seen, path: Path, document: Document) -> None:
    if path.parent.parts[-2:] == (".github", "workflows"):
        seen.workflows.add(path, document)
        return
    keys = Keys(File(path, document), document.value)
    if any(reader(keys, seen) for reader in READERS):
        seen.unread += keys.unread()
