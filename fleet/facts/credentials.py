"""The patterns of credentials in a text, and functions that show a text without them.

Standard library only, because the published policy pack contains this module. Sources: GitHub, "Token formats"
(docs.github.com, About authentication to GitHub); AWS, "Unique identifiers" (IAM reference); RFC 7468 (PEM), RFC 7519 (JWT),
RFC 3986 section 3.2.1 (userinfo of a URL); the prefixes of other vendors' tokens as in gitleaks (config/gitleaks.toml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HIDDEN = "***"
"""The replacement for a credential."""

GITHUB_TOKEN = "gh[pousr]_"  # noqa: S105 - a prefix
GITHUB_FINE_GRAINED_TOKEN = "github_pat_"  # noqa: S105 - a prefix
AWS_KEY_ID = "(?:AKIA|ASIA)[A-Z0-9]{16}"
PRIVATE_KEY = "-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY-----"

# In a quoted text a line break is \n, whose letter is not part of the next word.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_PEM_TEXT = r"[A-Za-z0-9+/=\s\\:,.-]*"
# A user and a colon. A number after the colon would be a port.
_USER = r"[^/?#\s@:\"'<>]*:(?![0-9]{1,5}(?:[/?#]|$))"


@dataclass(frozen=True, slots=True)
class _Form:
    """One form of credential. Every text with it contains `mark` in lower case. The group `head` of `pattern` may be shown."""

    mark: str
    pattern: re.Pattern[str]


def _form(mark: str, body: str, head: str = "") -> _Form:
    return _Form(mark, re.compile(f"(?P<head>{head}){body}"))


_CERTAIN = (
    # The pattern includes the text of the key. A key that was cut has no last line.
    _form(
        "private key",
        rf"(?:-{{1,5}})?BEGIN (?:[A-Z0-9]{{1,16}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_PEM_TEXT}?-----END [A-Z0-9 ]{{0,60}}PRIVATE KEY(?: BLOCK)?-----|{_PEM_TEXT})",
    ),
    _form("gh", rf"{GITHUB_TOKEN}[A-Za-z0-9]{{16}}[\w.-]*"),
    _form("github_pat_", rf"{GITHUB_FINE_GRAINED_TOKEN}\w{{16,}}"),
    _form("akia", AWS_KEY_ID),
    _form("asia", AWS_KEY_ID),
    _form("hf_", rf"{_EDGE}hf_[A-Za-z0-9]{{16,}}"),
    _form("nvapi-", r"nvapi-[\w-]{16,}"),
    _form("pul-", rf"{_EDGE}pul-[0-9a-f]{{16,}}"),
    _form("sk-", rf"{_EDGE}sk-[\w-]{{16,}}"),
    _form("glpat-", r"glpat-[\w-]{16,}"),
    _form("xox", r"xox[a-z]-[\w-]{10,}"),
    _form("xapp-", r"xapp-[\w-]{10,}"),
    _form("hooks.slack.com/", r"[\w/]+", "hooks[.]slack[.]com/(?:services|workflows)/"),
    _form("aiza", r"AIza[\w-]{30,}"),
    _form("gocspx-", r"GOCSPX-[\w-]{16,}"),
    _form("ya29.", rf"{_EDGE}ya29\.[\w-]{{16,}}"),
    _form("age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{16,}"),
    _form("://", rf"{_USER}[^/\s@]+(?=@)", "://"),
)
"""Forms that only credentials have."""

_LIKELY = (
    # Everything before the host, up to the last @. The next form is a password with a slash, which is not valid in a URL.
    _form("://", r"(?!git@)[^/?#\s\"'<>]+(?=@)", "://"),
    _form("://", rf"{_USER}[^\s@\"'<>]{{1,100}}(?=@)", "://"),
    _form("gh", rf"{GITHUB_TOKEN}\w{{4,}}", _EDGE),
    _form("github_pat_", rf"{GITHUB_FINE_GRAINED_TOKEN}\w+"),
    # A JWT, and other JSON in base64, such as the configuration of a just-in-time runner.
    _form("eyj", r"eyJ[\w+/.-]{16,}={0,2}", _EDGE),
    _form("ls0tls1crudjti", r"LS0tLS1CRUdJTi(?:[A-Za-z0-9+/=]|\s|\\[nrt])*"),
    _form("mii", r"MII[A-Za-z][A-Za-z0-9+/]{40,}={0,2}"),
    _form("bearer", r"[\w.~+/=-]*[0-9][\w.~+/=-]*", r"(?i:bearer)\s+(?=[\w.~+/=-]{8})"),
    _form("authorization", r"[\w.~+/=-]{8,}", r"(?i:authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|token)\s+)"),
    _form("key", r"[A-Za-z0-9/+]{16,}", r"(?i:secret_?access_?key[\"']?\s*[:=]\s*[\"']?)"),
    _form("=", r"[^&\s\"'#;]+", r"[?&](?i:[\w-]*(?:token|secret|password|signature|sig))="),
    # A pre-authenticated request of OCI's Object Storage.
    _form("/p/", r"[\w-]{20,}(?=/n/)", "/p/"),
    # An AWS secret access key: 40 characters of all three kinds. A hexadecimal hash does not have all three.
    _form(
        "",
        r"(?=[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))(?=[^a-z]{0,39}[a-z])(?=[^A-Z]{0,39}[A-Z])(?=[^0-9]{0,39}[0-9]).{40}",
        r"(?:(?<![A-Za-z0-9/+])|(?<=\\[nrt]))",
    ),
)
"""Forms that other texts may have too. Hiding one of those does no harm."""


def mask(text: str) -> str:
    """The text with `***` for every credential. Mask a text before you cut it: half a credential may match no pattern."""
    lower = text.lower()
    for form in (*_CERTAIN, *_LIKELY):
        if form.mark in lower:
            text = form.pattern.sub(rf"\g<head>{HIDDEN}", text)
    return text


def masked(value: Any) -> Any:
    """Plain data with every text masked, including keys."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {masked(key): masked(entry) for key, entry in value.items()}
    return [masked(entry) for entry in value] if isinstance(value, list | tuple) else value


def holds_credential(text: str) -> bool:
    """Whether a text contains one of the forms that only credentials have."""
    lower = text.lower()
    return any(form.mark in lower and form.pattern.search(text) for form in _CERTAIN)
