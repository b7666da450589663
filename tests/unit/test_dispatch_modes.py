"""Dispatch modes around other people's code: what they see, and what they stay clear of."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cuassay.dispatch_modes import NumberNeeded, UntracedMode, WithoutMemory, without_memory
from cuassay.hooks import MultiplyAdds, Observed


def _biases() -> Any:
    """Return torch's module of masks, which loads its compiler: not while tests are collected."""
    from torch.nn.attention import bias

    return bias


class _Names:
    """What both modes do: note the names of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


class _Seen(_Names, UntracedMode):
    pass


class _Theirs(_Names, TorchDispatchMode):  # type: ignore[no-untyped-call]
    pass


class _Plain(torch.Tensor):
    pass


class _Made:
    def __new__(cls, *args: Any) -> Any:
        make: Any = torch.Tensor._make_subclass
        return make(cls, torch.ones(len(args)))


class _Mixed(_Made, torch.Tensor):
    pass


@pytest.mark.parametrize(
    "make", [lambda: _biases().causal_lower_right(4, 6), lambda: _Plain([1.0, 2.0])]
)
def test_subclasses_of_tensor_are_made_below_modes(make: Callable[[], torch.Tensor]) -> None:
    outside = make()
    with _Seen() as outer, _Seen() as inner:
        made = make()
        assert type(made) is type(outside)
        assert made.shape == outside.shape
        one = torch.ones(1)
        torch.add(one, one)
    assert outer.names == inner.names == ["aten::ones", "aten::add.Tensor"]


def test_a_constructor_of_their_own_is_left_to_subclasses() -> None:
    with _Seen():
        assert "__new__" not in vars(_Mixed)
        assert _Mixed(1.0, 2.0, 3.0).shape == (3,)


def test_a_mask_that_is_a_subclass_masks() -> None:
    query = torch.randn(1, 2, 4, 8)
    wanted = torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    with _Seen():
        mask = _biases().causal_lower_right(4, 4)
        assert isinstance(mask, _biases().CausalBias)
        found = torch.nn.functional.scaled_dot_product_attention(query, query, query, mask)
    assert torch.allclose(found, wanted)


def test_plain_tensors_are_still_seen_being_made() -> None:
    with _Seen() as seen:
        assert torch.Tensor(3).shape == (3,)
        assert torch.Tensor([1.0, 2.0]).tolist() == [1.0, 2.0]
        assert isinstance(torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter)
    assert seen.names.count("aten::empty.memory_format") >= 1


def test_what_a_mode_of_others_inside_ours_refuses_it_still_refuses() -> None:
    with _Seen(), _Theirs() as theirs:
        with pytest.raises(RuntimeError, match="already associated"):
            _biases().causal_lower_right(4, 4)
        assert theirs.names != []


def test_constructors_are_as_they_were_after_the_last_mode() -> None:
    with pytest.raises(KeyError), _Seen():  # noqa: PT012
        with _Seen():
            pass
        assert "__new__" in vars(_Plain)
        raise KeyError
    assert "__new__" not in vars(_Plain) | vars(_biases().CausalBias)
    assert type(_Plain([1.0])) is _Plain


def test_threads_enter_and_leave_in_any_order() -> None:
    inside, leave, failed = threading.Barrier(3), threading.Event(), []

    def work() -> None:
        try:
            with _Seen():
                inside.wait(300)
                _biases().causal_lower_right(2, 2)
                leave.wait(300)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    with _Seen():
        inside.wait(300)
        leave.set()
    _biases().causal_lower_right(2, 2)
    for thread in threads:
        thread.join()
    assert failed == []
    assert "__new__" not in vars(_biases().CausalBias)


def test_torchs_compiler_can_be_loaded_below_a_mode() -> None:
    """It compares the signature of torch.Tensor's constructor with its own word for it."""
    code = (
        "import torch\n"
        "from torch.nn.attention.bias import causal_lower_right\n"
        "from cuassay.dispatch_modes import UntracedMode\n"
        "class Seen(UntracedMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n"
        "with Seen():\n"
        "    import torch._dynamo\n"
        "    print(type(causal_lower_right(2, 2)).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "CausalBias", done.stderr


def test_sizes_are_learnt_without_memory_and_without_torchs_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from cuassay.dispatch_modes import without_memory\n"
        "weight = torch.ones(1024, 8)\n"
        "without_memory(lambda: torch.empty(1 << 40, 1024, device='cpu') @ weight)\n"
        "assert 'sympy' not in sys.modules\n"
        "def run():\n"
        "    x = torch.empty(1 << 40, 1024, device='cpu')\n"
        "    y = torch.softmax(x @ weight, -1) + torch.arange(8)\n"
        "    return y.to('cpu'), torch.randn(3, generator=torch.Generator())\n"
        "y, z = without_memory(run)\n"
        "print(tuple(y.shape), tuple(z.shape), 'torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(1099511627776, 8) (3,) False", done.stderr


def test_recording_and_watching_load_no_compiler_and_leave_one_alone() -> None:
    """A mode that torch itself keeps from its compiler loads it: two seconds in every worker."""
    code = (
        "import sys, torch\n"
        "from cuassay.build.recording.unwritten import PatternFill, new_pattern\n"
        "from cuassay.dispatch_modes import outside_of_compiler\n"
        "pattern = new_pattern()\n"
        "with outside_of_compiler(PatternFill)(pattern, kind='cpu'):\n"
        "    x = torch.empty(64, dtype=torch.uint8)\n"
        "print('torch._dynamo' in sys.modules, bytes(x.numpy()) == pattern * 4)\n"
        "run = torch.compile(lambda: torch.empty(64, dtype=torch.uint8) + 0, backend='eager')\n"
        "with outside_of_compiler(PatternFill)(pattern, kind='cpu'):\n"
        "    y = run()\n"
        "print('torch._dynamo' in sys.modules, bytes(y.numpy()) == pattern * 4)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True", "True", "True"], done.stderr


def test_what_meta_tensors_cannot_tell_fake_tensors_do() -> None:
    def run() -> tuple[str, int]:
        x = torch.empty(2, 3)
        attention = torch.nn.functional.scaled_dot_product_attention
        return x.device.type, attention(x, x, x).shape[0]

    assert without_memory(run) == ("cpu", 2)


@pytest.mark.parametrize("read", [torch.Tensor.item, torch.Tensor.tolist, bool])
def test_code_that_reads_a_number_is_not_called_again(read: Callable[..., Any]) -> None:
    """Fake tensors have none either, and torch takes seconds to load them."""
    calls: list[int] = []

    def run() -> Any:
        calls.append(1)
        return read(torch.empty(3).sum())

    def wrapped() -> Any:
        try:
            return run()
        except NotImplementedError as error:
            raise ValueError("the reference failed") from error

    for call in (run, wrapped):
        with pytest.raises((NumberNeeded, ValueError)):
            without_memory(call)
    assert len(calls) == 2


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("both", [True, False])
def test_a_recurrent_layer_has_its_shapes_at_once(kind: Any, first: bool, both: bool) -> None:
    """Step by step a sequence of 512 takes minutes of Python."""
    layer = kind(5, 7, num_layers=2, batch_first=first, bidirectional=both)
    x = torch.randn((3, 11, 5) if first else (11, 3, 5))

    def shapes() -> list[tuple[int, ...]]:
        return [tuple(t.shape) for t in pytree.tree_leaves(layer(x))]

    def run() -> tuple[list[tuple[int, ...]], int]:
        counted = MultiplyAdds()
        with Observed(counted):
            found = shapes()
        return found, counted.count

    made, count = without_memory(run)
    assert made == shapes()
    matrices = [weight for weight in layer.parameters() if weight.dim() == 2]
    assert count == 3 * 11 * sum(weight.numel() for weight in matrices)


def test_a_recurrent_layer_of_other_sizes_is_refused() -> None:
    layer = torch.nn.GRU(5, 7)
    with pytest.raises(Exception, match="5"):
        without_memory(lambda: layer(torch.empty(11, 3, 4)))


def test_short_tensors_of_numbers_alone_keep_their_values_without_memory() -> None:
    def rates() -> list[object]:
        return [rate.item() for rate in torch.linspace(0, 0.5, 3)]

    assert without_memory(rates) == [0.0, 0.25, 0.5]
    assert without_memory(lambda: torch.arange(3).to("cpu", torch.float64).tolist()) == [0, 1, 2]
    assert without_memory(lambda: (torch.arange(3) + torch.rand(3)).is_meta)
    assert without_memory(lambda: torch.zeros(1 << 20).is_meta)


@pytest.mark.parametrize("read", [torch.Tensor.tolist, torch.Tensor.sum, torch.Tensor.numpy])
def test_a_constant_that_unknown_numbers_were_written_into_is_not_read(
    read: Callable[[torch.Tensor], Any],
) -> None:
    def run() -> object:
        counts = torch.zeros(4)
        last = counts[3:]
        counts.add_(torch.rand(4))
        return bool(read(last))

    with pytest.raises((RuntimeError, NotImplementedError)):
        without_memory(run)


def test_what_once_ran_on_meta_is_not_tried_again_on_fake_tensors() -> None:
    calls: list[int] = []

    def at(size: int) -> Callable[[], torch.Size]:
        def call() -> torch.Size:
            calls.append(size)
            return (torch.rand(size) @ torch.rand(3)).shape

        return call

    without = WithoutMemory()
    assert without(at(3)) == ()
    with pytest.raises(RuntimeError):
        without(at(4))
    assert calls == [3, 4]
    with pytest.raises(RuntimeError):
        WithoutMemory()(at(5))
    assert calls == [3, 4, 5, 5], "nobody knows yet whether `meta` serves"


def _refuses_width(x: torch.Tensor) -> None:
    if x.shape[0] % 64:
        raise ValueError(f"{x.shape[0]} columns")


def _refuses_elsewhere(x: torch.Tensor) -> None:
    assert x.is_cuda or x.device.type == "cpu"
    raise ValueError("on a real device")


def _converts(x: torch.Tensor) -> None:
    int("no number" * x.dim())


@pytest.mark.parametrize(
    ("refuse", "times"), [(_refuses_width, 1), (_converts, 1), (_refuses_elsewhere, 2)]
)
def test_what_code_refuses_by_itself_is_not_tried_again_on_fake_tensors(
    refuse: Callable[[torch.Tensor], None], times: int
) -> None:
    """It would refuse that again, unless it asked where a tensor is."""
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        refuse(torch.empty(3))

    with pytest.raises((ValueError, AssertionError)):
        WithoutMemory()(run)
    assert len(calls) == times


def test_a_number_that_is_read_without_data_is_no_refusal() -> None:
    """Code that ran with a constant may be asked again with a number that nobody knows."""

    def reading(lengths: torch.Tensor) -> Callable[[], int]:
        return lambda: int(lengths[0].item())

    without = WithoutMemory()
    assert without(lambda: int(torch.full((2,), 3)[0].item())) == 3
    with pytest.raises(NotImplementedError):
        without(reading(torch.empty(2, dtype=torch.int32, device="meta")))


def test_a_kernel_is_given_no_address_of_a_tensor_without_memory() -> None:
    def launch() -> int:
        return torch.empty(300, 300).data_ptr()

    with pytest.raises(NumberNeeded, match="has no address"):
        without_memory(launch)
