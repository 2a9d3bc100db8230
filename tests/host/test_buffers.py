"""Unsaved text of an editor is read in place of the file; the editor is notified of writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.host.files import MAX_FILE_BYTES, FileText, WorkspaceFiles, WriteTarget
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace


class Editor:
    def __init__(self) -> None:
        self.unsaved: dict[Path, str] = {}
        self.read_paths: list[Path] = []
        self.written: list[tuple[Path, str]] = []
        self.problem: Exception | None = None

    async def read(self, path: Path) -> str | None:
        self.read_paths.append(path)
        return self.unsaved.get(path)

    async def wrote(self, path: Path, text: str) -> None:
        self.written.append((path, text))
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def editor() -> Editor:
    return Editor()


@pytest.fixture
def files(workspace: Workspace, editor: Editor) -> WorkspaceFiles:
    return WorkspaceFiles(workspace, buffers=editor)


def reading(path: Path | str, line: int | None = None, limit: int | None = None) -> acp.ReadTextFileRequest:
    return acp.ReadTextFileRequest(session_id="a1", path=str(path), line=line, limit=limit)


def writing(path: Path | str, content: str) -> acp.WriteTextFileRequest:
    return acp.WriteTextFileRequest(session_id="a1", path=str(path), content=content)


async def test_what_is_not_saved_is_read_in_place_of_the_file(
    files: WorkspaceFiles, editor: Editor, workspace: Workspace
) -> None:
    path = workspace.cwd / "file.txt"
    path.write_text("on disk")
    assert await files.read(reading(path)) == FileText(path, "on disk")
    editor.unsaved[path] = "one\ntwo\x0bstill two\r\nthree"
    assert await files.read(reading(path)) == FileText(path, "one\ntwo\x0bstill two\r\nthree", unsaved=True)
    assert (await files.read(reading(path, line=2, limit=1))).text == "two\x0bstill two\r\n"
    assert (await files.read(reading(path, line=0, limit=1))).text == "one\n"
    assert (await files.read(reading(path, line=9))).text == ""
    editor.unsaved[path] = ""
    assert (await files.read(reading(path))).text == ""


async def test_a_buffer_may_have_no_file_yet(files: WorkspaceFiles, editor: Editor, workspace: Workspace) -> None:
    path = workspace.cwd / "new" / "file.txt"
    editor.unsaved[path] = "draft"
    assert (await files.read(reading(path))).text == "draft"


async def test_an_editor_is_asked_only_for_resolved_paths_inside_the_workspace(
    files: WorkspaceFiles, editor: Editor, workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.cwd / "file.txt").write_text("on disk")
    (workspace.cwd / "link").symlink_to("file.txt")
    (workspace.cwd / "out").symlink_to(tmp_path / "secret.txt")
    editor.unsaved[tmp_path / "secret.txt"] = "secret"
    await files.read(reading(workspace.cwd / "link"))
    for path in (workspace.cwd / "out", tmp_path / "secret.txt"):
        with pytest.raises(RpcRefusal):
            await files.read(reading(path))
        with pytest.raises(RpcRefusal):
            await files.prepare_write(writing(path, "x"))
    assert editor.read_paths == [workspace.cwd / "file.txt"]


async def test_a_buffer_over_the_limit_is_read_in_parts(
    files: WorkspaceFiles, editor: Editor, workspace: Workspace
) -> None:
    path = workspace.cwd / "big"
    editor.unsaved[path] = "first\n" + "x" * MAX_FILE_BYTES
    with pytest.raises(RpcRefusal, match="`line` and `limit`"):
        await files.read(reading(path))
    assert (await files.read(reading(path, limit=1))).text == "first\n"


async def test_a_write_replaces_what_is_not_saved(files: WorkspaceFiles, editor: Editor, workspace: Workspace) -> None:
    path = workspace.cwd / "file.txt"
    path.write_bytes(b"on disk\r\n")
    editor.unsaved[path] = "typed\n"
    request = writing(path, "new\n")
    target = await files.prepare_write(request)
    assert target == WriteTarget(path, "typed\n", 6)
    await files.write(target.path, request)
    assert path.read_bytes() == b"new\r\n"
    assert editor.written == [(path, "new\r\n")]


async def test_an_editor_that_fails_does_not_undo_the_write(
    files: WorkspaceFiles, editor: Editor, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    path = workspace.cwd / "file.txt"
    editor.problem = RuntimeError("the editor is gone")
    await files.write(path, writing(path, "new"))
    assert path.read_text() == "new"
    assert "the editor could not be notified" in caplog.text


async def test_an_editor_is_not_notified_of_a_failed_write(
    files: WorkspaceFiles, editor: Editor, workspace: Workspace
) -> None:
    path = workspace.cwd / "folder"
    path.mkdir()
    with pytest.raises(RpcRefusal):
        await files.write(path, writing(path, "new"))
    assert editor.written == []


async def test_a_target_tells_what_is_there(workspace: Workspace) -> None:
    files = WorkspaceFiles(workspace)
    path = workspace.cwd / "file.txt"
    assert await files.prepare_write(writing(path, "x")) == WriteTarget(path)
    path.write_bytes(b"\xff\xfe\x00")
    assert await files.prepare_write(writing(path, "x")) == WriteTarget(path, None, 3)
    path.write_text("ü\n")
    (workspace.cwd / "link").symlink_to("file.txt")
    assert await files.prepare_write(writing(workspace.cwd / "link", "x")) == WriteTarget(path, "ü\n", 3)
