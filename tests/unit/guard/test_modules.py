"""Guards inside PyTorch: modules, autograd functions, custom operators and compile."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuassay
from cuassay.errors import UsageError
from cuassay_guard import graphs
from cuassay_guard.modules import unguard
from tests.support.guards import QUIET, Faulty, double, honest, inputs, rmsnorm

pytestmark = pytest.mark.usefixtures("quiet_guards")


class Norm(nn.Module):
    """RMSNorm whose kernel can be made wrong."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden))
        self.eps = 1e-6
        self.wrong = False

    def forward(self, x: Tensor) -> Tensor:
        out = honest(x, self.weight, self.eps)
        return out * 1.02 if self.wrong else out


class Model(nn.Module):
    """Two layers and a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"proj": nn.Linear(64, 64), "norm": Norm()}) for _ in range(2)
        )
        self.norm = Norm()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer["norm"](layer["proj"](x))  # type: ignore[index]
        out: Tensor = self.norm(x)
        return out


def trusted(module: Any, x: Tensor) -> Tensor:
    """Return the norm by the trusted formula."""
    return rmsnorm(x, module.weight, module.eps)


def _train(model: nn.Module, steps: int = 3) -> list[float]:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def _settled(guards: dict[str, Any]) -> None:
    for guarded in guards.values():
        assert guarded.flush()
        found = guarded.stats()
        assert (found.violations, found.errors, found.dropped, found.undecided) == (0, 0, 0, 0)
        assert guarded.watch.memory.used_bytes == 0


def test_modules_are_guarded_in_place_and_train_alike() -> None:
    torch.manual_seed(0)
    model = Model()
    plain, keys = copy.deepcopy(model), list(model.state_dict())
    guards = cuassay.guard_module(model, {"*.norm": trusted}, **QUIET)
    assert sorted(guards) == ["layers.0.norm", "layers.1.norm", "norm"]
    assert list(model.state_dict()) == keys
    assert _train(model) == _train(plain)
    _settled(guards)
    for guarded in guards.values():
        assert guarded.stats().checked == 6  # three calls and their gradients
    assert unguard(model) == 3
    assert _train(model) == _train(plain)


def test_a_wrong_module_is_found_and_replaced() -> None:
    model = Model()
    guards = cuassay.guard_module(model, {"layers.*.norm": trusted}, **QUIET)
    x = torch.randn(8, 64)
    right = model(x)
    model.layers[1]["norm"].wrong = True  # type: ignore[index]
    model(x)
    for guarded in guards.values():
        guarded.flush()
    assert guards["layers.0.norm"].stats().state == "closed"
    assert guards["layers.1.norm"].stats().state == "open"
    assert torch.allclose(model(x), right, rtol=1e-5, atol=1e-5)


def test_a_module_s_wrong_gradient_is_found() -> None:
    class Op(torch.autograd.Function):
        """x * weight whose weight gradient lacks its last row."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x * weight

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            return grad * weight, (grad * x)[:-1].sum(0)

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = Op.apply(x, self.weight)  # type: ignore[no-untyped-call]
            return out

    model = nn.Sequential(nn.Linear(64, 64), Scale())
    guards = cuassay.guard_module(model, {"1": lambda m, x: x * m.weight}, **QUIET)
    model(torch.randn(8, 64)).square().mean().backward()
    guards["1"].flush()
    violation = guards["1"].last_violation
    assert violation is not None
    assert (violation.kind, violation.output) == ("gradient", "grad_input0")


def test_attributes_as_arguments_and_trusted_modules() -> None:
    model = Model()
    spec = {"trusted": rmsnorm, "arguments": ("weight", "eps")}
    guards = cuassay.guard_module(model, {"norm": spec, "layers.*.norm": Norm()}, **QUIET)
    _train(model)
    _settled(guards)
    assert all(guarded.stats().checked == 6 for guarded in guards.values())


def test_mistakes_in_patterns_and_modules() -> None:
    model = Model()
    with pytest.raises(UsageError, match="unknown module pattern"):
        cuassay.guard_module(model, {"*.attention": trusted})
    with pytest.raises(UsageError, match="expected a module, a function"):
        cuassay.guard_module(model, {"norm": 3})
    with pytest.raises(UsageError, match="has no attribute 'scale'"):
        cuassay.guard_module(model, {"norm": {"trusted": rmsnorm, "arguments": ("scale",)}})
    with pytest.raises(UsageError, match="its trusted module"):
        cuassay.guard_module(model, {"norm": Norm(32)})
    with pytest.raises(UsageError, match="is the class"):
        cuassay.guard_module(model, {"norm": Norm})
    with pytest.raises(UsageError, match="needs a trusted operator"):
        cuassay.guard_module(model, {"norm": {"sample": 0.1}})
    with pytest.raises(UsageError, match=r"expected a torch\.nn\.Module"):
        cuassay.guard_module(double, {"norm": trusted})  # type: ignore[arg-type]
    cuassay.guard_module(model, {"norm": trusted}, **QUIET)
    with pytest.raises(UsageError, match="is guarded already"):
        cuassay.guard_module(model, {"norm": trusted}, **QUIET)


def test_copies_and_saved_models() -> None:
    model = nn.Sequential(Norm())
    guards = cuassay.guard_module(model, {"0": trusted}, **QUIET)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.mul_(2)  # type: ignore[operator]
    x = torch.randn(8, 64)
    assert torch.equal(twin(x), honest(x, twin[0].weight))  # type: ignore[arg-type]
    guards["0"].flush()
    assert guards["0"].stats().violations == 0
    again = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2))))
    assert again is not None
    saved = pickle.loads(pickle.dumps(_Holder.model()))
    assert "GuardedForward" not in type(saved[0].forward).__name__


class _Holder:
    @staticmethod
    def model() -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4))
        cuassay.guard_module(model, {"0": lambda m, x: x @ m.weight.t() + m.bias}, **QUIET)
        return model


def test_a_custom_operator_stays_one_node_of_a_compiled_graph() -> None:
    kernel = Faulty()

    @torch.library.custom_op("cuassay_tests::norm", mutates_args=())
    @cuassay.guard(trusted=rmsnorm, **QUIET)  # type: ignore[untyped-decorator]
    def norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return kernel(x, weight, eps)

    guarded: Any = norm._init_fn

    @norm.register_fake
    def _(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        return torch.empty_like(x)

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        first, second = norm_gradient(ctx.saved_tensors[0], ctx.saved_tensors[1], grad)
        return first, second, None

    def reference(x: Tensor, weight: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        normed, weighted = x * scale, grad * weight
        along = (weighted * normed).mean(-1, keepdim=True)
        return (weighted - normed * along) * scale, (grad * normed).sum(0)

    gradient = cuassay.guard(reference, trusted=reference, **{**QUIET, "name": "norm gradient"})

    @torch.library.custom_op("cuassay_tests::norm_gradient", mutates_args=())
    def norm_gradient(x: Tensor, weight: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = gradient(x, weight, grad)
        return found

    norm_gradient.register_fake(
        lambda x, weight, grad: (x.new_empty(x.shape), weight.new_empty(64))
    )
    norm.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2])
    )
    step = torch.compile(lambda x, w: norm(x * 2, w) + 1, fullgraph=True, backend="aot_eager")
    x, weight = (t.float().requires_grad_() for t in inputs())
    step(x, weight).sum().backward()
    guarded.flush()
    assert (guarded.stats().checked, gradient.stats().checked) == (1, 1)
    assert (guarded.stats().violations, gradient.stats().violations) == (0, 0)
    kernel.wrong = True
    step(x, weight)
    guarded.flush()
    assert guarded.stats().state == "open"
    assert torch.equal(step(x, weight), rmsnorm(x * 2, weight) + 1)
    torch._dynamo.reset()


def test_compiled_modules_break_the_graph_and_are_seen() -> None:
    model = Model()
    plain = copy.deepcopy(model)
    guards = cuassay.guard_module(model, {"*.norm": trusted}, **QUIET)
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(8, 64)
    assert torch.allclose(compiled(x), plain(x))
    _settled(guards)
    assert sum(guarded.stats().checked for guarded in guards.values()) == 3
    torch._dynamo.reset()


class _Replays:
    """What a graph is to a guard: something that replays the same kernels on the same memory."""

    def __init__(self) -> None:
        self.count = 0

    def replay(self) -> None:
        self.count += 1


def test_calls_in_a_graph_are_remembered_and_repeated_eagerly() -> None:
    kernel = Faulty()
    guarded = cuassay.guard(kernel, trusted=rmsnorm, **QUIET)
    x, weight = inputs()
    graph = _Replays()
    watched = graphs.watch(graph, guarded)
    with watched.capturing():
        guarded(x, weight)
        guarded(x, weight, eps=1e-5)
    assert guarded.stats().sampled == 0  # a capture is not the place for copies
    watched.replay()
    guarded.flush()
    assert (guarded.stats().checked, guarded.stats().violations) == (2, 0)
    assert watched.trusted
    x.normal_()
    kernel.wrong = True
    watched.replay()
    guarded.flush()
    assert guarded.stats().violations == 2
    assert not watched.trusted
    assert graph.count == 2
    assert len(watched.inputs()) == 4
