"""What must hold for each case of the development set: expectations as data, read by dev_set.py.

Paths are below the development set's folder: kernels as other people write them, public bug
reports written small, each with its corrected twin, and candidates that try to be accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuassay.model.diagnosis import Cause

_MANY = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What must not be left by a case: files, System V segments by key, text in the document."""

    files: tuple[str, ...] = ()
    segments: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A candidate for `cuassay check`, and which verdicts on it are right.

    `verdict` is the right one; an acceptance under a condition of `named` is right as well. Every
    acceptance has all conditions of `needed` and none of `spared`. `causes`: one of them is said;
    `other_causes` and `other_words` are said of no finding. `problem` is a path, a catalogue name,
    or empty where the candidate's file holds it. `folder` is where the command runs; `links` are
    made before it, from and to. Profiles beyond quick that must agree are in `profiles`.
    """

    candidate: str
    problem: str = ""
    verdict: str = "REJECTED"
    named: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    causes: frozenset[Cause] = frozenset()
    other_causes: frozenset[Cause] = frozenset()
    other_words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    folder: str = ""
    links: tuple[tuple[str, str], ...] = ()
    left: Traces = Traces()
    profiles: tuple[str, ...] = ("quick",)

    @property
    def name(self) -> str:
        """What a table calls it."""
        place = str(Path(self.folder, self.candidate))
        return f"{place} (listed)" if self.problem.endswith("problem_listed.py") else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """A source for `ptxsan run`, and how many wrong findings are right, from `least` to `most`.

    A finding of any severity is of each of `kinds`; `line` is the user's line that one names.
    """

    source: str
    options: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    kinds: tuple[str, ...] = ()
    line: int | None = None
    profiles: tuple[str, ...] = ("quick",)

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"{self.source} -DFIXED=1" if FIXED in self.options else self.source


Case = Checked | Executed

FIXED = "--flag=-DFIXED=1"
_CUDA, _TRITON = "reports/cuda", "reports/triton"


def _twin(name: str, problem: str = "problem.py", **more: frozenset[str]) -> Checked:
    return Checked(
        candidate=f"{name}/good.py", problem=f"{name}/{problem}", verdict="ACCEPTED", **more
    )


def _program(
    source: str,
    *options: str,
    least: int = 1,
    most: int = _MANY,
    kinds: tuple[str, ...] = (),
    line: int | None = None,
) -> tuple[Executed, Executed]:
    """Return a source with its fault and the same without it."""
    return (
        Executed(source=source, options=options, least=least, most=most, kinds=kinds, line=line),
        Executed(source=source, options=(*options, FIXED)),
    )


EXECUTED: tuple[Executed, ...] = (
    Executed(
        source=f"{_CUDA}/mini/ticket_reset.cu",
        options=(
            *("--kernel", "k", "--grid", "4", "--block", "32"),
            *("--arg", "ticket=zeros:i32[1]", "--arg", "out=out:i32[1]"),
        ),
    ),
    *(
        Executed(
            source=f"{_CUDA}/mini/{name}.cu", least=errors, most=errors, kinds=("refused-launch",)
        )
        # Two of these programs ask for the error: there the refused launch is a note.
        for name, errors in (
            ("refused_launch", 1),
            ("default_dynamic_limit", 0),
            ("cooperative_too_large", 0),
        )
    ),
    Executed(source=f"{_CUDA}/mini/uninitialised_copy.cu", least=1, most=1),
    *_program(f"{_CUDA}/DeepJIT-15/main.cu", kinds=("refused-launch",)),
    *_program(
        f"{_CUDA}/csarofeen-pytorch-2457/k.cu",
        *("--grid", "1", "--block", "32", "--arg", "x=f32[1024]"),
        *("--arg", "y=out:f32[256]", "--arg", "tiles=8"),
        line=25,
    ),
    *_program(
        f"{_CUDA}/llama.cpp-13742/k.cu",
        *("--grid", "2", "--block", "128", "--arg", "mask=@mask.npy", "--arg", "v=f32[512]"),
        *("--arg", "out=out:f32[256]", "--arg", "steps=4"),
        most=1,
    ),
)

REPORTS: tuple[Checked, ...] = (
    Checked(
        candidate=f"{_CUDA}/mini/kept_workspace.py",
        problem=f"{_CUDA}/mini/kept_problem.py",
        verdict="ACCEPTED",
    ),
    *(
        Checked(candidate=f"{_CUDA}/mlx-2267/bad.py", problem=f"{_CUDA}/mlx-2267/{problem}.py")
        for problem in ("problem", "problem_listed")
    ),
    _twin(f"{_CUDA}/mlx-2267"),
    _twin(f"{_CUDA}/mlx-2267", "problem_listed.py"),
    Checked(
        candidate=f"{_CUDA}/bitsandbytes-1160/bad.py",
        problem=f"{_CUDA}/bitsandbytes-1160/problem.py",
        other_causes=frozenset({Cause.TAIL}),
    ),
    _twin(f"{_CUDA}/bitsandbytes-1160"),
    Checked(
        candidate=f"{_CUDA}/onnxruntime-32663/bad.py",
        problem=f"{_CUDA}/onnxruntime-32663/problem.py",
        other_causes=frozenset({Cause.TAIL}),
        other_words=("cols mod 2",),
    ),
    _twin(f"{_CUDA}/onnxruntime-32663"),
    Checked(
        candidate=f"{_CUDA}/mahout-940/bad.py",
        problem=f"{_CUDA}/mahout-940/problem.py",
        causes=frozenset({Cause.MISALIGNED}),
        other_causes=frozenset({Cause.OUT_OF_BOUNDS}),
    ),
    _twin(f"{_CUDA}/mahout-940"),
    Checked(
        candidate=f"{_CUDA}/vllm-13632/bad.py",
        problem=f"{_CUDA}/vllm-13632/problem.py",
        named=frozenset({"streams"}),
    ),
    _twin(f"{_CUDA}/vllm-13632"),
    Checked(
        candidate=f"{_TRITON}/triton-10594/bad.py", problem=f"{_TRITON}/triton-10594/problem.py"
    ),
    _twin(f"{_TRITON}/triton-10594"),
    *(
        Checked(
            candidate=f"{_TRITON}/triton-10594/minimal/{name}.cu",
            problem=f"{_TRITON}/triton-10594/minimal/p.py",
            verdict="ACCEPTED",
        )
        for name in ("nobar", "withbar")
    ),
    *(
        Checked(
            candidate=f"{_TRITON}/{name}/bad.py",
            problem=f"{_TRITON}/{name}/problem.py",
            named=frozenset({"sizes"}),
        )
        for name in ("vllm-47671", "fla-1080", "fla-1080-listed")
    ),
    *(_twin(f"{_TRITON}/{name}") for name in ("vllm-47671", "fla-1080", "fla-1080-listed")),
    *(
        Checked(
            candidate=f"{_TRITON}/{name}/bad.py",
            problem=f"{_TRITON}/{name}/problem.py",
            verdict="ACCEPTED",
            needed=frozenset({"padding"}),
        )
        for name in ("vllm-30887", "vllm-30887-small")
    ),
    *(
        _twin(f"{_TRITON}/{name}", spared=frozenset({"padding"}))
        for name in ("vllm-30887", "vllm-30887-small")
    ),
    Checked(candidate=f"{_TRITON}/vllm-50979/bad.py", problem=f"{_TRITON}/vllm-50979/problem.py"),
    _twin(f"{_TRITON}/vllm-50979"),
    Checked(
        candidate=f"{_TRITON}/fla-1249/bad.py",
        problem=f"{_TRITON}/fla-1249/problem.py",
        verdict="ACCEPTED",
    ),
    _twin(f"{_TRITON}/fla-1249"),
    Checked(
        candidate=f"{_TRITON}/kernels-community-681/bad.py",
        problem=f"{_TRITON}/kernels-community-681/problem.py",
        other_causes=frozenset({Cause.UNINITIALISED}),
    ),
    _twin(f"{_TRITON}/kernels-community-681"),
    *(
        Checked(
            candidate=f"{_TRITON}/kernels-community-681/minimal/{name}_a_thread.py",
            problem=f"{_TRITON}/kernels-community-681/minimal/problem.py",
            verdict="ACCEPTED",
        )
        for name in ("one", "four")
    ),
    Checked(
        candidate=f"{_TRITON}/vllm-39705/bad.py",
        problem=f"{_TRITON}/vllm-39705/problem.py",
        other_causes=frozenset({Cause.TAIL}),
    ),
    _twin(f"{_TRITON}/vllm-39705"),
    Checked(
        candidate=f"{_TRITON}/triton-11544/bad.py",
        problem=f"{_TRITON}/triton-11544/problem.py",
        causes=frozenset({Cause.MISALIGNED}),
        other_causes=frozenset({Cause.OUT_OF_BOUNDS}),
    ),
    _twin(f"{_TRITON}/triton-11544"),
)

WORLD: tuple[Checked, ...] = (
    Checked(
        candidate="world/rmsnorm_llama.py",
        problem="rmsnorm",
        verdict="ACCEPTED",
        needed=frozenset({"precision"}),
    ),
    Checked(
        candidate="world/swiglu.py",
        problem="swiglu",
        verdict="ACCEPTED",
        profiles=("quick", "standard"),
    ),
    Checked(candidate="world/layernorm.py", problem="layernorm", verdict="ACCEPTED"),
)

NEWCOMER: tuple[Checked, ...] = (
    Checked(
        candidate="newcomer/alibi_attention.py",
        problem="newcomer/alibi_attention_problem.py",
        verdict="ACCEPTED",
        needed=frozenset({"precision", "layouts"}),
    ),
    Checked(
        candidate="newcomer/add_rmsnorm.py",
        problem="newcomer/add_rmsnorm_problem.py",
        causes=frozenset({Cause.WRONG_CONSTANT, Cause.MAGNITUDE}),
        other_causes=frozenset({Cause.TAIL}),
    ),
)

_SCALE = "hostile/scale.py"

HOSTILE: tuple[Checked, ...] = (
    Checked(candidate="hostile/honest.py", problem=_SCALE, verdict="ACCEPTED"),
    Checked(candidate="hostile/k18_rms_honest32.py", problem="rmsnorm", verdict="ACCEPTED"),
    *(
        Checked(candidate=f"hostile/{name}.py", problem=problem, named=frozenset({"sizes"}))
        for name, problem in (
            ("b11_rows2048", _SCALE),
            ("k09_fixed_loop", _SCALE),
            ("m04_int16_ids", "embedding"),
            ("b10_numel18", _SCALE),
            ("b12_mutate_large", _SCALE),
        )
    ),
    *(
        Checked(candidate=f"hostile/{name}.py", problem=_SCALE)
        for name in (
            *("b01_ring16", "b02c_fingerprint_sum", "b07b_steady"),
            *("f03_lying_tuple", "f08_wrong_backward"),
        )
    ),
    Checked(
        candidate="hostile/f07_giant_storage.py", problem=_SCALE, named=frozenset({"resources"})
    ),
    Checked(
        candidate="hostile/c09_zero_factor.py", problem=_SCALE, named=frozenset({"non-finite"})
    ),
    Checked(
        candidate="hostile/own/honest_problem.py",
        verdict="ACCEPTED",
        needed=frozenset({"own-problem"}),
    ),
    Checked(
        candidate="both.py",
        folder="hostile/shadow",
        left=Traces(files=("/tmp/OWNED-queue",)),
        verdict="",
    ),
    Checked(
        candidate="hostile/i01_symlink/kernel.py",
        problem=_SCALE,
        links=(("../outside/token.txt", "notes.h"), ("../outside/token.txt", "config.h")),
        left=Traces(texts=("TOKEN-7f3a",)),
        verdict="",
    ),
    Checked(candidate="hostile/h02_sysv_left.py", problem=_SCALE, left=Traces(segments=(0x5EC0,))),
    Checked(candidate="hostile/h08f_unparse.py", problem=_SCALE),
)

SETS: dict[str, tuple[Case, ...]] = {
    "reports": (*EXECUTED, *REPORTS),
    "world": WORLD,
    "newcomer": NEWCOMER,
    "hostile": HOSTILE,
}
