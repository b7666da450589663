# problem: gemm
# class: sizes
# wrong: the last terms where 32 does not divide k
# named: shapes


def right(a, b):
    return (a.float() @ b.float()).to(a.dtype)


def run(a, b):
    whole = max(a.shape[1] // 32 * 32, min(a.shape[1], 32))
    return right(a[:, :whole], b[:whole])
