"""A collection in memory is what the API server has, whatever happens to its watch, and at rest it asks for little."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError

import pytest
from hypothesis import given, settings, strategies as st

from fleet.loading.config import load
from fleet.render.sweeps import api as watch
from fleet.render.sweeps.api import UNMARKED, Api, Collection, keep_up, picked
from fleet.render.sweeps.sweep import sweeps
from tests.builders import ROOT, cluster, config, read_stack, runner, staging
from tests.cases import cases
from tests.examples import examples
from tests.fleet.sweeps.rights import collections_of
from tests.fleet.sweeps.server import Server, serving

ROLE = {"kind": "ClusterRole", "metadata": {}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]}


def node(name: str, cordoned: bool = False, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"unschedulable": cordoned}, **more}


def of(server: Server) -> Collection:
    def keep(found: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": picked(found["metadata"], "name"), "spec": found["spec"]}

    return Collection(Api(server.url), "/api/v1/nodes", keep)


def names(collection: Collection) -> list[str]:
    return sorted(found["metadata"]["name"] for found in collection.values())


def cordoned(collection: Collection) -> list[str]:
    return [found["metadata"]["name"] for found in collection.values() if found["spec"]["unschedulable"]]


def test_a_collection_is_read_once_and_then_followed_from_its_last_version() -> None:
    woken: list[int] = []
    with serving(Server({"nodes": [node(name) for name in "abc"]}, [ROLE])) as server:
        found = of(server)
        found.follow(lambda: woken.append(1))
        assert (names(found), found.ready, len(woken)) == (["a", "b", "c"], True, 1)
        server.change("MODIFIED", "nodes", node("a", cordoned=True))
        server.change("DELETED", "nodes", node("b"))
        server.change("ADDED", "nodes", node("d"))
        server.change("MODIFIED", "nodes", node("c", status={"heartbeat": "now"}))
        found.follow(lambda: woken.append(1))
        assert (names(found), cordoned(found)) == (["a", "c", "d"], ["a"])
        assert len(woken) == 4, "a heartbeat starts no pass"
        assert found.objects["", "c"]["metadata"]["resourceVersion"] == "104", "but its version is the newest: a patch needs it"
        found.follow(lambda: woken.append(1))
    lists = [each for each in server.requests if "watch" not in each]
    watches = [each for each in server.requests if "watch" in each]
    assert len(lists) == 2, "two pages"
    assert [each.partition("resourceVersion=")[2].partition("&")[0] for each in watches] == ["100", "100", "104"]
    assert all("allowWatchBookmarks=true" in each and "timeoutSeconds=3600" in each for each in watches)


@cases(
    ("fault", "error", "lists"),
    [("gone", None, 2), ("error", None, 2), ("cut", HTTPException, 1), ("silent", TimeoutError, 1)],
)
def test_after_a_fault_it_has_what_the_server_has_also_what_was_deleted_meanwhile(
    fault: str, error: type[Exception] | None, lists: int
) -> None:
    with serving(Server({"nodes": [node("a"), node("b")]}, [ROLE])) as server:
        found = of(server)
        found.follow(int)
        found.quiet = 0.1
        server.fault = fault
        server.change("DELETED", "nodes", node("b"))
        server.change("ADDED", "nodes", node("c"))
        if error is None:
            found.follow(int)
        else:
            with pytest.raises(error):
                found.follow(int)
        server.fault = ""
        found.follow(int)
        assert names(found) == ["a", "c"]
    assert len([each for each in server.requests if "watch" not in each]) == lists, "it reads all again only after an error"


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "", "gone", "error", "cut"]), st.sampled_from("abcde")))
)
def test_whatever_happens_a_watch_without_a_fault_ends_with_what_the_server_has(steps: list[tuple[str, str]]) -> None:
    with serving(Server({"nodes": [node("a"), node("b")]}, [ROLE])) as server:
        found = of(server)
        for number, (what, name) in enumerate(steps):
            if what.isupper():
                server.change(what, "nodes", node(name, cordoned=bool(number % 2)))
                continue
            server.fault = what
            with suppress(HTTPException):
                found.follow(int)
        server.fault = ""
        found.follow(int)
        assert {each["metadata"]["name"]: each["spec"] for each in found.values()} == {
            each["metadata"]["name"]: each["spec"] for each in server.objects["nodes"]
        }


def test_a_server_that_refuses_a_watch_is_asked_again_for_all() -> None:
    """Also for a version of the future, as after a restored backup."""
    with serving(Server({"nodes": [node("a")]}, [ROLE | {"rules": [ROLE["rules"][0] | {"verbs": ["list"]}]}])) as server:  # type: ignore[index]
        found = of(server)
        for _ in range(2):
            with pytest.raises(HTTPError, match="403"):
                found.follow(int)
        assert names(found) == ["a"]
    assert len([each for each in server.requests if "watch" not in each]) == 2


class Turns(Collection):
    """A collection whose turns end as these say, each after some seconds."""

    def __init__(self, *turns: tuple[float, Exception | None]) -> None:
        super().__init__(Api("http://127.0.0.1"), "/nodes", dict)
        self.turns, self.now = list(turns), 0.0
        self.slept: list[float] = []

    def follow(self, changed: Any) -> None:
        if not self.turns:
            raise KeyboardInterrupt
        lasted, error = self.turns.pop(0)
        self.now += lasted
        if error is not None:
            raise error

    def keep_up(self) -> None:
        keep_up(self, int, self.slept.append, lambda: self.now)


BROKEN, REFUSED = OSError("the API server is away"), HTTPError("", 403, "Forbidden", {}, None)  # type: ignore[arg-type]


@cases(
    ("turns", "slept"),
    [
        ([(3600, None), (3600, None)], []),
        ([(0, BROKEN)] * 8, [1, 2, 4, 8, 16, 32, 60, 60]),
        ([(0, BROKEN), (0, BROKEN), (3600, None), (0, BROKEN)], [1, 2, 1]),
        ([(600, BROKEN), (600, BROKEN)], [1, 1]),
        ([(0, None)] * 3, [1, 2, 4]),
        ([(0, REFUSED)] * 30, [1, 2, 4, 8, 16, 32, *[60] * 24]),
    ],
)
def test_pauses_grow_to_a_minute_and_a_refusal_never_ends_the_program(turns: Any, slept: list[float]) -> None:
    collection = Turns(*turns)
    with pytest.raises(KeyboardInterrupt):
        collection.keep_up()
    assert collection.slept == slept


def test_twenty_broken_connections_in_a_row_end_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "keep_up", lambda collection, changed: keep_up(collection, changed, lambda _: None, lambda: 0))
    monkeypatch.setattr(watch, "_REST", 0)
    with pytest.raises(SystemExit) as ended:
        watch.run([Turns(*[(0, BROKEN)] * 20)], lambda: None, 0.01)
    assert ended.value.code == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1] == {"collection": "/nodes", "error": "OSError: the API server is away", "failures": 20}


def test_passes_go_on_without_any_event_and_after_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def until_the_server_ends(collection: Collection, changed: Callable[[], object]) -> None:
        """The program's own would go on after the test, and print in another one."""
        with suppress(OSError, HTTPException):
            collection.follow(changed)

    monkeypatch.setattr(watch, "keep_up", until_the_server_ends)
    monkeypatch.setattr(watch, "_REST", 0)
    passes = iter([None, OSError("no answer"), None, KeyboardInterrupt()])

    def once() -> None:
        if (error := next(passes)) is not None:
            raise error

    with serving(Server({"nodes": []}, [ROLE])) as server:
        server.fault = "silent"
        with pytest.raises(KeyboardInterrupt):
            watch.run([of(server)], once, 0.01)
    assert len(server.requests) <= 2, "one list and one watch"


SETS = {f"set-{number}": runner(labels=[f"label-{number}"]) for number in range(60)}
WORK = {"days": ["mon"], "start": "09:00", "end": "18:00", "runners": 1}
SCHEDULES = {"timeZone": "Etc/UTC", "holidays": [], "windows": {"work": WORK}}
FLEETS = {
    "staging": staging().clusters,
    "prod": load(read_stack(ROOT / "Pulumi.prod.yaml")).clusters,
    "60 sets with schedules": load(
        config(
            clusters={"usw2": cluster(runners={name: each | {"schedules": SCHEDULES} for name, each in SETS.items()}, health={})}
        )
    ).clusters,
}


@pytest.mark.parametrize("fleet", FLEETS)
def test_at_rest_all_sweeps_of_a_cluster_ask_at_most_once_a_minute(fleet: str) -> None:
    for installed in FLEETS[fleet].values():
        watched = [(each, len(found)) for sweep in sweeps(installed) for found in [collections_of(sweep)] for each in found]
        for collection, count in watched:
            collection.share(count)
        # A watch without bookmarks begins with a list.
        asked = sum(60 / each.lasts * (2 if each.lasts == UNMARKED else 1) for each, _ in watched)
        assert asked <= 1, f"{asked:.2f} requests a minute"
