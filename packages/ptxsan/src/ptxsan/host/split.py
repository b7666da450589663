"""A CUDA source in two: what the host's compiler gets, and what the device's gets.

nvcc sends the whole text through both of its compilers, which needs a front end that knows both
languages. Here the text is cut at the level of declarations, so that a plain C++ compiler and
NVRTC each see what is theirs:

- the host's text has a stub for the body of every kernel, nothing of what is `__device__` alone,
  and each `kernel<<<grid, block, bytes, stream>>>(arguments)` as two calls, as nvcc makes it;
- the device's text has no functions of the host, no variables of the host but constants, and only
  headers that NVRTC can read.

Lines keep their places in both.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ptxsan.host.tokens import Kind, Token, closing, closing_angle, split_commas, tokenize

_CLASS_KEYS = frozenset({"class", "struct", "union", "enum"})
_ACCESS = frozenset({"public", "private", "protected"})
_DEVICE_VARIABLE = frozenset({"__device__", "__constant__", "__shared__", "__managed__"})
_BEFORE_PARENTHESES = frozenset({
    "__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "__block_size__",
    "alignas", "__align__", "decltype", "noexcept", "requires", "explicit", "__declspec",
})  # fmt: skip
_DEVICE_HEADERS = (
    "cuda_fp16", "cuda_bf16", "cuda_fp8", "cuda_fp6", "cuda_fp4", "mma.h", "cooperative_groups",
    "cuda_pipeline", "cuda_awbarrier", "cuda/", "cub/", "thrust/", "cuComplex.h", "cuda/std/",
    "math_constants.h", "curand_kernel.h", "vector_types.h", "nv/", "cuda.h",
)  # fmt: skip
_PART_OF_NVRTCS = re.compile(r"cuda_\w+\.hpp$")  # NVRTC's own headers have their bodies inside
_NOT_FOR_HOST = ("cuda_pipeline", "cuda_awbarrier", "cooperative_groups")


_NOT_INLINED = "__attribute__((noinline))"


class Role(Enum):
    """What a declaration is."""

    FUNCTION = auto()
    CLASS = auto()
    OTHER = auto()  # variables, types, using, static_assert, functions without a body


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One declaration: the tokens from `first` to `last`, the body's braces where it has one.

    `names` are the names in its head outside of brackets; `parameters` the tokens between the
    parentheses of a function; `scope` what stands before its name, with the `::`.
    """

    role: Role
    first: int
    last: int
    names: tuple[str, ...]
    name: str = ""
    body: tuple[int, int] | None = None
    initialisers: int | None = None  # the `:` of a constructor's list
    parameters: tuple[Token, ...] = ()
    inner: tuple[Item, ...] = ()
    specialises: bool = False
    scope: str = ""

    def has(self, *words: str) -> bool:
        """Whether its head names one of these."""
        return any(word in self.names for word in words)

    @property
    def is_kernel(self) -> bool:
        """Whether it is a function that is launched."""
        return "__global__" in self.names

    @property
    def is_device_only(self) -> bool:
        """Whether it is for the device and not for the host."""
        return self.has("__device__") and not self.has("__host__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The two texts, and the names of the kernels that the source defines (`scaling::scale`).

    `doubtful` are line ranges (first, last; of the device's text, from 1) of declarations that the
    device may not need: what does not compile of them may go. `cub` says that structures of the
    host's text hold CUB's types, as it asks how many bytes they have, `declared` that it has the
    device's functions without their bodies.
    """

    host: str
    device: str
    kernels: frozenset[str]
    cub: bool = False
    declared: bool = False
    doubtful: tuple[tuple[int, int], ...] = ()


class _Scope:
    """Finds the declarations of a source."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def items(
        self, place: int, end: int, *, in_class: bool = False, scope: str = ""
    ) -> Iterator[Item]:
        """Yield the declarations between two tokens, those inside namespaces among them."""
        while place < end:
            text = self.tokens[place].text
            if text in (";", "}"):
                place += 1
                continue
            if in_class and text in _ACCESS and self._text(place + 1) == ":":
                place += 2
                continue
            block = self._block(place, end)
            if block is not None:
                opening, close = block
                head = [one.text for one in self.tokens[place:opening] if one.text != "inline"]
                words = itertools.takewhile(lambda one: one not in ("[", "__attribute__"), head[1:])
                name = "".join(words)
                inner = f"{scope}{name}::" if name else scope
                if head[0] == "extern":  # C's names have no namespace
                    inner = ""
                yield from self.items(opening + 1, close, scope=inner)
                place = close + 1
                continue
            item = self._item(place, end, in_class=in_class, scope=scope)
            yield item
            place = item.last + 1

    def _text(self, place: int) -> str:
        return self.tokens[place].text if place < len(self.tokens) else ""

    def _block(self, place: int, end: int) -> tuple[int, int] | None:
        """Return the braces of `namespace x {` or `extern "C" {`."""
        start = place + 1 if self._text(place) == "inline" else place
        if self._text(start) == "namespace":
            while start < end and self._text(start) not in ("{", ";", "="):
                start += 1
        elif self._text(start) == "extern" and self.tokens[start + 1].kind is Kind.STRING:
            start += 2
        else:
            return None
        return (start, closing(self.tokens, start)) if self._text(start) == "{" else None

    def _item(self, first: int, end: int, *, in_class: bool, scope: str) -> Item:
        """Return the declaration that begins at `first`."""
        of_c = self._text(first) == "extern" and self.tokens[first + 1].kind is Kind.STRING
        head = _Head(scope="" if of_c else scope)
        place = first
        while place < end:
            token = self.tokens[place]
            text = token.text
            if text == "template" and self._text(place + 1) == "<":
                close = closing_angle(self.tokens, place + 1)
                if close is not None:
                    head.names.append("template")
                    head.specialises = close == place + 2
                    place = close + 1
                    continue
            if text == "<" and in_class_key(head):  # a specialisation: its arguments may hold calls
                close = closing_angle(self.tokens, place)
                if close is not None:
                    place = close + 1
                    continue
            if token.kind is Kind.NAME:
                head.names.append(text)
                if text == "operator":
                    place = self._operator(place, head)
                    continue
            elif (
                text == "="
                and self._text(place + 1) != "="
                and (self._text(place - 1) not in ("=", "!", "<", ">"))
            ):  # not part of a comparison, which types may hold
                head.assigned = True
            elif text == ":" and head.opening is not None and not in_class_key(head):
                head.initialisers = head.initialisers or place
            elif text == ":":
                head.derived = head.derived or in_class_key(head)  # bases may hold parentheses
            elif text == "(":
                close = closing(self.tokens, place)
                name = head.name or self._declared(place)  # an operator's stands before already
                if name and head.opening is None and not (head.assigned or head.derived):
                    head.opening, head.close = place, close
                    head.name = head.name or name
                place = close
            elif text == "[":
                place = closing(self.tokens, place)
            elif text == "{":
                close = closing(self.tokens, place)
                role = self._role(head, place)
                if role is Role.FUNCTION:
                    return self._made(Role.FUNCTION, first, close, head, (place, close))
                if role is Role.CLASS and head.body is None:
                    head.body = (place, close)
                place = close
            elif text == ";":
                break
            place += 1
        last = min(place, end - 1)
        role = Role.CLASS if head.body is not None else Role.OTHER
        return self._made(role, first, last, head, head.body)

    def _declared(self, opening: int) -> str:
        """Return the name before a parenthesis if that may open a list of parameters."""
        place = opening - 1
        if self._text(place) == ">":  # a specialisation: kernel<float>(
            place = _opening_angle(self.tokens, place) - 1
        before = self.tokens[place] if place >= 0 else None
        named = before is not None and before.kind is Kind.NAME
        return before.text if before and named and before.text not in _BEFORE_PARENTHESES else ""

    def _operator(self, place: int, head: _Head) -> int:
        """Pass over an operator's name: `operator()`, `operator<`, `operator=`."""
        head.name = "operator"
        place += 1
        if self._text(place) == "(" and self._text(place + 1) == ")":
            place += 2
        while place < len(self.tokens) and self._text(place) != "(":
            if self.tokens[place].kind is Kind.NAME:
                head.names.append(self._text(place))
            place += 1
        return place

    def _role(self, head: _Head, brace: int) -> Role:
        """Say what an opening brace begins: a function, a class, or (OTHER) an initialiser."""
        if in_class_key(head):
            return Role.CLASS if not head.assigned else Role.OTHER
        if head.opening is None or head.assigned:
            return Role.OTHER
        if head.initialisers is not None and self._text(brace - 1) not in (")", "}"):
            return Role.OTHER  # `: member{1} {`: the first brace initialises a member
        return Role.FUNCTION

    def _made(
        self, role: Role, first: int, last: int, head: _Head, body: tuple[int, int] | None
    ) -> Item:
        inner: tuple[Item, ...] = ()
        if role is Role.CLASS and body is not None and "enum" not in head.names:
            inner = tuple(self.items(body[0] + 1, body[1], in_class=True))
        parameters: tuple[Token, ...] = ()
        if head.opening is not None:
            parameters = tuple(self.tokens[head.opening + 1 : head.close])
        return Item(
            role=role, first=first, last=last, names=tuple(head.names), name=head.name, body=body,
            initialisers=head.initialisers, parameters=parameters, inner=inner,
            specialises=head.specialises, scope=head.scope,
        )  # fmt: skip


@dataclass(slots=True)
class _Head:
    """What is known of a declaration so far."""

    names: list[str] = field(default_factory=list)
    scope: str = ""
    name: str = ""
    opening: int | None = None
    close: int = 0
    assigned: bool = False
    derived: bool = False
    initialisers: int | None = None
    body: tuple[int, int] | None = None
    specialises: bool = False


def in_class_key(head: _Head) -> bool:
    """Whether a head declares a class, structure, union or enumeration."""
    return any(name in _CLASS_KEYS for name in head.names) and head.opening is None


class _Edited:
    """A text with some of its ranges replaced; the number of lines stays."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str = "") -> None:
        self._edits.append((start, end, new))

    def result(self) -> str:
        parts, place = [], 0
        for start, end, new in sorted(self._edits, key=lambda one: one[:2]):
            if start < place:  # inside of what an earlier edit took away
                continue
            lost = self._text.count("\n", start, end) - new.count("\n")
            parts += [self._text[place:start], new, "\n" * max(0, lost)]
            place = end
        return "".join([*parts, self._text[place:]])


Rename = Callable[[Sequence[Token], int], str | None]
"""Given the tokens and an index: what the host's text says instead of that token, or None."""


def split(
    text: str, *, rename: Rename | None = None, both: bool = True, declared: bool = False
) -> Split:
    """Return the host's and the device's part of an expanded CUDA source.

    With `both`, functions that are `__host__ __device__` keep their bodies for the host; without,
    they are the device's alone, for sources whose bodies are device code in all but name. With
    `declared` the host sees the device's functions without their bodies, as libraries of templates
    name them in bodies that the host never instantiates.
    """
    every = tokenize(text)
    tokens = [token for token in every if token.kind is not Kind.DIRECTIVE]
    directives = [token for token in every if token.kind is Kind.DIRECTIVE]
    items = tuple(_Scope(tokens).items(0, len(tokens)))
    device, doubtful = _device_text(text, tokens, directives, items)
    host, cub = _host_text(
        text, tokens, directives, items, rename=rename, both=both, declared=declared
    )
    return Split(
        host=host,
        cub=cub,
        declared=declared,
        device=device,
        kernels=frozenset(f"{item.scope}{item.name}" for item in items if item.is_kernel),
        doubtful=doubtful,
    )


def _host_text(
    text: str,
    tokens: Sequence[Token],
    directives: Sequence[Token],
    items: Sequence[Item],
    *,
    rename: Rename | None,
    both: bool,
    declared: bool,
) -> tuple[str, bool]:
    """Return the host's text, and whether it names CUB's types."""
    edited = _Edited(text)
    removed = [False] * len(tokens)

    def remove(first: int, last: int, new: str = "") -> None:
        edited.replace(tokens[first].start, tokens[last].end, new)
        removed[first : last + 1] = [True] * (last + 1 - first)

    def visit(item: Item, *, member: bool) -> None:
        if item.is_kernel:
            at = next(i for i in range(item.first, item.last) if tokens[i].text == "__global__")
            if item.body is not None:
                remove(at, at, "__attribute__((noipa)) __global__ ")
                # The stub passes all parameters on, also those that have no name.
                for number, part in enumerate(_parameters(item)):
                    if not _parameter_name(part):
                        place = part[-1].end
                        edited.replace(place, place, f" cuda_host_p{number}")
                remove(*item.body, _stub(item))
        elif item.role is Role.CLASS:
            for inner in item.inner:
                visit(inner, member=True)
        elif declared and item.role is Role.FUNCTION and item.has("constexpr", "consteval"):
            return  # constants of types that the host knows may be made of it
        elif item.is_device_only or (not both and item.has("__device__")):
            if item.role is Role.OTHER and not item.name:
                return  # a variable: its address on the host names it
            if member and item.body is not None:
                start = item.body[0] if item.initialisers is None else item.initialisers
                remove(start, item.body[1], ";")
            elif not member and item.body is not None and (declared or item.name in passed):
                remove(*item.body, ";")
            elif not member and not declared:
                remove(item.first, item.last)

    # The names among kernels' template arguments: the host has to know such functions
    kernels = frozenset(item.name for item in items if item.is_kernel)
    passed: set[str] = set()
    for index, (one, after) in enumerate(itertools.pairwise(tokens)):
        if one.text in kernels and after.text == "<":
            end = closing_angle(tokens, index + 1)
            inside = tokens[index + 2 : end] if end is not None else ()
            passed |= {token.text for token in inside if token.kind is Kind.NAME}
    for item in items:
        visit(item, member=False)
    for index, token in enumerate(tokens):
        if removed[index]:
            continue
        if token.text == "<" and _is_launch(tokens, index):
            _rewrite_launch(edited, text, tokens, index)
        if _is_call(tokens, index):
            _rewrite_call(edited, tokens, index)
        if token.text == "__noinline__" and tokens[index - 1].text != "(":
            edited.replace(token.start, token.end, _NOT_INLINED)
        new = rename(tokens, index) if rename is not None else None
        if new is not None:
            edited.replace(token.start, token.end, new)
    scopes = {
        one.text
        for index, (one, after) in enumerate(itertools.pairwise(tokens))
        if after.text == "::" and not removed[index]
    }
    cub = "cub" in scopes
    absent = tuple(f"{one}/" for one in ("cub", "cuda") if one not in scopes) + _NOT_FOR_HOST
    for directive in directives:
        if _include(directive.text).startswith(absent):
            edited.replace(directive.start, directive.end)
    return edited.result(), cub


def _include(directive: str) -> str:
    """Return the header that a directive includes, or an empty string."""
    words = directive.lstrip("#").strip()
    return words.removeprefix("include").strip().strip('<">') if words.startswith("include") else ""


_TYPE_WORDS = frozenset({
    "void", "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed",
    "const", "volatile", "auto", "__restrict__", "__restrict", "restrict", "size_t",
})  # fmt: skip


def _parameters(item: Item) -> list[list[Token]]:
    """Return the tokens of each parameter, its default left out."""
    found = []
    for part in split_commas(item.parameters):
        equals = next((i for i, token in enumerate(part) if token.text == "="), len(part))
        found.append(part[:equals])
    return [] if len(found) == 1 and [one.text for one in found[0]] == ["void"] else found


def _parameter_name(part: Sequence[Token]) -> str:
    """Return the name that a parameter declares, or an empty string."""
    index = len(part) - 1
    while index > 0 and part[index].text == "]":  # arrays
        while part[index].text != "[":
            index -= 1
        index -= 1
    if part[index].text == ")":  # a pointer to a function or an array: (*name)(...)
        opening = next(i for i, token in enumerate(part) if token.text == "(")
        inside = [token for token in part[opening : opening + 4] if token.kind is Kind.NAME]
        return inside[0].text if inside else ""
    last, before = part[index], part[:index]
    if last.kind is not Kind.NAME or last.text in _TYPE_WORDS or not before:
        return ""
    qualified = before[-1].text == "::"
    types = [one for one in before if one.text not in ("const", "volatile", "__grid_constant__")]
    return last.text if types and not qualified else ""


def _stub(item: Item) -> str:
    """Return the body that a kernel has on the host: it hands its arguments' addresses on."""
    addresses = []
    for number, part in enumerate(_parameters(item)):
        name = _parameter_name(part) or f"cuda_host_p{number}"
        pack = any(a.text == b.text == "." for a, b in itertools.pairwise(part))
        dots = "..." if pack else ""
        addresses.append(f"(const void*)__builtin_addressof({name}){dots}")
    listed = ", ".join([*addresses, "(const void*)0"])
    # the assembly keeps the call from becoming a jump: the address it returns to names the kernel
    call = 'cuda_host_stub(cuda_host_a); __asm__ volatile("");'
    return f"{{ const void* cuda_host_a[] = {{{listed}}}; {call} }}"


def _is_launch(tokens: Sequence[Token], index: int) -> bool:
    """Whether `<<<` begins here: three `<` without space between them."""
    three = tokens[index : index + 3]
    if index and tokens[index - 1].text == "<" and tokens[index - 1].end == three[0].start:
        return False
    joined = all(a.end == b.start for a, b in itertools.pairwise(three))
    return [one.text for one in three] == ["<", "<", "<"] and joined


def _rewrite_launch(edited: _Edited, text: str, tokens: Sequence[Token], index: int) -> None:
    """Rewrite `kernel<<<configuration>>>(arguments)` as `(configure(configuration), kernel(...))`.

    So the compiler itself chooses among overloads and deduces template arguments.
    """
    close = _launch_end(tokens, index + 3)
    if close is None:
        return
    inside = itertools.pairwise(tokens[index + 3 : close + 1])
    # On one line, and `n << 1` is no `n < < 1`.
    configuration = "".join(a.text if a.end == b.start else f"{a.text} " for a, b in inside)
    first = _expression_start(tokens, index - 1)
    last = closing(tokens, close + 3)
    start = tokens[first].start
    edited.replace(start, start, f"(::cuda_host_configure({configuration}), ")
    edited.replace(tokens[index].start, tokens[close + 2].end)
    edited.replace(tokens[last].end, tokens[last].end, ")")


_BEFORE_STATEMENT = frozenset({";", "{", "}", "else", "do"})
_LOOKS = ("cudaGetLastError", "cudaPeekAtLastError")
_BEFORE_CALL = frozenset({"(", ",", "=", "!", "&", "|", "?", "return", "<", ">", "+"})


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    """Whether a function of the CUDA runtime is called here: not declared, not cast to."""
    name, before = tokens[index], tokens[index - 1] if index else None
    if name.kind is not Kind.NAME or not name.text.startswith("cuda") or before is None:
        return False
    if not name.text[4:5].isupper() or name.text.endswith("_t") or index + 1 >= len(tokens):
        return False
    if tokens[index + 1].text != "(":
        return False
    after = closing(tokens, index + 1) + 1
    if after < len(tokens) and tokens[after].text == "{":
        return False  # a function of such a name is defined
    return before.text in _BEFORE_CALL or _begins_statement(tokens, index)


def _begins_statement(tokens: Sequence[Token], index: int) -> bool:
    before = tokens[index - 1].text
    return before in _BEFORE_STATEMENT or _ends_statement_head(tokens, index - 1)


def _rewrite_call(edited: _Edited, tokens: Sequence[Token], index: int) -> None:
    """Let a call of the runtime say where it is, and that nobody takes its result if so."""
    close = closing(tokens, index + 1)
    start, end = tokens[index].start, tokens[close].end
    statement = _begins_statement(tokens, index) and tokens[close + 1].text == ";"
    statement = statement and tokens[index].text not in _LOOKS
    edited.replace(start, start, "(::cuda_host_here(), ")
    edited.replace(end, end, ", ::cuda_host_discard())" if statement else ")")


def _launch_end(tokens: Sequence[Token], place: int) -> int | None:
    """Return the index of the `>>>` that ends a configuration which begins at `place`."""
    while place + 3 < len(tokens):
        text = tokens[place].text
        if tokens[place].kind is Kind.PUNCTUATION and text in "([{":
            place = closing(tokens, place)
        elif text == ";":
            return None
        elif [one.text for one in tokens[place : place + 4]] == [">", ">", ">", "("]:
            return place
        place += 1
    return None


_STATEMENTS = frozenset({"if", "while", "for", "switch", "catch"})
_WORDS = frozenset({"return", "else", "do", "case", "throw", "co_return"})


def _expression_start(tokens: Sequence[Token], place: int) -> int:
    """Return where the expression that ends at `place` begins: a name, a call, an index."""
    start = place
    while place >= 0:
        token = tokens[place]
        if token.text == ">":
            place = _opening_angle(tokens, place) - 1
            continue
        if token.text in (")", "]"):
            opening = _opening(tokens, place)
            before = tokens[opening - 1] if opening else None
            start = opening
            postfix = before is not None and (
                before.text in (")", "]", ">")
                or (before.kind is Kind.NAME and before.text not in _WORDS)
            )
            if not postfix or before is None:
                return opening
            if before.text in _STATEMENTS or _ends_statement_head(tokens, opening - 1):
                return opening
            place = opening - 1
            continue
        if token.kind is not Kind.NAME:
            return start
        start = place
        joined = place and tokens[place - 1].text in ("::", ".", "->")
        if place and tokens[place - 1].text == "template":
            place -= 1
            joined = tokens[place - 1].text in ("::", ".", "->")
        if not joined:
            return start
        place -= 2
        start = place + 1
        qualified = place >= 0 and (
            (tokens[place].kind is Kind.NAME and tokens[place].text not in _WORDS)
            or tokens[place].text in (">", ")", "]")
        )
        if not qualified:
            return start
    return max(start, 0)


def _ends_statement_head(tokens: Sequence[Token], close: int) -> bool:
    """Whether the parenthesis that closes here is that of `if (...)` and its like."""
    if tokens[close].text != ")":
        return False
    opening = _opening(tokens, close)
    return opening > 0 and tokens[opening - 1].text in (*_STATEMENTS, "constexpr")


def _opening(tokens: Sequence[Token], close: int) -> int:
    """Return the index of the bracket that the one at `close` closes."""
    depth = 0
    for index in range(close, -1, -1):
        if tokens[index].kind is Kind.PUNCTUATION:
            depth += (tokens[index].text in ")]}") - (tokens[index].text in "([{")
            if depth == 0:
                return index
    return 0


def _opening_angle(tokens: Sequence[Token], close: int) -> int:
    """Return the index of the `<` of the template list that the `>` at `close` closes."""
    index, depth = close, 0
    while index > 0:
        text = tokens[index].text
        if tokens[index].kind is Kind.PUNCTUATION:
            if text in (")", "]", "}"):
                index = _opening(tokens, index)
            elif text == ">":
                depth += 1
            elif text == "<":
                depth -= 1
                if depth == 0:
                    return index
        index -= 1
    return 0


def _device_text(
    text: str, tokens: Sequence[Token], directives: Sequence[Token], items: Sequence[Item]
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the device's text, and the lines of what it may not need."""
    edited = _Edited(text)
    doubtful: list[tuple[int, int]] = []
    ends = [found.start() for found in re.finditer("\n", text)]  # of lines

    def doubt(item: Item) -> None:
        first, last = (
            bisect.bisect_left(ends, tokens[at].start) + 1 for at in (item.first, item.last)
        )
        doubtful.append((first, last))

    def drop(item: Item) -> None:
        edited.replace(tokens[item.first].start, tokens[item.last].end)

    def unmark(item: Item, *words: str) -> None:
        for token in tokens[item.first : item.last]:
            if token.text == "__host__" or token.text in words:  # NVRTC takes none
                edited.replace(token.start, token.end)

    asked = _asked_for_types(tokens, items)

    def visit(item: Item, *, member: bool) -> None:
        if item.is_kernel or item.has(*_DEVICE_VARIABLE):
            if item.role is Role.OTHER and not item.name:  # a variable
                unmark(item)
            return
        match item.role:
            case Role.FUNCTION if item.has("constexpr", "consteval") or (
                item.has("template") and item.has("auto")
            ):
                if not item.has("__device__"):  # types are made of what the host's would return
                    unmark(item)
                doubt(item)
            case Role.FUNCTION if (member or item.name in asked) and item.body is not None:
                start = item.body[0] if item.initialisers is None else item.initialisers
                edited.replace(tokens[start].start, tokens[item.body[1]].end, ";")
                # One that is called may be undefined where it is not inline.
                unmark(item, *(() if member else ("inline", "static")))
                doubt(item)
            case Role.FUNCTION:
                drop(item)
            case Role.CLASS:
                doubt(item)
                for inner in item.inner:
                    visit(inner, member=True)
            case Role.OTHER if item.name and item.has("template", "auto"):
                doubt(item)  # a declaration whose type others ask for
            case Role.OTHER if member or item.has(
                "using",
                "typedef",
                "static_assert",
                "const",
                "constexpr",
                "concept",
                "namespace",
                *_CLASS_KEYS,
            ):
                doubt(item)
            case Role.OTHER:
                drop(item)

    for item in items:
        visit(item, member=False)
        if item.scope == "std::" and item.role is Role.CLASS and item.has(*_TUPLE_TRAITS):
            end = tokens[item.last].end
            edited.replace(end, end, _of_constants(text, tokens[item.first : item.last + 1]))
    # What a program specialises of `std` is libcu++'s here, and has to lie where that does, unless
    # the program does so itself.
    own = _classes_in(tokens, ("cuda", "::", "std", "{"))
    inside = {name for names in own.values() for name in names}
    for place, names in _classes_in(tokens, ("std", "{")).items():
        if not names & inside:
            edited.replace(tokens[place].start, tokens[place].end, "cuda::std")
    for directive in directives:
        header = _include(directive.text)
        known = header.startswith(_DEVICE_HEADERS) and not _PART_OF_NVRTCS.match(header)
        if header and not known:
            edited.replace(directive.start, directive.end)
        elif (mark := _line_mark(directive.text)) is not None:
            edited.replace(directive.start, directive.end, mark)
    return edited.result(), tuple(doubtful)


_TUPLE_TRAITS = ("tuple_size", "tuple_element")


def _of_constants(text: str, tokens: Sequence[Token]) -> str:
    """Return what a specialisation of a tuple's traits says of constants of its type.

    Structured bindings ask for it, and NVRTC's `std` derives it from no specialisation.
    """
    place = next((i for i, one in enumerate(tokens) if one.text in _TUPLE_TRAITS), 0)
    close = closing_angle(tokens, place + 1) if place else None
    if close is None or tokens[place - 1].text not in _CLASS_KEYS:
        return ""
    *index, whole = split_commas(tokens[place + 2 : close])
    if any(one.text in ("const", "volatile") for one in (whole[0], whole[-1])):
        return ""
    head, trait = text[tokens[0].start : tokens[place].start], tokens[place].text
    type_ = text[whole[0].start : whole[-1].end]
    first = "".join(f"{text[one[0].start : one[-1].end]}, " for one in index)
    given = f"{trait}<{first}{type_}>"
    body = f"{{ using type = const typename {given}::type; }}" if index else f": {given} {{}}"
    return f" {head}{trait}<{first}const {type_}> {body};".replace("\n", " ")


def _asked_for_types(tokens: Sequence[Token], items: Sequence[Item]) -> set[str]:
    """Return the names in the bodies of host functions that stay since types are made of them.

    Functions that they call have to be declared where the result's type is asked for.
    """
    found: set[str] = set()
    for item in items:
        if item.role is Role.CLASS:
            found |= _asked_for_types(tokens, item.inner)
        elif item.body is not None and item.has("template") and item.has("auto"):
            if item.has("__device__", "__global__"):
                continue
            body = tokens[item.body[0] : item.body[1]]
            found |= {token.text for token in body if token.kind is Kind.NAME}
    return found


def _classes_in(tokens: Sequence[Token], path: tuple[str, ...]) -> dict[int, set[str]]:
    """Return the classes that each namespace of a path names, by where its path begins."""
    found = {}
    for index, token in enumerate(tokens):
        first, last = index + 1, index + len(path)
        if token.text != "namespace" or path != tuple(one.text for one in tokens[first : last + 1]):
            continue
        body = tokens[last : closing(tokens, last)]
        heads = itertools.pairwise(body)
        found[first] = {after.text for one, after in heads if one.text in _CLASS_KEYS}
    return found


def _line_mark(directive: str) -> str | None:
    """Return a preprocessor's `# 3 "file" 2` as `#line 3 "file"`; None for another directive."""
    words = directive.lstrip("#").split()
    if len(words) < 2 or not words[0].isdecimal():
        return None
    name = directive.split('"')[1] if '"' in directive else ""
    known = name and not name.startswith(("<", "/usr/")) and words[0] != "0"
    return f'#line {words[0]} "{name}"' if known else ""
