"""A case is a recipe; this turns it into tensors and scalars on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from cuassay.errors import CuassayError, ReferenceError_
from cuassay.inputs.discrete import with_ones
from cuassay.inputs.fills import default_fill, family, make, mask_of
from cuassay.inputs.legal import narrowed, structured
from cuassay.inputs.related import relate
from cuassay.inputs.scalars import default_scalar, sizes_given
from cuassay.inputs.seeds import derive
from cuassay.inputs.transforms import transformed
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import GENERATED, UNSTRUCTURED, Case, Fill
from cuassay.model.device import Device
from cuassay.model.domain import Mask
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec

Value: TypeAlias = torch.Tensor | Scalar
Generator: TypeAlias = Callable[..., Mapping[str, object]]
_SHORT = 4096  # elements
_FEW, _DRAWS = 64, 32  # elements that may be drawn alike twice, and how often that is tried


def materialise(
    problem: Problem, case: Case, *, device: Device, generator: Generator | None = None
) -> dict[str, Value]:
    """Return fresh inputs of `case` in the order of the problem's inputs.

    Each tensor's seed is derived from the case's seed and the input's name (and the fill's
    parameter `salt`, which moves one input alone, to other values where there are any; of a
    salted input the first `head` elements stay). With `case.generator` the problem's own
    generator runs first, under the case's seed, and the case's fills and scalars replace what it
    made; a fill of kind `generated` transforms what it made. Fills may carry transforms (see
    inputs.transforms), and make an input of another one (see inputs.related). Raises
    ReferenceError_ where the generator fails or leaves an input out.
    """
    sizes = resolve(
        problem.axes,
        {k: v for k, v in case.axes.items() if any(axis.name == k for axis in problem.axes)},
    )
    # The scalars that the case states, and those that repeat the size of an axis.
    stated = {
        spec.name: case.scalars[spec.name]
        for spec in problem.inputs
        if isinstance(spec, ScalarSpec) and spec.name in case.scalars
    }
    given = stated | sizes_given(problem, sizes)
    # `drawn` is the sizes at which the generator runs: those of the whole that slices are taken
    # of.
    whole: dict[str, int] = {}
    for fill in case.fills.values():
        axis, of = fill.parameters.get("take_axis"), fill.parameters.get("take_of")
        if _from_generator(fill) and isinstance(axis, str) and isinstance(of, int):
            whole[axis] = of
    drawn = resolve(problem.axes, {**sizes, **whole}) if whole else sizes
    made = _generated(
        problem,
        case,
        stated | sizes_given(problem, drawn),
        sizes=drawn,
        device=device,
        generator=generator,
    )
    values: dict[str, Value] = {}
    for spec in problem.inputs:
        if isinstance(spec, ScalarSpec):
            if spec.name in given:
                values[spec.name] = given[spec.name]
            else:
                value = made.get(spec.name)
                if isinstance(value, torch.Tensor) and value.numel() == 1:
                    value = value.item()
                if isinstance(value, bool | int | float):
                    values[spec.name] = value
                else:
                    values[spec.name] = default_scalar(spec, seed=derive(case.seed, spec.name))
        elif spec.name in made and _from_generator(case.fills.get(spec.name)):
            values[spec.name] = _generators(spec, case, sizes, made[spec.name], device=device)
        else:
            plain = with_ones(problem, spec) if isinstance(spec.domain, Mask) else spec
            values[spec.name] = _drawn(plain, case, sizes, device=device)
    values |= relate(problem, case, values)
    for spec in problem.inputs:
        match spec.domain:
            case Mask(lengths=lengths) as domain if lengths and isinstance(spec, TensorSpec):
                mask, rows = values[spec.name], values[lengths]
                assert isinstance(mask, torch.Tensor)
                assert isinstance(rows, torch.Tensor)
                columns = torch.arange(mask.shape[-1], device=mask.device)
                values[spec.name] = mask_of(columns < rows.unsqueeze(-1), spec, domain)
    return values


def short_numbers(problem: Problem, case: Case, *, device: Device) -> dict[str, torch.Tensor]:
    """Return the whole numbers of few elements that a case draws, with the values they have in it.

    Lengths and offsets are such: code that reads them can be followed where all else has no values.
    """
    sizes = resolve(problem.axes, case.axes)
    return {
        spec.name: _drawn(spec, case, sizes, device=device)
        for spec in problem.inputs
        if isinstance(spec, TensorSpec)
        and not spec.dtype.is_floating
        and not isinstance(spec.domain, Mask)
        and not (case.benchmark or (case.generator and _from_generator(case.fills.get(spec.name))))
        and math.prod(shape_of(spec.shape, sizes)) <= _SHORT
    }


def _from_generator(fill: Fill | None) -> bool:
    return fill is None or fill.kind == GENERATED


def _generators(
    spec: TensorSpec, case: Case, sizes: Mapping[str, int], value: object, *, device: Device
) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise ReferenceError_(
            f"the problem's generator made a {type(value).__name__} for input '{spec.name}', "
            "expected a torch.Tensor"
        )
    own = value.detach().to(device)
    fill = case.fills.get(spec.name)
    return own if fill is None else transformed(spec, fill, sizes, lambda _: own)


def _drawn(
    spec: TensorSpec, case: Case, sizes: Mapping[str, int], *, device: Device
) -> torch.Tensor:
    fill = case.fills.get(spec.name) or default_fill(spec)

    def drawn(salt: object) -> torch.Tensor:
        seed = derive(case.seed, spec.name, salt)
        value = transformed(
            spec,
            fill,
            sizes,
            lambda wanted: make(spec, fill, sizes=wanted, seed=seed, device=device),
        )
        # A change of rows or of single elements may have broken the structure, and rounded more.
        value = narrowed(spec.domain, value)
        return value if UNSTRUCTURED in fill.parameters else structured(spec.domain, value)

    salt, head = fill.parameters.get("salt", 0), fill.parameters.get("head", 0)
    value = drawn(salt)
    if salt and family(spec) != "real" and value.numel() <= _FEW:
        # A flag or an index moved alone: another draw of so few values may be the same one.
        for turn in range(1, _DRAWS):
            if not torch.equal(value, drawn(0)):
                break
            value = drawn(f"{salt}/{turn}")
    if isinstance(head, int) and head > 0:
        value.reshape(-1)[:head] = drawn(0).reshape(-1)[:head]
    return value


def _generated(
    problem: Problem,
    case: Case,
    given: Mapping[str, Scalar],
    *,
    sizes: Mapping[str, int],
    device: Device,
    generator: Generator | None,
) -> Mapping[str, object]:
    """Run the problem's generator under the case's seed; global random state is restored."""
    if not case.generator or generator is None:
        return {}
    arguments: dict[str, object] = {**sizes, **given}
    devices = [torch.cuda.current_device()] if device.on_gpu else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive(case.seed, "generator"))
        try:
            made = generator(arguments, torch.device(device))
        except (CuassayError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise ReferenceError_(
                f"the generator of problem '{problem.name}' raised {type(error).__name__}: "
                f"{error} (axes: {listed})"
            ) from error
    if not isinstance(made, Mapping):
        raise ReferenceError_(
            f"the generator of problem '{problem.name}' returned a {type(made).__name__}, "
            "expected a dict from input name to value"
        )
    if problem.origin == "native":
        return made  # it may make only what a domain cannot say; the rest is drawn
    wanted = [s.name for s in problem.inputs if isinstance(s, TensorSpec)]
    absent = [name for name in wanted if name not in made and name not in case.fills]
    if absent:
        raise ReferenceError_(
            f"the generator of problem '{problem.name}' made no {', '.join(absent)}; "
            f"it made {', '.join(map(str, made)) or 'nothing'}"
        )
    return made
