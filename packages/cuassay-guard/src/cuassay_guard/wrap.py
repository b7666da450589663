"""The guarded kernel: a callable that does what the kernel does, and now and then looks.

An unsampled call draws its number, tests its signature and calls the kernel. Everything else is
in `seldom`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import Parameter

from cuassay_guard.calls import device, taps
from cuassay_guard.calls.breaker import State
from cuassay_guard.calls.signature import fits, key_of
from cuassay_guard.calls.snapshot import Snapshot, detached_copies, take
from cuassay_guard.calls.structure import flatten, rebuild
from cuassay_guard.config import Enforcement
from cuassay_guard.events import Violation
from cuassay_guard.sampled.checker import CHECKER
from cuassay_guard.sampled.jobs import CheckJob
from cuassay_guard.trusted import positional
from cuassay_guard.watch import Entry, GuardStats, Watch

_is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling


class Guarded:
    """A kernel under guard. Call it like the kernel; `stats()` says what was seen.

    As a context manager it waits, on leaving, until every sampled call was checked.
    """

    def __init__(self, kernel: Callable[..., Any], watch: Watch) -> None:
        functools.update_wrapper(self, kernel, updated=())
        # torch.library.custom_op resolves annotations there
        self.__globals__ = getattr(inspect.unwrap(kernel), "__globals__", {})
        self.kernel, self.watch = kernel, watch
        self._gate, self._fast = watch.gate, watch.fast
        self.off = watch.config.mode is Enforcement.OFF
        self._written: tuple[int, ...] = ()
        if watch.config.mutates:
            parameters = list(inspect.signature(kernel).parameters)
            self._written = tuple(parameters.index(name) for name in watch.config.mutates)
        if not self.off:
            CHECKER.start()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what the kernel returns, or the trusted operator where its breaker is open."""
        if self.off:
            return self.kernel(*arguments, **keywords)
        if _is_compiling():
            return _apart(self, arguments, keywords)
        gate = self._gate
        number = gate.draw()
        if number < gate.due:
            same = gate.same
            if same is None or keywords:
                if fits(gate.memo, arguments, keywords):
                    return self.kernel(*arguments, **keywords)
            else:
                try:
                    known = same(*arguments)
                except TypeError:  # another number of tensors
                    known = False
                if known:
                    return self.kernel(*arguments)
        key = key_of(arguments, keywords)
        if number >= gate.due or key not in self._fast:
            return self.seldom(number, key, arguments, keywords, call=(arguments, keywords))
        return self.kernel(*arguments, **keywords)

    def stats(self) -> GuardStats:
        """Return the counters as of now, exact for calls that have returned."""
        return self.watch.stats()

    @property
    def last_violation(self) -> Violation | None:
        """The latest violation, if there was one."""
        return self.watch.last

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Wait until every sampled call was checked; False where that takes longer."""
        return CHECKER.flush(timeout_s)

    def __enter__(self) -> Self:
        """Return the guarded kernel."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the checks of what was called inside."""
        self.flush()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind like a function, so that methods can be guarded."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str:
        """Pickle by name, like a function; PicklingError where the name is another's."""
        return str(getattr(self, "__qualname__", "guarded"))

    def __repr__(self) -> str:
        found = self.stats()
        return f"<guarded {found.name}: {found.calls} calls, {found.violations} violations>"

    def seldom(
        self,
        number: int,
        key: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        call: tuple[Sequence[Any], Mapping[str, Any]],
    ) -> Any:
        """Serve a call that is new, due for a check, or not the kernel's to serve.

        `number` is the call's own (Gate.draw), `call` are the arguments as the caller gave them,
        from which its key was made.
        """
        watch = self.watch
        if watch.error is not None:
            watch.raised()
        if not _plain(arguments, keywords):
            return self.kernel(*arguments, **keywords)
        if watch.recording is not None or device.capturing(
            device.device_of(flatten([tuple(arguments), dict(keywords)])[0])
        ):
            if watch.recording is not None:
                watch.recording.append((arguments, dict(keywords)))
            watch.tally.add("captured")
            return self.kernel(*arguments, **keywords)
        entry, first = watch.entry(key, arguments, keywords)
        if entry.breaker.state is State.OPEN:
            return self._fallback(arguments, keywords)
        due = watch.gate.claim(number, watch.sampler.gap) or first
        # Whether this call is the kernel's to serve.
        if entry.breaker.state is not State.CLOSED:
            kernels = False
        else:
            canary = self.watch.config.canary
            kernels = canary >= 1 or not self.watch.enforcing or self.watch.sampler.chance(canary)
        if due and kernels:
            watch.remember(entry, *call)
        if due and not first and not watch.budget.affordable:
            watch.tally.add("skipped")
            due = False
        if due:
            return self._sampled(entry, arguments, keywords, kernels=kernels)
        if kernels:
            return self.kernel(*arguments, **keywords)
        return self._fallback(arguments, keywords)

    def _fallback(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the trusted operator's result; the kernel's where that one fails."""
        self.watch.tally.add("fallbacks")
        try:
            return self.watch.trusted.call(*arguments, **keywords)
        except Exception as failure:
            self.watch.trouble("the trusted operator", failure)
            return self.kernel(*arguments, **keywords)

    def _sampled(
        self, entry: Entry, arguments: Sequence[Any], keywords: Mapping[str, Any], *, kernels: bool
    ) -> Any:
        """Serve a call and have it checked, or only serve it where copies do not fit."""
        watch = self.watch
        watch.tally.add("sampled")
        try:
            snapshot = take(arguments, keywords, watch.memory)
        except Exception as failure:
            watch.trouble("the snapshot", failure)
            snapshot = None
        if snapshot is None:
            watch.tally.add("dropped")
            if kernels:
                return self.kernel(*arguments, **keywords)
            return self._fallback(arguments, keywords)
        if watch.keep_latest:
            watch.latest = (list(snapshot.tensors), snapshot.template)
        if not kernels:
            self.probe(entry, snapshot)
            return self._fallback(arguments, keywords)
        return self._served(entry, snapshot, arguments, keywords)

    def _served(
        self,
        entry: Entry,
        snapshot: Snapshot,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        watch = self.watch
        tap = None
        given: tuple[Sequence[Any], Mapping[str, Any]] = (arguments, keywords)
        if snapshot.differentiated and watch.config.gradients:
            tap = taps.Tap(self, entry, snapshot)
            given = tap.inputs(arguments, keywords)
        try:
            result = self.kernel(*given[0], **given[1])
        except BaseException:
            snapshot.release()
            raise
        try:
            job = self._job(entry, snapshot, result, given)
            if tap is not None:
                tap.outputs(result)
        except Exception as failure:
            watch.trouble("the snapshot", failure)
            snapshot.release()
            return result
        if job is None:
            return result
        if watch.config.synchronous:
            # Judge before returning; a wrong result is replaced by the trusted one.
            self.watch.tally.submit(job)
            snapshot = job.snapshot
            arguments, keywords = rebuild(snapshot.template, snapshot.tensors)
            job.run()
            if job.violation is None or not self.watch.enforcing:
                return result
            if self.watch.error is not None:
                self.watch.raised()
            try:
                repaired = self.watch.trusted.call(*arguments, **keywords)
            except Exception as failure:
                self.watch.trouble("the trusted operator", failure)
                return result
            self.watch.tally.add("repaired")
            return repaired
        self.submit(job)
        return result

    def _job(
        self,
        entry: Entry,
        snapshot: Snapshot,
        result: Any,
        given: tuple[Sequence[Any], Mapping[str, Any]],
    ) -> CheckJob | None:
        watch = self.watch
        tensors, _ = flatten([tuple(given[0]), dict(given[1])])
        # Where, among the tensors of a call, those are that the operator writes to.
        places: tuple[int, ...] = ()
        if self._written:
            values = positional(self.kernel, given[0], dict(given[1]))
            ids = {id(t) for place in self._written for t in flatten(values[place])[0]}
            places = tuple(index for index, tensor in enumerate(tensors) if id(tensor) in ids)
        if not snapshot.finish(result, [tensors[place] for place in places]):
            watch.tally.add("dropped")
            snapshot.release()
            return None
        return CheckJob(
            watch=watch,
            entry=entry,
            snapshot=snapshot,
            call=watch.gate.calls,
            written=places,
            trace_id=taps.trace_id(watch),
            kernel=self.kernel,
        )

    def submit(self, job: CheckJob) -> None:
        """Hand a job to the checker; dropped where its queue is full."""
        self.watch.tally.submit(job)
        if not CHECKER.submit(job):
            job.snapshot.release()
            self.watch.tally.settle(job, "dropped")

    def probe(self, entry: Entry, snapshot: Snapshot) -> None:
        """Run the kernel on copies that nobody else reads, and have the result checked."""
        watch = self.watch
        try:
            given = detached_copies(snapshot.tensors)
            arguments, keywords = rebuild(snapshot.template, given)
            with torch.no_grad():
                result = self.kernel(*arguments, **keywords)
            job = self._job(entry, snapshot, result, (arguments, keywords))
        except Exception as failure:
            watch.trouble("a probe", failure)
            entry.breaker.violation()
            snapshot.release()
            return
        if job is not None:
            self.submit(job)


# The compiled graph breaks here; see custom_op for one that does not. As torch.compiler.disable,
# which would load the whole compiler, a second and more, with every import of this module.
_disable: Any = getattr(torch, "_disable_dynamo", torch.compiler.disable)
_apart = _disable(lambda guarded, arguments, keywords: guarded(*arguments, **keywords))


def _plain(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a call is one of ordinary tensors, outside transforms and fake modes."""
    tensors, _ = flatten([tuple(arguments), dict(keywords)])
    if not tensors or torch._C._len_torch_dispatch_stack() > 0:
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return all(
        type(t) in (Tensor, Parameter) and t.device.type in ("cpu", "cuda") and not t.is_sparse
        for t in tensors
    )
