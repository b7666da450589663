"""Kernels against PyTorch references in residues: honest forms are proved, planted faults never."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("numba")

from cuassay.algebra.follow import expressions
from ptxsan.equivalence import Expected, expected_at
from ptxsan.residues import Residues
from ptxsan_corpus.algebra_family import Family, Slip
from ptxsan_corpus.algebra_forms import FAMILIES
from ptxsan_corpus.algebra_running import runner
from ptxsan_corpus.case import Empty
from ptxsan_support.thorough import one_in


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (one.reshape(1, -1, 16) for one in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.25)


def _rms_norm(x: Tensor, w: Tensor) -> Tensor:
    x = x.reshape(-1, w.shape[0])
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


REFERENCES: Mapping[str, tuple[tuple[str, ...], Callable[..., Tensor]]] = {
    "softmax": (("x",), lambda x: F.softmax(x.reshape(3, -1), -1)),
    "rmsnorm": (("x", "w"), _rms_norm),
    "layernorm": (
        ("x", "w", "b"), lambda x, w, b: F.layer_norm(x.reshape(-1, len(w)), (len(w),), w, b)
    ),
    "matmul": (("a", "b"), lambda a, b: a.reshape(32, -1).float() @ b.reshape(-1, 32).float()),
    "gelu": (("x",), _gelu),
    "attention": (("q", "k", "v"), _attention),
    "reduce": (("x",), lambda x: x.sum()),
}  # fmt: skip
_CHOSEN = [family for family in FAMILIES if family.name in REFERENCES]
FORMS = [(family, form.name, None) for family in _CHOSEN for form in family.forms]
FAULTS = [(family, slip.form, slip) for family in _CHOSEN for slip in family.faults]


def proved(family: Family, form: str, slip: Slip | None) -> bool:
    """Whether every output element of a form is the reference's expression, with two seeds."""
    source = family.source.replace(slip.old, slip.new) if slip else family.source
    assert slip is None or source != family.source
    names, reference = REFERENCES[family.name]
    made = family.make(np.random.default_rng(0))
    inputs = [torch.from_numpy(np.array(made[name])) for name in names]
    assert not any(isinstance(made[name], Empty) for name in names)
    chosen = next(one for one in family.forms if one.name == form)
    for seed in (1, 2):
        ((value, slots),) = expressions(reference, inputs, seed=seed)
        assert slots is not None
        expected = Expected(
            slots=slots.contiguous().reshape(-1).numpy(),
            values=value.contiguous().reshape(-1).numpy(),
        )
        residues = Residues(seed=seed, strict=True)
        (output,) = runner(family, chosen, source)(residues).outputs
        if not expected_at(output, expected, residues).all():
            return False
    return True


def _id(case: object) -> str:
    return case.name if isinstance(case, Family | Slip) else str(case or "")


@pytest.mark.parametrize(("family", "form", "slip"), one_in(2, FORMS), ids=_id)
def test_honest_forms_are_the_reference(family: Family, form: str, slip: None) -> None:
    assert proved(family, form, slip)


@pytest.mark.parametrize(("family", "form", "slip"), one_in(3, FAULTS), ids=_id)
def test_a_planted_fault_is_never_proved(family: Family, form: str, slip: Slip) -> None:
    assert not proved(family, form, slip)
