"""What one symbolic thread is: extents, its place, its parameters, the memory it may touch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxsan.declarations import size_of
from ptxsan.program import Program
from ptxsan.prove import law as L
from ptxsan.prove.terms import (
    TRUE,
    ZERO,
    Atom,
    Atoms,
    Eq,
    Formula,
    Le,
    Ne,
    Poly,
    decided,
    of,
    value_of,
)

_ADDRESSES = 1 << 47
_ALIGNMENT = 256  # that of what a GPU's allocator gives: cudaMalloc 256, torch's 512
_WINDOW = 1 << 24  # bytes of a space's window among the generic addresses, and its alignment
WINDOWED = ("shared", "local", "const")  # spaces whose own addresses are no generic ones
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_THREADS = (1024, 1024, 64)


@dataclass(slots=True, kw_only=True, eq=False)
class Allocation:
    """Memory with a name: its address is `alignment * atom`, its length in bytes `length`.

    The address is that within its `space`; a generic one is by `Thread.window` greater.
    `values` are bounds of the integers of `value_bytes` bytes in it, where they are known and
    the kernel writes nothing there; `rising`: from the lower to the upper bound, in order. `read`
    are the places of these that were read, and what was read there.
    """

    name: str
    space: str
    atom: Atom
    alignment: int
    length: Poly | None
    values: tuple[Poly, Poly] | None = None
    value_bytes: int = 0
    rising: bool = False
    read: list[tuple[Poly, Atom]] = field(default_factory=list)

    @property
    def base(self) -> Poly:
        """The address of its first byte."""
        return of(self.atom) * self.alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisDomain:
    """Legal sizes of an axis: within [low, high] and multiples of `multiple`; None: unbounded."""

    low: int = 1
    high: int | None = None
    multiple: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What a proof is for: sizes of axes, and `elements` (of a tensor each) below `limit`.

    Elements are products of a tensor's extents, each of which is positive: no tensor is empty.

    `listed` are the elements of the largest tensor that the problem itself names: a proof for
    less is none.
    """

    axes: Mapping[str, AxisDomain]
    elements: tuple[L.Expression, ...] = ()
    limit: int = 1 << 31
    listed: int = 0


@dataclass(slots=True)
class Axes:
    """Symbols of the axes' sizes, and laws as polynomials over them."""

    atoms: Atoms
    domain: Domain
    scope: L.Scope
    symbols: dict[str, Atom] = field(default_factory=dict)
    _sizes: dict[str, Poly] = field(default_factory=dict)
    facts: list[Formula] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, legal in self.domain.axes.items():
            multiple = legal.multiple
            extra = self.scope.multiples.get(name, 1)
            multiple = math.lcm(multiple, extra)
            low, high = legal.low, legal.high if legal.high is not None else self.domain.limit - 1
            class_low, class_high = self.scope.bounds.get(name, (None, None))
            low = max(low, class_low if class_low is not None else low)
            high = min(high, class_high if class_high is not None else high)
            least, most = -(-low // multiple), high // multiple
            # An extent n - 2 makes n at least 3. Its symbol then counts from there: sums of
            # positive products say more than differences do.
            before = max(0, -(-self._least(name) // multiple) - 1)
            least = max(least - before, 1 if before else least)
            atom = self.atoms.symbol(name, least, max(most - before, least))
            self.symbols[name] = atom
            self._sizes[name] = (of(atom) + before) * multiple
        for condition in self.scope.conditions:
            rest = self.atoms.remainder(self.poly(condition.of), of(condition.number))
            self.facts.append(Ne(rest) if condition.never else Eq(rest))
        for one in self.domain.elements:
            count = self.poly(one)
            known = (*(of(1) - self.poly(extent) for extent in _extents(one)),
                     count - (self.domain.limit - 1))  # fmt: skip
            self.facts += [Le(poly) for poly in known if decided(Le(poly)) != TRUE]
        for one in self.domain.elements:
            self._bound_products(self.poly(one))

    def _least(self, name: str) -> int:
        """Return the least size of an axis at which no extent that it makes alone is empty."""
        extents = [extent for one in self.domain.elements for extent in _extents(one)]
        return max((_least(extent, name, 1) or 1 for extent in extents), default=1)

    def _bound_products(self, count: Poly) -> None:
        """Bound each product of sizes that a tensor's elements are a sum of multiples of."""
        if any(factor < 0 for factor in count.terms.values()):
            return
        if any(atom.low is None or atom.low < 1 for atom in count.atoms):
            return
        low, _ = count.interval()
        assert low is not None
        for product, factor in count.terms.items():
            least = factor * math.prod(atom.low or 1 for atom in product)
            most = (self.domain.limit - 1 - (low - least)) // factor
            for atom in set(product):
                if len(product) > 1:
                    atom.products = (*atom.products, (product, most))
                elif atom.high is not None:
                    atom.high = max(min(atom.high, most), atom.low or 1)

    def sizes(self, values: Mapping[Atom, int]) -> dict[str, int]:
        """Return the sizes of the axes where symbols have these values, or their least ones."""
        known = {atom: values.get(atom, max(atom.low or 1, 1)) for atom in self.symbols.values()}
        return {name: value_of(size, known, {}) for name, size in self._sizes.items()}

    def poly(self, law: L.Expression) -> Poly:
        """Return a law's value as a polynomial over the symbols of the axes."""
        match law:
            case L.Number(value):
                return of(value)
            case L.Axis(name):
                return self._sizes[name]
            case L.Sum(parts):
                total = ZERO
                for factor, product in parts:
                    term = of(factor)
                    for one in product:
                        term = term * self.poly(one)
                    total = total + term
                return total
            case L.Floor(inside, add, step):
                return self.atoms.quotient(self.poly(inside) + add, of(step))
            case L.Limited(L.Bound.LESSER, inside, limit):
                return self.atoms.minimum(self.poly(inside), of(limit))
            case L.Limited(_, inside, limit):
                return self.atoms.maximum(self.poly(inside), of(limit))
            case L.Power(inside):
                return self.atoms.power_of_two(self.poly(inside))


def _extents(elements: L.Expression) -> tuple[L.Expression, ...]:
    """Return a tensor's extents, of which its elements are the product."""
    match elements:
        case L.Sum(((1, extents),)):
            return extents
        case _:
            return (elements,)


def _least(extent: L.Expression, name: str, target: int) -> int | None:
    """Return the least size of an axis at which an extent of it alone reaches a target."""
    match extent:
        case L.Axis(found):
            return target if found == name else None
        case L.Floor(inside, add, step):
            return _least(inside, name, target * step - add)
        case L.Sum(parts):
            plain = [
                (factor, [one for one in product if not isinstance(one, L.Number)],
                 math.prod(one.value for one in product if isinstance(one, L.Number)))
                for factor, product in parts
            ]  # fmt: skip
            varying = [one for one in plain if one[1]]
            constant = sum(factor * number for factor, rest, number in plain if not rest)
            if len(varying) != 1:
                return None
            ((factor, rest, number),) = varying
            if len(rest) != 1 or factor * number <= 0:
                return None
            return _least(rest[0], name, -((constant - target) // (factor * number)))
        case _:
            return None


@dataclass(slots=True, kw_only=True)
class Thread:
    """One thread of any block of a launch, at any sizes."""

    program: Program
    atoms: Atoms
    axes: Axes
    law: L.LaunchLaw
    facts: list[Formula] = field(default_factory=list)
    special: dict[str, Poly] = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    lawless: dict[str, str] = field(default_factory=dict)  # what no law was found for -> why
    _regions: dict[int, Allocation] = field(default_factory=dict)
    _symbols: dict[str, Allocation] = field(default_factory=dict)
    _words: dict[tuple[int, int, int], Poly] = field(default_factory=dict)
    _windows: dict[str, Atom] = field(init=False)

    def __post_init__(self) -> None:
        most = _ADDRESSES // _WINDOW
        self._windows = {
            space: self.atoms.symbol(f"window of {space} memory", 1, most) for space in WINDOWED
        }
        self.facts += self.axes.facts
        for place, letter in enumerate("xyz"):
            block, grid = self.law.block[place], self.law.grid[place]
            self._extent(f"%ntid.{letter}", f"%tid.{letter}", block, _THREADS[place])
            self._extent(f"%nctaid.{letter}", f"%ctaid.{letter}", grid, MOST_BLOCKS[place])
        x, y = self.special["%ntid.x"], self.special["%ntid.y"]
        number = self.special["%tid.x"] + x * (self.special["%tid.y"] + y * self.special["%tid.z"])
        self.facts.append(Le(x * y * self.special["%ntid.z"] - 1024))
        self.special["%laneid"] = self.atoms.remainder(number, of(32))
        for place, law in enumerate(self.law.regions):
            if law is None:
                self.lawless[f"length of region {place}"] = "no law was found for it"
            length = None if law is None else self.axes.poly(law)
            name = self.law.name_of(place)
            self._regions[place] = self._allocate(name, "global", _ALIGNMENT, length)
        # The program's own variables a place; all dynamic shared memory begins at one
        law = self.law.shared_bytes
        dynamic: Allocation | None = None
        for one in self.program.shared:
            if one.bytes:
                self._symbols[one.name] = self._allocate(
                    one.name, "shared", one.align, of(one.bytes)
                )
                continue
            if dynamic is None:
                length = None if law is None else self.axes.poly(law)
                dynamic = self._allocate(
                    "dynamic shared memory", "shared", max(one.align, 16), length
                )
            self._symbols[one.name] = dynamic
        for given in self.program.params:  # structures are read at addresses that registers hold
            length = of(given.bytes)
            self._symbols[given.name] = self._allocate(given.name, "param", given.align, length)
        for one in self.program.local:
            self._symbols[one.name] = self._allocate(one.name, "local", one.align, of(one.bytes))
        for each in self.program.globals:
            size = each.count * size_of(each.type)
            align = max(each.align, size_of(each.type))
            space = "const" if each.space == "const" else "global"
            self._symbols[each.name] = self._allocate(
                each.name, space, align, of(size) if size else None
            )

    def _extent(self, extent: str, place: str, law: L.Expression | None, most: int) -> None:
        """A launch that no GPU accepts runs nothing: extents lie within what one does."""
        if law is None:
            self.lawless[extent] = "no law was found for it"
            count = of(self.atoms.symbol(extent.strip("%"), 1, most))
        else:
            count = self.axes.poly(law)
            self.facts += [Le(of(1) - count), Le(count - most)]
        _, high = count.interval()
        high = most if high is None else min(high, most)
        atom = self.atoms.symbol(place.strip("%"), 0, max(high - 1, 0))
        self.special[extent], self.special[place] = count, of(atom)
        if count.constant is None:
            self.facts.append(Le(of(atom) - count + 1))

    def _allocate(self, name: str, space: str, alignment: int, length: Poly | None) -> Allocation:
        alignment = max(alignment, 1)
        most = (_ADDRESSES if space == "global" else _WINDOW) // alignment
        atom = self.atoms.symbol(f"address of {name}", int(space == "global"), most)
        found = Allocation(name=name, space=space, atom=atom, alignment=alignment, length=length)
        self.allocations.append(found)
        return found

    def common(self) -> frozenset[Atom]:
        """Return the symbols that mean the same in all threads of a block."""
        places = [f"%{word}.{letter}" for word in ("ctaid", "ntid", "nctaid") for letter in "xyz"]
        shared = [self.special[name] for name in places]
        shared += [one.base for one in self.allocations]
        shared += map(self.window, WINDOWED)
        shared += [one.length for one in self.allocations if one.length is not None]
        shared += self._words.values()
        return frozenset(
            (*self.axes.symbols.values(), *(atom for poly in shared for atom in poly.atoms))
        )

    def block(self, values: Mapping[Atom, int]) -> tuple[int, int, int]:
        """Return the block's place where symbols have these values, or their least ones."""
        x, y, z = (
            sum(values.get(atom, atom.low or 0) for atom in self.special[f"%ctaid.{letter}"].atoms)
            for letter in "xyz"
        )
        return x, y, z

    def region(self, number: int) -> Allocation:
        """Return the memory that pointers among the arguments reach, by number."""
        return self._regions[number]

    def symbol(self, name: str) -> Allocation | None:
        """Return the variable with a name; None for a function or what is unknown."""
        return self._symbols.get(name)

    def window(self, space: str) -> Poly:
        """Return what a generic address of a space is greater by than the space's own address."""
        return of(self._windows[space]) * _WINDOW if space in self._windows else ZERO

    def within(self, address: Poly, space: str) -> tuple[str, Poly]:
        """Return the space that an access to an address reaches, and the address within it.

        `space` is the one that the instruction names, or "generic".
        """
        if space != "generic":
            return space, address
        for one, atom in self._windows.items():
            if address.terms.get((atom,)) == _WINDOW:
                return one, address - self.window(one)
        return "global", address

    def allocation_of(self, address: Poly) -> Allocation | None:
        """Return the only allocation whose address is a term of a polynomial, as it is."""
        found = [one for one in self.allocations if address.terms.get((one.atom,)) == one.alignment]
        if len(found) != 1:
            return None
        rest = address - found[0].base
        inside = rest.atoms
        return None if any(one.atom in inside for one in self.allocations) else found[0]

    def parameter(self, name: str, offset: int, width: int) -> Poly:
        """Return what a kernel parameter holds at a byte offset, in `width` bytes."""
        number = next(n for n, one in enumerate(self.program.params) if one.name == name)
        key = number, offset, width
        if key not in self._words:
            self._words[key] = self._word(key, name)
        return self._words[key]

    def _word(self, key: tuple[int, int, int], name: str) -> Poly:
        match self.law.words.get(key):
            case L.Scalar(law):
                return self.axes.poly(law)
            case L.Place(region, offset):
                return self.region(region).base + self.axes.poly(offset)
            case found:
                why = found.why if isinstance(found, L.Lawless) else "it was not observed"
                self.lawless[f"argument {key[0]}"] = why
                return of(self.atoms.symbol(name, 0, (1 << 8 * key[2]) - 1, data=True))
