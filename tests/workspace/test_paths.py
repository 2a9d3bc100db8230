"""`Place`: where a path leads, held open. The attacks on it are in tests/host/test_escapes.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.workspace import OutsideWorkspace, Workspace


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_place_is_known_by_names_that_are_no_links(inside: Path) -> None:
    (inside / "folder").mkdir()
    (inside / "folder" / "file").write_text("text")
    (inside / "to-folder").symlink_to("folder")
    (inside / "to-file").symlink_to(inside / "to-folder" / "file")
    with Workspace(inside).pin(inside / "to-file") as place, place.open() as file:
        assert place.path == inside / "folder" / "file"
        assert file.read() == b"text"


def test_a_place_stays_the_same_while_its_path_becomes_another(inside: Path, tmp_path: Path) -> None:
    (inside / "folder").mkdir()
    (inside / "folder" / "file").write_text("inside")
    (tmp_path / "file").write_text("outside")
    with Workspace(inside).pin(inside / "folder" / "file") as place:
        (inside / "folder").rename(inside / "moved")
        (inside / "folder").symlink_to(tmp_path)
        with place.open() as file:
            assert file.read() == b"inside"
        place.replace(b"written")
    assert (tmp_path / "file").read_text() == "outside"
    assert (inside / "moved" / "file").read_text() == "written"


def test_a_link_that_replaces_the_file_is_an_error_to_read_and_is_replaced_by_a_write(
    inside: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("outside")
    (inside / "file").write_text("inside")
    with Workspace(inside).pin(inside / "file") as place:
        (inside / "file").unlink()
        (inside / "file").symlink_to(tmp_path / "secret")
        with pytest.raises(OSError, match="symbolic link"):
            place.open()
        place.replace(b"written")
    assert (tmp_path / "secret").read_text() == "outside"
    assert not (inside / "file").is_symlink()


def test_a_missing_file_has_a_path_and_is_created_with_its_folders(inside: Path) -> None:
    with Workspace(inside).pin(inside / "a" / "b" / "c") as place:
        assert place.path == inside / "a" / "b" / "c"
        assert place.status() is None
        assert place.is_writable()
        with pytest.raises(FileNotFoundError):
            place.open()
        place.replace(b"text")
        with place.open() as file:
            assert file.read() == b"text"
    assert (inside / "a/b/c").read_text() == "text"


def test_folders_are_created_with_the_umask(inside: Path) -> None:
    before = os.umask(0o027)
    try:
        with Workspace(inside).pin(inside / "a" / "b") as place:
            place.replace(b"text")
    finally:
        os.umask(before)
    assert [(inside / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o750, 0o640]


def test_folders_that_were_created_in_vain_are_removed(inside: Path) -> None:
    (inside / "a").mkdir()
    with Workspace(inside).pin(inside / "a" / "b" / "c" / ("x" * 300)) as place, pytest.raises(OSError):
        place.replace(b"text")
    assert os.listdir(inside) == ["a"]
    assert os.listdir(inside / "a") == []


def test_a_link_that_replaces_a_missing_folder_is_not_followed(inside: Path, tmp_path: Path) -> None:
    with Workspace(inside).pin(inside / "new" / "file") as place:
        (inside / "new").symlink_to(tmp_path)
        with pytest.raises(NotADirectoryError):
            place.replace(b"text")
    assert sorted(os.listdir(tmp_path)) == ["repo"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("{inside}", IsADirectoryError),
        ("{inside}/", IsADirectoryError),
        ("{inside}/file/below", NotADirectoryError),
        ("{inside}/file/below/it", NotADirectoryError),
        ("{inside}/../x", OutsideWorkspace),
        ("{inside}/out", OutsideWorkspace),
        ("{inside}/ring", OutsideWorkspace),
        ("/", OutsideWorkspace),
        ("/missing/x", OutsideWorkspace),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused_and_nothing_stays_open(
    inside: Path, path: str, problem: type[Exception]
) -> None:
    (inside / "file").touch()
    (inside / "out").symlink_to("..")
    (inside / "ring").symlink_to("ring")
    before = descriptors()
    with pytest.raises(problem):
        Workspace(inside).pin(path.format(inside=inside))
    assert descriptors() == before


def test_a_deep_path_needs_few_descriptors(inside: Path) -> None:
    path = inside.joinpath(*["d"] * 200)
    before = descriptors()
    with Workspace(inside).pin(path) as place:
        place.replace(b"text")
        assert descriptors() == before + 1
    assert path.read_text() == "text"
    assert Workspace(inside).resolve(path) == path
    assert descriptors() == before


def test_the_whole_disk_can_be_the_workspace(tmp_path: Path) -> None:
    everything = Workspace("/")
    assert everything.resolve("/") == Path("/")
    (tmp_path / "file").write_text("text")
    with everything.pin(tmp_path / "file") as place, place.open() as file:
        assert file.read() == b"text"
    with pytest.raises(IsADirectoryError):
        everything.pin("/")


NAMES = ["a", "b", "c"]
TARGETS = [
    *NAMES,
    "a/b",
    "../a",
    "..",
    ".",
    "b/../c",
    "/",
    "missing",
    "missing/../a",
    "../../a/b",
    "{top}/repo/a",
    "{top}",
]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/c"]), st.sampled_from(["/", "", *TARGETS]))
    ),
    names=st.lists(st.sampled_from([*NAMES, ".", ""]), min_size=1, max_size=4),
)
def test_a_path_leads_where_the_system_says(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, str]], names: list[str]
) -> None:
    """Any arrangement of folders (`/`), files and links: what is found is what the kernel finds, and inside."""
    top = tmp_path_factory.mktemp("walk")
    inside = top / "repo"
    inside.mkdir()
    for name, what in made:
        new = inside / name
        if os.path.lexists(new) or not new.parent.is_dir():
            continue
        if what == "/":
            new.mkdir()
        elif what:
            new.symlink_to(what.format(top=top))
        else:
            new.write_text(name)
    path = "/".join([str(inside), *names])
    workspace = Workspace(inside)
    try:
        found = workspace.resolve(path)
    except OutsideWorkspace:
        # Nothing that exists inside is refused.
        assert not (os.path.exists(path) and Path(os.path.realpath(path)).is_relative_to(inside))
        return
    assert found.is_relative_to(inside)
    assert found == Path(os.path.realpath(path))
    if os.path.exists(path):
        assert found.samefile(path)
