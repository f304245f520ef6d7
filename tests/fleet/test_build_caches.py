"""Build caches: who can read and write one, by evaluating its policy documents; and the bill."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fleet.facts.iam import allows
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.providers.eks.build_caches import ISSUER
from fleet.settings.build_caches import BuildCache
from tests.builders import build_caches, cluster, config, existing_eks
from tests.cases import cases
from tests.day import AS_OF
from tests.fleet.cache_jobs import ACTIONS, Access, Documents, documents, matrix

ACCOUNT, BUCKET, VPC = "111122223333", "example-ccache", "vpc-0a1b2c3d"
FULL, READS, NOTHING = "read list write", "read list", ""
MATRIX = {
    ("push to a write ref, a write workflow", True): FULL,
    ("push to a write ref, a write workflow", False): FULL,
    ("push to a write ref, a write workflow, without TLS", True): NOTHING,
    ("push to a write ref, another workflow", True): READS,
    ("push to another branch", True): READS,
    ("push to another branch", False): NOTHING,
    ("merge queue", True): READS,
    ("tag", True): READS,
    ("pull request in the repository", True): READS,
    ("pull request in the repository", False): READS,
    ("pull request from a fork", True): READS,
    ("pull request from a fork", False): NOTHING,
    ("pull request from a fork of a private repository that gives forks tokens", True): READS,
    ("pull_request_target, another workflow", True): READS,
    ("pull_request_target, a write workflow (never do this)", True): FULL,
    ("another repository", True): READS,
    ("another repository, also a fork by itself", False): NOTHING,
    ("another repository that calls a write workflow", True): READS,
    ("another repository that calls a write workflow", False): NOTHING,
    ("a leaked token for another service", False): NOTHING,
    ("an admin role of the account", False): "read list delete",
}
"""(kind of job, in the cluster's VPC) → what it can do."""


def cache(**changes: Any) -> BuildCache:
    read = load(config(clusters={"usw2": cluster(buildCaches=build_caches(**changes))}))
    found: BuildCache = read.clusters["usw2"].build_caches.buckets[BUCKET]
    return found


def shown(rows: list[Access]) -> dict[tuple[str, bool], str]:
    return {(row.job.what, row.job.inside): " ".join(name for name, can in row.can.items() if can) for row in rows}


def of(settings: BuildCache) -> Documents:
    return documents(ACCOUNT, BUCKET, settings, VPC)


@cases(
    "changes",
    [
        {},
        {"repositories": ["example@1234/app@5678"]},
        {
            "repositories": ["example/app", "example/library"],
            "writeWorkflows": [".github/workflows/build.yml", ".github/workflows/b.yaml"],
        },
        {"writeRefs": ["refs/heads/main", "refs/heads/release/2.0", "refs/tags/v2"]},
    ],
)
def test_a_pull_request_from_a_fork_reads_and_never_writes_what_main_reads(changes: dict[str, Any]) -> None:
    settings = cache(**changes)
    assert shown(matrix(settings, of(settings))) == MATRIX


def test_only_a_write_workflow_of_main_writes() -> None:
    writers = {kind for (kind, _), can in MATRIX.items() if "write" in can}
    assert writers == {"push to a write ref, a write workflow", "pull_request_target, a write workflow (never do this)"}


def mutants(documents: Documents) -> Iterator[tuple[str, Documents]]:
    """The documents of a cache, each with one statement or condition less, or one that is wider."""
    held = {"policy": documents.policy} | {f"trust {right}": each for right, each in documents.trusts.items()}
    held |= {f"permissions {right}": each for right, each in documents.permissions.items()}

    def mutant(where: str, document: dict[str, Any]) -> Documents:
        kind, _, right = where.partition(" ")
        if kind == "policy":
            return replace(documents, policy=document)
        if kind == "trust":
            return replace(documents, trusts={**documents.trusts, right: document})
        return replace(documents, permissions={**documents.permissions, right: document})

    for where, document in held.items():
        for index, statement in enumerate(document["Statement"]):
            less = copy.deepcopy(document)
            del less["Statement"][index]
            yield f"{where}: without statement {index}", mutant(where, less)
            for operator, conditions in statement.get("Condition", {}).items():
                for key in conditions:
                    wide = copy.deepcopy(document)
                    del wide["Statement"][index]["Condition"][operator][key]
                    yield f"{where}: without {key}", mutant(where, wide)
    for right, value in itertools.product(("read", "write"), ("repo:example/*", "*")):
        wide = copy.deepcopy(documents.trusts[right])
        claims = wide["Statement"][0]["Condition"]
        claims["StringLike"] = {f"{ISSUER}:sub": [value]}
        del claims["StringEquals"][f"{ISSUER}:sub"]
        yield f"trust {right}: sub like {value}", mutant(f"trust {right}", wide)
    wide = copy.deepcopy(documents.trusts["write"])
    claims = wide["Statement"][0]["Condition"]["StringEquals"]
    claims[f"{ISSUER}:sub"] = [*claims[f"{ISSUER}:sub"], "repo:example/app:pull_request"]
    claims[f"{ISSUER}:job_workflow_ref"] = [
        *claims[f"{ISSUER}:job_workflow_ref"],
        "example/app/.github/workflows/build.yml@refs/pull/1/merge",
    ]
    yield "trust write: pull requests", mutant("trust write", wide)
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:*"):
        wide = copy.deepcopy(documents.policy)
        wide["Statement"][-1]["Action"] = [*wide["Statement"][-1]["Action"], action]
        if action != "s3:DeleteObject":
            del wide["Statement"][1]
        yield f"policy: the VPC may {action}", mutant("policy", wide)


SETTINGS = cache()
MUTANTS = dict(mutants(of(SETTINGS)))


@cases("name", MUTANTS)
def test_a_document_with_any_condition_less_changes_the_matrix(name: str) -> None:
    assert shown(matrix(SETTINGS, MUTANTS[name])) != MATRIX


def test_every_statement_and_condition_has_a_mutant() -> None:
    assert len(MUTANTS) == 23, sorted(MUTANTS)


def test_no_document_has_a_wildcard_that_a_claim_could_meet() -> None:
    claims = [statement["Condition"] for each in of(SETTINGS).trusts.values() for statement in each["Statement"]]
    assert all(set(each) == {"StringEquals"} for each in claims)


# -- the evaluation ----------------------------------------------------------------------------------------------------


def statement(effect: str = "Allow", **changes: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": effect, "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/*"]} | changes]}


@cases(
    ("policies", "context", "expected"),
    [
        ([], {}, False),
        ([statement()], {}, True),
        ([statement(), statement("Deny")], {}, False),
        ([statement(Action=["s3:get*"])], {}, True),
        ([statement(Action=["s3:Put?bject"])], {}, False),
        ([statement(Resource=["arn:aws:s3:::b"])], {}, False),
        ([statement(Resource=["arn:aws:s3:::b/?/k"])], {}, True),
        ([statement(Resource=["arn:aws:s3:::b/[x]/k"])], {}, False),
        ([statement(Principal="*")], {}, True),
        ([statement(Principal={"AWS": "arn:aws:iam::1:root"})], {}, False),
        ([statement(Condition={"StringEquals": {"k": "v"}})], {}, False),
        ([statement(Condition={"StringEquals": {"k": ["w", "v"]}})], {"k": "v"}, True),
        ([statement(Condition={"StringEquals": {"k": "v", "l": "v"}})], {"k": "v"}, False),
        ([statement(Condition={"StringEquals": {"k": "v*"}})], {"k": "vw"}, False),
        ([statement(Condition={"StringLike": {"k": "v*"}})], {"k": "vw"}, True),
        ([statement(Condition={"StringLike": {"k": "*"}})], {}, False),
        ([statement(Condition={"ArnNotEquals": {"k": "v"}})], {}, True),
        ([statement(Condition={"ArnNotEquals": {"k": "v"}})], {"k": "v"}, False),
        ([statement(Condition={"Bool": {"k": "false"}})], {"k": "false"}, True),
    ],
)
def test_policies_are_evaluated_as_iam_does(policies: list[Any], context: dict[str, str], expected: bool) -> None:
    assert allows(policies, "s3:GetObject", "arn:aws:s3:::b/x/k", context) is expected


def test_an_unknown_operator_is_an_error_and_no_answer() -> None:
    with pytest.raises(ValueError, match="condition operator IpAddress is not known here"):
        allows([statement(Condition={"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}})], "s3:GetObject", "arn:aws:s3:::b/x", {})


def test_the_columns_are_actions_of_s3() -> None:
    assert set(ACTIONS.values()) == {"s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:DeleteObject"}


# -- the bill ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("settings", [cluster, existing_eks])
def test_a_bucket_costs_nothing_idle_and_its_size_at_worst(settings: Any) -> None:
    fleet = load(config(clusters={"usw2": settings(buildCaches=build_caches(size="200Gi"))}))
    (line,) = [line for line in bill(fleet, AS_OF) if line.item == f"build cache {BUCKET}"]
    assert line.what == "S3, 200Gi at worst, without requests"
    assert line.idle.usd == 0
    assert line.worst.usd == pytest.approx(200 * 0.023 / 730, rel=1e-4)


def test_an_existing_network_may_have_no_way_to_s3() -> None:
    subnets = {"us-west-2a": "subnet-0aaaaaaaaaaaaaaa1", "us-west-2b": "subnet-0bbbbbbbbbbbbbbb2"}
    given = {"vpcId": "vpc-0a1b2c3d", "privateSubnets": subnets}
    start = "buildCaches: undeterminable: jobs read without credentials only through a VPC endpoint for S3"

    def remarked(settings: dict[str, Any]) -> bool:
        return any(each.startswith(start) for each in load(config(clusters={"usw2": settings})).clusters["usw2"].remarks)

    assert remarked(cluster(buildCaches=build_caches(), network=given))
    assert remarked(existing_eks(buildCaches=build_caches()))
    assert not remarked(cluster(buildCaches=build_caches()))
    assert not remarked(cluster(network=given))
