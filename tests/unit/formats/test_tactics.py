"""Kernels held to one tactic: which are listed, and that a call takes the one that is named."""

from __future__ import annotations

import abc
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from cuassay.errors import CandidateError
from cuassay.formats import load_candidate, load_problem, tactics, tactics_beside
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile

hl: Any = None  # helion.language, where it is installed
X = torch.arange(6.0).reshape(2, 3)


def _listed(entry: Any, *arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(tactics_beside.listing(entry)(*arguments).numpy()))
    return found


def _declared(x: Any, tactic: Any = None) -> tuple[str, Any]:
    return "called", tactic


def test_a_function_declares_its_tactics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_declared, "tactics", ["plain", ("split", 4), ("split", 4)], raising=False)
    listed = _listed(_declared, X)
    assert listed == {
        "kind": "tactics",
        "static": True,
        "names": ["plain", "('split', 4)", "('split', 4) #2"],
    }
    assert tactics_beside.pinned(_declared, "('split', 4)")(X) == ("called", ("split", 4))
    monkeypatch.setattr(_declared, "tactics", lambda x: range(x.shape[0]), raising=False)
    assert _listed(_declared, X)["static"] is False
    assert tactics_beside.pinned(_declared, "1")(X) == ("called", 1)
    assert tactics_beside.pinned(_declared, "1")(X[:1]) == ("called", None)  # not valid: default


class _TunableRunner(abc.ABC):
    """The interface of flashinfer.autotuner.TunableRunner 0.7: same names, order and defaults."""

    @abc.abstractmethod
    def get_valid_tactics(self, inputs: list[Any], profile: Any) -> list[Any]:
        return [-1]

    def __call__(self, inputs: list[Any], **kwargs: Any) -> Any:
        return self.forward(inputs, **kwargs)

    @abc.abstractmethod
    def forward(
        self, inputs: list[Any], tactic: Any = -1, do_preparation: bool = False, **kwargs: Any
    ) -> Any: ...


def _runner_of(base: type) -> Any:
    class Runner(base):  # type: ignore[misc]
        seen: list[tuple[Any, bool]]

        def get_valid_tactics(self, inputs: list[Any], profile: Any) -> list[Any]:
            assert tuple(profile.get_opt_shapes()[0]) == tuple(inputs[0].shape)
            return [0, 1] if inputs[0].shape[-1] % 3 == 0 else [0]

        def forward(
            self, inputs: list[Any], tactic: Any = -1, do_preparation: bool = False, **kwargs: Any
        ) -> Any:
            self.seen.append((tactic, do_preparation))
            return inputs[0] + tactic

    runner = Runner()
    runner.seen = []
    return runner


def _check_runner(runner: Any) -> None:
    assert _listed(runner, X, 1e-6) == {
        "kind": "FlashInfer runner",
        "static": False,
        "names": ["0", "1", "-1"],
    }
    held = tactics_beside.pinned(runner, "1")
    assert torch.equal(held(X, 1e-6), X + 1)
    assert runner.seen == [(-1, True), (1, False)]  # prepared once for a size, then called
    assert torch.equal(held(X, 1e-6), X + 1)
    assert runner.seen[2:] == [(1, False)]
    assert torch.equal(held(X[:, :2], 1e-6), X[:, :2] - 1)  # not valid there: the fallback
    assert torch.equal(tactics_beside.pinned(runner, "-1")(X, 1e-6), X - 1)


def test_a_runner_of_flashinfer() -> None:
    _check_runner(_runner_of(_TunableRunner))


def test_a_runner_of_the_real_flashinfer() -> None:
    tuner = pytest.importorskip("flashinfer.autotuner", reason="flashinfer-python is not installed")
    _check_runner(_runner_of(tuner.TunableRunner))
    ours, theirs = (
        inspect.signature(base.forward) for base in (_TunableRunner, tuner.TunableRunner)
    )
    assert list(ours.parameters) == list(theirs.parameters)


def test_configurations_of_a_kernel() -> None:
    class Kernel:
        def __init__(self) -> None:
            self.configs: list[Any] = ["Config(16)", "Config(32)"]

        def bind(self, arguments: Any) -> Any: ...

        def __call__(self, x: Any) -> Any:
            return list(self.configs)

    kernel = Kernel()
    assert _listed(kernel, X)["names"] == ["Config(16)", "Config(32)"]
    held = tactics_beside.pinned(kernel, "Config(32)")
    assert (held(X), held(X)) == (["Config(32)"], ["Config(32)"])


def test_configurations_of_the_real_helion(monkeypatch: pytest.MonkeyPatch) -> None:
    helion = pytest.importorskip("helion", reason="helion is not installed")
    monkeypatch.setenv("HELION_INTERPRET", "1")
    monkeypatch.setitem(globals(), "hl", importlib.import_module("helion.language"))
    configs = [helion.Config(block_sizes=[size]) for size in (16, 32)]
    kernel = helion.kernel(configs=configs)(_helion_body)
    names = _listed(kernel, X)["names"]
    assert len(names) == 2
    held = tactics_beside.pinned(kernel, names[1])
    assert torch.equal(held(X), 2 * X)
    assert kernel.configs == configs[1:]


def _helion_body(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + x[tile]
    return out


class _Tuner:
    """What Triton's autotuner is from outside."""

    def __init__(self, name: str, configs: list[str], prune: Callable[..., Any] | None = None):
        self.base_fn = SimpleNamespace(__name__=name)
        self.configs, self.arg_names = configs, ["x", "n"]
        self.early_config_prune = prune
        self.ran: list[tuple[str, ...]] = []

    def prune_configs(self, named: Any) -> list[str]:
        return self.configs

    def run(self, *given: Any, **named: Any) -> None:
        self.ran.append(tuple(self.configs))


def _with_tuners(monkeypatch: pytest.MonkeyPatch, **found: Any) -> Callable[..., Any]:
    """Return an entry that runs the tuners of a module beside the file that holds a kernel."""
    place = Path(tactics_beside.__file__).with_name("kernel.py")
    module = SimpleNamespace(__file__=str(place), **found)
    monkeypatch.setitem(sys.modules, "kernel_of_the_test", cast(Any, module))

    def entry(x: Any) -> None:
        for value in found.values():
            getattr(value, "fn", value).run(x, x.shape[0])

    return entry


def test_autotuners_are_walked_through_together(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _Tuner("a", ["A0", "A1", "A2"]), _Tuner("b", ["B0", "B1"])
    alone = _Tuner("c", ["C0"])
    heuristics = SimpleNamespace(fn=second)
    entry = _with_tuners(monkeypatch, x=first, y=heuristics, z=alone)
    assert _listed(entry, X)["names"] == ["a: A0; b: B0", "a: A1; b: B1", "a: A2; b: B0"]
    tactics_beside.pinned(entry, "a: A1; b: B1")(X)
    assert (first.ran, second.ran, alone.ran) == ([("A1",)], [("B1",)], [("C0",)])


def test_what_pruning_leaves_out_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def prune(configs: Any, nargs: Any, **named: Any) -> Any:
        return [c for c in configs if c != "A1" or nargs["n"] > 1]

    tuner = _Tuner("a", ["A0", "A1"], prune)
    held = tactics_beside.pinned(_with_tuners(monkeypatch, x=tuner), "a: A1")
    held(X)
    held(X[:1])
    assert tuner.ran == [("A1",), ("A0",)]


def test_a_real_autotuner_takes_the_named_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    from triton.runtime.autotuner import Autotuner

    tuner = object.__new__(Autotuner)
    made = [triton.Config({"BLOCK": size}) for size in (16, 32)]
    ran: list[Any] = []
    tuner.__dict__.update(
        configs=made,
        base_fn=_declared,
        fn=SimpleNamespace(run=lambda *given, **named: ran.append(named["BLOCK"])),
        arg_names=["x"],
        early_config_prune=None,
        pre_hook=lambda *given, **named: None,
        keys=[],
        cache={},
    )
    entry = _with_tuners(monkeypatch, x=SimpleNamespace(fn=None))
    monkeypatch.setattr(tactics_beside, "_autotuners", lambda: [tuner])

    def call(x: Any) -> None:
        tuner[(1,)](x)

    names = _listed(call, X)["names"]
    assert [name.partition(",")[0] for name in names] == [
        "_declared: BLOCK: 16",
        "_declared: BLOCK: 32",
    ]
    tactics_beside.pinned(call, names[1])(X)
    assert ran == [32]
    assert entry is not None


def test_a_kernel_without_tactics() -> None:
    assert _listed(lambda x: x, X) == {"kind": "", "static": True, "names": []}
    with pytest.raises(LookupError, match="no tactics"):
        tactics_beside.pinned(lambda x: x, "one")


def test_a_candidate_is_named_with_its_tactic(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("def run(x, weight, eps, *, tactic=None): return x\n")
    problem = load_problem("rmsnorm")
    plain = load_candidate(f"{tmp_path}/kernel.py", problem)
    held = load_candidate(f"{tmp_path}/kernel.py::run@BLOCK: 64", problem)
    assert held == load_candidate(f"{tmp_path}/kernel.py::@BLOCK: 64", problem)
    assert held.name == "kernel@BLOCK: 64"
    assert (held.entry_function, held.convention) == ("run", plain.convention)
    own = {source.path: source for source in held.sources}
    assert own["kernel.py"] == plain.sources[0]
    assert [s.path for s in held.sources if not s.is_adapter] == ["kernel.py"]
    assert not held.names_triton
    assert tactics.listing(plain).convention is Convention.RETURNS
    namespace: dict[str, Any] = {}
    exec(compile(own["cuassay_tactics.py"].text, "beside", "exec"), namespace)  # travels alone
    assert namespace["pinned"]


def test_only_python_kernels_have_tactics() -> None:
    made = Candidate(
        name="k",
        sources=(SourceFile(path="k.cu", text=""),),
        entry_file="k.cu",
        entry_function="k",
        language=Language.CUDA_KERNEL,
    )
    with pytest.raises(CandidateError, match="only Python kernels have tactics"):
        tactics.pinned(made, "one")
