"""Runs each ATen operation of a reference in lifted precision and tells the hook.

One session is one run. A dispatch mode brings every operation here, factories included; the
tensors are `Lifted` wrappers. Low-precision tensors that the reference did not make itself
(weights of a module, module-level tables) are lifted when met; writes into them go to the
lifted copy, never to the original.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from cuassay.dispatch_modes import UntracedMode, tensors_in
from cuassay.errors import LiftError
from cuassay.hooks import Following, Hook, Operation, WriteHook, mapped, run_end
from cuassay.oracle.lift import index_range
from cuassay.oracle.lift.nominal import Nominals, nominal_at, nominals_of
from cuassay.oracle.lift.parts import parts_of, piece
from cuassay.oracle.lift.source import source_line
from cuassay.oracle.lift.special import SPECIAL
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, lifted_dtype, nominal_of, same_kind
from cuassay.oracle.lift.traits import Traits, traits_of

_REAL = frozenset((torch.float64, torch.float32, torch.bfloat16, torch.float16))
_CAST = torch.ops.aten._to_copy.default


class HookFailure(BaseException):
    """Carries a hook's own exception past the reference's `except Exception`."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


class BorrowedWrite(BaseException):  # passes the reference's `except Exception`
    """The reference writes into an input that was borrowed: it needs a copy of its own."""


class Session:
    """One lifted run: the precision, the hook and the constants met so far."""

    def __init__(self, to: torch.dtype, hook: Hook | None) -> None:
        self.to, self.hook = to, hook
        self.bypass = False  # run operations as they come: the lift's own work
        self._end = run_end.get()
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Run operations as they come."""
        self.bypass = True
        try:
            yield
        finally:
            self.bypass = False

    def dispatch(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one operation of the reference and return wrapped results.

        Raises LiftError for what cannot be lifted; errors of the operation pass through.
        """
        if self.bypass:
            return op(*args, **kwargs)
        try:
            self._end()
        except Exception as error:
            raise HookFailure(error) from None
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return self.dispatch(op, args, kwargs)
        asked, traits = Operation(op, args, kwargs), traits_of(op)
        if traits.refusal:
            raise LiftError(str(asked.op), source_line(), traits.refusal)
        if traits.view and (view := self._view(asked)) is not None:
            return view
        nominals = nominals_of(asked, traits)
        targets = traits.targets(asked)
        if any(isinstance(target, Lifted) and target.borrowed for target in targets):
            raise BorrowedWrite
        source = asked.args[0] if asked.args else None
        # A cast that rounds nothing stays borrowed, as a view does: a write into either ends the
        # run, so that a copy may stay the original's memory.
        if (
            asked.op is _CAST
            and isinstance(source, Lifted)
            and source.borrowed
            and nominals[0] in _REAL
            and asked.kwargs.get("device") in (None, source.device)
        ):
            return Lifted(source.payload, nominals[0], self, borrowed=True)
        special = SPECIAL.get(asked.op)
        if special is not None:
            return special(self, asked, nominals)
        if traits.random:
            return self._random(asked, traits, nominals)
        joined = self._in_parts(asked, traits, nominals)
        return self.run(asked, traits, nominals) if joined is None else joined

    def run(self, asked: Operation, traits: Traits, nominals: Nominals) -> Any:
        """Run an operation on payloads, with the hook, and wrap or write what it gives."""
        low = self.low(asked)
        if traits.written:
            return self._write(asked, low, traits, nominals)
        return self.wrap(self._hooked(low, traits, nominals), nominals)

    def _view(self, asked: Operation) -> Any:
        """Return views of a lifted tensor; None where their dtype may follow from something else.

        No hook sees a view, and a loop in Python makes more of them than of all other operations.
        """
        source = asked.args[0] if asked.args else None
        if not isinstance(source, Lifted) or source.dtype not in _REAL or asked.op in SPECIAL:
            return None
        out = asked.on(lambda v: v.payload if isinstance(v, Lifted) else v).run()
        return mapped(
            out,
            lambda v: (
                Lifted(v, same_kind(source.dtype, v.dtype), self, borrowed=source.borrowed)
                if isinstance(v, torch.Tensor)
                else v
            ),
        )

    def _in_parts(self, asked: Operation, traits: Traits, nominals: Nominals) -> Any:
        """Return the product of a large borrowed factor, made part by part; None for all else.

        A hook is shown a product for each part.
        """
        parts = parts_of(asked.op, asked.args, lambda v: isinstance(v, Lifted) and v.borrowed)
        if parts is None:
            return None
        split, length, step = parts.split, parts.length, parts.step
        given = list(asked.args)
        for place in split.arguments:
            if not isinstance(given[place], Lifted):
                payload = self._payload(given[place])
                given[place] = Lifted(payload, given[place].dtype, self)
        whole: torch.Tensor | None = None
        for start in range(0, length, step):
            some = list(given)
            for place, axis in split.arguments.items():
                one: Lifted = given[place]
                payload = piece(one.payload, axis, start, step, length=length)
                some[place] = Lifted(payload, one.dtype, self, borrowed=one.borrowed)
            made = self.run(Operation(asked.op, some, asked.kwargs), traits, nominals).payload
            if whole is None:
                shape = list(made.shape)
                shape[split.result] = length
                whole = made.new_empty(shape)
            piece(whole, split.result, start, step, length=length).copy_(made)
        assert whole is not None
        return self._wrap(whole, 0, nominals)

    def _hooked(self, low: Operation, traits: Traits, nominals: Nominals) -> Any:
        if self.hook is None or traits.view:
            return self.call(low)
        low = low.under(next((n for n in nominals if n in LIFTABLE), None))
        try:
            out: Any = self.hook.replace(low)
        except Exception as error:
            raise HookFailure(error) from error
        if out is NotImplemented:
            out = self.call(low)
        return self.after(low, out, nominals)

    def after(self, low: Operation, out: Any, nominals: Nominals) -> Any:
        """Show the hook a result and return what it makes of it."""
        if self.hook is None:
            return out
        floating = [(n, t) for n, t in enumerate(tensors_in(out)) if t.dtype in LIFTABLE]
        for index, tensor in floating:
            nominal = nominal_at(nominals, index, tensor.dtype)
            tensor.cuassay_nominal = nominal  # type: ignore[attr-defined]
        try:
            return self.hook.after(low.under(nominal_of(floating[0][1]) if floating else None), out)
        except Exception as error:
            raise HookFailure(error) from error

    def call(self, low: Operation) -> Any:
        """Run an operation on payloads; int/int, literals and factories give lifted floats."""
        index_range.look(low)
        before = torch.get_default_dtype()
        torch.set_default_dtype(lifted_dtype(before, self.to))
        try:
            return low.run()
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" in str(error) or "not support" in str(error):
                why = f"it does not run in {str(self.to).removeprefix('torch.')}: {error}"
                raise LiftError(str(low.op), source_line(), why) from error
            raise
        finally:
            torch.set_default_dtype(before)

    def _write(self, asked: Operation, low: Operation, traits: Traits, nominals: Nominals) -> Any:
        functional = traits.functional
        if self.hook is None or functional is None or traits.metadata:
            self.call(low)
            if isinstance(self.hook, WriteHook) and not traits.metadata:
                for target in traits.targets(low):
                    self.hook.written(target, None)
        else:
            facts = traits_of(functional)
            inputs = {name: v for name, v in low.kwargs.items() if name in facts.names}
            value = self._hooked(Operation(functional, low.args, inputs), facts, nominals)
            for target, result in zip(traits.targets(low), tensors_in(value), strict=True):
                if not target.numel() and target.shape != result.shape:  # as torch does with `out=`
                    target.resize_(result.shape)
                target.copy_(result)
                if isinstance(self.hook, WriteHook):
                    self.hook.written(target, result)
        if traits.metadata and any(isinstance(one, Lifted) for one in traits.targets(asked)):
            with torch._C._DisableTorchDispatch():
                asked.run()
        # An `out=` tensor of another shape is resized by the operation: so is its wrapper.
        for target in traits.targets(asked):
            if isinstance(target, Lifted) and target.shape != target.payload.shape:
                with torch._C._DisableTorchDispatch():
                    target.resize_(target.payload.shape)
        return _returned(asked, traits)

    def _random(self, asked: Operation, traits: Traits, nominals: Nominals) -> Any:
        """Draw in the nominal dtype, so that the same generator gives the same numbers."""
        plain = asked.on(lambda v: v.payload.to(v.dtype) if isinstance(v, Lifted) else v)
        out, low = plain.run(), self.low(asked)
        if not traits.written:

            def widened(value: Any) -> Any:
                lifts = isinstance(value, torch.Tensor)
                return value.to(lifted_dtype(value.dtype, self.to)) if lifts else value

            return self.wrap(self.after(low, mapped(out, widened), nominals), nominals)
        for target, value in zip(traits.targets(low), traits.targets(plain), strict=True):
            if target is not value:
                target.copy_(self.after(low, value.to(target.dtype), nominals))
        return _returned(asked, traits)

    def low(self, asked: Operation) -> Operation:
        """Return the operation on payloads."""
        return asked.on(self._payload)

    def unwrap(self, value: Any) -> Any:
        """Return `value` with payloads for tensors and lifted dtypes for dtypes."""
        return mapped(value, self._payload)

    def _payload(self, value: Any) -> Any:
        if isinstance(value, Lifted):
            return self.read(value)
        if isinstance(value, torch.Tensor):
            if value.dtype not in LIFTABLE:
                return value
            known = self._constants.get(id(value))
            if known is None:
                payload = value.detach().to(lifted_dtype(value.dtype, self.to), copy=True)
                payload.cuassay_nominal = value.dtype  # type: ignore[attr-defined]
                known = self._constants[id(value)] = (value, payload)
                if isinstance(self.hook, Following):
                    self.hook.given(payload, number=is_number(value))
            return known[1]
        return lifted_dtype(value, self.to) if isinstance(value, torch.dtype) else value

    def read(self, tensor: Lifted) -> torch.Tensor:
        """Return a tensor's value in lifted precision."""
        if not tensor.borrowed:
            return tensor.payload
        payload = tensor.payload.to(lifted_dtype(tensor.dtype, self.to), copy=True)
        payload.cuassay_nominal = tensor.dtype  # type: ignore[attr-defined]
        return payload

    def wrap(self, out: Any, nominals: Nominals) -> Any:
        """Return results with floating tensors wrapped under their nominal dtypes."""
        count = itertools.count()

        def wrapped(item: Any) -> Any:
            if not isinstance(item, torch.Tensor):
                return item
            return self._wrap(item, next(count), nominals)

        return mapped(out, wrapped)

    def _wrap(self, out: torch.Tensor, index: int, nominals: Nominals) -> torch.Tensor:
        if out.dtype not in LIFTABLE:
            return out
        if out.layout is not torch.strided:
            raise LiftError(str(out.layout), source_line(), "only strided tensors are lifted")
        nominal = nominal_at(nominals, index, out.dtype)
        if out.is_complex() and out.is_conj():
            out = out.resolve_conj()
        if out.dtype is not (wanted := lifted_dtype(nominal, self.to)):
            out = out.to(wanted)
        return Lifted(out, nominal, self)

    def output(self, tensor: torch.Tensor, to: torch.dtype | None) -> torch.Tensor:
        """Return what the reference returned as a plain tensor, as `to` if given."""
        found = tensor.payload if isinstance(tensor, Lifted) else tensor.detach()
        if isinstance(tensor, Lifted) and tensor.borrowed:
            found = found.clone()  # the caller's memory stays the caller's
        return (found if to is None else found.to(to)).detach()

    def adopt(self, payload: torch.Tensor, nominal: torch.dtype) -> torch.Tensor:
        """Return a literal's value as a tensor of the run, shown to the hook as lift_fresh."""
        fresh = Operation(torch.ops.aten.lift_fresh.default, (payload,), {})
        return self._wrap(self.after(fresh, payload, (nominal,)), 0, (nominal,))


class LiftMode(UntracedMode):
    """Brings every operation of the running thread to a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Hand the operation over."""
        return self.session.dispatch(func, args, kwargs or {})


def is_number(tensor: torch.Tensor) -> bool:
    """Return whether torch wrapped a Python number: it has no say beside a float32 scalar."""
    if tensor.dim() or tensor.dtype is not torch.float64:
        return False
    beside = torch.zeros((), dtype=torch.float32)
    return torch.result_type(tensor, beside) is torch.float32


def _returned(asked: Operation, traits: Traits) -> Any:
    """Return the written arguments themselves, as the operation does."""
    found = []
    for name in traits.returned:
        position = traits.names.index(name) if name else len(asked.args)
        given = position < len(asked.args)
        found.append(asked.args[position] if given else asked.kwargs.get(name or ""))
    return found[0] if len(found) == 1 else tuple(found) if found else None
