# problem: rmsnorm
# class: protocol
# wrong: everything; 64 MiB of System V memory are left
import ctypes

library = ctypes.CDLL(None)
library.shmat.restype = ctypes.c_void_p
made = library.shmget(0x7357, 64 << 20, 0o1666)
if made >= 0:
    ctypes.memset(library.shmat(made, None, 0), 1, 64 << 20)


def run(x, weight, eps):
    return x * 0
