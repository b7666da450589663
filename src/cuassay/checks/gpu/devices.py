"""DEVICE001: tensors on a GPU that is not the current one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised, termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process
from cuassay.checks.plain_first import measured
from cuassay.checks.state.answers import reads_of
from cuassay.errors import NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Call, ReadResult, Scenario, call_steps
from cuassay.model.steps import Arrange
from cuassay.model.trace import done_steps

_OTHER = 1
_CONDITION = "devices: tensors on the current device alone"


class Device001(Check):
    """Tensors on another GPU than the current one

    What it does
        Moves the inputs to the second GPU while the first one stays the process's current
        device, calls, and reads the result. A plain call on the first GPU comes before.

    Why it matters
        Pipelines and tensor-parallel servers call kernels on devices that are not current. A
        launch that does not switch runs on GPU 0 with GPU 1's addresses: a fault, or wrong
        numbers over peer access, or a result on the wrong device.

    How it decides
        The answer must be right and lie on the device of its inputs. Anything else is a
        condition of use; so is an exception, clean or not.

    Can it be wrong?
        Needs two GPUs. A raw kernel with declared launches has no host code of its own: it is
        not tried. With peer access switched on, a wrong launch may give right numbers:
        the device of the result is looked at as well.

    Example
        A raw launch on the stream of device 0: "CUDA error: invalid argument" on cuda:1.

    Options
        --require devices makes the condition binding.
    """

    code = "DEVICE001"
    title = "Tensors on another GPU than the current one"
    cause = Cause.DEVICE
    classes = ("A8",)
    needs = Needs(process=Process.OWN, group=Group.NONE, gpu=True)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH
    judges_failures = True

    def missing(self) -> str:
        """Return that a second GPU is missing, if it is."""
        count = gpu_count()
        return "" if count > _OTHER else f"needs two GPUs, this machine shows {count}"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a plain call and one on the other device, in one process."""
        steps = (
            *call_steps("a", 0, "plain"),
            Arrange(slot="a", device=_OTHER),
            Call(slot="a", result="there"),
            ReadResult(result="there"),
        )
        label = f"devices: inputs on cuda:{_OTHER}, current device 0"
        yield Scenario(label=label, cases=trial.cases("small")[:1], steps=steps, fresh=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame what happens on the other device alone."""
        for _, record in done_steps(scenario, run.result, Arrange):
            if skipped := dict(record.facts).get("skipped", ""):
                raise NothingToCheckError(skipped[:200])
        reads = reads_of(scenario, run)
        if not reads or answers.first_wrong(reads[0]):
            return
        raised = first_raised(run)
        place = Where(axes=dict(scenario.cases[0].axes))
        if raised is not None:
            text = f"fails on cuda:{_OTHER} while device 0 is current: {exception_text(raised)}"
            yield self.finding(
                text,
                scenario=scenario,
                where=place,
                condition=_CONDITION,
                evidence=raised.traceback[-4000:],
            )
            return
        ended = termination_finding(scenario, run, problem=trial.problem)
        if ended is not None:
            yield ended
            return
        found = answers.first_wrong(reads[-1])
        if found is not None:
            text = f"is wrong on cuda:{_OTHER} while device 0 is current ({found.output})"
            extra = measured(found, scenario.cases[0])
            yield self.finding(text, scenario=scenario, condition=_CONDITION, **extra)
            return
        called = {step.result: record for step, record in done_steps(scenario, run.result, Call)}
        strangers = [
            item
            for item in (called["there"].items if "there" in called else ())
            if item.kind == "tensor" and item.shape and item.device != f"cuda:{_OTHER}"
        ]
        for item in strangers[:1]:
            text = (
                f"returns {item.name or 'an output'} on {item.device} for inputs on cuda:{_OTHER}"
            )
            yield self.finding(text, scenario=scenario, where=place, condition=_CONDITION)


@cache
def gpu_count() -> int:
    """Return how many GPUs this process sees."""
    import torch

    return int(torch.cuda.device_count())
