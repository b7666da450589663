"""Load a problem's reference and generator: user code, run by the judge."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from cuassay.errors import CuassayError, ProblemError, ReferenceError_
from cuassay.formats.generated import check_made
from cuassay.formats.modules import describe_failure, import_file
from cuassay.formats.native import declaration as native
from cuassay.model.problem import Problem, TensorSpec

Generator = Callable[..., Mapping[str, object]]
_NAMES_A_GPU = re.compile(r"""["']cuda(:\d+)?["']|\.cuda\(""")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedReference:
    """The reference as a callable over the inputs in order, and the input generator if any.

    `generator(axes_and_scalars, device)` returns a mapping from input name to value.
    """

    call: Callable[..., object]
    generator: Generator | None = None

    @property
    def differentiable(self) -> Callable[..., object]:
        """The reference for gradients, which a module's own call may hide as its caller would."""
        return cast("Callable[..., object]", getattr(self.call, "with_gradients", self.call))


def load_reference(problem: Problem) -> LoadedReference:
    """Import the file of the problem's reference and return its functions.

    Raises ReferenceError_ where the file's code raises, ProblemError where a function is
    missing. A generator's exceptions and wrong returns come back as ReferenceError_ too.
    """
    reference = problem.reference
    call = _function(problem, reference.function)
    if reference.generator is None:
        return LoadedReference(call=call)
    made = _function(problem, reference.generator)
    return LoadedReference(call=call, generator=_checked(made, problem))


def on_cpu(reference: LoadedReference, source: str) -> LoadedReference:
    """Return the reference for a trial without a GPU, of which its `source` may ask memory.

    A constant that it makes on "cuda" is then made on the CPU, where its inputs are.
    """
    if not _NAMES_A_GPU.search(source):
        return reference

    def moved(function: Callable[..., Any]) -> Callable[..., Any]:
        from cuassay.dispatch_modes import OnCpu

        @functools.wraps(function)
        def call(*arguments: object, **keywords: object) -> Any:
            with OnCpu():
                return function(*arguments, **keywords)

        return call

    call: Any = moved(reference.call)
    gradients = reference.differentiable
    call.with_gradients = call if gradients is reference.call else moved(gradients)
    generator = reference.generator and moved(reference.generator)
    return LoadedReference(call=call, generator=generator)


def _function(problem: Problem, name: str) -> Callable[..., object]:
    path = problem.reference.path
    known = native.registered(path, name)
    if known is not None:
        return known
    if "<locals>" in name:
        raise ReferenceError_(
            f"the reference '{name}' of {path} stands inside a function; "
            "move it to the top level of the file so that this process can load it"
        )
    if not path.is_file():
        raise ReferenceError_(
            f"the reference of problem '{problem.name}' was in {path}, which is gone; "
            "load the problem again"
        )
    found: object = import_file(path)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ProblemError(
            f"{path} defines no function '{name}' when it is run; "
            f"expected a top-level 'def {name}(...)' that nothing deletes or replaces"
        )
    return cast("Callable[..., object]", found)


def _checked(generator: Callable[..., object], problem: Problem) -> Generator:
    path = problem.reference.path
    name = problem.reference.generator

    def make(*arguments: object, **keywords: object) -> Mapping[str, object]:
        try:
            made = generator(*arguments, **keywords)
        except CuassayError:
            raise
        except Exception as failure:
            import torch  # whoever runs a generator has loaded it

            if isinstance(failure, torch.OutOfMemoryError):
                raise  # the judge's own doing: a smaller case may have room
            raise ReferenceError_(
                f"the generator '{name}' of problem '{problem.name}' raised "
                f"{describe_failure(failure, path)}; correct it"
            ) from failure
        if not isinstance(made, Mapping):
            raise ReferenceError_(
                f"the generator '{problem.reference.generator}' in {path} returned a "
                f"{type(made).__name__}, expected a dict from input name to value"
            )
        kept = {spec.name: made[spec.name] for spec in problem.inputs if spec.name in made}
        tensors = [spec.name for spec in problem.inputs if isinstance(spec, TensorSpec)]
        missing = [name for name in tensors if name not in kept]
        if missing and problem.origin != "native":  # natively, what is missing is drawn
            raise ReferenceError_(
                f"the generator '{problem.reference.generator}' in {path} returned no value for "
                f"{', '.join(missing)}; expected a dict with every input: {', '.join(tensors)}"
            )
        sizes = arguments[0] if arguments and isinstance(arguments[0], Mapping) else {}
        where = f"the generator '{name}' of problem '{problem.name}'"
        check_made(problem, kept, sizes, where=where)
        return kept

    make.__signature__ = inspect.signature(generator)  # type: ignore[attr-defined]
    return make
