"""Whether this machine's address is in the networks of the endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from gpu_ci.doctor import network
from tests.doctor.fleets import edited, lines, shipped
from tests.doctor.loopback import serve, serve_raw

NETWORK = ("203.0.113.0/24", "93.184.216.0/24")


def test_an_address_inside_is_ok(tmp_path: Path) -> None:
    assert lines(network.findings(edited("staging", tmp_path, NETWORK), "93.184.216.7")) == [
        "ok: usw2: endpoint.publicCidrs has this machine's address 93.184.216.7"
    ]


def test_an_address_outside_is_wrong_in_each_cluster(tmp_path: Path) -> None:
    found = list(network.findings(edited("prod", tmp_path, NETWORK), "52.94.76.1"))
    assert lines(found) == [
        f"wrong: {name}: endpoint.publicCidrs 93.184.216.0/24 does not have this machine's address 52.94.76.1"
        for name in ("sjc", "use1")
    ]
    assert found[0].fix.startswith("add 52.94.76.1/32 to clusters.sjc.endpoint.publicCidrs")


def test_without_an_address_the_page_is_asked(tmp_path: Path) -> None:
    fleet = edited("staging", tmp_path, NETWORK)
    with serve({"/": (200, "93.184.216.9\n")}) as server:
        assert lines(network.findings(fleet, None, server.url)) == [
            "ok: usw2: endpoint.publicCidrs has this machine's address 93.184.216.9"
        ]
        assert server.asked == [("GET", "/")]


@pytest.mark.parametrize("answer", [(200, "<html>sign in</html>"), (500, "no")])
def test_a_page_that_shows_no_address_is_skipped(answer: tuple[int, str]) -> None:
    with serve({"/": answer}) as server:
        (only,) = network.findings(shipped("staging"), None, server.url)
    assert only.state == "skipped"
    assert only.said.endswith("give it: --address ADDRESS")


def test_a_page_that_does_not_answer_in_http_is_skipped() -> None:
    with serve_raw(b"what is this\r\n\r\n") as url:
        (only,) = network.findings(shipped("staging"), None, url)
    assert only.state == "skipped"


def test_a_page_that_cannot_be_reached_is_skipped() -> None:
    (only,) = network.findings(shipped("staging"), None, "http://127.0.0.1:9")
    assert only.state == "skipped"


def test_a_private_endpoint_is_skipped_and_asks_nothing(tmp_path: Path) -> None:
    private = ("endpoint: {publicCidrs: [203.0.113.0/24]}", "endpoint: {private: true, reachableFrom: vpn}")
    assert lines(network.findings(edited("staging", tmp_path, private), None, "http://127.0.0.1:9")) == [
        "skipped: usw2: the endpoint is private; vpn reaches it"
    ]


def test_a_cluster_without_such_an_endpoint_has_no_line() -> None:
    assert list(network.findings(shipped("homelab"), None, "http://127.0.0.1:9")) == []


def test_a_text_that_is_no_address_is_wrong_input() -> None:
    with pytest.raises(InputError, match=r"--address: must be an IPv4 address; got 'home'"):
        list(network.findings(shipped("staging"), "home"))
