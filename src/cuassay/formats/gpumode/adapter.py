"""The code that stands between GPU MODE's nested `data` and a function of tensors and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_COMMON = """

# ---- cuassay's adapter: data is taken apart into tensors and numbers, and put together ----
import torch as _cuassay_torch

_CUASSAY_DATA = {data}
_CUASSAY_NARROW = {narrow!r}


def _cuassay_join(form, leaves):
    kind = form[0]
    if kind == "leaf":
        return leaves[form[1]]
    if kind == "fresh":  # memory for the answer: a caller makes it for each call
        return _cuassay_torch.empty_like(leaves[form[1]])
    if kind == "held":
        return form[1]
    if kind == "dict":
        return {{key: _cuassay_join(part, leaves) for key, part in form[1]}}
    parts = [_cuassay_join(part, leaves) for part in form[1]]
    return tuple(parts) if kind == "tuple" else parts


def _cuassay_flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _cuassay_flat(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _cuassay_flat(part)]
    return [] if value is None or isinstance(value, str) else [value]


def _cuassay_narrow(value):
    wide = _CUASSAY_NARROW and getattr(value, "dtype", None) is _cuassay_torch.float64
    return value.to(getattr(_cuassay_torch, _CUASSAY_NARROW)) if wide else value


def _cuassay_answer(made):
    leaves = [_cuassay_narrow(leaf) for leaf in _cuassay_flat(made)]
    return leaves[0] if len(leaves) == 1 else tuple(leaves)
"""

_MODULES = """import sys as _cuassay_sys
import types as _cuassay_types

_CUASSAY_DEVICE = ["cpu"]
_CUASSAY_FILES = {files}


def _cuassay_device():
    return _CUASSAY_DEVICE[0]


def _cuassay_module(name, text):
    module = _cuassay_types.ModuleType(name)
    module.__dict__["_cuassay_device"] = _cuassay_device
    _cuassay_sys.modules[name] = module
    exec(compile(text, name + ".py", "exec"), module.__dict__)


_cuassay_held = {{name: _cuassay_sys.modules.pop(name, None) for name in _CUASSAY_FILES}}
for _cuassay_name, _cuassay_text in _CUASSAY_FILES.items():
    _cuassay_module(_cuassay_name, _cuassay_text)

"""

_REFERENCE = """

for _cuassay_name, _cuassay_old in _cuassay_held.items():
    _cuassay_sys.modules.pop(_cuassay_name, None)
    if _cuassay_old is not None:
        _cuassay_sys.modules[_cuassay_name] = _cuassay_old


def _cuassay_run({parameters}):
    leaves = ({parameters},)
    _CUASSAY_DEVICE[0] = str(next((v.device for v in leaves if hasattr(v, "device")), "cpu"))
    return _cuassay_answer(ref_kernel(_cuassay_join(_CUASSAY_DATA, leaves)))


def _cuassay_generate(axes_and_scalars, device):
    import torch

    _CUASSAY_DEVICE[0] = str(device)
    given = dict({fixed})
    axes = {axes}
    given.update((n, axes_and_scalars[a]) for n, a in axes.items() if a in axes_and_scalars)
    if {seeded}:
        given["seed"] = int(torch.randint(0, 2**31 - 1, ()).item())
    leaves = _cuassay_flat(generate_input(**given))
    moved = [v.to(device) if hasattr(v, "to") else v for v in leaves]
    return dict(zip({names}, moved))
"""

_CANDIDATE = """from {module} import custom_kernel


def run(*leaves):
    return _cuassay_answer(custom_kernel(_cuassay_join(_CUASSAY_DATA, leaves)))
"""


def library_source(files: Mapping[str, str]) -> str:
    """Return code that makes the task's other files importable by name, and nothing else so."""
    return _MODULES.format(files=repr(dict(files)))


def reference_source(
    text: str,
    files: Mapping[str, str],
    *,
    data: object,
    names: Sequence[str],
    axes: Mapping[str, str],
    fixed: Mapping[str, object],
    seeded: bool,
    narrow: str,
) -> str:
    """Return the task's reference with `_cuassay_run` and a generator around it.

    `narrow` is the dtype that answers in float64 are cast to, '' for none.
    """
    return (
        library_source(files)
        + text.rstrip("\n")
        + "\n"
        + _COMMON.format(data=repr(data), narrow=narrow)
        + _REFERENCE.format(
            parameters=", ".join(names),
            fixed=repr(dict(fixed)),
            axes=repr(dict(axes)),
            seeded=repr(seeded),
            names=repr(list(names)),
        )
    )


def candidate_source(module: str, *, data: object, narrow: str) -> str:
    """Return the entry file of a submission whose `module` defines custom_kernel."""
    title = '"""The entry of a GPU MODE submission."""'
    common = _COMMON.format(data=repr(data), narrow=narrow)
    return title + common + "\n\n" + _CANDIDATE.format(module=module)
