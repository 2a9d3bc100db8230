"""`fs/*`: text files inside the workspace. That there is no way out of it is in test_escapes.py."""

# ruff: noqa: ASYNC240 (a few bytes on a local disk, looked at by a test)

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.host import files
from dragoman.host.permission import PermissionRequest
from dragoman.workspace import Workspace

from .conftest import TIMEOUT_S, Agent, Build

LINES = "one\ntwo\r\nthree\n\nfünf"


@pytest.fixture
def agent(agent_with: Build) -> Agent:
    return agent_with(access="full")


@pytest.fixture
def file(workspace: Workspace) -> Path:
    path = workspace.cwd / "file.txt"
    path.write_bytes(LINES.encode())
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("secret")
    return path


async def read(agent: Agent, path: object, **more: Any) -> Any:
    return (await agent.ask("fs/read_text_file", path=str(path), **more))["content"]


async def write(agent: Agent, path: object, content: str = "new\n") -> None:
    assert await agent.ask("fs/write_text_file", path=str(path), content=content) == {}


# -- reading


async def test_a_file_is_read_as_it_is(agent: Agent, file: Path) -> None:
    assert await read(agent, file) == LINES


@pytest.mark.parametrize(
    ("line", "limit", "content"),
    [
        (1, 1, "one\n"),
        (2, 1, "two\r\n"),
        (2, 2, "two\r\nthree\n"),
        (4, None, "\nfünf"),
        (5, 9, "fünf"),
        (None, 2, "one\ntwo\r\n"),
        (0, 1, "one\n"),
        (6, None, ""),
        (99, 5, ""),
        (1, 0, ""),
        (None, None, LINES),
    ],
)
async def test_lines_are_counted_from_one(
    agent: Agent, file: Path, line: int | None, limit: int | None, content: str
) -> None:
    assert await read(agent, file, line=line, limit=limit) == content


@pytest.mark.parametrize("field", ["line", "limit"])
async def test_a_negative_line_is_refused_by_name(agent: Agent, file: Path, field: str) -> None:
    error = await agent.refused("fs/read_text_file", path=str(file), **{field: -1})
    assert (error.code, error.message) == (-32602, f"{field}: is -1; lines are counted from 1")


async def test_a_missing_file_is_not_found(agent: Agent, workspace: Workspace) -> None:
    path = str(workspace.cwd / "missing.txt")
    error = await agent.refused("fs/read_text_file", path=path)
    assert (error.code, error.message, error.data) == (-32002, f"Resource not found: {path}", {"uri": path})


async def test_a_file_that_is_no_text_is_refused_with_the_byte_that_shows_it(
    agent: Agent, workspace: Workspace
) -> None:
    path = workspace.cwd / "image"
    path.write_bytes(b"ok\nfine\n\xff\xfe")
    for more in ({}, {"line": 2}, {"line": 3, "limit": 1}):
        error = await agent.refused("fs/read_text_file", path=str(path), **more)
        assert error.code == -32602
        assert error.message == f"path: {path} is not UTF-8 text: byte 9 of it is 0xff (invalid start byte)"
    assert await read(agent, path, limit=2) == "ok\nfine\n"


async def test_a_byte_order_mark_is_read_as_it_is(agent: Agent, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert await read(agent, file) == "\ufeffone\ntwo\n"
    assert await read(agent, file, line=2) == "two\n"


async def test_a_line_is_not_looked_for_without_end(agent: Agent, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_SEARCH_BYTES", 1024 * 1024)
    os.truncate(file, 1 << 40)  # a terabyte of nothing, which takes no space
    async with asyncio.timeout(TIMEOUT_S):
        error = await agent.refused("fs/read_text_file", path=str(file), line=9)
    assert error.code == -32602
    assert error.message.startswith("line: is not within the first 1048576 bytes")
    assert await read(agent, file, line=3, limit=1) == "three\n"


@pytest.mark.parametrize("end", ["/", "/.", "//"])
async def test_a_path_that_names_a_folder_is_no_files(agent: Agent, file: Path, end: str) -> None:
    for path in (f"{file}{end}", f"{file.parent}/new{end}"):
        for method in ("fs/read_text_file", "fs/write_text_file"):
            error = await agent.refused(method, path=path, content="new")
            assert error.message == f"path: {path} names a folder, not a file"
    assert os.listdir(file.parent) == ["file.txt"]


async def test_dots_and_double_slashes_are_nothing(agent: Agent, file: Path) -> None:
    assert await read(agent, f"//{file.parent}/.//./{file.name}") == LINES


async def test_a_file_over_the_limit_is_read_in_parts(agent: Agent, workspace: Workspace) -> None:
    path = workspace.cwd / "big"
    with path.open("wb") as file:
        file.write(b"first\n" + b"x" * files.MAX_FILE_BYTES + b"\nlast\n")
    error = await agent.refused("fs/read_text_file", path=str(path))
    assert error.code == -32602
    assert "`line` and `limit`" in error.message
    assert await read(agent, path, limit=1) == "first\n"
    assert await read(agent, path, line=3, limit=1) == "last\n"
    assert (await agent.refused("fs/read_text_file", path=str(path), line=2, limit=1)).code == -32602


async def test_only_regular_files_are_read_and_written(
    agent: Agent, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, fifo, link = workspace.cwd / "folder", workspace.cwd / "fifo", workspace.cwd / "null"
    folder.mkdir()
    os.mkfifo(fifo)
    unix = socket.socket(socket.AF_UNIX)
    with unix:
        monkeypatch.chdir(workspace.cwd)
        unix.bind("socket")  # the absolute path may be too long for a socket
        link.symlink_to("/dev/null")
        async with asyncio.timeout(TIMEOUT_S):
            for path in (folder, fifo, workspace.cwd / "socket", link):
                for error in (
                    await agent.refused("fs/read_text_file", path=str(path)),
                    await agent.refused("fs/write_text_file", path=str(path), content=""),
                ):
                    assert error.code == -32602
                    assert str(path) in error.message
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


# -- writing


async def test_a_file_is_created_with_the_folders_above_it(agent: Agent, workspace: Workspace) -> None:
    await write(agent, workspace.cwd / "a" / "b" / "c.txt", "text ü\r\n")
    assert (workspace.cwd / "a/b/c.txt").read_bytes() == "text ü\r\n".encode()


async def test_a_write_keeps_the_mode_and_leaves_nothing_beside_it(agent: Agent, file: Path) -> None:
    file.chmod(0o751)
    await write(agent, file)
    assert file.read_text() == "new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.listdir(file.parent) == ["file.txt"]


async def test_a_new_file_gets_the_usual_mode(agent: Agent, workspace: Workspace) -> None:
    (workspace.cwd / "usual").touch()
    await write(agent, workspace.cwd / "new")
    assert (workspace.cwd / "new").stat().st_mode == (workspace.cwd / "usual").stat().st_mode


async def test_a_hard_links_other_name_keeps_its_content(agent: Agent, workspace: Workspace, secret: Path) -> None:
    os.link(secret, workspace.cwd / "linked.txt")
    await write(agent, workspace.cwd / "linked.txt")
    assert secret.read_text() == "secret"


async def test_a_reader_that_has_the_file_open_keeps_the_old_one(agent: Agent, file: Path) -> None:
    with file.open(newline="") as reader:
        await write(agent, file)
        assert reader.read() == LINES


async def test_a_link_inside_is_written_through(agent: Agent, workspace: Workspace, file: Path) -> None:
    (workspace.cwd / "link").symlink_to("file.txt")
    await write(agent, workspace.cwd / "link")
    assert (workspace.cwd / "link").is_symlink()
    assert file.read_text() == "new\n"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("fchmod", "file.txt"),
        ("fsync", "file.txt"),
        ("replace", "file.txt"),
        ("fsync", "new/folder/file.txt"),
        ("replace", "new/folder/file.txt"),
    ],
)
async def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    agent: Agent, file: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    path = file.parent / name
    error = await agent.refused("fs/write_text_file", path=str(path), content="new")
    assert error.code == -32603
    assert error.message == f"{path}: No space left on device; the old file is unchanged"
    assert file.read_bytes() == LINES.encode()
    assert os.listdir(file.parent) == ["file.txt"]


def test_a_write_that_the_system_ends_halfway_leaves_the_old_file(workspace: Workspace, file: Path) -> None:
    # In a process of its own, which may write no file of more than 64 KiB.
    script = """
import resource, sys
from pathlib import Path
from dragoman.host.files import write_text
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    write_text(Workspace(sys.argv[1]), Path(sys.argv[2]), "x" * 1_000_000)
except RpcRefusal as refusal:
    print(refusal)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(workspace.cwd), str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stdout == f"{file}: File too large; the old file is unchanged\n"
    assert file.read_bytes() == LINES.encode()
    assert os.listdir(file.parent) == ["file.txt"]


async def test_a_read_only_file_stays_as_it_is_also_for_root(agent: Agent, file: Path) -> None:
    file.chmod(0o444)
    error = await agent.refused("fs/write_text_file", path=str(file), content="new")
    assert error.message == f"path: {file} is read-only"
    assert file.read_bytes() == LINES.encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_an_unwritable_folder_is_reported(agent: Agent, file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        error = await agent.refused("fs/write_text_file", path=str(file), content="new")
    finally:
        file.parent.chmod(0o755)
    assert "its folder must be writable" in error.message


async def test_a_reader_sees_the_old_text_or_the_new_one(agent: Agent, file: Path) -> None:
    texts = {letter * 100_000 for letter in "ab"}
    file.write_text("a" * 100_000)
    seen: set[str] = set()
    end = threading.Event()

    def look() -> None:
        while not end.is_set():
            seen.add(file.read_text())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(20):
            for text in texts:
                await write(agent, file, text)
    finally:
        end.set()
        reader.join()
    assert seen <= texts


# -- the file's form


async def test_a_file_with_crlf_throughout_keeps_it(agent_with: Build, file: Path) -> None:
    shown: list[PermissionRequest] = []

    def answer(request: PermissionRequest) -> bool:
        shown.append(request)
        return True

    agent = agent_with(on_permission=answer)
    file.write_bytes(b"one\r\ntwo\r\n")
    await write(agent, file, "one\n2\nthree")
    assert file.read_bytes() == b"one\r\n2\r\nthree"
    [diff] = shown[0].diffs
    assert (diff.old_text, diff.new_text) == ("one\ntwo\n", "one\n2\nthree")


async def test_a_file_keeps_its_byte_order_mark(agent: Agent, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfone\n")
    await write(agent, file, "two\n")
    assert file.read_bytes() == b"\xef\xbb\xbftwo\n"


async def test_a_file_in_the_place_of_a_folder_is_refused(agent: Agent, file: Path) -> None:
    error = await agent.refused("fs/write_text_file", path=str(file / "below"), content="")
    assert error.code == -32602


async def test_content_over_the_limit_is_refused(agent: Agent, file: Path) -> None:
    error = await agent.refused("fs/write_text_file", path=str(file), content="x" * (files.MAX_FILE_BYTES + 1))
    assert error.code == -32602
    assert error.message.startswith("content: has 10485761 bytes")
    assert file.read_bytes() == LINES.encode()


async def test_many_writers_of_one_file_leave_one_of_their_texts(agent: Agent, file: Path) -> None:
    texts = [str(number) * 50_000 for number in range(8)]
    await asyncio.gather(*(write(agent, file, text) for text in texts))
    assert file.read_text() in texts
    assert os.listdir(file.parent) == ["file.txt"]


# -- by which rules


async def test_what_is_off_is_not_offered(agent_with: Build, file: Path) -> None:
    agent = agent_with(access="full", read_files=False, write_files=False)
    for method in ("fs/read_text_file", "fs/write_text_file"):
        error = await agent.refused(method, path=str(file), content="x")
        assert error.code == -32601
        assert method in error.message


async def test_reading_inside_needs_no_question(agent_with: Build, file: Path) -> None:
    agent = agent_with(access="ask")
    assert await read(agent, file) == LINES
    assert agent.decisions == [(1, "rule", "it reads inside the workspace, which is not asked")]


async def test_a_write_is_judged_as_an_edit(agent_with: Build, file: Path, workspace: Workspace) -> None:
    await write(agent_with(access="edit-inside"), file)
    denied = agent_with(access="read-only")
    error = await denied.refused("fs/write_text_file", path=str(file), content="x")
    assert error.code == -32001
    assert error.message == ("fs/write_text_file (Write file.txt) was not allowed: access is read-only: it writes")
    assert denied.decisions == [(1, "rule", "access is read-only: it writes")]
    protected = workspace.cwd / ".git" / "hooks" / "pre-commit"
    assert (
        await agent_with(access="edit-inside").refused("fs/write_text_file", path=str(protected), content="x")
    ).code == -32001
    assert not protected.exists()


async def test_a_write_is_asked_with_its_diff(agent_with: Build, file: Path) -> None:
    seen: list[PermissionRequest] = []

    def answer(request: PermissionRequest) -> bool:
        seen.append(request)
        return True

    agent = agent_with(on_permission=answer)
    await write(agent, file)
    [request] = seen
    assert (request.origin, request.kind, request.title, request.tool_call_id) == (
        "files",
        "edit",
        "Write file.txt",
        None,
    )
    assert request.paths == (str(file),)
    assert [(diff.path, diff.old_text, diff.new_text) for diff in request.diffs] == [(str(file), LINES, "new\n")]
    assert agent.decisions == [(1, "callback", "on_permission allowed it")]


async def test_a_write_that_is_refused_changes_nothing(agent_with: Build, file: Path) -> None:
    error = await agent_with(on_permission=lambda _: False).refused("fs/write_text_file", path=str(file), content="new")
    assert error.code == -32001
    assert file.read_bytes() == LINES.encode()


async def test_nobody_is_asked_about_what_cannot_be_done(agent_with: Build, secret: Path) -> None:
    seen: list[PermissionRequest] = []
    agent = agent_with(on_permission=seen.append)
    await agent.refused("fs/write_text_file", path=str(secret), content="x")
    assert seen == []


async def test_a_binary_file_can_be_replaced_but_is_not_shown(agent_with: Build, file: Path) -> None:
    shown: list[str | None] = []

    def answer(request: PermissionRequest) -> bool:
        shown.extend(diff.old_text for diff in request.diffs)
        return True

    file.write_bytes(b"\xff")
    await write(agent_with(on_permission=answer), file)
    assert shown == [None]
    assert file.read_text() == "new\n"


async def test_cancel_pending_refuses_a_write_that_waits(agent_with: Build, file: Path) -> None:
    was_asked = asyncio.Event()

    async def never(request: PermissionRequest) -> bool:
        was_asked.set()
        await asyncio.Event().wait()
        return True

    agent = agent_with(on_permission=never)
    async with asyncio.timeout(TIMEOUT_S):
        writing = asyncio.create_task(agent.refused("fs/write_text_file", path=str(file), content="x"))
        await was_asked.wait()
        agent.host.cancel_pending()
        assert (await writing).code == -32800
    assert file.read_bytes() == LINES.encode()


async def test_a_link_that_is_swapped_in_while_a_person_thinks_gains_nothing(
    agent_with: Build, workspace: Workspace, file: Path, secret: Path
) -> None:
    def swap(request: PermissionRequest) -> bool:
        file.unlink()
        file.symlink_to(secret)
        return True

    error = await agent_with(on_permission=swap).refused("fs/write_text_file", path=str(file), content="x")
    assert error.code == -32602
    assert secret.read_text() == "secret"


async def test_a_link_that_is_swapped_in_to_another_place_inside_gains_nothing(
    agent_with: Build, workspace: Workspace, file: Path
) -> None:
    hook = workspace.cwd / ".git" / "hook"
    hook.parent.mkdir()
    hook.write_text("safe")

    def swap(request: PermissionRequest) -> bool:
        file.unlink()
        file.symlink_to(hook)
        return True

    error = await agent_with(on_permission=swap).refused("fs/write_text_file", path=str(file), content="x")
    assert "leads to another file" in error.message
    assert hook.read_text() == "safe"


@pytest.mark.parametrize(
    ("params", "named"),
    [({}, "path"), ({"path": 5}, "path"), ({"path": "/x"}, "content"), ({"path": "/x", "content": 5}, "content")],
)
async def test_malformed_params_are_refused_by_the_fields_name(agent: Agent, params: Any, named: str) -> None:
    error = await agent.refused("fs/write_text_file", **params)
    assert error.code == -32602
    assert named in error.message
