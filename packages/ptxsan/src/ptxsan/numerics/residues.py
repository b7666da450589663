"""Numbers modulo primes: the algebra in which two kernels are compared apart from rounding.

A residue is a pair: the number modulo P and modulo Q, with P = 2 Q + 1. Both are prime, so that
everything but 0 has an inverse; 2 has the order Q in the field of P, so that 2**x is an element of
that field for an exponent modulo Q, with 2**(x + y) = 2**x 2**y. What comes out of an exponential
has no residue modulo Q (LOST): exponentials of exponentials are functions of which only
f(-x) = 1 / f(x) is known. The pair of fields is that of Wu et al., "Mirage: A Multi-Level
Superoptimizer for Tensor Programs" (OSDI 2025), section 5. P is 7 modulo 8 and has the primes up
to 17 as squares, so that roots of numbers made of these are roots.

A slot is 64 bits: the residue modulo P plus FIRST below, that modulo Q above. Instead of a residue
it can say NONE (the number that the bits hold) or INPUT (a number out of the launch's memory,
which gets a random residue by its value).
"""

from __future__ import annotations

import math

from ptxsan.numerics.native import bits32, bits64, float32, native

P, Q = 2_147_454_839, 1_073_727_419
NONE, INPUT, FIRST = 0, 1, 2
LOST = 0xFFFFFFFF

_MASK = 0xFFFFFFFF
_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453
_LOG2E_P, _LOG2E_Q = 1_234_567_891, 987_654_321  # stands for log2 e, of which no power is rational
_LN2_P, _LN2_Q = pow(_LOG2E_P, P - 2, P), pow(_LOG2E_Q, Q - 2, Q)
_HALF_P, _HALF_Q = (P + 1) // 2, (Q + 1) // 2
_REST_OF_LOG2E = 1.925963033500011e-08  # what CUDA's expf adds to log2 e rounded to float32
_SHORT, _RATIO, _SMALL_RATIO = 4096, 1 << 22, 1 << 14
_ROOT = 16  # a kind of `random_residue`; runtime.algebra has the others
_MIX = -7046029254386353131  # 0x9E3779B97F4A7C15, the golden ratio (splitmix64)


@native
def pack(p: int, q: int) -> int:
    """Return the slot of a residue; q may be LOST."""
    return (p + FIRST) | (q << 32)


@native
def part_p(slot: int) -> int:
    """Return the residue modulo P of a slot that has one."""
    return (slot & _MASK) - FIRST


@native
def part_q(slot: int) -> int:
    """Return the residue modulo Q, or LOST."""
    return (slot >> 32) & _MASK


@native
def power(base: int, exponent: int, prime: int) -> int:
    """Return base ** exponent modulo a prime."""
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = result * base % prime
        base = base * base % prime
        exponent >>= 1
    return result


@native
def inverse(value: int, prime: int) -> int:
    """Return 1 / value modulo a prime; 0 for 0."""
    return power(value, prime - 2, prime)


@native
def negated(slot: int) -> int:
    """Return the slot of -x. Numbers without a residue of their own keep what they say."""
    if slot & _MASK < FIRST:
        return slot
    p, q = part_p(slot), part_q(slot)
    return pack((P - p) % P, q if q == LOST else (Q - q) % Q)


@native
def mixed(value: int) -> int:
    """Return 63 well mixed bits of a 64-bit number (the finaliser of splitmix64)."""
    value ^= (value >> 30) & 0x3FFFFFFFF
    value *= -4658895280553007687  # 0xBF58476D1CE4E5B9
    value ^= (value >> 27) & 0x1FFFFFFFFF
    value *= -7723592293110705685  # 0x94D049BB133111EB
    value ^= (value >> 31) & 0x1FFFFFFFF
    return value & 0x7FFFFFFFFFFFFFFF


@native
def random_residue(key: int) -> int:
    """Return the slot of a random residue, not 0, that belongs to a key."""
    return pack(1 + mixed(key) % (P - 1), 1 + mixed(key ^ _MIX) % (Q - 1))


@native
def hashed(kind: int, p: int) -> int:
    """Return f(x) of an uninterpreted function `kind` with f(-x) = -f(x), by x modulo P."""
    if p == 0:
        return pack(0, 0)
    size = min(p, P - p)
    slot = random_residue(size * 64 + kind)
    return slot if p == size else negated(slot)


@native
def of_input(seed: int, value: float) -> int:
    """Return the random residue of a number in memory; 0, 1 and -1 are themselves.

    -x gets the negative residue of x, and equal numbers get equal ones, so that ties (which of two
    largest elements is taken) make no difference. 0 (NONE) for what is not finite.
    """
    if value - value != 0.0:
        return NONE
    size = abs(value)
    if size == 0.0 or size == 1.0:
        slot = pack(int(size), int(size))
    else:
        slot = random_residue(bits64(size) ^ mixed(seed))
    return slot if value >= 0.0 else negated(slot)


@native
def of_constant(value: float) -> int:
    """Return the residue of the number that a constant stands for; 0 (NONE) if not finite.

    Whole and dyadic numbers of up to 12 bits are taken as they are. Others are read as float32: as
    a / b, sqrt(a / b), or these times log2 e or ln 2, where small a and b give exactly these 24
    bits (`1/768`, `1e-6`, `0.70710678`), and as they are otherwise.
    """
    if value - value != 0.0:
        return NONE
    size = abs(float32(bits32(value)))
    if size - size != 0.0 or size == 0.0:
        size = abs(value)
    if size == 0.0 or size == _REST_OF_LOG2E:
        return pack(0, 0)
    slot = _positive(size)
    return slot if value > 0.0 else negated(slot)


@native
def _positive(size: float) -> int:
    fraction, exponent = math.frexp(size)
    whole, exponent = int(fraction * 9007199254740992.0), exponent - 53
    while whole & 1 == 0:
        whole >>= 1
        exponent += 1
    if whole >= _SHORT:
        found = _recognised(size)
        if found != NONE:
            return found
    return pack(_scaled(whole % P, exponent, P), _scaled(whole % Q, exponent, Q))


@native
def _scaled(value: int, exponent: int, prime: int) -> int:
    """Return value * 2**exponent modulo a prime."""
    two = 2 if exponent >= 0 else (prime + 1) // 2
    return value * power(two, abs(exponent), prime) % prime


@native
def _recognised(size: float) -> int:
    """Return the residue of the simplest number that is these 24 bits; NONE if there is none.

    Small ratios come before large ones: one in five float32 is some a / b with a b < 2**22.
    """
    a, b = ratio(size, _SMALL_RATIO)
    if b != 0 and float32(bits32(a / b)) == size:
        return _quotient(a, b)
    for factor, p, q in ((_LOG2E, _LOG2E_P, _LOG2E_Q), (_LN2, _LN2_P, _LN2_Q), (1.0, 1, 1)):
        a, b = ratio(size / factor, _SMALL_RATIO)
        if factor != 1.0 and b != 0 and float32(bits32(factor * a / b)) == size:
            return multiplied(_quotient(a, b), pack(p, q))
        a, b = ratio((size / factor) * (size / factor), _SMALL_RATIO)
        if b != 0 and float32(bits32(factor * math.sqrt(a / b))) == size:
            return multiplied(rooted(_quotient(a, b)), pack(p, q))
    a, b = ratio(size, _RATIO)
    if b != 0 and float32(bits32(a / b)) == size:
        return _quotient(a, b)
    return NONE


@native
def ratio(size: float, limit: int) -> tuple[int, int]:
    """Return the first continued fraction a / b within 2**-22; (0, 0) where a b > limit."""
    if size > limit or size * limit < 1.0:
        return 0, 0
    a, b, last_a, last_b = 1, 0, 0, 1
    rest = size
    for _ in range(24):
        whole = math.floor(rest)
        a, last_a = int(whole) * a + last_a, a
        b, last_b = int(whole) * b + last_b, b
        if a * b > limit:
            return 0, 0
        if abs(size - a / b) <= size * 2.4e-7 and a != 0:
            return a, b
        if rest == whole:
            return 0, 0
        rest = 1.0 / (rest - whole)
    return 0, 0


@native
def _quotient(a: int, b: int) -> int:
    return pack(a * inverse(b, P) % P, a * inverse(b, Q) % Q)


@native
def added(x: int, y: int) -> int:
    """Return the slot of x + y."""
    q = LOST
    if part_q(x) != LOST and part_q(y) != LOST:
        q = (part_q(x) + part_q(y)) % Q
    return pack((part_p(x) + part_p(y)) % P, q)


@native
def multiplied(x: int, y: int) -> int:
    """Return the slot of x y; a true zero stays one."""
    if x == FIRST or y == FIRST:
        return FIRST
    q = LOST
    if part_q(x) != LOST and part_q(y) != LOST:
        q = part_q(x) * part_q(y) % Q
    return pack(part_p(x) * part_p(y) % P, q)


@native
def inverted(x: int) -> int:
    """Return the slot of 1 / x; NONE for 0."""
    if part_p(x) == 0:
        return NONE
    q = part_q(x)
    return pack(inverse(part_p(x), P), q if q == LOST else inverse(q, Q))


@native
def rooted(x: int) -> int:
    """Return the slot of sqrt(x): x ** ((P + 1) / 4), whose square is x or, half of the time, -x.

    So sqrt(x y) = sqrt(x) sqrt(y) and 1 / sqrt(x) = sqrt(1 / x) always, sqrt(x)**2 = x for half of
    all residues, which other residues have to show (`machine.equivalence`).
    """
    q = part_q(x)
    return pack(power(part_p(x), (P + 1) // 4, P), q if q == LOST else power(q, (Q + 1) // 4, Q))


@native
def strict_root(x: int, value: float) -> int:
    """Return the slot of sqrt(x) as a function of which nothing but sqrt(0) = 0 is known.

    `value` is the number x: the root of a constant is the constant that it is.
    """
    p = part_p(x)
    if p == 0:
        return FIRST
    if value > 0.0 and x == of_constant(value):
        return of_constant(math.sqrt(value))
    return random_residue(p * 64 + _ROOT)


@native
def exponential(x: int, scale: int) -> int:
    """Return the slot of 2 ** (scale x) for a scale modulo Q; what has no exponent is hashed."""
    q = part_q(x)
    if q == LOST:
        q = part_q(hashed(0, part_p(x)))
    if q == 0 and part_p(x) == 0:
        return pack(1, 1)
    return pack(power(2, q * scale % Q, P), LOST)
