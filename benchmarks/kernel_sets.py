"""Sets of kernels that nobody here wrote, read from local copies and packed for a run.

A set is a function that yields `Kernel`s; to add one, write the function and name it in SETS.
`pack` copies sources, problems and the index below one folder, and a run then needs that folder
alone. Packed folders belong below build/ or outside the repository: sources are never committed.

Where a set has numbered tasks, only those of even number are read, of kernelbench.com the runs with
an even time stamp: the odd half measures cuassay later. Local copies, below one folder: sol
(problems, runs), cuda-l1 (h100-even.jsonl), cudabeaver, kernelbench, reference-kernels,
KernelBenchFiltered, KernelBenchLeaderboard, kernelbench.com, kernelbench-runs (a fork of
KernelBench with runs of three models), agents-vs-compile, TritonBench.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

# A launch keyword of AMD's Triton, which NVIDIA's refuses: a hint for speed, without effect here.
_AMD_ONLY = re.compile(
    r"(?:,\s*)?\b(?:waves_per_eu|matrix_instr_nonkdim|kpack)\s*=\s*\d+|"
    r"(?:,\s*)?[\"'](?:waves_per_eu|matrix_instr_nonkdim|kpack)[\"']\s*:\s*\d+"
)
LANGUAGES = ("cuda", "triton", "triton+cuda", "torch")
_AGENT_LINE = re.compile(r"agent name:\s*(.+?)\s+speedup:")
_RUN_NAME = re.compile(
    r"\d{8}_(?P<stamp>\d{6})_(?P<model>.+)_(?P<task>\d\d_[a-z0-9_]+)_solution\.py\.txt"
)
# Files that a solution loads, which kernelbench.com publishes behind its text.
_SIDECAR = re.compile(
    r"^# =+\n# =+ sidecar: (?P<name>[\w.]+) \(\d+ bytes, [^\n]*\n# =+\n+", re.MULTILINE
)
_PROBLEM_FILES = ("definition.json", "workload.jsonl", "reference.py")
# Problems of GPU MODE whose formats or hardware no NVIDIA GPU of one host has.
_NOT_HERE = ("amd", "amd_202602", "amd_distributed", "nvidia")
# What tells of the GPU of an evaluation rather than of the kernel.
_OF_ITS_GPU = re.compile("out of memory|no kernel image")
# A module as CUDA-L1's evaluation compares it.
_EVALUATING = """

import functools as _functools

_built = {name}.__init__


@_functools.wraps(_built)
def _evaluating(self, *given, **named):
    _built(self, *given, **named)
    self.eval()


{name}.__init__ = _evaluating
"""
# A function `run` as KernelBench has modules, and the inputs that the harness of a task makes.
_MODULE = """

class {name}(torch.nn.Module):
    def forward(self, *inputs):
        return run(*inputs)
"""
_AGENTS_INPUTS = {
    "swiglu": """

def get_inputs():
    return [torch.randn(1, 512, 6144, dtype=torch.bfloat16) for _ in range(2)]
""",
    "rmsnorm": """

batch, length = 1, 512


def get_inputs():
    x = torch.randn(batch, length, 2048, dtype=torch.bfloat16)
    residual = torch.randn(length, 2048, dtype=torch.bfloat16)
    return [x, residual, (torch.randn(2048) * 0.1 + 1.0).to(torch.bfloat16)]
""",
    "sdpa_prelude": """

batch, length = 1, 512


def get_inputs():
    hidden = torch.randn(batch, length, 2048, dtype=torch.bfloat16)
    weights = [(torch.randn(n, 2048) * 0.02).to(torch.bfloat16) for n in (2048, 1024, 1024)]
    norms = [(torch.randn(128) * 0.1 + 1.0).to(torch.bfloat16) for _ in range(2)]
    inv_freq = 1.0 / (1_000_000.0 ** (torch.arange(0, 128, 2, dtype=torch.float32) / 128))
    positions = torch.arange(length, dtype=torch.int64).expand(batch, length).contiguous()
    attended = torch.ones(batch, length, dtype=torch.int64)
    return [hidden, *weights, *norms, inv_freq, positions, attended]
""",
}
# The functions of TritonBench's files, or ours that call them as a problem has it.
_TRITONBENCH = {
    "add_example": "add_wrapper",
    "bmm_chunk_fwd": "def entry(a, b):\n    return _bmm_chunk_fwd(a, b, 32)\n",
    "chunk_cumsum_kernel": "chunk_global_cumsum_scalar",
    "cosine_compute": "cos",
    "dequantize_rowwise": "dequantize_rowwise",
    "embedding_triton_kernel": """def entry(ids, weight):
    out = torch.zeros(ids.shape[0], weight.shape[1], device=weight.device)
    embedding(ids, weight, 0, weight.shape[0], out)
    return out
""",
    "fast_rms_layernorm": """def entry(x, weight):
    return Fast_RMS_Layernorm.apply(x, weight, 1e-5)
""",
    "fused_activation": "fused_add_mul_activation_torch",
    "int8_quantization": "def entry(k):\n    return per_block_int8(k, k)[2:]\n",
    "isfinite_kernel": """def entry(x):
    return isfinite_func_wrapper_rank_1(x, out0=torch.empty_like(x, dtype=torch.bool))
""",
    "kldiv_ops": """def entry(predicted, target):
    return kldiv_forward_triton(predicted, target, False, "batchmean", 1e-10)
""",
    "ksoftmax_triton": """def entry(x):
    y = torch.empty_like(x)
    softmax(y, x)
    return y
""",
    "l2_norm_triton1": "_l2_norm_fwd",
    "layer_norm_welfold": """def entry(weight, bias, x):
    return fused_native_layer_norm_no_welford(weight, bias, x)[0]
""",
    "log_softmax": "log_softmax",
    "matmul_triton2": "triton_matmul",
    "matrix_vector_multip": "mv",
    "mean_reduction": "def entry(x):\n    return mean_dim(x, 1)\n",
    "quant_transpose_kernel": "quantize_global_transpose",
    "quantize_global": "quantize_global",
    "relu_strided_buffer": """def entry(x):
    return relu_forward_wrapper_rank_1(x, out0=torch.empty_like(x))
""",
    "reversed_cumsum": "chunk_global_reversed_cumsum_vector",
    "rmsnorm_fused_llama": "def entry(x, weight):\n    return rmsnorm_forward(x, weight, 1e-5)\n",
    "rmsnorm_triton": "rmsnorm_triton_wrapper",
    "rope_embedding": """def entry(q, cos, sin):
    return _rope_embedding_forward_impl(q, cos, sin)[0]
""",
    "rotary_transform": "apply_rotary",
    "rowwise_quantization_triton": "quantize_rowwise",
    "sin_kernel": "call_kernel",
    "softmax_optimize": "softmax",
    "softmax_triton1": "softmax",
    "softmax_triton3": "softmax",
    "square_matrix": "square",
    "swiglu_backward": "_swiglu_bwd",
    "swiglu_triton": "def entry(a, b):\n    return swiglu_forward(a, b)[2]\n",
    "triton_argmax": "def entry(x):\n    return argmax(x, -1)\n",
    "triton_conv2d_fwd": """def entry(x, weight):
    return conv2d_forward(x, weight, 3, 3, 1, 1, 0, 0, 1, tf32=False)
""",
    "triton_matmul": "matmul",
    "triton_softmax": "triton_softmax",
    "vector_addition_custom": "custom_add",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One published kernel with what is published about it.

    `label` is `wrong`, `conditions` (of use), `correct` or empty; `codes` are the label's own
    words for what is wrong. `theirs` says whether the publisher's own test accepts the kernel,
    None where nobody says. `kind` is `generated` (by a model), `reference` (a problem's own
    reference as the candidate) or `example` (written by the benchmark's makers). `digest` is the
    SHA-256 of the source as published. `path` and `problem` are files or folders, below the packed
    folder once packed.
    """

    set: str
    name: str
    path: str
    problem: str
    operator: str = ""
    kind: str = "generated"
    label: str = ""
    codes: tuple[str, ...] = ()
    language: str = ""
    model: str = ""
    theirs: bool | None = None
    digest: str = ""

    @property
    def key(self) -> str:
        """What identifies the kernel in a journal."""
        return f"{self.set}/{self.name}"


def language_of(text: str) -> str:
    """Return what a source is written in: cuda, triton, triton+cuda or torch."""
    cuda, triton = "__global__" in text, "@triton.jit" in text or "@jit" in text
    if cuda:
        return "triton+cuda" if triton else "cuda"
    return "triton" if triton else "torch"


def digest_of(texts: Iterable[str]) -> str:
    """Return the SHA-256 of sources, in order, as published."""
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode() + b"\0")
    return found.hexdigest()


def sol(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """SOL-ExecBench: every candidate of a public solver, with the labels of those that have one."""
    rows = json.loads(labels.read_text(encoding="utf-8")) if labels else []
    labeled = {(row["problem"], row["candidate"]): row for row in rows}
    for file in sorted((sets / "sol" / "runs").glob("*/candidates/*.json")):
        number = file.parent.parent.name
        if int(number) % 2:
            continue
        published = json.loads(file.read_text(encoding="utf-8"))
        solution = published["submit"]
        digest = digest_of(source["content"] for source in solution["sources"])
        language = language_of("".join(source["content"] for source in solution["sources"]))
        for source in solution["sources"]:
            source["content"] = _AMD_ONLY.sub("", source["content"])
        path = out / "sol" / number / f"{file.stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(solution), encoding="utf-8")
        problem = out / "problems" / f"sol-{number}"
        if not problem.is_dir():
            shutil.copytree(sets / "sol" / "problems" / number, problem)
        label = labeled.get((int(number), file.stem), {"label": "", "codes": []})
        yield Kernel(
            set="sol",
            name=f"{number}/{file.stem}",
            path=str(path.relative_to(out)),
            problem=str(problem.relative_to(out)),
            operator=solution["definition"],
            label=label["label"],
            codes=tuple(label["codes"]),
            language=language,
            model=published["model"],
            theirs=published["correct"],
            digest=digest,
        )


def cudabeaver(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """CUDABeaver's KernelBench family: kernels that a language model broke, by how they fail.

    A kernel whose folder says that it does not compile has no label: judged are those that do.
    """
    for folder in sorted((sets / "cudabeaver" / "data").glob("kernelbench_*")):
        task, failure, tag = folder.name.removeprefix("kernelbench_").split("__")
        level, _, number = task.removeprefix("level").partition("_")
        if int(number) % 2:
            continue
        text = (folder / "broken_start.cu").read_text(encoding="utf-8")
        reference = (folder / "reference.py").read_text(encoding="utf-8")
        operator = _operator(sets, level, number) or task
        yield _pair(
            out,
            Kernel(
                set="cudabeaver",
                name=f"{task}/{failure}/{tag}",
                path="",
                problem="",
                operator=operator,
                label="" if failure == "compile_error" else "wrong",
                codes=(failure,),
                model="not published",
                theirs=False,
            ),
            candidate=text,
            reference=reference,
        )
        yield _pair(
            out,
            Kernel(
                set="cudabeaver",
                name=f"{task}/reference/{tag}",
                path="",
                problem="",
                operator=operator,
                kind="reference",
                label="correct",
                codes=("reference",),
                theirs=True,
            ),
            candidate=reference,
            reference=reference,
            alias=True,
        )


def cuda_l1(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """CUDA-L1's optimized code for an H100, of which some 30 % holds a kernel of its own.

    Its evaluation compares modules in evaluation mode.
    """
    lines = (sets / "cuda-l1" / "h100-even.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        written = (row["custom_code"] or "None").strip()
        if written == "None" or int(row["task_id"]) % 2:
            continue  # where it found nothing faster, the file holds the word None
        level, number = str(row["level_id"]), str(row["task_id"])
        kernel = Kernel(
            set="cuda-l1",
            name=f"{level}-{number}",
            path="",
            problem="",
            operator=_operator(sets, level, number) or f"level{level}_{number}",
            model="CUDA-L1",
            theirs=True,
        )
        yield _pair(
            out,
            kernel,
            candidate=row["custom_code"],
            reference=row["ref_code"],
            after=_EVALUATING,
        )


def filtered(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """KernelBenchFiltered: the best solution of an agent for each task, with its model's name."""
    root = sets / "KernelBenchFiltered"
    for file in sorted((root / "best_agent_solutions").glob("level_*/task_*.py")):
        number = file.stem.removeprefix("task_")
        if int(number) % 2:
            continue
        level = file.parent.name.removeprefix("level_")
        tasks = list((root / "tasks" / file.parent.name).glob(f"{number}_*.py"))
        if not tasks:
            print(f"{file}: has no task file beside it; passed over")
            continue
        text = file.read_text(encoding="utf-8")
        agent = _AGENT_LINE.search(text)
        kernel = Kernel(
            set="kernelbench-filtered",
            name=f"level{level}_{number}",
            path="",
            problem="",
            operator=tasks[0].stem,
            model=agent[1].removeprefix("KernelAgent ") if agent else "not published",
            theirs=True,
        )
        reference = tasks[0].read_text(encoding="utf-8")
        yield _pair(out, kernel, candidate=text, reference=reference, alias=True)


def leaderboard(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """KernelBench's first leaderboard: each model's fastest solution of a task that passed."""
    assets = sets / "KernelBenchLeaderboard" / "docs" / "assets"
    rows = json.loads((assets / "raw_data.json").read_text(encoding="utf-8"))
    for row in sorted(rows, key=lambda row: (row["level"], row["problem_id"], row["file"])):
        number = row["problem_id"] + 1  # they count tasks from 0, and name files from 1
        if number % 2:
            continue
        task = f"l{row['level']}_p{number}"
        kernel = Kernel(
            set="leaderboard",
            name=f"{task}/{row['file'][:12]}",
            path="",
            problem="",
            operator=_operator(sets, str(row["level"]), str(number)) or task,
            model=row["model"].rpartition("/")[2],
            theirs=True,
        )
        reference = (assets / "problems" / f"{task}.py").read_text(encoding="utf-8")
        yield _pair(out, kernel, candidate=row["code"], reference=reference)


def kernelbench_runs(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """Every answer of three models to KernelBench's levels 1 and 2, with its evaluation.

    An answer that does not compile is passed over. One whose results differ, or whose call fails,
    is labeled wrong, unless the GPU of the evaluation had too little memory or none of the code.
    """
    root = sets / "kernelbench-runs"
    for run in sorted((root / "runs").glob("*_level[12]_*")):
        detailed, plain = run / "detailed_results.json", run / "eval_results.json"
        if detailed.is_file():
            results = json.loads(detailed.read_text(encoding="utf-8"))["results"]
            evaluated = {row["problem_id"]: row.get("eval_result") or {} for row in results}
        elif plain.is_file():
            results = json.loads(plain.read_text(encoding="utf-8"))
            evaluated = {int(number): result for number, result in results.items()}
        else:
            continue
        model, _, rest = run.name.partition("_level")
        level = rest[0]
        for number, result in sorted(evaluated.items()):
            (task,) = (root / "KernelBench" / f"level{level}").glob(f"{number}_*.py")
            file = run / f"problem_{number}_kernel.py"
            if not file.is_file():
                file = run / f"level_{level}_problem_{number}_sample_0_kernel.py"
            if number % 2 or not result.get("compiled") or not file.is_file():
                continue
            correct, about = result["correctness"], result["metadata"]
            issue = about.get("correctness_issue") or about.get("runtime_error") or ""
            unknown = _OF_ITS_GPU.search(issue) is not None
            wrong = not (correct or unknown)
            kernel = Kernel(
                set="kernelbench-runs",
                name=f"l{level}_p{number}/{model}",
                path="",
                problem="",
                operator=task.stem,
                label="wrong" if wrong else "",
                codes=(_issue(issue),) if wrong else (),
                model=model,
                theirs=None if unknown else correct,
            )
            yield _pair(
                out,
                kernel,
                candidate=file.read_text(encoding="utf-8"),
                reference=task.read_text(encoding="utf-8"),
            )


def agents_vs_compile(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """Triton kernels that three coding agents wrote to be faster than torch.compile's."""
    root = sets / "agents-vs-compile" / "agent_loop"
    for file in sorted((root / "sandbox").glob("*/candidate.py")):
        task = next(name for name in _AGENTS_INPUTS if file.parent.name.startswith(name))
        results = root / "runs" / file.parent.name
        strict = results / "result_strict.json"
        said = json.loads((strict if strict.is_file() else results / "result.json").read_text())
        verdict = str(said.get("harness_result", said)["verdict"])
        passed = verdict.startswith("PASS")
        reference = (root / "tasks" / task / "reference.py").read_text(encoding="utf-8")
        candidate = file.read_text(encoding="utf-8")
        kernel = Kernel(
            set="agents-vs-compile",
            name=f"{task}/{file.parent.name.removeprefix(task + '_')}",
            path="",
            problem="",
            operator=task,
            label="" if passed else "wrong",
            codes=() if passed else (verdict.lower(),),
            model=file.parent.name.removeprefix(task + "_").partition("_")[0],
            theirs=passed,
        )
        yield _pair(
            out,
            kernel,
            candidate=candidate + _MODULE.format(name="ModelNew"),
            reference=reference + _MODULE.format(name="Model") + _AGENTS_INPUTS[task],
        )


def tritonbench(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """TritonBench: Triton kernels of people, from GitHub, that have a problem of ours.

    The files are not numbered. Of their alphabetical order every second is read.
    """
    problems = out / "tritonbench" / "problems.py"
    problems.parent.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("tritonbench_problems.py"), problems)
    files = sorted((sets / "TritonBench" / "data" / "TritonBench_G_v1").glob("*.py"))
    for file in files[1::2]:
        if file.stem not in _TRITONBENCH:
            continue
        text, _, _ = file.read_text(encoding="utf-8").partition("#" * 40)  # their test follows
        function = _TRITONBENCH[file.stem]
        if function.startswith("def "):
            text, function = f"{text.rstrip()}\n\n\n{function}", "entry"
        place = out / "tritonbench" / file.name
        place.write_text(text, encoding="utf-8")
        yield Kernel(
            set="tritonbench",
            name=file.stem,
            path=f"{place.relative_to(out)}::{function}",
            problem=f"{problems.relative_to(out)}:{file.stem}",
            operator=file.stem,
            language=language_of(text),
            model="people",
            digest=digest_of([text]),
        )


def kernelbench_com(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """kernelbench.com: solutions published for an H100, of runs whose time stamp is even.

    A problem is its folder, with shapes.py and problem.yaml.
    """
    root = sets / "kernelbench.com"
    problems = {
        folder.name: folder
        for deck in (
            "hard/problems-h100",
            "cuda/problems-h100",
            "mini/problems-h100",
            "mega/problems",
        )
        for folder in sorted((root / "benchmarks" / deck).glob("*/"))
    }
    catalog = root / "public" / "data" / "catalog.json"
    cells = json.loads(catalog.read_text(encoding="utf-8"))["cells"] if catalog.is_file() else []
    correct = {cell["run_id"]: cell["correct"] for cell in cells}
    for file in sorted((root / "public" / "runs" / "h100").glob("*_solution.py.txt")):
        parts = _RUN_NAME.fullmatch(file.name)
        if parts is None or int(parts["stamp"]) % 2 or parts["task"] not in problems:
            continue
        problem = out / "problems" / parts["task"]
        if not problem.is_dir():
            problem.mkdir(parents=True)
            for part in ("reference.py", "shapes.py", "problem.yaml"):
                if (problems[parts["task"]] / part).is_file():
                    shutil.copy(problems[parts["task"]] / part, problem / part)
        text = file.read_text(encoding="utf-8")
        name = file.name.removesuffix("_solution.py.txt")
        place = out / "kernelbench.com" / name / "solution.py"
        place.parent.mkdir(parents=True)
        solution, *sidecars = _SIDECAR.split(text)
        place.write_text(solution, encoding="utf-8")
        for sidecar, content in zip(sidecars[::2], sidecars[1::2], strict=True):
            place.with_name(sidecar).write_text(content, encoding="utf-8")
        yield Kernel(
            set="kernelbench.com",
            name=name,
            path=str(place.relative_to(out)),
            problem=str(problem.relative_to(out)),
            operator=parts["task"],
            language=language_of(text),
            model=parts["model"].removesuffix("_1m_").rpartition("_")[2],
            theirs=correct.get(name),
            digest=digest_of([text]),
        )


def reference_kernels(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """GPU MODE's reference kernels: submissions that the problems' makers ship, right and wrong."""
    root = sets / "reference-kernels" / "problems"
    for task in sorted(root.glob("*/*/task.y*ml")):
        deck = task.parent.parent.name
        if deck in _NOT_HERE or not (task.parent / "reference.py").is_file():
            continue
        shipped = sorted(task.parent.glob("submission.py"))
        shipped += sorted(task.parent.glob("submissions/*.py"))
        shipped += sorted(task.parent.glob("solutions/*/*.py"))
        for file in shipped:
            text = file.read_text(encoding="utf-8")
            problem = _gpumode_problem(task.parent, out)
            name = f"{deck}/{task.parent.name}/{file.relative_to(task.parent).with_suffix('')}"
            place = out / "reference-kernels" / f"{name}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            sort = file.parent.name if file.parent.name in ("wrong", "correct") else ""
            yield Kernel(
                set="reference-kernels",
                name=name,
                path=str(place.relative_to(out)),
                problem=str(problem.relative_to(out)),
                operator=task.parent.name,
                kind="example",
                label=sort,
                codes=(file.stem,) if sort else (),
                language=language_of(text),
                theirs={"wrong": False, "correct": True}.get(sort),
                digest=digest_of([text]),
            )


def sol_references(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """SOL-ExecBench: the 235 problems, each with its own reference as the candidate."""
    for folder in sorted((sets / "sol" / "problems").iterdir(), key=lambda p: int(p.name)):
        place = out / "sol-references" / folder.name
        place.mkdir(parents=True)
        for name in _PROBLEM_FILES:
            if (folder / name).is_file():
                shutil.copy(folder / name, place / name)
        definition = json.loads((folder / "definition.json").read_text(encoding="utf-8"))
        (place / "candidate.py").write_text(definition["reference"], encoding="utf-8")
        yield Kernel(
            set="sol-references",
            name=folder.name,
            path=str((place / "candidate.py").relative_to(out)),
            problem=str(place.relative_to(out)),
            operator=definition["name"],
            kind="reference",
            label="correct",
            language="torch",
            digest=digest_of([definition["reference"]]),
        )


def kernelbench_references(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """KernelBench: the problems of levels 1 to 4, each with its own reference as the candidate."""
    for file in sorted((sets / "kernelbench" / "KernelBench").glob("level*/*.py")):
        text = file.read_text(encoding="utf-8")
        kernel = Kernel(
            set="kernelbench-references",
            name=f"{file.parent.name}/{file.stem}",
            path="",
            problem="",
            operator=file.stem,
            kind="reference",
            label="correct",
        )
        yield _pair(out, kernel, candidate=text, reference=text, alias=True)


def gpumode_references(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """GPU MODE's problems of one GPU, each with its own reference as the candidate."""
    for task in sorted((sets / "reference-kernels" / "problems").glob("*/*/task.y*ml")):
        if "distributed" in str(task) or not (task.parent / "reference.py").is_file():
            continue
        problem = _gpumode_problem(task.parent, out)
        text = (task.parent / "reference.py").read_text(encoding="utf-8")
        text += "\n\ndef custom_kernel(data):\n    return ref_kernel(data)\n"
        candidate = problem / "reference_as_candidate.py"
        candidate.write_text(text, encoding="utf-8")
        yield Kernel(
            set="gpumode-references",
            name=f"{task.parent.parent.name}/{task.parent.name}",
            path=str(candidate.relative_to(out)),
            problem=str(problem.relative_to(out)),
            operator=task.parent.name,
            kind="reference",
            label="correct",
            language="torch",
            digest=digest_of([text]),
        )


def flashinfer_references(sets: Path, labels: Path | None, out: Path) -> Iterator[Kernel]:
    """flashinfer-bench: every definition whose workloads are published beside it."""
    for file in sorted((sets / "flashinfer-bench").rglob("definitions/**/*.json")):
        parts = file.parts
        root = Path(*parts[: len(parts) - 1 - parts[::-1].index("definitions")])
        relative = file.relative_to(root / "definitions")
        workloads = (root / "workloads" / relative).with_suffix(".jsonl")
        if not workloads.is_file():
            print(f"{file}: has no workloads beside it; passed over")
            continue
        place = out / "flashinfer" / file.stem
        for source in (file, workloads):
            copy = place / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        text = json.loads(file.read_text(encoding="utf-8"))["reference"]
        candidate = place / "candidate.py"
        candidate.write_text(text, encoding="utf-8")
        yield Kernel(
            set="flashinfer-references",
            name=file.stem,
            path=str(candidate.relative_to(out)),
            problem=str((place / "definitions" / relative).relative_to(out)),
            operator=file.stem,
            kind="reference",
            label="correct",
            language="torch",
            digest=digest_of([text]),
        )


Set = Callable[[Path, Path | None, Path], Iterator[Kernel]]
PUBLISHED: Mapping[str, Set] = {
    "sol": sol,
    "cudabeaver": cudabeaver,
    "cuda-l1": cuda_l1,
    "kernelbench-filtered": filtered,
    "leaderboard": leaderboard,
    "kernelbench-runs": kernelbench_runs,
    "agents-vs-compile": agents_vs_compile,
    "tritonbench": tritonbench,
    "kernelbench.com": kernelbench_com,
    "reference-kernels": reference_kernels,
}
REFERENCES: Mapping[str, Set] = {
    "sol-references": sol_references,
    "kernelbench-references": kernelbench_references,
    "gpumode-references": gpumode_references,
    "flashinfer-references": flashinfer_references,
}
SETS: Mapping[str, Set] = {**PUBLISHED, **REFERENCES}


def pack(sets: Path, labels: Path | None, out: Path, names: Iterable[str]) -> list[Kernel]:
    """Copy sets below `out` and return their kernels; `out` is then all that a run needs.

    A set whose local copy is not there is passed over with a message.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    found: list[Kernel] = []
    for name in names:
        try:
            kernels = list(SETS[name](sets, labels, out))
        except FileNotFoundError as error:
            print(f"set {name}: passed over, {error.filename} is not there")
            continue
        if not kernels:
            print(f"set {name}: holds no kernel below {sets}")
        found += kernels
    write_index(found, out)
    return found


def write_index(kernels: Iterable[Kernel], folder: Path) -> None:
    """Write which kernels a folder holds; names and digests, no sources."""
    text = json.dumps([asdict(kernel) for kernel in kernels], indent=1)
    (folder / "kernels.json").write_text(text + "\n", encoding="utf-8")


def read_index(folder: Path) -> list[Kernel]:
    """Return the kernels of a folder that `pack` or `write_index` made."""
    rows = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    return [Kernel(**{**row, "codes": tuple(row["codes"])}) for row in rows]


def _pair(
    out: Path,
    kernel: Kernel,
    *,
    candidate: str,
    reference: str,
    alias: bool = False,
    after: str = "",
) -> Kernel:
    """Write a KernelBench pair and return its kernel; `alias` names the class Model as ModelNew.

    `after` is text that follows both, with the name of their class for `{name}`.
    """
    place = out / kernel.set / kernel.name.replace("/", "-")
    place.mkdir(parents=True)
    problem = place / f"{re.sub(r'[^0-9A-Za-z_]', '_', kernel.operator)}.py"
    problem.write_text(reference + after.format(name="Model"), encoding="utf-8")
    file = place / "candidate.py"
    text = candidate
    if alias and "class ModelNew" not in candidate:
        text = f"{candidate}\n\nModelNew = Model\n"
    file.write_text(text + after.format(name="ModelNew"), encoding="utf-8")
    where = {"path": str(file.relative_to(out)), "problem": str(problem.relative_to(out))}
    about = {"language": language_of(candidate), "digest": digest_of([candidate])}
    return Kernel(**{**asdict(kernel), **where, **about})


def _issue(text: str) -> str:
    """Return in a word or two what an evaluation of KernelBench says is wrong."""
    known = {"Output shape mismatch": "shape", "Output mismatch": "values"}
    return next((word for begin, word in known.items() if text.startswith(begin)), "call fails")


def _operator(sets: Path, level: str, number: str) -> str:
    """Return KernelBench's name of a task, empty where its files are not there."""
    found = sorted((sets / "kernelbench" / "KernelBench" / f"level{level}").glob(f"{number}_*.py"))
    return found[0].stem if found else ""


def _gpumode_problem(folder: Path, out: Path) -> Path:
    """Copy a GPU MODE problem once, with its deck's shared files, and return its folder."""
    place = out / "gpumode" / folder.parent.name / folder.name
    if not place.is_dir():
        unwanted = shutil.ignore_patterns("submission*", "submissions", "solutions", "*.cu")
        shutil.copytree(folder, place, ignore=unwanted)
        for shared in folder.parent.glob("*.py"):
            shutil.copy(shared, place.parent / shared.name)
    return place
