"""One noisy draw of the lifted reference: the hook that adds honest rounding errors.

Every operation gets the errors that a float32 (or declared) implementation of it may make, in
any honest order and form; where the reference as written rounds a result to bfloat16 or
float16, a rounding of that type follows. So a reference that rounds in the middle makes that
rounding, and its absence, trusted. Deviations of reductions hardly change between draws: the
first draw computes them, later ones reuse them in call order, also those of composites.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Observed, Operation, PassThrough, WriteHook, floating_in, mapped
from cuassay.oracle.lift.tensor import nominal_of
from cuassay.oracle.lift.together import Notes, NotTogether, all_runs, bits_as, first_run
from cuassay.oracle.truth.centred import NOTED, Centred
from cuassay.oracle.truth.composite import COMPOSITES
from cuassay.oracle.truth.decays import Decays
from cuassay.oracle.truth.noises import Noises
from cuassay.oracle.truth.operations import ARITHMETIC, EXACT, STEPS, TRANSCENDENTAL
from cuassay.oracle.truth.precision import GRIDS, Drawn, Family, Stored
from cuassay.oracle.truth.random_errors import Grid, Noise, look_first
from cuassay.oracle.truth.reductions import (
    BY_ATOMICS,
    PRODUCTS,
    REDUCTIONS,
    SCATTERED,
    deviation_of,
    lean_of,
)

Rounding: TypeAlias = Callable[[Tensor, Grid], Tensor]
Make: TypeAlias = Callable[[], Sequence[Tensor]]
_MODELLED = EXACT | ARITHMETIC | PRODUCTS | frozenset((*REDUCTIONS, *COMPOSITES))
_TO_WHOLE = frozenset(("_to_copy", "copy", "floor", "ceil", "round", "trunc", "floor_divide"))
_WHOLE_AGAIN = frozenset(("add", "sub", "rsub", "mul", "subtract", "multiply"))
_MOST_WHOLE = 2.0**24
_GUARD_BYTES = {"cpu": 1 << 30, "cuda": 1 << 33}  # kept deviations of one truth


class Deviations:
    """Deviations of reductions and composites in call order, shared by the draws of one truth.

    `tensor_cores` says whether matrix products may run on them (an input has 16 bits).
    `any_order` says that the reference as written rounds scattered sums to their narrow type after
    each term, in another order each time: such a sum errs in units of that type, not of `roundoff`.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        tensor_cores: bool = False,
        any_order: bool = False,
        roundoff: float = 2.0**-24,
        budget_bytes: int | None = None,
    ) -> None:
        self.tensor_cores, self.any_order = tensor_cores, any_order
        self.device, self.roundoff = device, roundoff
        self._kept: list[tuple[str, torch.Size, tuple[Tensor, ...]]] = []
        self._bytes = _GUARD_BYTES.get(device.type, 1 << 28)
        if budget_bytes is not None:
            self._bytes = min(self._bytes, budget_bytes // 4)
        self._room = self._bytes
        # mixed types are slow on the CPU
        self._dtype = torch.float64 if device.type == "cpu" else torch.float32

    def forget(self) -> None:
        """Begin again with the first draw."""
        self._kept.clear()
        self._bytes = self._room

    def get(
        self, place: int, name: str, out: Any, make: Make, *, together: bool
    ) -> tuple[Tensor, ...]:
        """Return what `make` found for the call at `place`, calling it at the first draw.

        Raises NotTogether where each of several draws `together` would find its own.
        """
        first = out[0] if isinstance(out, list | tuple) else out
        shape = first.shape if isinstance(first, Tensor) else torch.Size()
        if place < len(self._kept):
            known_name, known, kept = self._kept[place]
            if known_name == name and known == shape:
                return kept
            return tuple(make())  # data-dependent control flow
        found = tuple(torch.nan_to_num(t, 0.0, 0.0, 0.0).to(self._dtype) for t in make())
        size = sum(t.numel() * t.element_size() for t in found)
        if place == len(self._kept) and size <= self._bytes:
            self._bytes -= size
            self._kept.append((name, shape, found))
        elif together:
            raise NotTogether("deviations that are not kept")
        return found


def is_step(asked: Operation) -> bool:
    """Whether an operation turns floating numbers into places, truths or codes."""
    steps = asked.name in STEPS or (asked.name in ("_to_copy", "copy") and asked.nominal is None)
    return steps and bool(floating_in(asked.args))


class StepHook(PassThrough):
    """Changes nothing; says whether a jump was met, and a scattered sum of a narrow type.

    `by_atomics`: one that a GPU rounds after each addition. `to_whole`: floats became whole
    numbers, by a cast or by rounding.
    """

    def __init__(self) -> None:
        self.discontinuous = False
        self.to_whole = False
        self.scatters_narrow = False
        self.by_atomics = False

    def replace(self, operation: Operation) -> object:
        """Look at the operation and let it run."""
        narrow = operation.nominal in GRIDS
        self.scatters_narrow |= narrow and operation.name in SCATTERED
        self.by_atomics |= narrow and operation.name in BY_ATOMICS
        if is_step(operation):
            self.discontinuous = True
            self.to_whole |= operation.name in _TO_WHOLE
        return NotImplemented


class NoiseHook(WriteHook):
    """Adds one draw's errors to a lifted run, or those of several draws (`Noises`) to their runs.

    `discontinuous` says whether a jump was met.

    With `keeps_whole` sums, differences and products of whole numbers are exact, as every format
    has them: a reference counts places in floats and casts them, where an error would move all.
    """

    def __init__(
        self,
        noise: Noise,
        deviations: Deviations,
        family: Family | None = None,
        *,
        keeps_whole: bool = False,
    ) -> None:
        self.noise, self.deviations = noise, deviations
        self._together = isinstance(noise, Noises)
        self._keeps_whole = keeps_whole
        self._stored = Stored(family or Family(), Drawn(noise))
        stores = family is not None and family.intermediates is not None
        self._rounding: Rounding = noise.stored if stores else noise.rounding
        self._inside = False  # a decomposition: what it makes is not stored
        self.discontinuous = False
        self.unmodelled: set[str] = set()  # operations met in a form that no model knows
        self._calls = 0
        self._centred = Centred()
        self._decays = Decays(noise.log_sums, deviations.device)

    def replace(self, operation: Operation) -> object:
        """Run transcendental and unknown operations on perturbed arguments, or decompose."""
        name = operation.name
        self.discontinuous = self.discontinuous or is_step(operation)
        if operation.nominal is None:
            return NotImplemented
        made = self._stored.replace(operation)
        if made is not NotImplemented:
            return made
        if name in TRANSCENDENTAL:
            return operation.on(self._perturbed).run()
        if name in _MODELLED:
            return NotImplemented
        if operation.op in decomposition_table:
            outer, self._inside = self._inside, True
            try:
                found = self._decomposed(operation)
            finally:
                self._inside = outer
            if found is not NotImplemented:
                return found
        if not floating_in(operation.args):
            return NotImplemented
        return operation.on(self._perturbed).run()

    def _decomposed(self, operation: Operation) -> Any:
        """Run torch's decomposition. Its internals are float32: no rounding."""
        decomposition = decomposition_table[operation.op]
        if not self._together:
            with Observed(self, only_new=True, nominal=torch.float32):
                return decomposition(*operation.args, **operation.kwargs)
        # Behind torch's batching rules a mode would see all runs in one tensor.
        notes = Notes()
        first = operation.on(first_run)
        with Observed(notes):
            found = decomposition(*first.args, **first.kwargs)
        if found is NotImplemented:
            return found
        return notes.again(
            found,
            zip(tensors_in(first.args), tensors_in(operation.args), strict=True),
            Observed(self, only_new=True, nominal=torch.float32),
        )

    def after(self, operation: Operation, out: Any) -> object:
        """Add the operation's own errors, then the rounding of the reference as written."""
        try:
            name = operation.name
            if name in EXACT:
                noisy = self._rounded_move(operation, out)
            elif not floating_in(out):
                noisy = out
            elif name in REDUCTIONS or name in PRODUCTS:
                deviation = self._keep(operation, out, lambda: self._deviation(operation, out))
                noisy = self.noise.additive(out, *deviation) if deviation else out
            elif name in COMPOSITES:
                keep = partial(self._keep, operation, out)
                noisy = COMPOSITES[name](operation.named, out, self.noise, keep)
            elif name in ARITHMETIC:
                noisy = self._arithmetic(name, operation.named, out)
            else:
                unknown = floating_in(operation.args) and operation.op not in decomposition_table
                if name in TRANSCENDENTAL or unknown:
                    noisy = _changed(out, lambda t: self.noise.relative(t, 2.0))
                else:
                    noisy = out
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            if self._together or isinstance(error, torch.OutOfMemoryError):
                raise
            # a form of the operation that its model does not know: e_ref still counts
            self.unmodelled.add(str(operation.op))
            noisy = _changed(out, lambda t: self.noise.relative(t, 4.0))
        if operation.name not in EXACT:
            noisy = _rounded(self._rounding, noisy, out)
        noisy = self._decays.changed(operation, noisy)
        if not self._inside:
            noisy = self._stored.result(operation, out, noisy)
        if operation.name in NOTED:
            self._centred.note(operation.name, operation.named, noisy)
        return noisy

    def written(self, target: Tensor, value: Tensor | None) -> None:
        """Let a state that is written into memory decay as it did."""
        self._decays.written(target, value)

    def _perturbed(self, value: Any) -> Any:
        floating = isinstance(value, Tensor) and bool(floating_in(value))
        return self.noise.relative(value, 1.0) if floating else value

    def _deviation(self, asked: Operation, out: Any) -> tuple[Tensor, ...]:
        """Return the deviation of a sum, larger where its terms were centred (`Centred`).

        Of what tensor cores may sum a second tensor says how its errors lean, which is part of the
        first one's size: at most half of its square.
        """
        kept, values = self.deviations, asked.named.get("self")
        if self._together:
            asked, out = asked.on(first_run), mapped(out, first_run)
        found = deviation_of(asked, out, tensor_cores=kept.tensor_cores)
        if asked.name in ("sum", "mean"):

            def of(other: Tensor) -> Operation:
                return Operation(asked.op, (), {**asked.named, "self": first_run(other)})

            found = self._centred.deviation(
                values,
                found,
                total=lambda other: of(other).run(),
                reduced=lambda other: deviation_of(of(other), out),
            )
        if kept.any_order and found is not None and asked.name in SCATTERED:
            grid = None if asked.nominal is None else GRIDS.get(asked.nominal)
            found = found * (2.0**-grid.precision / kept.roundoff) if grid is not None else found
        lean = lean_of(asked) if kept.tensor_cores else None
        if found is None or lean is None:
            return () if found is None else (found,)
        lean = torch.minimum(lean.abs(), found * 2**-0.5).copysign_(lean)
        return (found.square() - lean.square()).sqrt_(), lean

    def _keep(
        self, asked: Operation, out: Any, make: Callable[..., Sequence[Tensor]], *given: Any
    ) -> tuple[Tensor, ...]:
        place, self._calls = self._calls, self._calls + 1
        if self._together:
            given = tuple(map(first_run, given))
        return self.deviations.get(
            place, str(asked.op), out, lambda: make(*given), together=self._together
        )

    def _arithmetic(self, name: str, named: dict[str, Any], out: Any) -> Any:
        noisy = self._erring(name, named, out)
        if not self._keeps_whole or name not in _WHOLE_AGAIN or out.is_complex():
            return noisy
        whole = _is_whole(out)
        for key in ("self", "other"):
            whole = whole & _is_whole(named[key])
        return torch.where(whole, out, noisy)

    def _erring(self, name: str, named: dict[str, Any], out: Any) -> Any:
        noisy = self.noise.relative(out, 1.0)
        if name not in ("add", "sub", "rsub", "subtract"):
            return noisy
        for key, factor in (("self", 1.0), ("other", float(named.get("alpha", 1)))):
            operand = named.get(key)
            if isinstance(operand, Tensor) and floating_in(operand):
                size = operand.abs() if operand.is_complex() else operand
                noisy = self.noise.additive(noisy, size * factor if factor != 1.0 else size)
        # Zeros that are the difference of coarse numbers stay: 1 - mask is exact in every form.
        zero = out == 0
        if out.is_complex() or (look_first(out) and not bool(all_runs(zero).any())):
            return noisy
        operand = named.get("self")
        if isinstance(operand, Tensor) and operand.dtype.is_floating_point:
            narrow = operand.float()
            zero &= (narrow == operand) & ((bits_as(narrow, torch.int32) & 0xFFFF) == 0)
        return torch.where(zero, out, noisy)

    def _rounded_move(self, asked: Operation, out: Any) -> Any:
        """Moved values are rounded only where a wider type becomes a narrower one."""
        given = floating_in([*asked.args, *asked.kwargs.values()])
        nominals = {nominal_of(t) for t in given}
        if not nominals:
            return out

        def narrow(tensor: Tensor) -> Tensor:
            own = nominal_of(tensor)
            if own not in GRIDS or nominals == {own} or self._stored.is_stored(given, own):
                return tensor
            return self._rounding(tensor, GRIDS[own])

        return _changed(out, narrow)


def _is_whole(value: Any) -> Any:
    """Whether each element is a whole number that float32 holds."""
    if not isinstance(value, Tensor):
        return math.isfinite(value) and value == int(value)
    if not floating_in(value):
        return True
    return (value == value.trunc()) & (value.abs() <= _MOST_WHOLE)


def _changed(out: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return results with every floating tensor changed."""
    return mapped(out, lambda t: change(t) if isinstance(t, Tensor) and floating_in(t) else t)


def _rounded(rounding: Rounding, noisy: Any, out: Any) -> Any:
    """Round each result to the nominal dtype that the plain result `out` carries."""
    if isinstance(out, Tensor):
        nominal = nominal_of(out)
        if nominal in GRIDS and isinstance(noisy, Tensor):
            return rounding(noisy, GRIDS[nominal])
        return noisy
    if isinstance(out, list | tuple) and isinstance(noisy, list | tuple):
        return tuple(_rounded(rounding, n, o) for n, o in zip(noisy, out, strict=True))
    return noisy
