"""Which numbers of a kernel's sources are values of elements, and the cases beyond them."""

from __future__ import annotations

import pytest

from cuassay.catalog import registry
from cuassay.inputs.named_values import named_values
from cuassay.inputs.plan import plan_cases
from cuassay.model.verdict import Profile


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("y = (gate < -15).all()", (-15.0,)),
        ("y = x.clamp(-255, 255)", (-255.0, 255.0)),
        ("y = torch.clamp(x, min=-1e8)", (-1e8,)),
        ("y = tl.minimum(x, 88.5)", (88.5,)),
        ("y = x if x > 20.0 else 0", (20.0,)),
        ("if (v > 30.0f) v = fminf(v, -4.5f); // __global__ {", (30.0, -4.5)),
        ("source = '''__global__ void f() { if (v <= 11.5) }'''", (11.5,)),
        # What a maximum begins with, in the place of minus infinity
        ("NEG = tl.constexpr(-5.0e4); m: float = -1e4; d = 0.0", (-1e4, -5e4)),
        ("m = torch.full((rows,), -65504.0); n = tl.full([8], -2e4, tl.float32)", (-65504.0, -2e4)),
        ("float m = -50000.0f; bool b = v == -2000.0f; // __global__ {", (-50000.0,)),
        ("m = -1e30; other = -2.5; n = -float('inf')", ()),
        # Sizes, flags, and what other regimes lie on both sides of
        ("if rows > 4096 and x > 0.5: pass", ()),
        ("y = x.clamp_min(1e-6); z = x.sum(-1); q = x[-3]", ()),
        ("if x == -7: pass", ()),
        # A number that no float holds, as a hostile text may have it
        (f"y = x.clamp({10**400}, 9); z = x < -{10**400}; q = x > 1e400", (9.0,)),
    ],
)
def test_thresholds_and_clamps_are_read(text: str, values: tuple[float, ...]) -> None:
    assert named_values([text]) == values


def test_all_elements_of_main_inputs_lie_beyond_each_of_the_first_values() -> None:
    problem = registry.get("swiglu")
    plain = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=1)
    more = plan_cases(
        problem, "numeric", profile=Profile.QUICK, root_seed=1, values=(-15.0, 1e8, 2.0, 3.0, 4.0)
    )
    added = [case for case in more if case not in plain]
    assert [case for case in more if case in plain] == list(plain)
    assert len(added) == 4
    assert added[0].fills["gate"].parameters == {"mean": -18.75, "scale": 0.75}
