"""The decision of a trial, and what it rests on beside the checks.

The benchmark's own rule, proofs, how far the trial looked, and what `--require` names.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import torch

from cuassay.judge.decide import benchmark_rule
from cuassay.judge.decide.exchanges import IdleParts, idle_parts
from cuassay.judge.decide.failed_rule import RuleAnswer, answer_to_rule, with_findings
from cuassay.judge.decide.idle_operators import idle_operators
from cuassay.judge.decide.required import decide_least, decide_required, undecided_least
from cuassay.judge.decide.scope import scope_of
from cuassay.judge.decide.unreached import (
    undecided_in_kernels,
    unreached_code,
    unreached_in_host,
    unreached_in_kernels,
)
from cuassay.judge.decide.verdict import bind, condition_key, decide, decide_proofs
from cuassay.judge.diagnose.idle_instructions import idle_instructions
from cuassay.model.candidate import Candidate, Language
from cuassay.model.conditions import wanted_proofs
from cuassay.model.events import FindingReported
from cuassay.model.jobs import Stop
from cuassay.model.outcome import CheckReport, Failed
from cuassay.model.problem import Problem
from cuassay.model.proofs import Proof, Property
from cuassay.model.ranks import AXIS
from cuassay.model.scope import THREADS, Scope, Unreached, scope_conditions
from cuassay.model.verdict import BenchmarkRule, Decision, Lane

if TYPE_CHECKING:
    from cuassay.judge.bench import Bench
    from cuassay.judge.checking import Checked
    from cuassay.judge.decide.control import Control
    from cuassay.judge.run.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision with what it rests on. `streams`: the candidate launches kernels of its own.

    `gross`: the trial ended with its plain calls, and says nothing of how far it looked.
    `of_ranks` is what no check looks at where several ranks share a call, `undecided` what a check
    could not tell that an acceptance rests on; both are conditions, or empty.
    """

    decision: Decision
    reason: str
    reports: tuple[CheckReport, ...]
    scope: Scope
    streams: bool
    gross: bool = False
    proved: tuple[Proof, ...] = ()
    rule: BenchmarkRule | None = None
    ruled: RuleAnswer = field(default_factory=RuleAnswer)
    of_ranks: str = ""
    undecided: str = ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """What an acceptance depends on beside what checks found."""
        if self.gross:
            return ()
        own = (
            self.ruled.condition,
            self.of_ranks,
            self.undecided,
            *scope_conditions(self.scope, streams=self.streams),
        )
        return tuple(filter(None, own))

    def bound(self, scope: Scope, *, require: Sequence[str]) -> Decided:
        """Return the decision with a scope, held to what `--require` names."""
        made = replace(self, scope=scope)
        decision, reason = decide_required(
            made.decision, made.reason, made.reports, require=require, stated=made.conditions
        )
        return replace(made, decision=decision, reason=reason)


def decide_trial(bench: Bench, executor: Executor, control: Control, checked: Checked) -> Decided:
    """Decide, once. Properties are proved only where nothing rejects."""
    job, trial = bench.job, bench.trial
    # `rule` is what the benchmark's own rule says of a call, or a coarse one where none is stated.
    rejected = any(report.wrong for report in checked.reports)
    at_first = rejected and bench.job.stop is Stop.FIRST
    ends = bench.budget.is_spent or at_first or checked.gross
    if ends or not (bench.plan.extras and checked.built):
        rule = None
    else:
        rule = bench.optional(
            "the benchmark's own rule", lambda: benchmark_rule.evaluate(bench.trial, executor)
        )
    ruled = answer_to_rule(trial, executor, control, rule, name=checked.with_id)
    rule = rule if rule is not None and rule.stated else None
    for finding in ruled.findings:
        bench.emit(FindingReported(finding=finding))
    reports = with_findings(checked.reports, ruled.findings)
    launches = has_launches(bench.candidate)
    reached = reduce(or_, (one.pool.reached for one in bench.opened))
    idle = None
    operations: tuple[Unreached, ...] | None = None
    of_cpp: tuple[Unreached, ...] | None = None
    if not (rejected or ends or ruled.findings) and checked.built:
        idle = bench.optional(
            "parts of the code that decide nothing",
            lambda: idle_parts(trial, bench.candidate, executor.exchanged, checked, reached),
        )
        operations = bench.optional(
            "operations of kernels that decide nothing",
            lambda: idle_instructions(trial, bench.candidate, executor, checked),
        )
        if reached.host:
            of_cpp = bench.optional(
                "operations of C++ that decide nothing",
                lambda: idle_operators(
                    trial, bench.candidate, executor.exchanged_in_worker, checked
                ),
            )
    idle = idle or IdleParts()
    ended = (report.outcome for report in reports)
    failures = (one for outcome in ended if isinstance(outcome, Failed) for one in outcome.findings)
    # What two threads showed is a condition already.
    seen_in_threads = any(condition_key(one) == THREADS for one in failures)
    scope = scope_of(
        trial,
        checked.right,
        reports,
        rule=rule,
        launches=bench.machine.count(),
        unreached=(
            *unreached_code(bench.candidate, reached),
            *idle.unreached,
            *unreached_in_host(bench.candidate, reached),
            *unreached_in_kernels(bench.candidate, bench.machine.executed),
            *undecided_in_kernels(bench.candidate, bench.machine.executed),
            *(operations or ()),
            *(of_cpp or ()),
        ),
        shared=() if seen_in_threads else idle.shared,
        has_launches=launches and not bench.device.on_gpu and not bench.machine.absent,
    )
    of_ranks = ranks_condition(
        trial.problem, torch.cuda.device_count() if bench.device.on_gpu else 0
    )
    cut = {*bench.budget.missed, *bench.budget.cut}
    more = bench.budget.reason if cut else "a larger --profile or --budget allows more"
    short = {*cut, *checked.cut_short}
    undecided = undecided_least(reports, short=short)
    own = filter(None, (ruled.condition, of_ranks, undecided))
    stated = (*own, *scope_conditions(scope, streams=launches))
    decision, reason = decide(bind(reports, job.require), profile=job.profile, stated=stated)
    decision, reason = decide_least(decision, reason, reports, short=short, advice=more)
    if decision is Decision.ACCEPTED and ruled.undecided:
        decision, reason = Decision.INCONCLUSIVE, ruled.undecided
    wanted = () if decision is Decision.REJECTED else wanted_proofs(job.require)
    proved = _proved(bench, wanted) if wanted else ()
    decision, reason = decide_proofs(decision, reason, proved, wanted)
    made = Decided(
        decision=decision,
        reason=reason,
        reports=reports,
        scope=scope,
        streams=launches,
        gross=checked.gross,
        proved=proved,
        rule=rule,
        ruled=ruled,
        of_ranks=of_ranks,
        undecided=undecided,
    )
    return made.bound(scope, require=job.require)


def ranks_condition(problem: Problem, gpus: int) -> str:
    """Return what no check looks at where several ranks share a call, or an empty string.

    `gpus` is how many GPUs the ranks have, 0 on a CPU.
    """
    if problem.ranks is None:
        return ""
    counts = next(axis.sizes for axis in problem.var_axes() if axis.name == AXIS)
    sharing = "cuassay's own process group"
    if gpus:
        sharing += f", sharing {gpus} GPU{'s' * (gpus > 1)}"
        sharing += "; NCCL was not tried" if gpus < min(counts) else ""
    else:
        sharing += " on a CPU; NCCL and GPU memory were not tried"
    ways = {
        "by NCCL on the GPUs of one host, without NVLink multicast": counts[: bisect(counts, gpus)],
        f"in {sharing}": counts[bisect(counts, gpus) :],
    }
    told = ", and ".join(f"{', '.join(map(str, n))} ranks {way}" for way, n in ways.items() if n)
    # Streams are tried on any GPU, CUDA graphs where each rank has its own.
    graphs = "" if gpus >= min(counts) else "CUDA graphs, "
    streams = "" if gpus else "streams, "
    return (
        f"ranks: judged with {told}; not tried with several ranks are {streams}{graphs}"
        "layouts, gradients, other processes, memory checks, which lines run, and races of kernels "
        "that meet in memory: ptxsan run --devices 2 finds these"
    )


def has_launches(candidate: Candidate) -> bool:
    """Whether a candidate has kernels of its own, as far as its sources show."""
    kernel = candidate.language is Language.CUDA_KERNEL
    return kernel or candidate.launches_ptx or candidate.compiles_cuda


def _proved(bench: Bench, wanted: tuple[Property, ...]) -> tuple[Proof, ...]:
    """Return which properties hold of the candidate. Its host code is recorded on a CPU."""
    from cuassay.judge.proofs.prove import proofs  # with ptxsan, which a judge can do without

    job = bench.job
    with bench.trial.timeline.span(Lane.MACHINE, "proofs"):
        return proofs(
            bench.trial.problem,
            bench.candidate,
            bench.host,
            profile=job.profile,
            seed=job.seed or 0,
            emit=bench.emit,
            wanted=wanted,
        )
