"""Each adapter against the package that it is for; a test says which one is missing here.

The trials are real ones on the CPU, at `quick`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cuassay_adapters.stages import Stage

pytestmark = pytest.mark.slow

_MODEL = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0

batch_size = 16
dim = 64

def get_inputs():
    return [torch.randn(batch_size, dim)]

def get_init_inputs():
    return []
"""
_NEW = """import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, {double}, torch.zeros_like(x))
"""


def _needs(name: str, package: str) -> Any:
    return pytest.importorskip(name, reason=f"{package} is not installed", exc_type=ImportError)


@pytest.mark.parametrize(
    ("double", "compiled", "correct"),
    [("x + x", True, True), ("x + 1.9 * x", True, False), ("x +", False, False)],
)
def test_kernelbench(double: str, compiled: bool, correct: bool) -> None:
    from cuassay_adapters import kernelbench

    found = kernelbench.eval_kernel_against_ref(
        _MODEL, _NEW.format(double=double), num_correct_trials=5, device="cpu"
    )
    assert (found.compiled, found.correctness) == (compiled, correct)
    assert ("compilation_error" in found.metadata) is (not compiled)
    assert ("correctness_issue" in found.metadata) is (compiled and not correct)
    assert (found.runtime, found.metadata["device"]) == (-1.0, "cpu")
    json.dumps(found.metadata)


def test_kernelbench_has_the_same_signature_and_result() -> None:
    theirs = _needs("kernelbench.eval", "kernelbench")
    from inspect import Parameter, signature

    from cuassay_adapters import kernelbench

    ours = signature(kernelbench.eval_kernel_against_ref).parameters
    expected = signature(theirs.eval_kernel_against_ref).parameters
    added = [name for name, one in ours.items() if one.kind is Parameter.KEYWORD_ONLY]
    assert [name for name in ours if name not in added] == list(expected)
    same = set(kernelbench.KernelExecResult.model_fields)
    assert same == set(theirs.KernelExecResult.model_fields)
    found = kernelbench.eval_kernel_against_ref(_MODEL, "class ModelNew(:\n", device="cpu")
    assert isinstance(found, theirs.KernelExecResult)


_SOLUTION = """import torch

def run(x, weight):
    wide = x.float()
    rows = wide.pow(2).mean(-1, keepdim=True)
    return {result}
"""
_RIGHT = "(wide * torch.rsqrt(rows + 1e-6) * weight.float()).to(x.dtype)"


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (_RIGHT, "PASSED"),
        (_RIGHT.replace(" * weight.float()", ""), "INCORRECT_NUMERICAL"),
        ("x[:, 1:]", "INCORRECT_SHAPE"),
        ("x[99999]", "RUNTIME_ERROR"),
    ],
)
def test_flashinfer_bench(
    result: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _needs("flashinfer_bench.bench.evaluators", "flashinfer-bench")
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    import torch
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.evaluators import registry
    from flashinfer_bench.compile import BuilderRegistry
    from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile

    from cuassay_adapters import flashinfer_bench

    definition = Definition(
        name="scaled_norm",
        op_type="rmsnorm",
        axes={"rows": {"type": "var"}, "hidden": {"type": "const", "value": 64}},
        inputs={
            "x": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
            "weight": {"shape": ["hidden"], "dtype": "bfloat16"},
        },
        outputs={"y": {"shape": ["rows", "hidden"], "dtype": "bfloat16"}},
        reference=_SOLUTION.format(result=_RIGHT),
    )
    solution = Solution(
        name="candidate",
        definition="scaled_norm",
        author="test",
        spec=BuildSpec(
            language="python",
            target_hardware=["cpu"],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=_SOLUTION.format(result=result))],
    )
    built = BuilderRegistry.get_instance().build(definition, solution)
    inputs = [[torch.randn(8, 64).bfloat16(), torch.randn(64).bfloat16()]]
    monkeypatch.setattr(registry, "_EVALUATORS", list(registry._EVALUATORS))
    flashinfer_bench.register()
    evaluator = registry.resolve_evaluator(definition)
    assert evaluator is flashinfer_bench.CuassayEvaluator
    correctness, evaluation = evaluator.check_correctness(
        definition=definition,
        sol_runnable=built,
        inputs=inputs,
        ref_outputs=[],
        cfg=BenchmarkConfig(log_dir=str(tmp_path)),
        log_path=str(tmp_path / "log"),
        device="cpu",
    )
    if status == "PASSED":
        assert evaluation is None  # it is timed next, by the benchmark
        assert correctness is not None
        assert correctness.extra["cuassay"]["verdict"] == "ACCEPTED"
    else:
        assert evaluation is not None
        assert evaluation.status.value == status
        assert "cuassay: REJECTED" in evaluation.log


def test_backendbench(tmp_path: Path) -> None:
    _needs("BackendBench.eval", "BackendBench")
    from BackendBench.backends.directory import DirectoryBackend
    from BackendBench.suite.smoke import SmokeTestSuite

    from cuassay_adapters.backendbench import judge_suite

    folder = tmp_path / "relu__default"
    folder.mkdir()
    file = folder / "relu__default_implementation_v1.py"
    text = "import torch\n\ndef relu__default_kernel_impl(x):\n    return {}\n"
    for body, correct in (("torch.where(x > 0, x, 0.0)", True), ("x.clamp(0, 6)", False)):
        # The wrong one is BackendBench's own test's equal: no normal number there is above 6.
        file.write_text(text.format(body))
        backend = DirectoryBackend(str(tmp_path))
        (row,) = judge_suite(SmokeTestSuite, backend, device="cpu")
        assert (row.op_name, row.is_correct) == ("relu.default", correct), row.error_msg


def test_openenv() -> None:
    _needs("openenv.core.rubrics", "openenv")
    from cuassay_adapters.openenv import KernelEnvironment

    example: Any = importlib.import_module("examples.reward_openenv")
    with closing(KernelEnvironment("rmsnorm", shaped=True, device="cpu")) as environment:
        kernels = [example.FORGETS_THE_WEIGHT, example.RIGHT]
        seen = list(example.episode(environment, kernels))
    assert [one.stage for one in seen] == ["wrong", "accepted"]
    assert [one.done for one in seen] == [False, True]
    assert 0 < seen[0].reward < seen[1].reward == 1.0
    told = seen[0].model_dump(exclude={"reward", "done", "metadata", "task"})
    assert told == {"stage": "wrong"}  # no input, seed or limit


def test_verifiers() -> None:
    vf: Any = _needs("verifiers.v1", "verifiers")
    example: Any = importlib.import_module("examples.reward_verifiers")
    config = vf.TasksetConfig(id="kernels")
    first = next(iter(example.Kernels(config)))
    assert first.data.problem == "rmsnorm"
    kernels = importlib.import_module("examples.reward_openenv")
    for source, stage in ((kernels.FORGETS_THE_WEIGHT, Stage.WRONG), ("", Stage.NOTHING)):
        trace = _trace(vf, first, f"```python\n{source}\n```" if source else "I cannot.")
        asyncio.run(first.score(trace))
        assert trace.info == {"cuassay_stage": stage.value}
        assert trace.rewards["kernel"].score == pytest.approx(0.1 if source else 0.0)


def _trace(vf: Any, task: Any, reply: str) -> Any:
    info = vf.AgentInfo.model_construct(config=None)
    return vf.Trace.model_construct(
        task=vf.TraceTask.model_construct(type="KernelTask", data=task.data),
        agent=info,
        id="trace",
        nodes=[],
        info={},
        rewards={},
        metrics={},
        root_reply=reply,
    )


@pytest.mark.filterwarnings("ignore")  # of transformers and trl, about each other
def test_trl(tmp_path: Path) -> None:
    _needs("trl", "trl")
    transformers: Any = _needs("transformers", "transformers")
    tokenizers: Any = _needs("tokenizers", "tokenizers")
    from cuassay_adapters.reward import KernelReward

    example: Any = importlib.import_module("examples.reward_trl")
    words = {word: number for number, word in enumerate(("[PAD]", "[EOS]", "[UNK]", "a", "b"))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]"
    )
    shape = transformers.GPT2Config(
        vocab_size=5,
        n_positions=128,
        n_embd=8,
        n_layer=1,
        n_head=1,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    with KernelReward(shaped=True, device="cpu") as reward:
        trained = example.trainer(
            transformers.GPT2LMHeadModel(shape),
            reward,
            processing_class=tokenizer,
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=4,
            max_steps=1,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
        )
        trained.train()
        logged = {key for entry in trained.state.log_history for key in entry}
        assert "rewards/cuassay_shaped/mean" in logged
        kernels = importlib.import_module("examples.reward_openenv")
        replies = [f"```python\n{kernels.FORGETS_THE_WEIGHT}```", "no kernel"]
        assert reward(["p"] * 2, replies, problem=["rmsnorm"] * 2) == [0.1, 0.0]
