"""Liger-Kernel's rotary embedding, which rotates in place: on copies."""

from liger_kernel.ops.rope import rope_forward


def _heads_first(x):
    return x.clone().unsqueeze(0).transpose(1, 2)


def run(q, k, cos, sin, position_ids):
    c, s = (table[position_ids].repeat(1, 2).unsqueeze(0) for table in (cos, sin))
    q, k, _, _ = rope_forward(_heads_first(q), _heads_first(k), c, s)
    return q.transpose(1, 2).squeeze(0), k.transpose(1, 2).squeeze(0)
