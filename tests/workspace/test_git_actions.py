"""Commits, pushes and pull requests in the user's own repository, with real git and a local bare remote."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman.errors import GitActionError, InputError
from dragoman.workspace.commit_diff import describe_changes
from dragoman.workspace.git_actions import commit, push
from dragoman.workspace.git_state import (
    MAX_FILES,
    open_repository,
    parse_remote_url,
    program_for,
    read_state,
    without_password,
)
from dragoman.workspace.pull_request import open_pull_request
from dragoman.workspace.user_git import Stopper
from workspace.repositories import Clone, StandIn, git, only_these_programs


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give git a user without any configuration."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


# -- the state


def test_a_clean_branch_with_its_upstream(clone: Clone) -> None:
    state = read_state(clone.repository)
    assert (state.branch, state.upstream, state.ahead, state.behind) == ("main", "origin/main", 0, 0)
    assert (state.files, state.file_count, state.operation, state.is_linked) == ((), 0, None, False)
    assert state.subject == "first"
    assert [(remote.name, remote.url, remote.host) for remote in state.remotes] == [("origin", str(clone.bare), None)]


def test_staged_unstaged_untracked_and_renamed_files(clone: Clone) -> None:
    clone.write("b.txt", "".join(f"{number}\n" for number in range(20)))
    clone.write("c.txt", "c\n")
    clone.git("add", "b.txt", "c.txt")
    clone.git("commit", "--quiet", "-m", "more")
    clone.git("mv", "b.txt", "moved.txt")
    clone.write("a.txt", "changed\n")
    clone.git("add", "a.txt")
    clone.write("a.txt", "changed again\n")
    (clone.root / "c.txt").unlink()
    clone.write("new folder/new.txt", "new\n")
    state = read_state(clone.repository)
    shown = {file.path: (file.staged, file.unstaged, file.is_untracked, file.old_path) for file in state.files}
    assert shown == {
        "a.txt": ("modified", "modified", False, None),
        "c.txt": (None, "deleted", False, None),
        "moved.txt": ("renamed", None, False, "b.txt"),
        "new folder/new.txt": (None, None, True, None),
    }
    assert (state.staged_count, state.unstaged_count, state.untracked_count, state.ahead) == (2, 2, 1, 1)


def test_names_of_any_bytes_are_listed_and_committed(clone: Clone) -> None:
    names = [b"\xff\xfe", b"with\nnewline", b"-option", b":(glob)*", b"a b", "ü".encode()]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(clone.root), name))).write_bytes(b"x")
    state = read_state(clone.repository)
    assert "\\xff\\xfe" in [file.path for file in state.files]
    commit(clone.repository, "one of them", paths=["\\xff\\xfe"])
    assert clone.git("show", "--format=", "--name-only", "-z") == "\\xff\\xfe\0"
    done = commit(clone.repository, "the others", paths=[":(glob)*", "-option", "with\nnewline", "a b", "ü"])
    assert done.file_count == 5
    assert read_state(clone.repository).files == ()


def test_a_detached_head_and_a_branch_without_a_commit(clone: Clone, tmp_path: Path) -> None:
    clone.git("checkout", "--quiet", "--detach")
    state = read_state(clone.repository)
    assert (state.branch, state.upstream) == (None, None)
    assert state.commit == clone.git("rev-parse", "HEAD")
    clone.write("a.txt", "detached\n")
    assert commit(clone.repository, "aside").branch is None
    with pytest.raises(GitActionError, match="on no branch"):
        push(clone.repository)
    unborn = tmp_path / "unborn"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(unborn))
    state = read_state(open_repository(unborn))
    assert (state.branch, state.commit, state.remotes, state.subject) == ("main", None, (), None)
    with pytest.raises(GitActionError, match="no commit yet"):
        push(open_repository(unborn))


def test_conflicts_are_listed_and_not_committed(clone: Clone) -> None:
    clone.git("switch", "--quiet", "-c", "other")
    clone.write("a.txt", "theirs\n")
    clone.git("commit", "--quiet", "-am", "theirs")
    clone.git("switch", "--quiet", "main")
    clone.write("a.txt", "ours\n")
    clone.git("commit", "--quiet", "-am", "ours")
    with pytest.raises(AssertionError):
        clone.git("merge", "other")
    state = read_state(clone.repository)
    assert (state.operation, state.conflict_count) == ("merge", 1)
    assert [(file.path, file.conflict) for file in state.files] == [("a.txt", "both modified")]
    with pytest.raises(GitActionError, match=r"in conflict: a\.txt"):
        commit(clone.repository, "merged")
    clone.write("a.txt", "both\n")
    clone.git("add", "a.txt")
    with pytest.raises(GitActionError, match="in the middle of a merge"):
        commit(clone.repository, "merged", paths=["a.txt"])
    commit(clone.repository, "merged")
    assert len(clone.git("log", "-1", "--format=%P").split()) == 2
    assert read_state(clone.repository).operation is None


def test_a_merge_without_a_difference_is_still_committed(clone: Clone) -> None:
    clone.git("switch", "--quiet", "-c", "other")
    clone.git("commit", "--quiet", "--allow-empty", "-m", "empty")
    clone.git("switch", "--quiet", "main")
    clone.git("merge", "--quiet", "--no-ff", "--no-commit", "other")
    assert commit(clone.repository, "merged").file_count == 0
    assert len(clone.git("log", "-1", "--format=%P").split()) == 2


def test_a_long_list_is_counted_and_not_listed(clone: Clone) -> None:
    for number in range(MAX_FILES + 5):
        clone.write(f"many/{number}", "")
    state = read_state(clone.repository)
    assert (len(state.files), state.file_count, state.untracked_count) == (MAX_FILES, MAX_FILES + 5, MAX_FILES + 5)


def test_reading_the_state_runs_no_program_of_the_repository(clone: Clone, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    clone.write(".gitattributes", "*.txt filter=planted\n")
    for key in ("filter.planted.clean", "filter.planted.process", "core.fsmonitor", "core.sshCommand"):
        clone.git("config", key, f"touch {ran}; cat")
    clone.git("config", "filter.planted.required", "true")
    clone.hook("post-index-change", f"touch {ran}")
    clone.write("a.txt", "b\n")  # of the same size: only a look at the content tells, and that goes through the filter
    os.utime(clone.root / "a.txt", (1, 1))
    index = (clone.root / ".git" / "index").read_bytes()
    state = read_state(clone.repository)
    assert [file.path for file in state.files] == ["a.txt", ".gitattributes"]
    assert not ran.exists()
    assert (clone.root / ".git" / "index").read_bytes() == index


def test_reading_fetches_nothing_in_a_partial_clone(clone: Clone, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    blob = clone.git("rev-parse", "HEAD:a.txt")
    clone.git("config", "core.repositoryFormatVersion", "1")
    clone.git("config", "extensions.partialClone", "origin")
    clone.git("config", "remote.origin.promisor", "true")
    clone.git("config", "remote.origin.uploadpack", f"touch {ran}; git-upload-pack")
    (clone.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    clone.write("a.txt", "changed\n")
    assert [file.path for file in read_state(clone.repository).files] == ["a.txt"]
    with pytest.raises(GitActionError, match="the changes cannot be read"):
        describe_changes(clone.repository)
    assert not ran.exists()
    assert clone.git("cat-file", "blob", blob) == "a"  # as plain git does
    assert ran.exists()


def test_a_submodule_is_not_entered(clone: Clone, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(clone.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(clone.bare), "sub")
    clone.git("commit", "--quiet", "-m", "submodule")
    clone.git("config", "submodule.sub.ignore", "none")
    git(clone.root / "sub", "config", "core.fsmonitor", f"touch {ran}; false")
    (clone.root / "sub" / "a.txt").write_text("changed inside\n")
    clone.write("a.txt", "changed\n")
    assert [file.path for file in read_state(clone.repository).files] == ["a.txt"]
    assert commit(clone.repository, "outside").file_count == 1
    assert not ran.exists()


def test_a_commit_of_a_repository_below_runs_no_filter_of_that(clone: Clone, tmp_path: Path) -> None:
    ran, inner = tmp_path / "ran", clone.root / "inner"
    git(clone.root, "clone", "--quiet", str(clone.bare), "inner")
    git(inner, "config", "user.name", "Ada")
    git(inner, "config", "user.email", "ada@example.org")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    assert commit(clone.repository, "added").file_count == 1
    git(inner, "add", ".gitattributes")
    git(inner, "commit", "--quiet", "-m", "second")
    git(inner, "config", "filter.evil.clean", f"touch {ran}; cat")
    (inner / "a.txt").write_text("changed inside\n")
    assert commit(clone.repository, "moved").file_count == 1
    assert clone.git("rev-parse", "HEAD:inner") == git(inner, "rev-parse", "HEAD")
    assert not ran.exists()


def test_a_folder_below_and_a_linked_work_tree_and_no_repository(clone: Clone, tmp_path: Path) -> None:
    clone.write("sub/b", "b\n")
    state = read_state(open_repository(clone.root / "sub"))
    assert (state.root, [file.path for file in state.files]) == (str(clone.root), ["sub/b"])
    clone.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    state = read_state(open_repository(tmp_path / "side"))
    assert (state.branch, state.is_linked, state.upstream) == ("side", True, None)
    (tmp_path / "plain").mkdir()
    with pytest.raises(GitActionError, match="in no git repository"):
        open_repository(tmp_path / "plain")


# -- commits


def test_all_changes_are_committed_with_the_users_name(clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    clone.write("new", "new\n")
    done = commit(clone.repository, "Change a\n\nAnd add new.\n# not a comment\n")
    assert (done.branch, done.subject, done.file_count) == ("main", "Change a", 2)
    assert clone.git("log", "-1", "--format=%H %an") == f"{done.commit} Ada"
    assert clone.git("log", "-1", "--format=%B").strip() == "Change a\n\nAnd add new.\n# not a comment"
    assert clone.git("status", "--porcelain") == ""


def test_chosen_paths_leave_the_others_as_they_were(clone: Clone) -> None:
    clone.write("staged", "staged\n")
    clone.git("add", "staged")
    clone.write("folder/one", "1\n")
    clone.write("folder/two", "2\n")
    clone.write("a.txt", "changed\n")
    assert commit(clone.repository, "folder", paths=["folder/"]).file_count == 2
    assert clone.git("status", "--porcelain").splitlines() == [" M a.txt", "A  staged"]
    assert commit(clone.repository, "absolute", paths=[str(clone.root / "a.txt")]).file_count == 1
    assert clone.git("show", "--format=", "--name-only") == "a.txt"
    with pytest.raises(InputError, match="nothing differs at 'missing'"):
        commit(clone.repository, "missing", paths=["staged", "missing"])
    with pytest.raises(InputError, match="nothing differs"):
        commit(clone.repository, "outside", paths=["../other"])
    assert clone.git("status", "--porcelain") == "A  staged"


def test_a_renamed_and_a_deleted_file_are_committed_by_their_paths(clone: Clone) -> None:
    clone.write("b.txt", "".join(f"{number}\n" for number in range(20)))
    commit(clone.repository, "b")
    clone.git("mv", "b.txt", "moved.txt")
    (clone.root / "a.txt").unlink()
    commit(clone.repository, "moved", paths=["moved.txt"])
    assert clone.git("show", "--format=", "--name-status", "-M") == "R100\tb.txt\tmoved.txt"
    commit(clone.repository, "deleted", paths=["a.txt"])
    assert clone.git("status", "--porcelain") == ""


def test_only_what_is_staged_is_committed_on_request(clone: Clone) -> None:
    clone.write("staged", "staged\n")
    clone.git("add", "staged")
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "staged", only_staged=True)
    assert clone.git("status", "--porcelain") == " M a.txt"
    with pytest.raises(GitActionError, match="nothing is staged"):
        commit(clone.repository, "again", only_staged=True)


def test_the_first_commit_of_a_branch(clone: Clone, tmp_path: Path) -> None:
    unborn = tmp_path / "unborn"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(unborn))
    (unborn / "one").write_text("1\n")
    (unborn / "two").write_text("2\n")
    with pytest.raises(GitActionError, match="does not know who you are"):
        commit(open_repository(unborn), "first")
    assert git(unborn, "status", "--porcelain") == "?? one\n?? two"
    git(unborn, "config", "user.name", "Ada")
    git(unborn, "config", "user.email", "ada@example.org")
    assert commit(open_repository(unborn), "first", paths=["one"]).file_count == 1
    assert git(unborn, "status", "--porcelain") == "?? two"


def test_nothing_to_commit_is_said(clone: Clone) -> None:
    with pytest.raises(GitActionError, match="nothing to commit"):
        commit(clone.repository, "nothing")


@pytest.mark.parametrize("message", ["", " \n", "a\0b", "\ud800", "x" * 100_001])
def test_a_message_that_git_cannot_take_is_refused(clone: Clone, message: str) -> None:
    clone.write("a.txt", "changed\n")
    with pytest.raises(InputError, match="the commit message"):
        commit(clone.repository, message)


def test_a_message_is_never_an_option(clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    assert commit(clone.repository, "--amend --no-verify").subject == "--amend --no-verify"
    assert clone.git("rev-list", "--count", "HEAD") == "2"


def test_hooks_run_and_one_that_fails_stops_the_commit(clone: Clone) -> None:
    clone.hook("pre-commit", "echo checked; echo 'too long: line 3' >&2; exit 1")
    clone.write("staged", "staged\n")
    clone.git("add", "staged")
    clone.write("a.txt", "changed\n")
    clone.write("new", "new\n")
    with pytest.raises(GitActionError, match="nothing was committed") as caught:
        commit(clone.repository, "refused")
    assert "checked" in caught.value.stderr
    assert "too long: line 3" in caught.value.stderr
    assert clone.git("rev-list", "--count", "HEAD") == "1"
    assert clone.git("status", "--porcelain").splitlines() == [" M a.txt", "A  staged", "?? new"]
    clone.hook("pre-commit", "echo all is well")
    done = commit(clone.repository, "accepted")
    assert "all is well" in done.output


def test_a_hook_gets_gits_own_defaults(clone: Clone) -> None:
    clone.hook("pre-commit", "git ls-files 'fol*' > seen; env | grep GIT_LITERAL_PATHSPECS >> seen")
    clone.write("folder/one", "1\n")
    commit(clone.repository, "hooked")
    assert (clone.root / "seen").read_text() == "folder/one\nGIT_LITERAL_PATHSPECS=0\n"


def test_a_hook_that_hangs_is_ended_with_its_processes(clone: Clone, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    clone.hook("pre-commit", f"cat {tmp_path / 'never'}")
    clone.write("a.txt", "changed\n")
    with pytest.raises(GitActionError, match="took longer than 1 seconds") as caught:
        commit(clone.repository, "hanging", paths=["a.txt"], timeout_s=1.0)
    assert "hook" in caught.value.guidance
    assert not (clone.root / ".git" / "index.lock").exists()
    assert clone.git("status", "--porcelain") == " M a.txt"
    clone.hook("pre-commit", "true")
    commit(clone.repository, "works again")


def test_a_commit_stands_although_the_hook_after_it_hangs(clone: Clone, tmp_path: Path) -> None:
    for name in ("started", "never"):
        os.mkfifo(tmp_path / name)
    clone.hook("post-commit", f"echo now > {tmp_path / 'started'}; cat {tmp_path / 'never'}")
    clone.write("a.txt", "changed\n")
    stopper = Stopper()

    def stop_when_started() -> None:
        (tmp_path / "started").read_text()
        stopper.stop()

    thread = threading.Thread(target=stop_when_started)
    thread.start()
    done = commit(clone.repository, "made", stopper=stopper)
    thread.join()
    assert clone.git("log", "-1", "--format=%H %s") == f"{done.commit} made"


def test_a_signature_that_fails_is_named(clone: Clone, tmp_path: Path) -> None:
    clone.git("config", "commit.gpgsign", "true")
    clone.git("config", "gpg.program", "false")
    clone.write("a.txt", "changed\n")
    with pytest.raises(GitActionError, match="could not be signed"):
        commit(clone.repository, "signed")
    signer = tmp_path / "signer"
    signer.write_text(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    signer.chmod(0o755)
    clone.git("config", "gpg.program", str(signer))
    commit(clone.repository, "signed")
    assert "gpgsig -----BEGIN PGP SIGNATURE-----" in clone.git("cat-file", "commit", "HEAD")


# -- pushes


def test_a_push_reaches_the_remote(clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    made = commit(clone.repository, "pushed")
    done = push(clone.repository)
    assert (done.remote, done.branch, done.commit, done.is_new) == ("origin", "main", made.commit, False)
    assert git(clone.bare, "rev-parse", "main") == made.commit
    assert push(clone.repository).is_up_to_date


def test_a_new_branch_is_pushed_under_its_name_and_followed(clone: Clone) -> None:
    clone.git("switch", "--quiet", "-c", "feature/x")
    done = push(clone.repository)
    assert (done.is_new, done.upstream) == (True, "origin/feature/x")
    assert read_state(clone.repository).upstream == "origin/feature/x"
    clone.git("switch", "--quiet", "-c", "other")
    assert push(clone.repository, set_upstream=False).upstream is None
    assert read_state(clone.repository).upstream is None


def test_a_push_is_never_forced(clone: Clone) -> None:
    clone.push_from_elsewhere()
    theirs = git(clone.bare, "rev-parse", "main")
    clone.git("config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "mine")
    with pytest.raises(GitActionError, match="has commits on main that are not here") as caught:
        push(clone.repository)
    assert "git pull --rebase origin main" in caught.value.guidance
    assert git(clone.bare, "rev-parse", "main") == theirs


def test_a_branch_that_follows_another_name_is_not_pushed_there(clone: Clone) -> None:
    clone.git("switch", "--quiet", "-c", "feature", "--track", "origin/main")
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "feature")
    with pytest.raises(GitActionError, match="follows origin/main"):
        push(clone.repository)
    done = push(clone.repository, set_upstream=True)
    assert done.upstream == "origin/feature"
    assert git(clone.bare, "rev-parse", "feature") == done.commit
    assert git(clone.bare, "rev-parse", "main") != done.commit


def test_what_the_remote_and_hooks_refuse_is_shown(clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "refused")
    clone.hook("pre-receive", "echo 'the branch is protected' >&2; exit 1", folder=clone.bare / "hooks")
    with pytest.raises(GitActionError, match="origin rejected main") as caught:
        push(clone.repository)
    assert "the branch is protected" in caught.value.stderr
    clone.hook("pre-push", "echo 'tests fail'; exit 1")
    with pytest.raises(GitActionError, match="git push failed") as caught:
        push(clone.repository)
    assert "tests fail" in caught.value.stderr


def test_no_remote_several_remotes_and_one_by_name(clone: Clone, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", str(tmp_path / "second.git"))
    clone.git("remote", "add", "second", str(tmp_path / "second.git"))
    assert push(clone.repository, "second").is_new
    assert read_state(clone.repository).upstream == "origin/main"
    with pytest.raises(InputError, match="no remote 'third'"):
        push(clone.repository, "third")
    with pytest.raises(InputError, match="no remote"):
        push(clone.repository, str(tmp_path / "second.git"))
    clone.git("switch", "--quiet", "-c", "new")
    clone.git("remote", "rename", "origin", "first")
    with pytest.raises(GitActionError, match="several remotes: first, second"):
        push(clone.repository)
    clone.git("config", "remote.pushDefault", "second")
    assert push(clone.repository).remote == "second"
    for name in ("first", "second"):
        clone.git("remote", "remove", name)
    with pytest.raises(GitActionError, match="has no remote"):
        push(clone.repository)


def test_a_password_is_never_asked_for(clone: Clone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    script = tmp_path / "askpass"
    script.write_text(f"#!/bin/sh\ntouch {mark}\necho secret\n")
    script.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(script))
    helper = tmp_path / "git-remote-locked"
    helper.write_text('#!/bin/sh\nprintf "protocol=https\\nhost=locked.example\\n\\n" | git credential fill\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    clone.git("config", "protocol.locked.allow", "always")
    clone.git("remote", "set-url", "origin", "locked::there")
    with pytest.raises(GitActionError, match="did not let you in") as caught:
        push(clone.repository)
    assert "credential helper" in caught.value.guidance
    assert not mark.exists()


# -- pull requests


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return only_these_programs(tmp_path, monkeypatch)


@pytest.fixture
def feature(clone: Clone, programs: Path) -> Clone:
    """A pushed branch `feature` whose remote is on GitHub, and its pushes go to the local folder."""
    clone.git("remote", "set-url", "origin", "https://github.com/ada/engine.git")
    clone.git("remote", "set-url", "--push", "origin", str(clone.bare))
    clone.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    clone.git("switch", "--quiet", "-c", "feature")
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "Add retries")
    push(clone.repository)
    return clone


def test_gh_opens_a_pull_request(feature: Clone, programs: Path) -> None:
    gh = StandIn(programs, "gh")
    gh.answer(create={"stdout": "https://github.com/ada/engine/pull/7\n", "stderr": "Creating pull request\n"})
    title, body = "--web; $(touch x)", "--body\n`code` \N{SNOWMAN}"
    done = open_pull_request(feature.repository, title, body, base="main", draft=True)
    assert (done.url, done.is_new, done.program) == ("https://github.com/ada/engine/pull/7", True, "gh")
    listing, creation = gh.calls()
    assert listing["args"][:4] == ["pr", "list", "--repo=github.com/ada/engine", "--head=feature"]  # type: ignore[index]
    assert creation["args"] == [
        *("pr", "create", "--repo=github.com/ada/engine", "--head=feature", f"--title={title}"),
        *("--body-file=-", "--base=main", "--draft"),
    ]
    assert creation["stdin"] == body
    assert (creation["cwd"], creation["prompt"]) == (str(feature.root), "1")
    assert read_state(feature.repository).program == "gh"
    assert read_state(feature.repository).default_branch == "main"


def test_the_title_is_that_of_the_last_commit(feature: Clone, programs: Path) -> None:
    gh = StandIn(programs, "gh")
    assert open_pull_request(feature.repository).title == "Add retries"
    assert "--title=Add retries" in gh.calls()[1]["args"]  # type: ignore[operator]


def test_a_pull_request_that_is_open_is_found(feature: Clone, programs: Path) -> None:
    gh = StandIn(programs, "gh")
    found = '[{"url": "https://github.com/ada/engine/pull/7", "title": "Old", "baseRefName": "main"}]'
    gh.answer(list={"stdout": found})
    done = open_pull_request(feature.repository, "New")
    assert (done.url, done.title, done.base, done.is_new) == (
        "https://github.com/ada/engine/pull/7",
        "Old",
        "main",
        False,
    )
    assert len(gh.calls()) == 1


def test_glab_opens_a_merge_request(feature: Clone, programs: Path) -> None:
    feature.git("remote", "set-url", "origin", "git@gitlab.example.org:group/sub/engine.git")
    glab = StandIn(programs, "glab")
    glab.answer(
        create={"stdout": "!3 Add (feature)\n https://gitlab.example.org/group/sub/engine/-/merge_requests/3\n"}
    )
    done = open_pull_request(feature.repository, "-t", "-d", base="main", draft=True)
    assert done.url == "https://gitlab.example.org/group/sub/engine/-/merge_requests/3"
    assert glab.calls()[1]["args"] == [
        *("mr", "create", "--repo=https://gitlab.example.org/group/sub/engine", "--source-branch=feature"),
        *("--title=-t", "--description=-d", "--target-branch=main", "--draft", "--yes"),
    ]
    open_pull_request(feature.repository, "-t", "-")
    assert "--description=-\n" in glab.calls()[-1]["args"]  # type: ignore[operator]
    glab.answer(list={"stdout": '[{"web_url": "https://gitlab.example.org/x", "title": "Old"}]'})
    assert not open_pull_request(feature.repository, "again").is_new


def test_without_the_program_it_says_what_to_install_and_where_to_go(feature: Clone) -> None:
    with pytest.raises(GitActionError, match="gh is not installed") as caught:
        open_pull_request(feature.repository, "Title")
    assert "https://cli.github.com" in caught.value.guidance
    assert "https://github.com/ada/engine/compare/main...feature?expand=1" in caught.value.guidance
    assert read_state(feature.repository).program is None
    feature.git("remote", "set-url", "origin", "https://gitlab.com/ada/engine")
    with pytest.raises(GitActionError, match="glab is not installed") as caught:
        open_pull_request(feature.repository, "Title", base="dev")
    assert (
        "https://gitlab.com/ada/engine/-/merge_requests/new?merge_request%5Bsource_branch%5D=feature"
        "&merge_request%5Btarget_branch%5D=dev" in caught.value.guidance
    )


def test_a_branch_must_be_pushed_first_and_not_be_the_base(feature: Clone, programs: Path) -> None:
    StandIn(programs, "gh")
    feature.write("a.txt", "again\n")
    commit(feature.repository, "again")
    with pytest.raises(GitActionError, match="differs from origin/feature"):
        open_pull_request(feature.repository, "Title")
    feature.git("switch", "--quiet", "-c", "unpushed")
    with pytest.raises(GitActionError, match="was not pushed to origin"):
        open_pull_request(feature.repository, "Title")
    feature.git("switch", "--quiet", "main")
    with pytest.raises(GitActionError, match="main is the branch that it would go to"):
        open_pull_request(feature.repository, "Title")


def test_errors_of_the_programs_are_shown(feature: Clone, programs: Path) -> None:
    gh = StandIn(programs, "gh")
    gh.answer(list={"stderr": "To get started with GitHub CLI, please run:  gh auth login\n", "code": 4})
    with pytest.raises(GitActionError, match=r"gh is not logged in to github\.com") as caught:
        open_pull_request(feature.repository, "Title")
    assert "gh auth login --hostname github.com" in caught.value.guidance
    gh.answer(list={"stdout": "[]"}, create={"stderr": "No commits between main and feature\n", "code": 1})
    with pytest.raises(GitActionError, match="gh pr create failed") as caught:
        open_pull_request(feature.repository, "Title")
    assert "No commits between" in caught.value.stderr
    gh.answer(create={"stdout": "done\n"})
    with pytest.raises(GitActionError, match="but not where"):
        open_pull_request(feature.repository, "Title")


@pytest.mark.parametrize(
    ("title", "body", "base"),
    [("", "", None), ("a\nb", "", None), ("a", "b\0", None), ("a", "x" * 60_001, None), ("a", "", "-x"), ("a", "", "")],
)
def test_texts_that_a_pull_request_cannot_have_are_refused(
    feature: Clone, programs: Path, title: str, body: str, base: str | None
) -> None:
    gh = StandIn(programs, "gh")
    with pytest.raises(InputError):
        open_pull_request(feature.repository, title, body, base=base)
    assert gh.calls() == []


def test_a_remote_on_another_host_needs_the_name_of_the_program(feature: Clone, programs: Path, tmp_path: Path) -> None:
    gh = StandIn(programs, "gh")
    feature.git("remote", "set-url", "origin", "https://code.example.org/ada/engine")
    with pytest.raises(GitActionError, match="neither on GitHub nor on GitLab"):
        open_pull_request(feature.repository, "Title")
    assert open_pull_request(feature.repository, "Title", program="gh").is_new
    hosts = tmp_path / "home" / ".config" / "gh" / "hosts.yml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text("github.com:\n    user: ada\ncode.example.org:\n    user: ada\n")
    assert open_pull_request(feature.repository, "Title").is_new
    assert "--repo=code.example.org/ada/engine" in gh.calls()[-1]["args"]  # type: ignore[operator]


# -- addresses


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://github.com/ada/engine.git", "github.com", "ada/engine"),
        ("https://ada:secret@GitHub.com:443/ada/engine/", "github.com", "ada/engine"),
        ("git@github.com:ada/engine.git", "github.com", "ada/engine"),
        ("ssh://git@github.com:22/ada/engine.git", "github.com", "ada/engine"),
        ("file:///srv/engine.git", None, ""),
        ("/srv/engine.git", None, ""),
        ("../engine", None, ""),
        ("C:\\engine", None, ""),
        ("https://[broken", None, ""),
    ],
)
def test_the_host_and_path_of_an_address(url: str, host: str | None, path: str) -> None:
    assert parse_remote_url(url) == (host, path)


def test_a_password_in_an_address_is_not_shown(clone: Clone) -> None:
    assert without_password("https://ada:secret@github.com/x") == "https://github.com/x"
    assert without_password("https://token@github.com/x") == "https://github.com/x"
    assert without_password("ssh://git@github.com/x") == "ssh://git@github.com/x"
    assert without_password("git@github.com:x") == "git@github.com:x"
    clone.git("remote", "set-url", "origin", "https://ada:secret@github.com/x")
    state = read_state(clone.repository)
    assert [(remote.url, remote.host, remote.program) for remote in state.remotes] == [
        ("https://github.com/x", "github.com", "gh")
    ]
    assert program_for("gitlab.example.org") == "glab"
