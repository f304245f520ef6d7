"""State lost, moved, locked, damaged, without its key: the commands of docs/state.md restore it. They run here, as written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

from tests.builders import ROOT
from tests.docs.markdown import assert_written, fences, section
from tests.engine import aws_server, drills, staging
from tests.engine.cli import STACK_FILE, Cli, Outcome
from tests.engine.drills import Drill
from tests.engine.verdicts import STREAMED, events
from tests.simulated_aws import KEYS

pytestmark = pytest.mark.engine

PAGE = ROOT / "docs" / "state.md"
BUCKET, REGION = "acme-gpu-ci-state", "us-west-2"
OBJECT = f".pulumi/stacks/gpu-ci/{staging.STACK}.json"
KEY_FILE = "app.private-key.pem"
VPC, GROUP = "usw2-network-vpc", "usw2-t4-spot-us-west-2a-nodes"
SETS = {"usw2-gpu-t4", "usw2-gpu-t4-release"}
"""The components that have the App's key as an input."""

_PULUMI = """\
#!/bin/bash
[[ "$1 $2" == "state repair" ]] && set -- "$@" --yes
exec {pulumi} "$@" --non-interactive --color never
"""
_AWS = """\
#!/bin/bash
exec env PYTHONPATH={root} {python} -W ignore -m tests.engine.aws_server "$@"
"""


def blocks(anchor: str) -> list[str]:
    """The shell blocks of a section of the page."""
    return [textwrap.dedent(found[2]) for found in re.finditer(r"^( *)```bash\n(.*?)^ *```", section(PAGE, anchor), re.M | re.S)]


@dataclass
class Site:
    """The stack in a folder at first, its cloud, and S3 and KMS. `ran` has the blocks that ran."""

    drill: Drill
    home: Path
    environment: dict[str, str]
    client: Any
    ran: set[str] = field(default_factory=set)
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def stack_file(self) -> Path:
        return self.drill.cli.folder / STACK_FILE.format(staging.STACK)

    @property
    def state(self) -> Path:
        """The state in the folder."""
        return self.home / "gpu-ci-state" / OBJECT

    def block(self, anchor: str, number: int = 0, **variables: str) -> str:
        """Runs a block of the page with the reader's variables. Raises AssertionError if a command fails."""
        text = blocks(anchor)[number]
        self.ran.add(text)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.drill.cli.folder,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def preview(self) -> set[str]:
        """The logical names of what a preview would change."""
        command = ("preview", "--stack", staging.STACK, "--json", "--suppress-progress")
        outcome = self.drill.cli.having(**STREAMED)(*command)
        assert outcome.status == 0, outcome
        steps = [each["metadata"] for each in events(outcome, "resourcePreEvent")]
        return {each["urn"].rpartition("::")[2] for each in steps if each["op"] not in ("same", "refresh")}

    def refused(self) -> str:
        """What an update says that must change nothing."""
        live = self.drill.cloud.live()
        outcome: Outcome = self.drill.up()
        assert outcome.status != 0
        assert self.drill.cloud.live() == live
        return outcome.text

    def versions(self) -> list[str]:
        """Ids of the state's versions in the bucket, the newest first."""
        return [line.split("\t")[1] for line in self.block("an-older-state").splitlines()]

    def damage(self, change: Any) -> None:
        """Writes the folder's state as `change` makes it of the resources."""
        held = json.loads(self.state.read_text())
        held["checkpoint"]["latest"]["resources"] = change(held["checkpoint"]["latest"]["resources"])
        self.state.write_text(json.dumps(held))

    def without_keys(self, *keys: str) -> None:
        """Deletes keys of the stack file, and its secrets."""
        pattern = "|".join((*keys, "  gpu-ci:githubPrivateKey", "    secure"))
        text = self.stack_file.read_text()
        assert len(re.findall(rf"^(?:{pattern}):", text, re.M)) == len(keys) + 2
        self.stack_file.write_text("".join(line for line in text.splitlines(True) if not re.match(rf"(?:{pattern}):", line)))

    def passphrase(self, text: str) -> None:
        """Sets the passphrase of everything that follows."""
        variables = {"PULUMI_CONFIG_PASSPHRASE": text}
        self.environment |= variables
        self.drill.cli = self.drill.cli.having(**variables)

    def secret(self) -> str:
        """The App's key, as the stack file has it encrypted."""
        return self.drill.cli.ok("config", "get", staging.KEY, "--stack", staging.STACK).out.strip()

    def row(self, what: str, anchor: str, changes: str = "nothing") -> None:
        """Notes a drill for the table of the page: what the section at `anchor` restored, what the preview after it changes."""
        self.rows.append((what, f"[{anchor.replace('-', ' ').replace('kms', 'KMS')}](#{anchor})", changes))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if shutil.which("jq") is None:
        pytest.skip("no jq on PATH, which the page calls")
    base = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch, drills.drill(base / "drill", patch) as drill, aws_server.serve() as address:
        assert drill.up().status == 0
        home = Path(drill.cli.environment["HOME"])
        (home / "state").rename(home / "gpu-ci-state")
        (drill.cli.folder / KEY_FILE).write_text(staging.CLEAR)
        programs = home / "bin"
        programs.mkdir()
        for name, text in (("pulumi", _PULUMI), ("aws", _AWS)):
            script = text.format(pulumi=shutil.which("pulumi"), root=ROOT, python=sys.executable)
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        account = KEYS | {"AWS_ENDPOINT_URL": address, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
        plain = {key: value for key, value in drill.cli.environment.items() if key != "PULUMI_BACKEND_URL"} | account
        drill.cli = Cli(drill.cli.folder, plain)
        path = f"{programs}:{plain['PATH']}"
        for name, value in account.items():
            patch.setenv(name, value)
        drill.cli.ok("login", f"file://{home / 'gpu-ci-state'}")
        drill.cli.ok("preview", "--stack", staging.STACK, "--expect-no-changes", "--suppress-progress")
        reader = {"FOLDER": str(home / "gpu-ci-state"), "PATH": path, "PULUMI_SKIP_CONFIRMATIONS": "true"}
        found = Site(drill, home, plain | reader, boto3.client)
        make_bucket(found)
        make_key(found)
        yield found


def make_bucket(site: Site) -> None:
    s3 = site.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})


def make_key(site: Site) -> str:
    kms = site.client("kms")
    key: str = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/gpu-ci-state", TargetKeyId=key)
    return key


def lose_keys() -> None:
    """Deletes the keys at once, which KMS does after 7 days."""
    get_backend("kms")[DEFAULT_ACCOUNT_ID][REGION].reset()


def test_a_stack_moves_from_a_folder_to_s3_and_its_secrets_to_kms(site: Site) -> None:
    site.block("move-to-another-backend", 0)
    assert "encryptionsalt" not in site.stack_file.read_text()
    site.passphrase("")
    assert site.secret() == staging.CLEAR
    site.row("a stack moves from a folder to S3, its secrets to KMS", "move-to-another-backend")


def test_an_emptied_state_is_restored_from_an_older_version(site: Site) -> None:
    whole = site.versions()[0]
    site.drill.cli.ok("state", "delete", "--stack", staging.STACK, "--all", "--yes")
    assert VPC in site.preview(), "a second fleet"
    site.block("an-older-state", 1, VERSION=whole)
    site.block("import-it")
    site.row("all resources deleted from the state in S3", "an-older-state")


def test_after_an_older_state_pending_lists_what_was_created_since(site: Site) -> None:
    site.drill.lose(f"{GROUP}$")
    site.drill.cli.ok("refresh", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress")
    before = site.versions()[0]
    assert site.drill.up().status == 0
    newest = site.versions()[0]
    site.block("an-older-state", 1, VERSION=before)
    site.drill.cli.ok("stack", "import", "--stack", staging.STACK, "--file", "staging.json")
    (listed,) = site.drill.pending()["pending"]
    assert listed["what"] == "orphan"
    assert GROUP in listed["name"]
    site.block("an-older-state", 1, VERSION=newest)
    site.block("import-it")


def test_a_lost_bucket_is_replaced_from_an_export(site: Site) -> None:
    site.block("back-up")
    bucket = boto3.resource("s3").Bucket(BUCKET)
    bucket.object_versions.delete()
    bucket.delete()
    make_bucket(site)
    before = site.stack_file.read_text()
    site.passphrase("another")
    site.drill.cli.ok("stack", "init", staging.STACK)
    assert "encryptedkey" not in site.stack_file.read_text(), "the page warns of it"
    site.drill.cli.ok("stack", "rm", staging.STACK, "--yes", "--preserve-config")
    site.passphrase("")
    site.stack_file.write_text(before)
    site.block("the-backend-is-gone")
    assert site.stack_file.read_text() == before
    assert site.drill.orphans() == []
    site.row("the bucket deleted", "the-backend-is-gone")


def test_a_key_that_waits_for_its_deletion_is_saved(site: Site) -> None:
    kms = site.client("kms")
    (alias,) = [each for each in kms.list_aliases()["Aliases"] if each["AliasName"] == "alias/gpu-ci-state"]
    kms.schedule_key_deletion(KeyId=alias["TargetKeyId"], PendingWindowInDays=7)
    site.block("a-lost-passphrase-or-kms-key", 0, KEY=alias["TargetKeyId"])
    assert kms.describe_key(KeyId=alias["TargetKeyId"])["KeyMetadata"]["KeyState"] == "Enabled"


def test_after_a_lost_kms_key_the_stack_goes_on_with_a_new_one(site: Site) -> None:
    lose_keys()
    assert "operation error KMS: Decrypt" in site.refused()
    make_key(site)
    anchor = "a-lost-passphrase-or-kms-key"
    site.block(anchor, 1)
    site.without_keys("secretsprovider", "encryptedkey")
    site.block(anchor, 2)
    site.block(anchor, 3)
    assert site.preview() == set()
    site.row("the KMS key deleted", anchor, "the key of the runner sets, and the output")


def test_a_stack_moves_from_s3_to_a_folder_and_its_secrets_to_a_passphrase(site: Site) -> None:
    shutil.rmtree(site.home / "gpu-ci-state")
    site.passphrase("new")
    site.block("move-to-another-backend", 1)
    lose_keys()
    assert site.secret() == staging.CLEAR
    site.row("a stack moves from S3 to a folder, its secrets to a passphrase", "move-to-another-backend")


def test_after_a_lost_passphrase_the_stack_goes_on_with_a_new_one(site: Site) -> None:
    site.passphrase("third")
    assert "incorrect passphrase" in site.refused()
    anchor = "a-lost-passphrase-or-kms-key"
    site.block(anchor, 1)
    exported = (site.drill.cli.folder / "open.json").read_text()
    assert "ciphertext" not in exported
    assert staging.CLEAR not in exported
    site.without_keys("encryptionsalt")
    site.drill.cli.ok("config", "set", "--stack", staging.STACK, "--secret", staging.KEY, given=staging.CLEAR)
    assert site.preview() == SETS
    site.block(anchor, 3)
    assert site.preview() == set()
    assert '"lost"' not in site.drill.exported()
    site.row("the passphrase lost", anchor, "the key of the runner sets, and the output")


def test_a_lock_of_a_killed_run_is_removed(site: Site) -> None:
    folder = site.home / "gpu-ci-state" / ".pulumi" / "locks" / "organization" / "gpu-ci" / staging.STACK
    folder.mkdir(parents=True, exist_ok=True)
    lock = {"pid": 1, "username": "ann", "hostname": "laptop", "timestamp": "2026-08-21T19:18:00Z"}
    (folder / "left.json").write_text(json.dumps(lock))
    said = site.refused()
    assert "the stack is currently locked by 1 lock(s)" in said
    assert "ann@laptop (pid 1) at 2026-08-21T19:18:00Z" in said
    site.block("a-locked-state")
    assert site.preview() == set()
    site.row("the lock of a killed run", "a-locked-state")


def test_a_wrong_order_is_repaired(site: Site) -> None:
    site.damage(lambda resources: resources[::-1])
    assert "snapshot integrity error" in site.refused()
    site.block("a-damaged-state")
    site.row("resources in a wrong order", "a-damaged-state")


@pytest.mark.parametrize("source", [f"{OBJECT}.bak", "history", "backups"])
def test_a_truncated_state_is_restored_from_each_copy(site: Site, source: str) -> None:
    folder = site.home / "gpu-ci-state"
    site.block("back-up")
    # One more save: the copy before the last save is whole as well.
    site.drill.cli.ok("stack", "import", "--stack", staging.STACK, "--file", "staging.json")
    copies = sorted((folder / ".pulumi" / source / "gpu-ci" / staging.STACK).glob("*[0-9].*json")) or [folder / source]
    newest = [path for path in copies if ".history." not in path.name][-1]
    site.state.write_text(site.state.read_text()[:100_000])
    assert "unexpected end of JSON input" in site.refused()
    site.block("an-older-state", 2, CHECKPOINT=str(newest))
    site.block("import-it")


def test_a_repair_does_not_bring_a_resource_back(site: Site) -> None:
    copy = site.state.with_suffix(".copy")
    shutil.copy(site.state, copy)
    site.damage(lambda resources: [each for each in resources if not each["urn"].endswith(f"::{VPC}")])
    with pytest.raises(AssertionError, match="no changes were expected"):
        site.block("a-damaged-state")
    assert VPC in site.preview()
    site.block("an-older-state", 2, CHECKPOINT=str(copy))
    site.block("import-it")
    site.row("a truncated state, or one without a resource that others need", "an-older-state")


def test_every_block_of_the_page_ran_but_that_of_pulumi_cloud(site: Site) -> None:
    every = {fence.text for fence in fences() if fence.page == PAGE and fence.language == "bash"}
    assert every - site.ran == {*blocks("pulumi-cloud")}
    head = ["| what happened | the steps | what the next preview changes |", "|---|---|---|"]
    assert_written(PAGE, "drill", "\n".join([*head, *(f"| {' | '.join(row)} |" for row in site.rows)]) + "\n")
