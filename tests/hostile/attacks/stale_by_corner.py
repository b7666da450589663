# problem: gemm
# class: stale answers
# wrong: the answer for operands with the same first element


def right(a, b):
    return (a.float() @ b.float()).to(a.dtype)


HELD = {}


def run(a, b):
    key = (float(a.flatten()[0]), float(b.flatten()[0]), tuple(a.shape), tuple(b.shape))
    if key not in HELD:
        HELD[key] = right(a, b)
    return HELD[key].clone()
