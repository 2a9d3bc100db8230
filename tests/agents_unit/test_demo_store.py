from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.demo import store as store_module
from dragoman.agents.demo.store import (
    BadCursor,
    SavedSession,
    SessionStore,
    UnreadableSession,
    new_id,
    store_folder,
)


def saved(
    updated_at: str = "2026-01-01T00:00:00Z",
    *,
    cwd: str = "/w",
    session_id: str | None = None,
) -> SavedSession:
    return SavedSession(
        id=session_id or new_id(),
        cwd=cwd,
        updated_at=updated_at,
        mode="code",
        title="Hello",
    )


def test_a_saved_session_is_loaded_as_it_was(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "demo")
    session = msgspec.structs.replace(
        saved(),
        history=[msgspec.Raw(b'{"a":1}')],
        values={"model": "x", "stream": True},
    )
    store.save(session)
    loaded = store.load(session.id)
    assert loaded is not None
    assert loaded.values == session.values
    assert [bytes(raw) for raw in loaded.history] == [b'{"a":1}']


def test_what_was_said_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "demo")
    session = saved()
    store.save(session)
    assert stat.S_IMODE(os.stat(store.home).st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in store.home.iterdir()] == [0o600]


@pytest.mark.parametrize(
    "session_id",
    ["demo-0000000000000000", "../secret", "", "demo-/etc/passwd", "x" * 5000],
)
def test_an_id_that_is_not_saved_or_not_ours_is_not_found(tmp_path: Path, session_id: str) -> None:
    (tmp_path / "secret.json").write_bytes(msgspec.json.encode(saved()))
    store = SessionStore(tmp_path / "demo")
    assert store.load(session_id) is None
    assert not store.delete(session_id)
    assert (tmp_path / "secret.json").exists()


def test_a_deleted_session_is_gone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = saved()
    store.save(session)
    assert store.delete(session.id)
    assert store.load(session.id) is None
    assert store.page(cwd=None, cursor=None, size=5) == ([], None)


def test_a_broken_file_is_said_to_be_broken_and_left_out_of_lists(
    tmp_path: Path,
) -> None:
    store = SessionStore(tmp_path)
    session = saved()
    (tmp_path / f"{session.id}.json").write_bytes(b"{")
    with pytest.raises(UnreadableSession, match=session.id):
        store.load(session.id)
    assert store.page(cwd=None, cursor=None, size=5) == ([], None)


def test_pages_run_from_the_latest_to_the_oldest_without_gap_or_double(
    tmp_path: Path,
) -> None:
    store = SessionStore(tmp_path)
    # Equal times too: the id decides then.
    times = [
        "2026-01-03T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
        "2026-01-02T00:00:00Z",
    ]
    for time in times:
        store.save(saved(time))
    store.save(saved("2026-01-09T00:00:00Z", cwd="/elsewhere"))
    seen, cursor = [], None
    for _ in range(4):
        page, cursor = store.page(cwd="/w", cursor=cursor, size=1)
        seen += page
        store.save(saved("2026-01-10T00:00:00Z"))  # what is saved meanwhile shifts nothing
    assert [head.updated_at for head in seen] == sorted(times, reverse=True)
    assert len({head.id for head in seen}) == 4
    assert cursor is None


def test_a_list_that_fits_its_page_has_no_next(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    for _ in range(2):
        store.save(saved())
    page, cursor = store.page(cwd=None, cursor=None, size=2)
    assert (len(page), cursor) == (2, None)


@pytest.mark.parametrize("cursor", ["", "zz", "00", "nonsense", "ü", "7b7d"])
def test_a_cursor_of_someone_else_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(BadCursor):
        SessionStore(tmp_path).page(cwd=None, cursor=cursor, size=2)


def test_only_the_latest_sessions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_SAVED_SESSIONS", 2)
    store = SessionStore(tmp_path)
    sessions = [saved() for _ in range(4)]
    for age, session in enumerate(sessions):
        store.save(session)
        os.utime(tmp_path / f"{session.id}.json", (age, age))
    store.prune()
    assert [store.load(session.id) is not None for session in sessions] == [
        False,
        False,
        True,
        True,
    ]


def test_sessions_are_saved_where_the_environment_says() -> None:
    assert store_folder({"DRAGOMAN_DEMO_HOME": "/a", "DRAGOMAN_HOME": "/b"}) == Path("/a")
    assert store_folder({"DRAGOMAN_HOME": "/b"}) == Path("/b/demo")
    assert store_folder({}) == Path.home() / ".dragoman" / "demo"
