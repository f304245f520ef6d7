"""Reads a folder: every file whose form an audit knows. A file that cannot be read is a line of the report."""

from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import Document, text_of
from fleet.loading.documents import documents
from gpu_ci.audit.formats import FINISHERS, READERS, each
from gpu_ci.audit.formats.machines import MULTI, hcl
from gpu_ci.audit.model import Keys, Seen
from gpu_ci.offline.folders import files
from gpu_ci.workflows.job import File

_FIX = "name a folder with workflows, Helm values, node pools or manifests, or one file"


def audit(root: Path) -> Seen:
    """Read a folder or one file. Raises InputError if it does not exist or has nothing that an audit knows."""
    seen = Seen()
    for path in files("PATH", root, (".yaml", ".yml", ".json", ".tf", ".tfvars"), _FIX):
        # A link may lead to another file of the machine.
        if path != root and path.is_symlink():
            continue
        try:
            if path.suffix in (".tf", ".tfvars"):
                seen.not_read += filter(None, (hcl(path, text_of(path)),))
                continue
            # The text after a last `---` is an empty document.
            for document in (entry for entry in documents(path) if entry.value is not None):
                seen.read += _read(seen, path, document)
        except InputError as error:
            seen.not_read += str(error).splitlines()
        except OSError as error:
            seen.not_read.append(f"{path}: cannot be read ({error.strerror})")
    for finish in FINISHERS:
        finish(seen)
    seen.unread += dict.fromkeys(key for keys in seen.read for key in keys.unread())
    if seen.empty:
        none = f"PATH: {root} has no workflow, nothing of ARC and no node pool; {_FIX}"
        raise InputError("\n".join([*(line for line in seen.not_read if MULTI in line), none]))
    return seen


def _read(seen: Seen, path: Path, document: Document) -> list[Keys]:
    """The documents and objects of it that a reader knew."""
    if path.parent.parts[-2:] == (".github", "workflows"):
        seen.workflows.add(path, document)
        return []
    keys = Keys(File(path, document), document.value)
    return [one for one in each(keys) if any(reader(one, seen) for reader in READERS)]
