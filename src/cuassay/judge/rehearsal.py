"""What a judge that waits for its job does beforehand: imports, Triton's first steps, truths."""

from __future__ import annotations

import contextlib
import importlib
import threading

from cuassay.checks.registry import all_checks
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import open_trial
from cuassay.model.device import Device
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import measure
from cuassay.sandbox.guest.process.preload import hash_triton, prepare_triton

# What a trial imports when it first needs it.
_IMPORTED = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils.flop_counter",
    "cuassay.formats.flashinfer",
    "cuassay.build.cuda.hosted",
    "ptxsan.host.build",
)
# Between them the products, sums, roots, exponentials and indices of most references.
_REHEARSED = ("gemm_bias_gelu", "softmax_softcap", "rmsnorm", "rope_neox")


def prepare(device: Device) -> None:
    """Start what every trial on `device` needs; importing `judge.verbs` was most of it.

    Torch loads sympy, a second on such a host, for upstream gradients and for the shapes of some
    operations: a judge that waits for its job has the time, and a GPU's host the cores.
    """
    if device.on_gpu:
        begin_triton()
        for name in _IMPORTED:
            with contextlib.suppress(ImportError):  # a trial that needs it will say so
                importlib.import_module(name)
        all_checks()
        rehearse(device)


def rehearse(device: Device) -> None:
    """Make truths of operators of the catalog: CUDA loads a kernel when it is launched first.

    Half a second of a trial's first truth is that. What fails here fails in a trial, if it does.
    """
    for name in _REHEARSED:
        with contextlib.suppress(Exception):
            problem = load_problem(name)
            trial = open_trial(
                problem,
                load_reference(problem),
                profile=Profile.QUICK,
                device=device,
                root_seed=0,
            )
            for case in trial.cases("small"):
                answers = trial.truths.as_written(list(trial.inputs(case).values()))
                for got, output in zip(answers, trial.truth(case).outputs, strict=True):
                    measure(got, output)


def begin_triton() -> None:
    """Take Triton's first steps beside what the judge does meanwhile.

    The package itself, 0.1 s, is imported first: where two threads begin with different modules of
    it each may meet the other's half, and what failed once stays broken for torch's compiler.
    """
    with contextlib.suppress(Exception):  # whoever needs it will say so
        importlib.import_module("triton")
    for step in (prepare_triton, hash_triton):
        threading.Thread(target=step, daemon=True).start()
