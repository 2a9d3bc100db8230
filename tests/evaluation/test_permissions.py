"""`allowed_paths` as patterns."""

from __future__ import annotations

from pathlib import Path

from dragoman.evaluation.attempt import patterns_of
from dragoman.host.policy.effects import resolve_path
from dragoman.host.policy.globs import path_matches
from dragoman.workspace import Workspace


def matches(pattern: str, path: Path, workspace: Path) -> bool:
    return path_matches(pattern, resolve_path(str(path), Workspace(workspace)))


def test_an_allowed_path_includes_everything_below_it_whatever_its_name(tmp_path: Path) -> None:
    for name in ("src", "a*b", "a[bc]d", "what?", "white space", "ünï"):
        (tmp_path / name).mkdir()
        (pattern,) = patterns_of([name], tmp_path)
        assert matches(pattern, tmp_path / name / "deep" / "file", tmp_path), name
        assert matches(pattern, tmp_path / name, tmp_path), name
        assert not matches(pattern, tmp_path / "other" / name / "file", tmp_path), name
        assert not matches(pattern, tmp_path / f"{name}x", tmp_path), name
    assert not matches(patterns_of(["a*b"], tmp_path)[0], tmp_path / "axb", tmp_path)
    assert not matches(patterns_of(["a[bc]d"], tmp_path)[0], tmp_path / "abd", tmp_path)


def test_an_allowed_link_means_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (pattern,) = patterns_of(["link"], tmp_path)
    assert matches(pattern, tmp_path / "real" / "file", tmp_path)
    assert matches(pattern, tmp_path / "link" / "file", tmp_path)
