"""Posts a report of the root action as one comment at the pull request of the event, and updates it afterwards.

`report.py FILE`: the file holds Markdown. GPU_CI_NAME distinguishes the reports of one pull request. Reads the runner's
GITHUB_API_URL, GITHUB_EVENT_PATH, GITHUB_REPOSITORY and GITHUB_TOKEN. A comment that GitHub refuses is a warning and fails
nothing: the token of a fork's pull request never writes, and the job's summary has the report.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from comment import Api, RefusedError, cut, neutral, posted


def main(path: str) -> str:
    """Post the report; return a line about it."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    if "pull_request" not in event:
        return "::notice title=gpu-ci::this run is for no pull request, so there is no comment"
    marker = f"<!-- gpu-ci {hashlib.sha256(os.environ['GPU_CI_NAME'].encode()).hexdigest()[:16]} -->"
    # Names and labels of the pull request's files are in it.
    body = f"{marker}\n{cut(neutral(Path(path).read_text(encoding='utf-8')))}"
    try:
        api = Api(os.environ["GITHUB_API_URL"], os.environ["GITHUB_TOKEN"])
        return posted(api, os.environ["GITHUB_REPOSITORY"], event["pull_request"]["number"], body, marker)
    except RefusedError as reason:
        return f"::warning title=gpu-ci::no comment: {reason}; give the job the permission pull-requests: write"


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1])}\n")
