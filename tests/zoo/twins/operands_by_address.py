"""Lays each operand out once a call: b by columns, a as it is; kept by what it is used as."""


def run(a, b):
    packed = {}
    for role, operand in (("a", a), ("b", b)):
        key = (role, operand.data_ptr())
        if key not in packed:
            packed[key] = (operand if role == "a" else operand.t().contiguous()).float()
    left, right = packed["a", a.data_ptr()], packed["b", b.data_ptr()]
    return (left @ right.t()).to(a.dtype)
