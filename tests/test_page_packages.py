"""Packages that the page is built with: each is pinned by a digest, and none runs a script when it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attempts import Attempts

LOCK = Path(__file__).parent.parent / "web" / "package-lock.json"


@pytest.mark.attempts("packages")
def test_every_package_is_pinned_by_a_digest_and_has_no_install_script(attempts: Attempts) -> None:
    packages = {name: entry for name, entry in json.loads(LOCK.read_text())["packages"].items() if name}
    assert len(packages) > 50
    attempts.add(len(packages))
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, f"{name} comes from elsewhere than the registry"
        assert not entry.get("hasInstallScript"), name
