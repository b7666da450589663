"""The MCP server: what an agent may ask for, what it is told, and what it may not name."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from cuassay.agents.tools import Tools, power_told
from cuassay.cli.main import main
from cuassay.cli.verbs.serve import _page
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.events import EngineFinished
from cuassay.model.jobs import TrialJob
from cuassay.report import words
from cuassay.store.runs import RunFolder
from cuassay.verifier import Verifier
from tests.support import fake_engine, fake_judge, samples

if TYPE_CHECKING:  # half a second, which collecting the tests of all areas should not cost
    from mcp import Client

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    fake_judge.install(monkeypatch)
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "scale.py").write_text("")
    (tmp_path / "outside.py").write_text("")
    (tmp_path / "rmsnorm").mkdir()  # must not shadow the name of the catalogue
    with Verifier(workers=1, device="cpu", profile="quick") as verifier:
        yield Tools(verifier, problems=[tmp_path / "problems"], rule=_page)


def _with(tools: Tools, use: Callable[[Client], Awaitable[None]]) -> None:
    from mcp import Client

    from cuassay.agents.server import server

    async def run() -> None:
        async with Client(server(tools)) as client:
            await use(client)

    anyio.run(run)


def test_the_tools_are_there_and_described(tools: Tools) -> None:
    async def use(client: Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"check", "explain", "explain_finding", "power", "replay"}
        assert all(tool.description for tool in listed.values())
        assert set(listed["check"].input_schema["required"]) == {"kernel", "problem"}

    _with(tools, use)


def test_check_tells_what_is_wrong(tools: Tools) -> None:
    async def use(client: Client) -> None:
        seen: list[float] = []

        async def progress(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            seen.append(progress)

        found = await client.call_tool(
            "check",
            {"kernel": "# reject\ndef run(x): ...\n", "problem": "softmax"},
            progress_callback=progress,
        )
        told: Any = found.structured_content
        assert (told["verdict"], told["findings"][0]["code"]) == ("REJECTED", "NUM002")
        assert str(samples.SEED) not in str(found)
        assert seen == []  # the stand-in for a judge announces no checks

    _with(tools, use)


def test_explain_power_and_replay(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    power = {"problem": "p", "mutants": 3, "killed_ours": 2, "survivors": [{"words": "SECRET"}],
             "survivors_theirs": [{"words": "no eps"}]}  # fmt: skip
    monkeypatch.setattr("cuassay.engine.run.document", lambda job, progress: power)

    async def use(client: Client) -> None:
        page = await client.call_tool("explain", {"code": "num002"})
        assert "How it decides" in str(page.content)
        found = await client.call_tool("power", {"problem": "softmax"})
        assert found.structured_content == {
            "problem": "p", "profile": None, "mutants": 3, "equivalent": None, "killed_ours": 2,
            "killed_theirs": None, "benchmark_accepts": ["no eps"], "benchmark_accepts_all": 1,
        }  # fmt: skip
        again = await client.call_tool("replay", {"finding": "last/F1"})
        assert again.structured_content is not None
        assert again.structured_content["verdict"] == "REJECTED"

    _with(tools, use)


def test_explain_finding_tells_the_cause_and_the_check(tools: Tools) -> None:
    verdict = samples.told()
    job = TrialJob(problem="embedding", candidate="kernel.py")
    with contextlib.closing(RunFolder.create(job)) as run:
        run.append(EngineFinished(verdict=verdict))
    first = words.identified(verdict)[0]
    told = tools.explain_finding(f"last/{first.id}")
    assert told["finding"]["code"] == first.code
    assert told["diagnoses"][0]["cause"] == samples.diagnosis().cause.value
    assert told["diagnoses"][0]["try"] == samples.diagnosis().remedy
    assert "How it decides" in told["check"]
    assert str(samples.SEED) not in str(told)
    with pytest.raises(UnknownNameError, match="finding"):
        tools.explain_finding("last/F99")


@pytest.mark.parametrize(
    ("tool", "arguments", "part"),
    [
        ("explain", {"code": "NUM02"}, "did you mean 'NUM002'?"),
        ("check", {"kernel": "k.py", "problem": "outside.py"}, "is not allowed here"),
        ("power", {"problem": "os:system"}, "is not allowed here"),
        ("replay", {"finding": "/tmp/evil/F1"}, "is no finding"),
        ("explain_finding", {"finding": "last"}, "is no finding"),
        ("explain_finding", {"finding": "../evil/F1"}, "is no finding"),
        ("explain_finding", {"finding": "last/F1"}, "unknown run"),
    ],
)
def test_a_mistake_is_one_message(
    tool: str, arguments: dict[str, Any], part: str, tools: Tools
) -> None:
    async def use(client: Client) -> None:
        found = await client.call_tool(tool, arguments)
        assert found.is_error
        assert part in str(found.content)
        assert "Traceback" not in str(found.content)

    _with(tools, use)


def test_only_listed_problems_may_be_named(tools: Tools, tmp_path: Path) -> None:
    inside = str(tmp_path / "problems" / "scale.py")
    assert tools.allowed("scale.py") == inside
    assert tools.allowed(inside) == inside
    assert tools.allowed("scale.py:scale") == f"{inside}:scale"
    assert tools.allowed("softmax") == "softmax"
    (tmp_path / "problems" / "link.py").symlink_to(tmp_path / "outside.py")
    for wrong in (
        "../outside.py", "outside.py", str(tmp_path / "outside.py"), "json:loads", "rmsnorm",
        "link.py", "", ".", "/", "a/b", "outside.py:f", str(tmp_path / "problems"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="not allowed here"):
            tools.allowed(wrong)


def test_power_survivors_of_ours_are_not_told() -> None:
    told = power_told({"survivors": [{"words": "x"}], "survivors_theirs": None, "mutants": 1})
    assert "survivors" not in told
    assert told["benchmark_accepts"] == []


def test_a_real_client_over_stdio(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters

    async def run() -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "cuassay", "serve", "--mcp", "--device", "cpu", "--workers", "1"],
            env={
                "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
                "CUASSAY_HOME": str(tmp_path),
                "PATH": os.environ["PATH"],
            },
        )
        async with Client(command) as client:
            page = await client.call_tool("explain", {"code": "NUM001"})
            assert "float64" in str(page.content)
            found = await client.call_tool("check", {"kernel": "no.py", "problem": "rmsnorm"})
            told: Any = found.structured_content
            assert told["verdict"] is None
            assert "no.py" in told["error"]

    anyio.run(run)


def test_mistakes_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--mcp", "--problems", "/no/such/folder"]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_without_the_package_the_install_line_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "cuassay.agents.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["serve", "--mcp"]) == 3
    assert "pip install 'cuassay[mcp]'" in capsys.readouterr().err
