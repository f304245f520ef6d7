"""The files that an audit reads, a reader for each kind of file.

A reader takes a document and what was seen so far, adds what the document declares, and says whether it knew the document. It
reads through `Keys`: a key that no reader takes is listed as unread.
"""

from collections.abc import Callable

from gpu_ci.audit.formats import arc
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import Seen

READERS: tuple[Callable[[Keys, Seen], bool], ...] = (arc.read,)
"""The first that knows a document reads it."""
