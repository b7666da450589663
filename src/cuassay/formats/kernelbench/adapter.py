"""The code that stands between KernelBench's classes and a function of tensors.

A problem's inputs are the forward arguments and then the model's state: parameters and buffers
travel as tensors, so that a candidate in another process has the reference's, bit for bit.
Both models are also built under the same seed, for kernels that pack weights when they are
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_COMMON = """

# ---- cuassay's adapter: a function of the forward arguments and of the model's state ----
import torch as _cuassay_torch

_CUASSAY_SEED = 42
_CUASSAY_INIT = {init}
_CUASSAY_STATE = {state}
_CUASSAY_BUFFERS = {buffers}
_CUASSAY_COUNT = {count}


def _cuassay_build(kind):
    # Empty until CUDA is initialised, which this must not do.
    devices = list(range(len(_cuassay_torch.cuda.default_generators)))
    with _cuassay_torch.random.fork_rng(devices=devices):
        _cuassay_torch.manual_seed(_CUASSAY_SEED)
        return kind(*_CUASSAY_INIT)
"""

_REFERENCE = """

_cuassay_model = _cuassay_build(Model)
_cuassay_place = {{}}


def run({parameters}):
    values = ({parameters},)
    arguments, given = values[:_CUASSAY_COUNT], values[_CUASSAY_COUNT:]
    state = dict(zip(_CUASSAY_STATE, given))
    for name in _CUASSAY_BUFFERS:
        state[name] = state[name].clone()
    device = next((v.device for v in values if hasattr(v, "device")), None)
    if device is not None and _cuassay_place.get("device") != device:
        _cuassay_model.to(device)
        _cuassay_place["device"] = device
    with _cuassay_torch.no_grad():
        return _cuassay_torch.func.functional_call(_cuassay_model, state, tuple(arguments))


def _cuassay_generate(axes_and_scalars, device):
    places, same = {axes}, {same}
    held = {{name: globals()[name] for name, _ in places.values()}}
    for axis, (name, position) in places.items():
        size = axes_and_scalars.get(same.get(axis, axis))
        if size is None:
            continue
        if position is None:
            globals()[name] = size
        else:
            items = list(globals()[name])
            items[position] = size
            globals()[name] = type(held[name])(items)
    try:
        made = [v.to(device) if hasattr(v, "to") else v for v in get_inputs()]
    finally:
        globals().update(held)
    state = _cuassay_model.state_dict()
    made += [state[name].detach().clone().to(device) for name in _CUASSAY_STATE]
    return dict(zip({names}, made))
"""

_CANDIDATE = '''from {module} import ModelNew

_cuassay_made = _cuassay_build(ModelNew)
_cuassay_models = {{}}


def _cuassay_own(model):
    kept = set(model.state_dict())
    own = dict(model.named_parameters())
    own.update((name, value) for name, value in model.named_buffers() if name in kept)
    return own


def _cuassay_pairs(model, given):
    """The reference's state by position with the tensor that takes each.

    By name; else by equal values, for both models draw under one seed; else by order and shape.
    """
    own = _cuassay_own(model)
    if set(own) == set(_CUASSAY_STATE):
        return [(position, own[name]) for position, name in enumerate(_CUASSAY_STATE)]
    left, pairs = dict(own), {{}}
    for same in (_cuassay_torch.equal, lambda mine, theirs: True):
        for position, value in enumerate(given):
            if position in pairs:
                continue
            for name, mine in left.items():
                if mine.shape == value.shape and mine.dtype == value.dtype and same(mine, value):
                    pairs[position] = left.pop(name)
                    break
    return list(pairs.items())


def _cuassay_ready(device, given):
    if device not in _cuassay_models:
        model = _cuassay_made.to(device)
        _cuassay_models[device] = model, _cuassay_pairs(model, given)
    return _cuassay_models[device]


def run(*values):
    arguments, given = values[:_CUASSAY_COUNT], values[_CUASSAY_COUNT:]
    device = next((v.device for v in values if hasattr(v, "device")), "cpu")
    model, pairs = _cuassay_ready(device, given)
    with _cuassay_torch.no_grad():
        for position, own in pairs:
            if isinstance(own, _cuassay_torch.nn.Parameter) and own.dtype == given[position].dtype:
                own.data = given[position]
            else:
                own.copy_(given[position])
        return model(*arguments)
'''


def reference_source(
    text: str,
    *,
    init: Sequence[object],
    arguments: Sequence[str],
    state: Mapping[str, str],
    buffers: Sequence[str],
    axes: Mapping[str, tuple[str, int | None]],
    same: Mapping[str, str],
) -> str:
    """Return the problem's file with `run` and a generator below it.

    `arguments` are the forward parameters, `state` maps the model's names to input names, `axes`
    axes to the names and positions at the file's top level, `same` some of them to the axis that
    they always equal.
    """
    names = [*arguments, *state.values()]
    common = _COMMON.format(
        init=repr(list(init)), state=repr(list(state)), buffers=repr(list(buffers)),
        count=len(arguments),
    )  # fmt: skip
    adapter = _REFERENCE.format(
        parameters=", ".join(names), axes=repr(dict(axes)), same=repr(dict(same)), names=repr(names)
    )
    return text.rstrip("\n") + "\n" + common + adapter


def candidate_source(
    module: str,
    *,
    init: Sequence[object],
    state: Sequence[str],
    count: int,
) -> str:
    """Return the entry file of a candidate whose `module` defines ModelNew."""
    common = _COMMON.format(
        init=repr(list(init)), state=repr(list(state)), buffers="()", count=count
    )
    title = '"""The entry of a KernelBench candidate."""\n'
    return title + common + _CANDIDATE.format(module=module)
