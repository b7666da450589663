"""Native problems whose call is more than tensors and numbers by position.

Keyword-only arguments, defaults, containers, config objects and arguments that the call writes to
are written as source text around flat inputs (`formats.structure`): once for the reference, which
becomes a function of the flat inputs, and once for the file through which a candidate is called.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats.native.spec import ScalarAnnotation, TensorAnnotation, tensor
from cuassay.formats.slicing import class_text
from cuassay.formats.structure import (
    CALL,
    PRELUDE,
    Written,
    is_tensor,
    library_import,
    output_text,
    outputs,
)
from cuassay.model.axes import names_in

# What the flat form of a reference is called in its module, after the function's own name.
FLAT = "__flat"
# In a candidate's entry file: the module and the function of the kernel.
MODULE, FUNCTION = "__KERNEL_MODULE__", "__KERNEL_FUNCTION__"
_ENTRY = '''\
"""Calls the kernel as its problem's reference is called."""

import importlib
import inspect

import torch

_kernel = importlib.import_module({module!r})
_function = _kernel
for _part in {function!r}.split("."):
    _function = getattr(_function, _part)


{prelude}

{call}

{classes}

{run}'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Structured:
    """A call over flat inputs.

    `leaves` are the flat inputs by name, `outputs` what the call gives, `body` the lines of a
    function that calls `_function`, `classes` those that the lines name, `held` what stays as the
    declaration has it, `updated` the leaves that every call changes.
    """

    leaves: Mapping[str, TensorAnnotation | ScalarAnnotation]
    outputs: Mapping[str, TensorAnnotation]
    body: str
    classes: Mapping[str, type]
    held: tuple[str, ...]
    updated: tuple[str, ...]

    def function(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return the reference as a function of the flat inputs."""
        name = f"{function.__name__}{FLAT}"
        scope: dict[str, Any] = {"_function": function, **self.classes}
        scope |= {"importlib": importlib, "inspect": inspect}
        exec(compile(f"{PRELUDE}\n\n{CALL}\n\n{self._run(name)}", f"<{name}>", "exec"), scope)
        flat: Callable[..., object] = scope[name]
        flat.__module__, flat.__doc__ = function.__module__, function.__doc__
        return flat

    def entry(self) -> str:
        """Return the file through which a candidate is called, with MODULE and FUNCTION in it."""
        texts = []
        for alias, kind in self.classes.items():
            imported = library_import(kind, alias)
            if imported:
                texts.append(imported)
                continue
            # The kernel's own class where it has one: what it is compared with must be the same.
            own = class_text(kind, alias).splitlines()
            texts.append(f"{alias} = getattr(_kernel, {kind.__name__!r}, None)")
            texts.append("\n".join([f"if {alias} is None:", *(f"    {row}" for row in own)]))
        return _ENTRY.format(
            module=MODULE,
            function=FUNCTION,
            prelude=PRELUDE,
            call=CALL,
            classes="\n".join(texts),
            run=self._run("run"),
        )

    def _run(self, name: str) -> str:
        return f"def {name}({', '.join(self.leaves)}):\n    import torch\n\n{self.body}\n"


def is_leaf(value: object) -> bool:
    """Whether a value of a declaration describes a tensor or a number that a call is given.

    A tensor itself, as a module's parameter, stands for any of its shape and type.
    """
    return isinstance(value, TensorAnnotation | ScalarAnnotation) or is_tensor(value)


def structured(arguments: Mapping[str, object], result: object, *, where: str) -> Structured:
    """Return a call from its arguments and result, in which annotations stand for inputs.

    Raises ProblemError for what another process cannot build, and for a size of an argument to
    be filled that no input has.
    """
    written = Written(is_leaf=is_leaf)
    outs = {n: v for n, v in arguments.items() if isinstance(v, TensorAnnotation) and v.out}
    texts = {
        name: name if name in outs else written.nested(name, value)
        for name, value in arguments.items()
    }
    leaves = {
        name: value
        if isinstance(value, TensorAnnotation | ScalarAnnotation)
        else tensor(str(value.dtype), *value.shape)
        for name, value in written.leaves.items()
    }
    updated = {
        f"{name}_after": (name, one)
        for name, one in leaves.items()
        if isinstance(one, TensorAnnotation) and one.updated
    }
    if any(isinstance(one, TensorAnnotation) and one.out for one in leaves.values()):
        raise ProblemError(f"{where}: tensor(..., out=True) is an argument by itself; move it out")
    found = list(outputs(result, is_leaf=is_leaf))
    wrong = next((one for _, _, one in found if not isinstance(one, TensorAnnotation)), None)
    if wrong is not None:
        raise ProblemError(f"{where}: its return holds {wrong!r}, expected tensor(...)")
    if not found and not outs and not updated:
        raise ProblemError(
            f"{where}: the return has no tensor(...), and no argument is written to; annotate the "
            "return, or say tensor(..., out=True) or tensor(..., updated=True) of an argument"
        )
    single = len(found) == 1
    named = {
        one.name or ("output" if single and not name else f"output_{name}" if name[:1].isdigit()
                     else name or "output"): one
        for name, _, one in found
    }  # fmt: skip
    lines = [f"    {name} = {_allocation(one, leaves, where)}" for name, one in outs.items()]
    told = ", ".join(f"{name!r}: {text}" for name, text in texts.items())
    lines.append(f"    _result = _call(_function, {{{told}}})")
    taken = [output_text(steps) for _, steps, _ in found]
    taken += [*outs, *(name for name, _ in updated.values())]
    lines.append(
        f"    return {taken[0]}" if len(taken) == 1 else f"    return ({', '.join(taken)})"
    )
    made = {**named, **outs, **{name: one for name, (_, one) in updated.items()}}
    if len(made) != len(taken):
        raise ProblemError(f"{where}: two outputs have one name; name them: tensor(..., name=...)")
    return Structured(
        leaves=leaves,
        outputs=made,
        body="\n".join(lines),
        classes=dict(written.classes),
        held=tuple(dict.fromkeys(written.held)),
        updated=tuple(name for name, _ in updated.values()),
    )


def _allocation(out: TensorAnnotation, leaves: Mapping[str, object], where: str) -> str:
    """Return the expression of fresh memory for an argument that the call fills."""
    tensors = {n: one for n, one in leaves.items() if isinstance(one, TensorAnnotation)}
    device = next((f", device={name}.device" for name in tensors), "")
    known = {
        size: f"{name}.shape[{position}]"
        for name, one in tensors.items()
        for position, size in enumerate(one.shape)
    }

    def size(text: str) -> str:
        if text in known:
            return known[text]
        for axis in names_in(text):
            if axis not in known:
                raise ProblemError(
                    f"{where}: no input has the axis '{axis}' as a size, so that memory for an "
                    "argument to be filled cannot be made; return the output instead"
                )
            text = re.sub(rf"\b{axis}\b", known[axis], text)
        return text.replace("ceil(", "__import__('math').ceil(")

    sizes = ", ".join(size(one) for one in out.shape)
    return f"torch.empty(({sizes}{',' if sizes else ''}), dtype=torch.{out.dtype}{device})"
