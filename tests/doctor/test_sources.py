"""The clients of public sources against a server on loopback: what they read, and what they refuse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import date
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from fleet.facts.support import Support
from fleet.providers.eks import sources as eks
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources import github, prices, registry
from gpu_ci.doctor.sources.web import Web
from tests.doctor.loopback import Loopback, serve, serve_raw

TOKEN = "a-token-of-a-person"  # noqa: S105 - of nobody
HOSTS = ("api.github.com", "ghcr.io", "registry-1.docker.io", "pricing.us-east-1.amazonaws.com", "charts.example.com")


def web(server: Loopback, token: str = "") -> Web:
    """A way to the sources on which each host is a folder of the server."""
    return Web(token, {f"https://{host}": f"{server.url}/{host}" for host in HOSTS})


def release(tag: str, day: str = "2026-10-06", **changes: Any) -> dict[str, Any]:
    """A release as GitHub lists it."""
    return {"tag_name": tag, "published_at": f"{day}T12:00:00Z", "draft": False, "prerelease": False, "body": ""} | changes


RELEASES = "/api.github.com/repos/actions/runner/releases"
END = "/api.github.com/orgs/acme/actions/runners/deprecations/2.338.0"
MANIFEST = '{"manifests": [{}, {"annotations": {"org.opencontainers.image.created": "2026-10-06T10:00:00Z"}}]}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST.encode()).hexdigest()}"
LOGIN = {"WWW-Authenticate": 'Bearer realm="{url}/login?a=b",service="ghcr.io",scope="repository:x/y:pull"'}


def runners(found: Web) -> list[tuple[str, date]]:
    """The versions of the runner and their days."""
    return [(each.version, each.day) for each in github.releases(found, "runner", r"v(\d+\.\d+\.\d+)")]


def test_releases_are_neither_drafts_nor_pre_releases_nor_tags_of_another_form():
    listed = [
        release("v2.339.0", draft=True),
        release("v2.338.1", prerelease=True),
        release("v2.338.0"),
        release("docs-1"),
        release("v2.337.0", name="[ABANDONED] v2.337.0"),
        release("v2.336.0", "2026-07-20"),
    ]
    with serve({RELEASES: (200, listed)}) as server:
        assert runners(web(server)) == [("2.338.0", date(2026, 10, 6)), ("2.336.0", date(2026, 7, 20))]


def test_the_last_day_of_a_runner_is_githubs_and_none_while_it_has_set_none():
    answers = {END: (200, {"runner_version": "2.338.0", "runtime_deprecates_at": "2026-12-20T08:04:55Z"})}
    with serve(answers) as server:
        assert github.last_day(web(server, TOKEN), "orgs/acme", "2.338.0") == date(2026, 12, 20)
        assert server.headers["Authorization"] == f"Bearer {TOKEN}"
    with serve({END: (200, {"runner_version": "2.338.0", "runtime_deprecates_at": None})}) as server:
        assert github.last_day(web(server, TOKEN), "orgs/acme", "2.338.0") is None


def test_a_registry_gives_the_digest_of_the_manifest_with_an_anonymous_token():
    answers = {"/ghcr.io/v2/x/y/manifests/1.0": (401, {}, LOGIN), "/login": (200, {"token": "everybodys"})}
    with serve(answers) as server, pytest.raises(SourceError, match="answers 401 to /v2/x/y/manifests"):
        registry.tagged(web(server, TOKEN), "ghcr.io/x/y", "1.0")
    assert server.asked[1][1] == "/login?a=b&scope=repository%3Ax%2Fy%3Apull&service=ghcr.io"
    assert [each.get("Authorization") for each in server.sent] == [None, None, "Bearer everybodys"], "GitHub's token stays away"
    with serve({"/registry-1.docker.io/v2/x/y/manifests/1.0": (200, MANIFEST, {"Docker-Content-Digest": DIGEST})}) as server:
        assert registry.tagged(web(server), "docker.io/x/y", "1.0") == registry.Tagged(DIGEST, "2026-10-06")


INDEX = """\
apiVersion: v1
entries:
  other:
  - created: "2020-01-01T00:00:00Z"
    digest: {zeros}
    version: 1.2.3
  tool:
  - annotations:
      digest: {zeros}
      version: 1.2.3
    apiVersion: v2
    created: "2026-08-20T10:00:00.1Z"
    dependencies:
    - name: part
      version: 1.2.4
    digest: {ones}
    urls:
    - https://charts.example.com/tool-1.2.4.tgz
    version: 1.2.4
  - created: "2026-08-19T10:00:00.1Z"
    digest: {twos}
    version: 1.2.3
generated: "2026-08-20T10:00:00Z"
""".format(zeros="0" * 64, ones="1" * 64, twos="2" * 64)
CHARTS = "/charts.example.com/index.yaml"


@pytest.mark.parametrize(("version", "sign", "day"), [("1.2.4", "1", 20), ("1.2.3", "2", 19)])
def test_the_index_of_charts_has_digest_and_day_of_a_version(version: str, sign: str, day: int):
    with serve({CHARTS: (200, INDEX)}) as server:
        found = registry.indexed(web(server), "https://charts.example.com", "tool", version)
    assert found == registry.Tagged(f"sha256:{sign * 64}", f"2026-08-{day}")


COLUMNS = (
    "SKU,TermType,PricePerUnit,Unit,Currency,Instance Type,Tenancy,Operating System,CapacityStatus,Pre Installed S/W,Region Code"
)


def price_list(*rows: str) -> str:
    """A price list in CSV as AWS writes it, all cells in quotes."""
    lines = ["FormatVersion,v1.0", COLUMNS, *rows]
    return "".join(",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in lines)


def row(name: str = "g4dn.xlarge", usd: str = "0.5260000000", system: str = "Linux", region: str = "us-west-2") -> str:
    """The row of an instance type on demand."""
    return f"A,OnDemand,{usd},Hrs,USD,{name},Shared,{system},Used,NA,{region}"


PRICES = "/pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/us-west-2/index.csv"


def test_the_price_of_a_type_is_that_of_linux_on_demand_in_the_region():
    rows = (
        row(),
        row(usd="9", system="Windows"),
        row(usd="8", region="us-west-2-lax-1"),
        row("g5.xlarge", "1.006"),
        row("p3.2xlarge"),
    )
    with serve({PRICES: (200, price_list(*rows))}) as server:
        assert prices.on_demand(web(server), "us-west-2", ["g4dn.xlarge", "g5.xlarge"]) == {
            "g4dn.xlarge": 0.526,
            "g5.xlarge": 1.006,
        }


def notes(minor: str = "1.36", build: str = "20991201", driver: str = "580.178.04-1.amzn2023", toolkit: str = "1.19.1-1") -> str:
    """Release notes in the form of awslabs/amazon-eks-ami v20260714."""
    return f"""<details>
<summary><b>Kubernetes {minor}</b></summary>
  <table>
    <tr>
      <th>AMI Names</th>
      <th>Release version</th>
    <tr>
      <td>amazon-eks-node-al2023-x86_64-nvidia-{minor}-v{build}</td>
      <td rowspan="5">{minor}.99-{build}</td>
    </tr>
  </table>
  <table>
    <tr>
      <th>Package</th>
      <th>AL2023_x86_64_STANDARD</th>
      <th>AL2023_x86_64_NEURON</th>
      <th>AL2023_x86_64_NVIDIA</th>
      <th>AL2023_ARM_64_NVIDIA</th>
    </tr>
    <tr>
      <td>kmod-nvidia-latest-dkms</td>
      <td colspan="2">—</td>
      <td colspan="1">{driver}</td>
      <td colspan="1">1.2.3-1.el9</td>
    </tr>
    <tr>
      <td>nvidia-container-toolkit</td>
      <td colspan="2">—</td>
      <td colspan="2">{toolkit}</td>
    </tr>
  </table>
</details>
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (notes(), eks.NodeImage("1.36.99-20991201", "580.178.04", "1.19.1-1")),
        (notes("1.35") + notes(), eks.NodeImage("1.36.99-20991201", "580.178.04", "1.19.1-1")),
        (notes(driver="—", toolkit="—"), eks.NodeImage("1.36.99-20991201", "", "")),
        (notes(driver="580;rm", toolkit="1.19.1-1; rm"), eks.NodeImage("1.36.99-20991201", "", "")),
        (notes().replace("AL2023_x86_64_NVIDIA", "AL2"), eks.NodeImage("1.36.99-20991201", "", "")),
        (notes("1.35"), None),
        ("## What's Changed", None),
    ],
)
def test_release_notes_name_the_node_image_and_its_driver(text: str, found: eks.NodeImage | None):
    assert eks.node_image(text, "1.36") == found


def stubbed(service: str, operation: str, answer: dict[str, Any]) -> Any:
    """A client of AWS that gives this answer, which botocore checks by the service's model."""
    client = boto3.client(service, region_name="us-west-2", aws_access_key_id="none", aws_secret_access_key="none")  # noqa: S106
    stubber = Stubber(client)
    stubber.add_response(operation, answer)
    stubber.activate()
    return client


def minor(version: str = "1.36") -> dict[str, Any]:
    """A Kubernetes minor as EKS describes it."""
    names = ("releaseDate", "endOfStandardSupportDate", "endOfExtendedSupportDate")
    days = (date(2026, 6, 2), date(2027, 8, 2), date(2028, 8, 2))
    return {"clusterVersion": version} | {name: f"{day}T00:00:00Z" for name, day in zip(names, days, strict=True)}


def addons(*versions: tuple[str, bool]) -> dict[str, Any]:
    """Versions of an add-on as EKS describes them, each with whether it is the default."""
    pairs = [
        {"addonVersion": name, "compatibilities": [{"clusterVersion": "1.36", "defaultVersion": default}]}
        for name, default in versions
    ]
    return {"addons": [{"addonName": "vpc-cni", "addonVersions": pairs}]}


def test_aws_names_support_dates_default_add_ons_and_the_recommended_node_image():
    from botocore.utils import parse_timestamp

    entry = {name: parse_timestamp(text) if "Date" in name else text for name, text in minor().items()}
    dates = eks.minors(stubbed("eks", "describe_cluster_versions", {"clusterVersions": [entry]}))
    assert dates == [Support("1.36", date(2026, 6, 2), date(2027, 8, 2), date(2028, 8, 2))]
    described = addons(("v1.23.1-eksbuild.1", False), ("v1.22.4-eksbuild.3", True))
    assert eks.default_addon(stubbed("eks", "describe_addon_versions", described), "1.36", "vpc-cni") == "v1.22.4-eksbuild.3"
    parameter = {"Parameter": {"Value": "1.36.4-20261012"}}
    assert eks.recommended(stubbed("ssm", "get_parameter", parameter), "1.36") == "1.36.4-20261012"


Ask = Callable[[Web], object]
NEWEST: Ask = runners
LAST: Ask = lambda found: github.last_day(found, "orgs/acme", "2.338.0")  # noqa: E731
IMAGE: Ask = lambda found: registry.tagged(found, "ghcr.io/x/y", "1.0")  # noqa: E731
CHART: Ask = lambda found: registry.indexed(found, "https://charts.example.com", "tool", "1.2.4")  # noqa: E731
PRICE: Ask = lambda found: prices.on_demand(found, "us-west-2", ["g4dn.xlarge"])  # noqa: E731
PULL = "/ghcr.io/v2/x/y/manifests/1.0"


@pytest.mark.parametrize(
    ("ask", "path", "answer", "reason"),
    [
        (NEWEST, RELEASES, (404, {}), "api.github.com answers 404 to /repos/actions/runner/releases"),
        (NEWEST, RELEASES, (200, "<html>"), "an answer is not JSON"),
        (NEWEST, RELEASES, (200, "[" * 100_000), "an answer is not JSON"),
        (NEWEST, RELEASES, (200, {"message": "?"}), "an answer is refused: : Input should be a valid list"),
        (NEWEST, RELEASES, (200, [release("v2.339.0\n[images]")]), "an answer is refused: 0.tag_name"),
        (NEWEST, RELEASES, (200, [release('v2"; rm')]), "an answer is refused: 0.tag_name"),
        (NEWEST, RELEASES, (200, [release("v2.339.0", "yesterday")]), "an answer is refused: 0.published_at"),
        (NEWEST, RELEASES, (302, "", {"Location": "http://example.com/x"}), "redirects to an address that is not https"),
        (NEWEST, RELEASES, (302, "", {"Location": "ftp://example.com/x"}), "redirects to an address that is not https"),
        (LAST, END, (403, {}), "answers 403 to /orgs/acme/actions/runners/deprecations/2.338.0"),
        (LAST, END, (200, {"runner_version": "9.9.9"}), "GitHub answers for another version"),
        (LAST, END, (200, {"runner_version": "2.338.0", "runtime_deprecates_at": "soon"}), "refused: runtime_deprecates_at"),
        (IMAGE, PULL, (200, MANIFEST, {"Docker-Content-Digest": "sha256:" + "0" * 64}), "ghcr.io names another digest"),
        (IMAGE, PULL, (200, '{"manifests": 1}'), "an answer is refused: manifests"),
        (IMAGE, PULL, (200, "x" * 4_000_001), "an answer has more than 4,000,000 bytes"),
        (IMAGE, PULL, (401, {}, {"WWW-Authenticate": 'Basic realm="x"'}), "asks for a login that is not anonymous"),
        (IMAGE, PULL, (401, {}, {"WWW-Authenticate": 'Bearer realm="http://10.0.0.1/x"'}), "an address that is not https"),
        (CHART, CHARTS, (200, INDEX.replace("  tool:", "  tools:")), "index.yaml has no chart tool"),
        (CHART, CHARTS, (200, INDEX.replace("version: 1.2.4", "version: 1.2.5")), "index.yaml has no tool 1.2.4"),
        (CHART, CHARTS, (200, INDEX.replace("1" * 64, "1" * 63 + '"')), "the index has no SHA-256 of tool 1.2.4"),
        (CHART, CHARTS, (200, INDEX.replace("2026-08-20T", "soon")), "the index has no day of tool 1.2.4"),
        (PRICE, PRICES, (200, "SKU"), "the price list has no line of columns"),
        (PRICE, PRICES, (200, '"SKU","TermType"\n'), "the price list has no column"),
        (PRICE, PRICES, (200, price_list(row(usd="0"))), "the price list has no price of g4dn.xlarge: '0'"),
        (PRICE, PRICES, (200, price_list(row(usd="nan"))), "the price list has no price of g4dn.xlarge: 'nan'"),
        (PRICE, PRICES, (200, price_list(row(), row(usd="1"))), "two prices of g4dn.xlarge in us-west-2"),
        (PRICE, PRICES, (200, "x" * 200_000), "a line is too long"),
    ],
)
def test_an_answer_of_another_form_is_refused_with_one_line(ask: Ask, path: str, answer: tuple[Any, ...], reason: str):
    with serve({path: answer}) as server, pytest.raises(SourceError) as failure:
        ask(web(server, TOKEN))
    assert reason in str(failure.value)
    assert "\n" not in str(failure.value)
    assert TOKEN not in str(failure.value)


@pytest.mark.parametrize(
    ("place", "reason"),
    [("http://127.0.0.1:9", "api.github.com cannot be reached"), ("http://example.com", "an address that is not https")],
)
def test_a_source_that_cannot_be_reached_says_why(place: str, reason: str):
    with pytest.raises(SourceError, match=reason):
        runners(Web(instead={"https://api.github.com": place}))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [(b"what is this\r\n\r\n", "does not answer as HTTP"), (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", "ends early")],
)
def test_an_answer_that_is_not_http_or_ends_early_is_refused(raw: bytes, reason: str):
    with serve_raw(raw) as url, pytest.raises(SourceError, match=reason):
        runners(Web(instead={"https://api.github.com": url}))


@pytest.mark.parametrize(
    ("name", "tag"), [("ghcr.io/x/y", "1 0"), ("ghcr.io/x/y", "../../x"), ("ghcr.io", "1.0"), ("a/../b", "1")]
)
def test_what_is_no_name_of_an_image_is_not_asked_for(name: str, tag: str):
    with pytest.raises(SourceError, match="not the name of an image"):
        registry.tagged(Web(instead={"https://": "http://127.0.0.1:9"}), name, tag)


def test_a_redirect_does_not_carry_the_token():
    with serve({"/elsewhere": (200, [])}) as other:
        with serve({RELEASES: (302, "", {"Location": f"{other.url}/elsewhere"})}) as server:
            assert runners(web(server, TOKEN)) == []
            assert server.headers["Authorization"] == f"Bearer {TOKEN}"
        assert "Authorization" not in other.headers


def test_a_redirect_on_the_same_host_keeps_the_token():
    moved: dict[str, tuple[Any, ...]] = {
        RELEASES: (301, "", {"Location": "{url}/repositories/1/releases"}),
        "/repositories/1/releases": (200, []),
    }
    with serve(moved) as server:
        assert runners(web(server, TOKEN)) == []
        assert [each.get("Authorization") for each in server.sent] == [f"Bearer {TOKEN}"] * 2
        assert len(server.asked) == 2


def test_a_redirect_to_another_name_of_the_host_does_not_carry_the_token():
    with serve({"/elsewhere": (200, [])}) as other:
        url = other.url.replace("127.0.0.1", "localhost")
        with serve({RELEASES: (302, "", {"Location": f"{url}/elsewhere"})}) as server:
            assert runners(web(server, TOKEN)) == []
        assert "Authorization" not in other.headers


@pytest.mark.parametrize(
    ("client", "ask"),
    [
        (
            lambda: stubbed("ssm", "get_parameter", {"Parameter": {"Value": "1.36.4-20261012; rm"}}),
            lambda made: eks.recommended(made, "1.36"),
        ),
        (
            lambda: stubbed("ssm", "get_parameter", {"Parameter": {"Value": "1.35.4-20261012"}}),
            lambda made: eks.recommended(made, "1.36"),
        ),
        (
            lambda: stubbed("eks", "describe_addon_versions", addons(("v1", True))),
            lambda made: eks.default_addon(made, "1.36", "vpc-cni"),
        ),
        (
            lambda: stubbed("eks", "describe_addon_versions", {"addons": []}),
            lambda made: eks.default_addon(made, "1.36", "vpc-cni"),
        ),
        (lambda: stubbed("eks", "describe_cluster_versions", {"clusterVersions": [{}]}), eks.minors),
    ],
)
def test_an_answer_of_aws_of_another_form_is_refused(client: Callable[[], Any], ask: Callable[[Any], object]):
    with pytest.raises(SourceError):
        ask(client())
