"""Sets of kernels that nobody here wrote, packed for `wild.py`: sources, problems and labels.

A set is a function that yields `Kernel`s. To add one: write the function, name it in SETS. Sources
are read where they lie and copied below build/, which git ignores; they are never committed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

# A launch keyword of AMD's Triton, which NVIDIA's refuses: a hint for speed, without effect here.
_AMD_ONLY = re.compile(
    r"(?:,\s*)?\b(?:waves_per_eu|matrix_instr_nonkdim|kpack)\s*=\s*\d+|"
    r"(?:,\s*)?[\"'](?:waves_per_eu|matrix_instr_nonkdim|kpack)[\"']\s*:\s*\d+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel with its label: `wrong`, `conditions` (of use), `correct`, or empty.

    `codes` are the label's own words for what is wrong. `path` and `problem` are files or
    folders, below the packed folder once packed.
    """

    set: str
    name: str
    label: str
    codes: tuple[str, ...]
    language: str
    path: str
    problem: str

    @property
    def key(self) -> str:
        """What identifies the kernel in a journal."""
        return f"{self.set}/{self.name}"


def sol(foreign: Path, labels: Path, out: Path) -> Iterator[Kernel]:
    """SOL-ExecBench: the labelled candidates of problems of even number."""
    for row in json.loads(labels.read_text(encoding="utf-8")):
        number, name = row["problem"], row["candidate"]
        file = foreign / "sol" / "runs" / str(number) / "candidates" / f"{name}.json"
        if not file.is_file():
            print(f"not found: {file}")
            continue
        solution = json.loads(file.read_text(encoding="utf-8"))["submit"]
        for source in solution["sources"]:
            source["content"] = _AMD_ONLY.sub("", source["content"])
        path = out / "sol" / str(number) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(solution), encoding="utf-8")
        problem = out / "problems" / f"sol-{number}"
        if not problem.is_dir():
            shutil.copytree(foreign / "sol" / "problems" / str(number), problem)
        yield Kernel(
            set="sol",
            name=f"{number}/{name}",
            label=row["label"],
            codes=tuple(row["codes"]),
            language=row["language"],
            path=str(path.relative_to(out)),
            problem=str(problem.relative_to(out)),
        )


def cudabeaver(foreign: Path, labels: Path, out: Path) -> Iterator[Kernel]:
    """CUDABeaver's KernelBench family: kernels that a language model broke, by how they fail.

    A kernel whose folder says that it does not compile has no label: judged are those that do.
    """
    for folder in sorted((foreign / "cudabeaver" / "data").iterdir()):
        task, failure, _ = folder.name.removeprefix("kernelbench_").split("__")
        place = out / "cudabeaver" / folder.name
        place.mkdir(parents=True)
        shutil.copy(folder / "broken_start.cu", place / "candidate.py")
        shutil.copy(folder / "reference.py", place / "problem.py")
        yield Kernel(
            set="cudabeaver",
            name=f"{task}/{failure}/{folder.name.rpartition('__')[2]}",
            label="" if failure == "compile_error" else "wrong",
            codes=(failure,),
            language="cuda",
            path=str((place / "candidate.py").relative_to(out)),
            problem=str((place / "problem.py").relative_to(out)),
        )
        reference = out / "cudabeaver" / f"{folder.name}-reference"
        reference.mkdir()
        text = (folder / "reference.py").read_text(encoding="utf-8")
        (reference / "candidate.py").write_text(f"{text}\n\nModelNew = Model\n", encoding="utf-8")
        yield Kernel(
            set="cudabeaver",
            name=f"{task}/reference/{folder.name.rpartition('__')[2]}",
            label="correct",
            codes=("reference",),
            language="python",
            path=str((reference / "candidate.py").relative_to(out)),
            problem=str((place / "problem.py").relative_to(out)),
        )


def cuda_l1(foreign: Path, labels: Path, out: Path) -> Iterator[Kernel]:
    """CUDA-L1's kernels for an H100 that are CUDA C++: without labels, for what can be judged."""
    for line in (foreign / "cuda-l1" / "h100-even.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        code = row["custom_code"] or ""
        if "__global__" not in code:
            continue
        name = f"{row['level_id']}-{row['task_id']}"
        place = out / "cuda-l1" / name
        place.mkdir(parents=True)
        (place / "candidate.py").write_text(code, encoding="utf-8")
        (place / "problem.py").write_text(row["ref_code"], encoding="utf-8")
        yield Kernel(
            set="cuda-l1",
            name=name,
            label="",
            codes=(),
            language="cuda",
            path=str((place / "candidate.py").relative_to(out)),
            problem=str((place / "problem.py").relative_to(out)),
        )


SETS: Mapping[str, Callable[[Path, Path, Path], Iterator[Kernel]]] = {
    "sol": sol,
    "cudabeaver": cudabeaver,
    "cuda-l1": cuda_l1,
}


def pack(foreign: Path, labels: Path, out: Path, names: tuple[str, ...]) -> list[Kernel]:
    """Copy sets below `out` and return their kernels; `out` is then all that a run needs."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    found = [kernel for name in names for kernel in SETS[name](foreign, labels, out)]
    text = json.dumps([asdict(kernel) for kernel in found], indent=1)
    (out / "kernels.json").write_text(text + "\n", encoding="utf-8")
    return found


def read_packed(folder: Path) -> list[Kernel]:
    """Return the kernels of a packed folder."""
    rows = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    return [Kernel(**{**row, "codes": tuple(row["codes"])}) for row in rows]
