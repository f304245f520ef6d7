"""The page of `worth` shows the answers for three histories: not us, undecided, us. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

from typer.testing import CliRunner

from gpu_ci.cli import app
from tests.builders import ROOT
from tests.docs.markdown import assert_written
from tests.offline.worth.histories import SHARED, repository, written


def test_the_page_shows_an_answer_of_each_kind(tmp_path):
    shared = tmp_path / "Pulumi.shared.yaml"
    shared.write_text(SHARED)
    small = ROOT / "examples" / "Pulumi.small.yaml"
    shown = []
    for jobs, stack, file in ((40, "small", small), (3000, "shared", shared), (8000, "shared", shared)):
        history = written(tmp_path / "jobs.json", repository(jobs))
        result = CliRunner().invoke(app, ["worth", history, "--stack", stack, "--file", str(file)])
        assert result.exit_code == 0, "each of the three is an answer"
        shown += [result.stdout.splitlines()[: len(result.stdout.split("\n  ")[0].splitlines())]]
    assert [lines[0].partition(":")[0] for lines in shown] == ["not us", "undecided", "us"]
    text = "\n\n".join("\n".join(line.rstrip() for line in lines) for lines in shown)
    assert_written(ROOT / "docs" / "worth.md", "worth:answers", f"```text\n{text}\n```\n")
