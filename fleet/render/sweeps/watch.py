"""Collections that a sweep keeps in memory: it reads each once, then watches it. Standard library only.

At rest a collection costs one request for each of its watches. A pass over what is in memory costs none, so rules about ages and
hours act without any event.
"""

from __future__ import annotations

import http.client
import sys
import time
import urllib.error
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from fleet.render.sweeps.api import Api, Object, say

LASTS = 3600
"""Seconds of a watch, at least. The API server ends it then, and the next one goes on from there."""
_SHARE = 240
"""Seconds of a watch for each collection of a sweep: with more of them each watch is longer. So a sweep of any number of runner
sets asks at most every four minutes, and all sweeps of a cluster together at most once a minute."""
_QUIET = 180
"""Seconds without any line after which a connection counts as broken. The API server sends a bookmark each minute
(kubernetes apiserver, storage/cacher/cacher.go, defaultBookmarkFrequency)."""
UNMARKED = 300
"""Seconds of a watch without bookmarks, such as that of events, which have no watch cache (kubernetes#96052, #120348). It is
short, because such a connection may break without a sign. Its version is too old afterwards."""
_LONGEST = 60
"""Seconds of the longest pause after a failure."""
_FAILURES = 20
"""Failures of a connection in a row, about 15 minutes, after which the program ends. Kubelet starts it again, and the restart
shows in the metrics. A refused request, for example before a namespace exists, ends nothing."""
_SHORT = 30
"""Seconds, more than a request may take. A watch that ends sooner counts as a failure, so that no server can make a busy loop."""
_REST = 1
"""Seconds between two passes at least. Changes come in bursts."""
_READING = Lock()
"""One collection is read at a time, so that only the pages of one are in memory."""


class Collection:
    """The objects at `path`, by namespace and name, as the API server last reported them.

    `keep` returns the part of an object that stays in memory; its version stays in any case. `path` may have a query. With
    `marked` False the server sends no bookmarks.
    """

    def __init__(self, api: Api, path: str, keep: Callable[[Object], Object], *, marked: bool = True) -> None:
        self.path, self.ready = path, False
        self.objects: dict[tuple[str, str], Object] = {}
        self.lasts: float = LASTS if marked else UNMARKED
        self.quiet: float = _QUIET if marked else UNMARKED + 30
        self._api, self._keep, self._version, self._marked = api, keep, "", marked

    def share(self, collections: int) -> None:
        """Make the watch long enough for a sweep with so many collections."""
        if self._marked:
            self.lasts = max(LASTS, _SHARE * collections)

    def values(self) -> list[Object]:
        """The objects now. A pass may use them while the watch goes on."""
        return list(self.objects.values())

    def follow(self, changed: Callable[[], object]) -> None:
        """Read the objects if their version is unknown, then follow their changes until the watch ends.

        `changed` is called after each change of what stays in memory. Raises as `Api.call` does. After a connection that broke,
        the next call goes on from the last change. After an error of the server, such as 410 for a version that is too old, it
        reads all objects again, and those that were deleted meanwhile are gone.
        """
        if not self._version:
            with _READING:
                self._read()
            changed()
        try:
            for kind, entry in self._api.watch(self.path, self._version, self.lasts, self.quiet):
                if self._apply(kind, entry):
                    changed()
        except urllib.error.HTTPError as error:
            self._version = ""
            if error.code != http.client.GONE:
                raise
        if not self._marked:
            self._version = ""

    def _read(self) -> None:
        objects: dict[tuple[str, str], Object] = {}
        version = ""
        for page in self._api.pages(self.path):
            version = page["metadata"]["resourceVersion"]
            for entry in page["items"]:
                objects[_key(entry)] = self._kept(entry)
        self.objects, self._version, self.ready = objects, version, True

    def _apply(self, kind: str, entry: Object) -> bool:
        """Apply one change. Returns whether it changes more than a version."""
        version = entry["metadata"]["resourceVersion"]
        if kind == "DELETED":
            changed = self.objects.pop(_key(entry), None) is not None
        elif kind == "BOOKMARK":
            changed = False
        else:
            old, new = self.objects.get(_key(entry)), self._kept(entry)
            # A kubelet reports its node every few minutes, and most of it is of no interest.
            changed = old is None or {**old, "metadata": {**old["metadata"], "resourceVersion": version}} != new
            self.objects[_key(entry)] = new
        self._version = version
        return changed

    def _kept(self, entry: Object) -> Object:
        part = self._keep(entry)
        part["metadata"]["resourceVersion"] = entry["metadata"].get("resourceVersion", "")
        return part


def _key(entry: Object) -> tuple[str, str]:
    return entry["metadata"].get("namespace", ""), entry["metadata"]["name"]


def keep_up(
    collection: Collection,
    changed: Callable[[], object],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Follow a collection, with pauses of 1 to 60 seconds after failures. Returns after 20 broken connections in a row."""
    failures = 0
    while failures < _FAILURES:
        began = clock()
        try:
            collection.follow(changed)
        except urllib.error.HTTPError as error:
            say(collection=collection.path, error=f"{error.code} {error.reason}")
            failures = min(failures + 1, _FAILURES - 1)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            # A connection that was fine for long breaks the row.
            failures = 1 if clock() - began > _SHORT else failures + 1
            say(collection=collection.path, error=f"{type(error).__name__}: {error}", failures=failures)
        else:
            failures = 0 if clock() - began > _SHORT else min(failures + 1, _FAILURES - 1)
        if failures:
            sleep(min(_LONGEST, 2 ** (failures - 1)))


def run(collections: Sequence[Collection], once: Callable[[], None], every: float) -> None:
    """Keep the collections up to date, and call `once` after changes and every `every` seconds. Ends the program with 1 if a
    collection cannot be followed any more.
    """
    awake = Event()
    threads = []
    for collection in collections:
        collection.share(len(collections))
        threads.append(Thread(target=keep_up, args=(collection, awake.set), daemon=True))
        threads[-1].start()
    while all(thread.is_alive() for thread in threads):
        awake.wait(every)
        awake.clear()
        try:
            once()
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            say(error=f"{type(error).__name__}: {error}")
        time.sleep(_REST)
    sys.exit(1)
