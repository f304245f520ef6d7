"""The remark on a GitHub Enterprise Server that jobs may not reach."""

from __future__ import annotations

from typing import Any

from fleet.loading.config import load
from fleet.prove.works import github_server as remarks
from tests.builders import cluster, config, oke_cluster, runner
from tests.cases import cases

APP = {"appId": "1", "installationId": "2"}


@cases(
    ("host", "changes", "said"),
    [
        ("github.com", {}, ""),
        ("acme.ghe.com", {}, ""),
        (
            "ghe.example.net",
            {},
            "usw2: GitHub server ghe.example.net may have a private address: then jobs in pods do not reach it",
        ),
        ("ghe.example.net", {"privateEgress": ["10.20.0.0/24"]}, ""),
        (
            "10.20.0.5",
            {},
            "usw2: GitHub server 10.20.0.5 has a private address: jobs in pods do not reach it, so no runner comes",
        ),
        ("10.20.0.5", {"privateEgress": ["10.21.0.0/24"]}, "usw2: GitHub server 10.20.0.5 has a private address: jobs in pods"),
        ("10.20.0.5", {"privateEgress": ["10.20.0.0/24"]}, ""),
        ("203.0.113.5", {}, ""),
        ("ghe.example.net", {"runners": {}, "pools": {}}, ""),
    ],
)
def test_a_server_that_jobs_may_not_reach_is_one_remark(host: str, changes: dict[str, Any], said: str) -> None:
    fleet = load(config(github=APP | {"url": f"https://{host}/acme"}, clusters={"usw2": cluster(**changes)}))
    found = list(remarks(fleet))
    assert len(found) == bool(said)
    assert all(each.startswith(said) for each in found)


def test_a_network_that_enforces_nothing_is_no_wall() -> None:
    held = oke_cluster()
    assert all("acceptUnenforcedNetwork" in each for each in held["runners"].values())
    assert list(remarks(load(config(github=APP | {"url": "https://10.20.0.5/acme"}, clusters={"sjc": held})))) == []


BY_PROXY = {"url": "http://10.9.0.4:3128"}


@cases(
    ("proxy", "egress", "said"),
    [
        (BY_PROXY, [], ["usw2/gpu-t4: proxy 10.9.0.4 has a private address"]),
        (BY_PROXY, ["10.9.0.0/24"], []),
        ({"url": "http://gate.example.com"}, [], ["usw2/gpu-t4: proxy gate.example.com may have a private address"]),
        ({"url": "http://203.0.113.9"}, [], []),
        (
            BY_PROXY | {"noProxy": ["10.20.0.5"]},
            ["10.9.0.0/24"],
            ["usw2: GitHub server 10.20.0.5 has a private address"],
        ),
    ],
)
def test_a_class_with_a_proxy_needs_the_way_to_it_and_none_to_the_server(
    proxy: dict[str, Any], egress: list[str], said: list[str]
) -> None:
    own = cluster(runners={"gpu-t4": runner(proxy=proxy)}, privateEgress=egress)
    found = list(remarks(load(config(github=APP | {"url": "https://10.20.0.5/acme"}, clusters={"usw2": own}))))
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))
