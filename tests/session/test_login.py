"""Logging in, on agents in memory and as real programs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import AuthenticationRequired, InputError, RequestFailed, StartError
from dragoman.host.question.question import Question
from dragoman.session.capabilities import LoginMethod
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.login import Login, login
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent
from dragoman.wire.connection import RpcRefusal

TIMEOUT_S = 30.0
"""Seconds until a test gives up waiting: far more than anything here takes."""

WAYS = [{"id": "browser", "name": "In the browser"}, {"id": "key", "name": "A key"}]
ALL: dict[str, Any] = {"auth": {"logout": {}}, "sessionCapabilities": {"close": {}, "delete": {}}}


class Vendor:
    """The store of logins that all processes of the agent share. `keeps`: the next process knows of a login too."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.logged_in = False
        self.keeps = keeps
        self.agents: list[ScriptedAgent] = []

    def runtime(self, spec: AgentSpec, **options: Any) -> AgentRuntime:
        agent = ScriptedAgent(
            initialize={"authMethods": WAYS},
            capabilities=ALL,
            answers={
                "authenticate": self.authenticate,
                "logout": self.logout,
                "session/new": self.new,
                "session/close": {},
                "session/delete": {},
            },
        )
        self.agents.append(agent)
        return AgentRuntime(spec, launch=in_memory(agent.main), **options)

    async def authenticate(self, request: ReceivedRequest) -> object:
        if request.params["methodId"] != "browser":
            raise RpcRefusal(-32603, "the key is wrong")
        self.logged_in = self.keeps
        return {}

    async def logout(self, request: ReceivedRequest) -> object:
        self.logged_in = False
        return {}

    async def new(self, request: ReceivedRequest) -> object:
        if not self.logged_in:
            raise RpcRefusal(-32000, "Authentication required")
        assert os.listdir(request.params["cwd"]) == []
        return {"sessionId": "s1"}

    def heard(self, number: int) -> list[str]:
        return [request.method for request in self.agents[number].heard]


def method(doing: Login, id: str) -> LoginMethod:
    return next(method for method in doing.methods if method.id == id)


SPEC = AgentSpec(command=["memory"], name="Memory")


async def test_a_login_counts_when_a_new_process_opens_a_session() -> None:
    vendor = Vendor()
    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime) as doing:
        assert [way.id for way in doing.methods] == ["browser", "key"]
        with pytest.raises(AuthenticationRequired):
            await doing.verify()
        await doing.carry_out(method(doing, "browser"))
        await doing.verify()
    assert vendor.heard(0) == ["initialize", "authenticate"]
    # And nothing is left of what was only to be seen.
    assert vendor.heard(2) == ["initialize", "session/new", "session/close", "session/delete"]
    folder = vendor.agents[2].all_heard("session/new")[0].params["cwd"]
    with pytest.raises(FileNotFoundError):
        os.stat(folder)


async def test_the_agents_own_claim_does_not_count_as_a_login() -> None:
    vendor = Vendor(keeps=False)
    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime) as doing:
        await doing.carry_out(method(doing, "browser"))
        with pytest.raises(AuthenticationRequired):
            await doing.verify()


async def test_a_login_that_fails_reports_the_agents_reason() -> None:
    vendor = Vendor()
    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime) as doing:
        with pytest.raises(RequestFailed, match="the key is wrong"):
            await doing.carry_out(method(doing, "key"))


async def test_logging_out_is_asked_of_the_agent() -> None:
    vendor = Vendor()
    vendor.logged_in = True
    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime) as doing:
        await doing.log_out()
    assert not vendor.logged_in


async def test_the_presets_own_method_is_not_used_before_one_is_chosen() -> None:
    vendor = Vendor()
    spec = AgentSpec(command=["memory"], auth_method="key")
    async with asyncio.timeout(TIMEOUT_S), Login(spec, runtime=vendor.runtime):
        assert vendor.heard(0) == ["initialize"]
        offered_capabilities = vendor.agents[0].heard[0].params["clientCapabilities"]
        assert offered_capabilities["_meta"] == {"terminal-auth": True}


async def test_questions_of_the_agent_during_its_login_are_answered() -> None:
    vendor = Vendor()

    async def authenticate(request: ReceivedRequest) -> object:
        schema = {"type": "object", "properties": {"account": {"type": "string"}}}
        about = {"requestId": request.id, "mode": "form", "message": "Which account?", "requestedSchema": schema}
        answer = await request.agent.request("elicitation/create", about)
        vendor.logged_in = answer == {"action": "accept", "content": {"account": "ada"}}
        return {}

    vendor.authenticate = authenticate  # type: ignore[method-assign]  # this agent's own way
    questions: list[Question] = []

    async def on_question(question: Question) -> dict[str, object]:
        questions.append(question)
        return {"account": "ada"}

    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime, on_question=on_question) as doing:
        await doing.carry_out(method(doing, "browser"))
        await doing.verify()
    assert [(question.message, question.session_id) for question in questions] == [("Which account?", None)]


# -- real programs

AGENT = """
import os, sys
from pathlib import Path
from dragoman.testing.scripted import ScriptedAgent
from dragoman.wire.connection import RpcRefusal

proof = Path(__file__).with_name("logged-in")
if "--login" in sys.argv:
    print("logging in as", os.environ.get("WHO"), flush=True)
    if os.environ.get("WHO") == "nobody":
        sys.exit(3)
    proof.write_text("yes")
    sys.exit(0)

async def new(asked):
    if not proof.exists():
        raise RpcRefusal(-32000, "Authentication required")
    return {"sessionId": "s1"}

WAYS = [
    {"id": "ada", "name": "Ada", "type": "terminal", "args": ["--login"], "env": {"WHO": "ada"}},
    {"id": "nobody", "name": "Nobody", "type": "terminal", "args": ["--login"], "env": {"WHO": "nobody"}},
    {"id": "gone", "name": "Gone", "_meta": {"terminal-auth": {"command": "/nowhere/at-all"}}},
    {"id": "variable", "name": "A key", "type": "env_var", "vars": [{"name": "PROOF_KEY"}], "link": "https://a.example"},
    {"id": "face", "name": "A face", "type": "_face"},
]
agent = ScriptedAgent(initialize={"authMethods": WAYS}, answers={"session/new": new})

if __name__ == "__main__":
    import asyncio
    from dragoman.testing.__main__ import serve
    asyncio.run(serve(agent))
"""


@pytest.fixture
def program(tmp_path: Path) -> AgentSpec:
    file = tmp_path / "agent.py"
    file.write_text(AGENT)
    return AgentSpec(command=[sys.executable, str(file)], name="Program")


async def test_a_terminal_method_runs_the_agents_own_program(
    program: AgentSpec, capfd: pytest.CaptureFixture[str]
) -> None:
    async with asyncio.timeout(TIMEOUT_S), Login(program) as doing:
        await doing.carry_out(method(doing, "ada"))
        assert capfd.readouterr().out == "logging in as ada\n"
        await doing.verify()


async def test_an_agent_whose_command_is_relative_is_found_every_time(
    program: AgentSpec, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(program.command[1]).parent)
    async with asyncio.timeout(TIMEOUT_S), Login(AgentSpec(command=[sys.executable, "agent.py"])) as doing:
        with pytest.raises(AuthenticationRequired):
            await doing.verify()  # the relative command was found: it is the agent that refuses
        await doing.carry_out(method(doing, "ada"))
        assert capfd.readouterr().out == "logging in as ada\n"
        await doing.verify()


async def test_a_terminal_method_that_fails_is_no_login(program: AgentSpec) -> None:
    async with asyncio.timeout(TIMEOUT_S), Login(program) as doing:
        with pytest.raises(AuthenticationRequired, match="the login of Program ended with exit code 3"):
            await doing.carry_out(method(doing, "nobody"))
        with pytest.raises(AuthenticationRequired):
            await doing.verify()


async def test_a_missing_login_program_is_reported(program: AgentSpec) -> None:
    async with asyncio.timeout(TIMEOUT_S), Login(program) as doing:
        with pytest.raises(StartError, match="/nowhere/at-all cannot be started"):
            await doing.carry_out(method(doing, "gone"))


async def test_a_key_that_is_not_set_is_reported_and_never_asked_for(
    program: AgentSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROOF_KEY", raising=False)
    async with asyncio.timeout(TIMEOUT_S), Login(program) as doing:
        with pytest.raises(AuthenticationRequired, match="PROOF_KEY is not set") as failed:
            await doing.carry_out(method(doing, "variable"))
        assert "https://a.example" in failed.value.guidance
        monkeypatch.setenv("PROOF_KEY", "x")
        await doing.carry_out(method(doing, "variable"))


async def test_a_method_of_an_unknown_kind_is_not_tried(program: AgentSpec) -> None:
    async with asyncio.timeout(TIMEOUT_S), Login(program) as doing:
        with pytest.raises(InputError, match="does not know"):
            await doing.carry_out(method(doing, "face"))


async def test_a_login_that_is_given_up_is_taken_back_from_the_agent() -> None:
    lines: list[str] = []
    waiting = asyncio.Event()

    def heard(diagnostic: Diagnostic) -> None:
        lines.append(diagnostic.text)
        waiting.set()

    async def never(request: ReceivedRequest) -> object:
        request.agent.complain("open https://example.org/ and type 1234")
        return await asyncio.Event().wait()

    vendor = Vendor()
    vendor.authenticate = never  # type: ignore[method-assign]  # this agent's own way
    async with asyncio.timeout(TIMEOUT_S), Login(SPEC, runtime=vendor.runtime, on_diagnostic=heard) as doing:
        task = asyncio.create_task(doing.carry_out(method(doing, "browser")))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await vendor.agents[0].hears("$/cancel_request")
    assert lines[0] == "open https://example.org/ and type 1234"


async def test_the_whole_of_it_in_one_call(program: AgentSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="5 ways to log in"):
        await login(program)
    with pytest.raises(InputError, match="needs a terminal"):
        await login(program, "ada")
    monkeypatch.setenv("PROOF_KEY", "x")
    with pytest.raises(AuthenticationRequired):  # the key is there, but no session can be opened with it
        await login(program, "variable")
