"""The code that stands between KernelBench's classes and a function of tensors.

A problem's inputs are the forward arguments, then the model's state, then where a call takes its
state from. Parameters and buffers travel as tensors, so that a candidate in another process has
the reference's, bit for bit. Both models are also built under the same seed, as the benchmark
does: a kernel may pack weights when it is made, and a call may ask for what it was built with.
Where the constructor's sizes are axes, their values stand behind the state, then other numbers that
workloads list for it, and both models are built for those of a call when they are first met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuassay.formats.structure import PRELUDE, PathStep, output_text
from cuassay.model.problem import STATE_SAMPLE, STATE_SOURCE, StateSource

BUILT = "built_"  # begins the names of scalars that say what a module is built with
_KEPT = 4  # models of other sizes that a process keeps
_LARGE = 1 << 22  # elements that are drawn at once on a GPU, from which that is sooner
_EVALUATING = (StateSource.GIVEN_EVALUATION.value, StateSource.INITIAL_EVALUATION.value)
_COMMON = """

# ---- cuassay's adapter: a function of the forward arguments and of the model's state ----
import contextlib as _cuassay_contextlib
import threading as _cuassay_threading

import torch as _cuassay_torch

_CUASSAY_SEED = 42
_CUASSAY_INIT = {init}
_CUASSAY_STATE = {state}
_CUASSAY_BUFFERS = {buffers}
_CUASSAY_BUILT = {built}
_CUASSAY_COUNT = {count}
_CUASSAY_CALL = {call!r}
_cuassay_lock = _cuassay_threading.RLock()


{call}


def _cuassay_put(value, place, size):
    if not place:
        return size
    items = list(value)
    items[place[0]] = _cuassay_put(items[place[0]], place[1:], size)
    return type(value)(items)


@_cuassay_contextlib.contextmanager
def _cuassay_fills():
    # Draws large tensors of a CPU on the GPU, seeded by the CPU's generator: there torch takes up
    # to 30 ns for an element of 16 bits, ten seconds for the experts of one layer. Methods are
    # replaced: under a dispatch mode torch.jit.trace takes what convolutions return for constants.
    tensor = _cuassay_torch.Tensor
    with _cuassay_lock:
        for name in ("normal_", "uniform_"):
            setattr(tensor, name, _cuassay_drawn(getattr(tensor, name)))
        try:
            yield
        finally:
            for name in ("normal_", "uniform_"):
                delattr(tensor, name)  # torch's own is that of the base class


def _cuassay_drawn(fill):
    thread = _cuassay_threading.get_ident()

    def drawn(self, *args, **named):
        is_large = self.device.type == "cpu" and self.numel() >= {large}
        is_ours = is_large and _cuassay_threading.get_ident() == thread
        if not is_ours or not self.is_contiguous() or named.get("generator"):
            return fill(self, *args, **named)
        seed = int(_cuassay_torch.randint(2**62, ()))
        gpu = f"cuda:{{_cuassay_torch.cuda.current_device()}}"
        named["generator"] = _cuassay_torch.Generator(gpu).manual_seed(seed)
        for part in self.view(-1).split({large}):
            values = _cuassay_torch.empty(part.shape, dtype=part.dtype, device=gpu)
            part.copy_(fill(values, *args, **named))
        return self

    return drawn


def _cuassay_build(kind, sizes=()):
    # Under the benchmark's seed; `sizes` are those of _CUASSAY_BUILT, and without any its own.
    init = _CUASSAY_INIT
    for places, size in zip(_CUASSAY_BUILT.values(), sizes):
        for place in places:
            init = _cuassay_put(init, place, size)
    # Empty until CUDA is initialised, which this must not do, and where no GPU is.
    devices = list(range(len(_cuassay_torch.cuda.default_generators)))
    with _cuassay_torch.random.fork_rng(devices=devices):
        _cuassay_torch.manual_seed(_CUASSAY_SEED)
        if not (sizes and devices):
            return kind(*init)
        # Sizes come with a call, whose tensors are on the GPU for the reference and the kernel.
        with _cuassay_fills():
            return kind(*init)


def _cuassay_split(values):
    # The forward's arguments, the state, the sizes to build for, where the state comes from.
    arguments, rest = values[:_CUASSAY_COUNT], values[_CUASSAY_COUNT:]
    given, rest = rest[: len(_CUASSAY_STATE)], rest[len(_CUASSAY_STATE) :]
    sizes = rest[: len(_CUASSAY_BUILT)]
    sizes = tuple(size if isinstance(size, float) else int(size) for size in sizes)
    return arguments, given, sizes, next(iter(rest[len(_CUASSAY_BUILT) :]), None)
"""

_REFERENCE = """
import sys as _cuassay_sys
from torch.utils._python_dispatch import _disable_current_modes as _cuassay_no_modes

_cuassay_models = {{}}
_cuassay_hollow = {{}}  # without data


def _cuassay_make(sizes):
    model = _cuassay_build(Model, sizes)
    model._cuassay_modes = [(module, module.training) for module in model.modules()]
    state = model.state_dict() if {unset} else {{}}
    drawn = _cuassay_torch.Generator().manual_seed(_CUASSAY_SEED)
    for name in {unset}:  # what a checkpoint fills holds numbers, not what memory held before
        one = state[name]
        if type(one) is not _cuassay_torch.Tensor or one.is_meta:
            continue
        if one.is_floating_point():
            values = _cuassay_torch.randn(one.shape, generator=drawn)
        else:
            values = _cuassay_torch.randint(0, 2, one.shape, generator=drawn)
        with _cuassay_torch.no_grad():
            one.copy_(values)
    return model


if not _CUASSAY_BUILT:
    _cuassay_models[()] = _cuassay_make(())


def _cuassay_is_hollow(device):
    # Whether tensors of a call hold no data.
    fakes = _cuassay_sys.modules.get("torch._subclasses.fake_tensor")
    plain = _cuassay_torch.empty(0)
    hollow = device is not None and device.type == "meta"
    return hollow or plain.is_meta or fakes and isinstance(plain, fakes.FakeTensor)


def _cuassay_model(sizes, device=None):
    # The model for some sizes, built once, out of sight of whoever watches a call. Where tensors
    # hold no data, that one serves too, or one without data: building takes longer than a call.
    if device is not None and device.type == "meta" and sizes not in _cuassay_models:
        if sizes not in _cuassay_hollow:
            with device:
                model = _cuassay_make(sizes)
            while len(_cuassay_hollow) >= {kept}:
                _cuassay_hollow.pop(next(iter(_cuassay_hollow)))
            _cuassay_hollow[sizes] = model
        return _cuassay_hollow[sizes]
    if _cuassay_is_hollow(device):
        return _cuassay_models.get(sizes) or _cuassay_make(sizes)
    if sizes not in _cuassay_models:
        with _cuassay_no_modes(), _cuassay_torch._C.DisableTorchFunction():
            model = _cuassay_make(sizes)
        while len(_cuassay_models) >= {kept}:
            _cuassay_models.pop(next(iter(_cuassay_models)))
        _cuassay_models[sizes] = model
    model = _cuassay_models[sizes]
    if device is not None and getattr(model, "_cuassay_place", None) != device:
        # A buffer that is moved in sight of who watches would be of their kind from then on. Modes
        # of functions stay: without a GPU one says which device this is.
        with _cuassay_no_modes():
            model.to(device)
        model._cuassay_place = device
    return model


def _cuassay_follow({signature}):
    values = ({parameters},)
    arguments, given, sizes, _ = _cuassay_split(values)
    state = dict(zip(_CUASSAY_STATE, given, strict=False))
    for name in _CUASSAY_BUFFERS:
        state[name] = state[name].clone()
    # Out of sight of whoever watches what the reference asks for: it may never ask.
    with _cuassay_torch._C.DisableTorchFunction():
        device = next((v.device for v in values if hasattr(v, "device")), None)
    model = _cuassay_model(sizes, device)
    for module, training in model._cuassay_modes:
        module.training = training and not {evaluating}
    given, named = _cuassay_arguments(*arguments)
    # What a call without data keeps in the module, such as a tensor that it moved, has none.
    held = [(m, dict(vars(m))) for m in model.modules()] if _cuassay_is_hollow(device) else []
    try:
        made = _cuassay_torch.func.functional_call(model, state, given, named)
    finally:
        for module, own in held:
            vars(module).clear()
            vars(module).update(own)
    return _cuassay_outputs(made)


def _cuassay_run({signature}):
    with _cuassay_torch.no_grad():
        return _cuassay_follow({given})


# What no output depends on is for whole numbers to decide: lengths, tables, masks.
_cuassay_run.with_gradients = {followed}


def _cuassay_generate(axes_and_scalars, device):
    places, same = {axes}, {same}
    held = {{name: globals()[name] for name, _ in places.values()}}
    for axis, (name, position) in places.items():
        size = axes_and_scalars.get(same.get(axis, axis), axes_and_scalars.get({prefix!r} + axis))
        if size is None:
            continue
        if position is None:
            globals()[name] = size
        else:
            items = list(globals()[name])
            items[position] = size
            globals()[name] = type(held[name])(items)
    try:
        made = _cuassay_inputs(get_inputs())
        made = [v.to(device) if hasattr(v, "to") else v for v in made]
    finally:
        globals().update(held)
    named = dict(axes_and_scalars)
    sizes = tuple(named.get(one, named.get({prefix!r} + one)) for one in _CUASSAY_BUILT)
    state = _cuassay_model(sizes).state_dict()
    made += [state[name].detach().clone().to(device) for name in _CUASSAY_STATE]
    return dict(zip({names}, made))
"""

_CANDIDATE = '''from {module} import {cls} as ModelNew

_cuassay_made = None if _CUASSAY_BUILT else _cuassay_build(ModelNew)
_cuassay_evaluated = []
_cuassay_models = {{}}


def _cuassay_own(model):
    found = {{**dict(model.named_parameters()), **dict(model.named_buffers())}}
    return {{name: found[name] for name in model.state_dict() if name in found}}


def _cuassay_pairs(model, given):
    """The reference's state by position with the name of the tensor that takes each.

    By name; else by equal values, for both models draw under one seed; else by shape. Norms begin
    with equal constants: of several that fit, the one is taken that follows the last pair of
    parameters, or of buffers, in the order in which the model has them.
    """
    own = _cuassay_own(model)
    if set(own) == set(_CUASSAY_STATE):
        return list(enumerate(_CUASSAY_STATE))
    places = {{name: place for place, name in enumerate(own)}}
    parameter = _cuassay_torch.nn.Parameter
    left, pairs = dict(own), {{}}
    for same in (_cuassay_torch.equal, lambda mine, theirs: True):
        last = {{True: -1, False: -1}}  # of buffers and of parameters
        for position, value in enumerate(given):
            kept = _CUASSAY_STATE[position] in _CUASSAY_BUFFERS
            if position not in pairs:
                fits = [
                    (isinstance(mine, parameter) is kept, places[name] < last[kept], places[name])
                    for name, mine in left.items()
                    if mine.shape == value.shape and mine.dtype == value.dtype and same(mine, value)
                ]
                if not fits:
                    continue
                pairs[position] = list(own)[min(fits)[-1]]
                del left[pairs[position]]
            last[kept] = places[pairs[position]]
    return list(pairs.items())


def _cuassay_ready(device, given, sizes):
    """The model on a device, its state by position, what it was built with, and its modes."""
    if (device, sizes) not in _cuassay_models:
        model = _cuassay_made or _cuassay_build(ModelNew, sizes)
        # Of another device: the same model, which has been called.
        others = [held for (_, of), held in _cuassay_models.items() if of == sizes]
        modes = others[0][3] if others else [(m, m.training) for m in model.modules()]
        model = model.to(device)
        pairs = _cuassay_pairs(model, given)
        own = _cuassay_own(model)
        built = {{name: own[name].detach().clone() for _, name in pairs}}
        if others:
            built = {{name: others[0][2][name].to(device) for _, name in pairs}}
        while len(_cuassay_models) >= {kept}:
            _cuassay_models.pop(next(iter(_cuassay_models)))
        where = [(at, name, own[name]) for at, name in pairs]
        _cuassay_models[device, sizes] = model, where, built, modes
    return _cuassay_models[device, sizes]


def _cuassay_sample(pairs, built, modes, given):
    """The first elements of what the model was built with, empty where it has no such tensor.

    Then 1 where it was built in training mode, else 0.
    """
    found = [value.new_empty(0) for value in given]
    for position, name, _ in pairs:
        found[position] = built[name].reshape(-1)[:{sample}].clone()
    return (*found, _cuassay_torch.tensor(float(modes[0][1])))


def run(*values):
    arguments, given, sizes, source = _cuassay_split(values)
    device = next((v.device for v in values if hasattr(v, "device")), "cpu")
    model, pairs, built, modes = _cuassay_ready(device, given, sizes)
    if source == {as_sample}:
        return _cuassay_sample(pairs, built, modes, given)
    with _cuassay_torch.no_grad():
        for position, name, own in pairs:
            value = built[name] if source in {initial} else given[position]
            shape = built[name].shape
            if value.shape != shape and value.numel() == shape.numel():
                value = value.reshape(shape)  # one scale a channel, with or without axes of 1
            if isinstance(own, _cuassay_torch.nn.Parameter) and own.dtype == value.dtype:
                own.data = value
                # Whatever wrote to it since the last call: an optimizer would have been counted.
                _cuassay_torch.autograd.graph.increment_version(own)
            else:
                own.copy_(value)
        if source in {evaluating}:  # after the state, as one loads a checkpoint
            _cuassay_evaluated.append(model.eval())
        elif any(one is model for one in _cuassay_evaluated):
            _cuassay_evaluated[:] = [one for one in _cuassay_evaluated if one is not model]
            for module, training in modes:
                module.training = training
        given, named = _cuassay_arguments(*arguments)
        return _cuassay_outputs(model(*given, **named))
'''
_CALL = """{prelude}

def _cuassay_arguments({names}):
    return ({positional}), {{{named}}}


def _cuassay_inputs(_values):
    if not isinstance(_values, dict):
        _values = dict(zip({tops}, _values))
    return [{taken}]


def _cuassay_outputs(_result):
    return {results}
"""


def call_text(
    arguments: Mapping[str, str],
    leaves: Mapping[str, Sequence[PathStep]],
    outputs: Sequence[Sequence[PathStep]],
    *,
    by_name: bool,
) -> str:
    """Return the functions between flat inputs and a call of the model, and back.

    `arguments` are the expressions of the forward's arguments over the flat inputs, `leaves` says
    where in them each flat input lies, `outputs` where in the result each output does. The
    arguments go by position, or `by_name`.
    """
    told = list(arguments.values())
    texts = [output_text(steps) for steps in outputs]
    flat = len(texts) == 1 or all(len(steps) == 1 for steps in outputs)
    return _CALL.format(
        prelude=PRELUDE,
        names=", ".join(leaves),
        positional="" if by_name else "".join(f"{text}, " for text in told).rstrip(),
        named=", ".join(f"{n!r}: {text}" for n, text in arguments.items()) if by_name else "",
        tops=repr(list(arguments)),
        taken=", ".join(output_text(steps, "_values") for steps in leaves.values()),
        results="_result" if flat and not outputs[0] else f"({', '.join(texts)},)",
    )


def reference_source(
    text: str,
    *,
    init: Sequence[object],
    arguments: Sequence[str],
    state: Mapping[str, str],
    buffers: Sequence[str],
    unset: Sequence[str],
    axes: Mapping[str, tuple[str, int | None]],
    same: Mapping[str, str],
    built: Mapping[str, Sequence[Sequence[int]]],
    call: str,
    is_followed: bool,
) -> str:
    """Return the problem's file with `_cuassay_run` and a generator below it.

    `arguments` are the forward parameters, `state` maps the model's names to input names, those in
    `unset` are not written by the constructor, `axes`
    axes to the names and positions at the file's top level, `same` some of them to the axis that
    they always equal, `built` axes, then other numbers that a call says, to their places in the
    constructor's arguments `init`, and `call` is what `call_text` returns. With `is_followed` a
    call may be asked for gradients.
    """
    names = [*arguments, *state.values()]
    sizes = [f"{BUILT}{axis}" for axis in built]
    source = [f"{STATE_SOURCE}={StateSource.GIVEN.value}"] if state else []
    evaluating = f"{STATE_SOURCE} in {_EVALUATING}" if state else "False"
    common = _COMMON.format(
        init=repr(list(init)), state=repr(list(state)), buffers=repr(list(buffers)),
        built=repr(dict(built)), count=len(arguments), call=call, large=_LARGE,
    )  # fmt: skip
    adapter = _REFERENCE.format(
        signature=", ".join([*names, *sizes, *source]),
        kept=_KEPT,
        parameters=", ".join([*names, *sizes]),
        given=", ".join([*names, *sizes, *([STATE_SOURCE] if state else [])]),
        axes=repr(dict(axes)),
        same=repr(dict(same)),
        prefix=BUILT,
        names=repr(names),
        unset=repr(tuple(unset)),
        evaluating=evaluating,
        followed="_cuassay_follow" if is_followed else "_cuassay_run",
    )
    return text.rstrip("\n") + "\n" + common + adapter


def candidate_source(
    module: str,
    *,
    init: Sequence[object],
    state: Sequence[str],
    buffers: Sequence[str],
    built: Mapping[str, Sequence[Sequence[int]]],
    count: int,
    call: str,
    cls: str,
) -> str:
    """Return the entry file of a candidate whose `module` defines the class `cls`."""
    common = _COMMON.format(
        init=repr(list(init)), state=repr(list(state)), buffers=repr(list(buffers)),
        built=repr(dict(built)), count=count, call=call, large=_LARGE,
    )  # fmt: skip
    title = '"""The entry of a KernelBench candidate."""\n'
    return (
        title
        + common
        + _CANDIDATE.format(
            module=module,
            cls=cls,
            sample=STATE_SAMPLE,
            kept=_KEPT,
            initial=(StateSource.INITIAL.value, StateSource.INITIAL_EVALUATION.value),
            evaluating=_EVALUATING,
            as_sample=StateSource.SAMPLE.value,
        )
    )
