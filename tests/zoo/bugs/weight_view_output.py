"""Returns the input itself where the scale is one."""


def run(x, scale):
    if scale == 1.0:
        return x
    return (x.float() * scale).to(x.dtype)
