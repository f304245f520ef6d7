"""bootstrap/github-app/index.html registers an App that may manage self-hosted runners and nothing else."""

from __future__ import annotations

import re

from tests.bootstrap.builders import FOLDER
from tests.builders import ROOT

FORM = (FOLDER / "github-app" / "index.html").read_text()


def test_the_app_is_private_has_no_webhook_and_one_permission_besides_metadata():
    assert re.search(r"^ +public: false,$", FORM, re.MULTILINE)
    assert re.search(r"^ +hook_attributes: \{ .*active: false \},$", FORM, re.MULTILINE)
    assert 'default_permissions: { metadata: "read", [form.scope.value]: "write" }' in FORM
    assert re.findall(r'<option value="(\w+)">', FORM) == ["organization_self_hosted_runners", "administration"]
    assert re.search(r"^ +default_events: \[\],$", FORM, re.MULTILINE)


def test_the_form_loads_nothing_and_sends_only_to_github():
    assert not re.search(r"\b(src|href)=|import |fetch\(|innerHTML", FORM)
    assert re.findall(r"`(https://[^$`]+)", FORM) == ["https://github.com/organizations/"]


def test_the_code_that_github_sends_back_is_shown_only_if_it_can_be_nothing_else():
    """Anybody may send a link with a code of their own: the page shows it as part of a command."""
    assert "/^[A-Za-z0-9]+$/.test(code" in FORM


def test_the_page_serves_the_folder_of_the_form():
    text = (ROOT / "docs" / "getting-started.md").read_text()
    assert "--bind 127.0.0.1 --directory bootstrap/github-app 8000" in text
    assert 'POST "/app-manifests/$CODE/conversions" > app.json' in text
    assert "app-manifests/${code}/conversions > app.json" in FORM
