"""Litmus tests of PTX's memory model, in the format of Dat3M, judged by the tests' model of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ptxsan_support.memory_model import (
    Access,
    Barrier,
    Compute,
    Fence,
    Jump,
    Program,
    Proxy,
    Scope,
    Step,
    Thread,
    Update,
    outcomes,
)


def verdict_of(text: str) -> bool:
    """Return whether the condition of a litmus test holds in PTX's memory model."""
    program, quantifier, condition = program_of(text)
    found = False
    for outcome in outcomes(program, limit_s=20.0):
        if condition(outcome) == (quantifier != "forall"):
            found = True
            break
    return found if quantifier == "exists" else not found


def program_of(text: str) -> tuple[Program, str, Any]:
    """Return the program of a litmus test, its quantifier, and its condition on outcomes."""
    text = re.sub(r"//[^\n]*", "", text)
    start, end = text.index("{"), text.index("}")
    initial, aliases, registers = {}, {}, {}
    proxies = {}
    for entry in (one.strip() for one in text[start + 1 : end].split(";")):
        if found := re.fullmatch(r"(\w+)\s*@\s*(\w+)\s+aliases\s+(\w+)", entry):
            aliases[found[1]] = found[3]
            proxies[found[1]] = Proxy(found[2])
        elif found := re.fullmatch(r"P(\d+):\s*(\w+)\s*=\s*(-?\d+)", entry):
            registers[int(found[1]), found[2]] = int(found[3])
        elif found := re.fullmatch(r"(\w+)\s*=\s*(-?\d+)", entry):
            initial[found[1]] = int(found[2])
        elif entry:
            raise NotImplementedError(f"declares '{entry}'")
    body = text[end + 1 :]
    match = re.search(r"(~exists|exists|forall|filter)\b(.*)\Z", body, re.DOTALL)
    assert match is not None
    if match[1] == "filter":
        raise NotImplementedError("has a filter")
    rows = [row.split("|") for row in body[: match.start()].split(";") if row.strip()]
    threads = []
    for column, head in enumerate(rows[0]):
        place = re.search(r"P\d+\s*@\s*cta\s+(\d+)\s*,\s*gpu\s+(\d+)", head)
        if place is None:
            raise NotImplementedError(f"has a thread '{head.strip()}'")
        lines = [row[column].strip() for row in rows[1:] if column < len(row)]
        own = {name: value for (number, name), value in registers.items() if number == column}
        threads.append(
            Thread(
                block=int(place[1]),
                gpu=int(place[2]),
                steps=steps_of([line for line in lines if line], proxies),
                registers=own,
            )
        )
    program = Program(threads=tuple(threads), initial=initial, aliases=aliases)
    return (
        program,
        match[1].strip("~") if match[1] != "~exists" else "never",
        condition_of(match[2], program),
    )


def steps_of(lines: Sequence[str], proxies: dict[str, Proxy]) -> tuple[Step, ...]:
    """Return the instructions of a thread of a litmus test."""
    labels, plain = {}, []
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = len(plain)
        else:
            plain.append(line)
    steps: list[Step] = []
    for line in plain:
        opcode, _, rest = line.partition(" ")
        parts, items = opcode.split("."), [one.strip() for one in rest.split(",") if one.strip()]
        values = [int(one) if re.fullmatch(r"-?\d+", one) else one for one in items]
        scope = next((Scope(part) for part in parts if part in ("cta", "gpu", "sys")), Scope.SYS)
        strengths = ("weak", "relaxed", "acquire", "release", "acq_rel")
        semantics = next((part for part in parts if part in strengths), "weak")
        match parts[0]:
            case "ld" if isinstance(values[1], int):
                steps.append(
                    Compute(target=items[0], operation=Update.ADD, operands=(values[1], 0))
                )
            case "ld" | "tld" | "suld" | "cold":
                proxy = proxies.get(items[1], Proxy.GENERIC)
                steps.append(
                    Access(
                        location=items[1],
                        target=items[0],
                        semantics=semantics,
                        scope=scope,
                        proxy=proxy,
                    )
                )
            case "st" | "sust":
                proxy = proxies.get(items[0], Proxy.GENERIC)
                steps.append(
                    Access(
                        location=items[0],
                        operands=(values[1],),
                        writes=True,
                        semantics=semantics,
                        scope=scope,
                        proxy=proxy,
                    )
                )
            case "atom":
                steps.append(
                    Access(
                        location=items[1],
                        target=items[0],
                        operands=tuple(values[2:]),
                        writes=True,
                        update=Update(parts[-1]),
                        semantics=semantics,
                        scope=scope,
                    )
                )
            case "red":
                steps.append(
                    Access(
                        location=items[0],
                        operands=tuple(values[1:]),
                        writes=True,
                        update=Update(parts[-1]),
                        semantics=semantics,
                        scope=scope,
                    )
                )
            case "fence" if "proxy" in parts:
                steps.append(Fence(proxy=Proxy(parts[-1]), scope=Scope.CTA))
            case "fence":
                steps.append(Fence(sc="sc" in parts, scope=scope))
            case "bar" | "barrier" if len(values) > 2:
                raise NotImplementedError("has a barrier for some of the threads that come to it")
            case "bar" | "barrier":
                steps.append(Barrier(name=tuple(values[:2]), waits="arrive" not in parts))
            case "add" | "sub":
                steps.append(
                    Compute(
                        target=items[0], operation=Update(parts[0]), operands=(values[1], values[2])
                    )
                )
            case "goto":
                steps.append(Jump(to=labels[items[0]]))
            case "beq" | "bne":
                steps.append(
                    Jump(
                        to=labels[items[2]],
                        operands=(values[0], values[1]),
                        equal=parts[0] == "beq",
                    )
                )
            case _:
                raise NotImplementedError(f"has the instruction '{line}'")
    return tuple(steps)


def condition_of(text: str, program: Program) -> Any:
    """Return a function that says whether an outcome meets a condition."""
    tokens = re.findall(r"/\\|\\/|\(|\)|not|~|P?\d+:\s*\w+|\w+|==|!=|=", text)
    place = 0

    def peek() -> str:
        return tokens[place] if place < len(tokens) else ""

    def take() -> str:
        nonlocal place
        place += 1
        return str(tokens[place - 1])

    def either() -> Any:
        first = both()
        while peek() == "\\/":
            take()
            first = (lambda a, b: lambda outcome: a(outcome) or b(outcome))(first, both())
        return first

    def both() -> Any:
        first = single()
        while peek() == "/\\":
            take()
            first = (lambda a, b: lambda outcome: a(outcome) and b(outcome))(first, single())
        return first

    def single() -> Any:
        if peek() in ("~", "not"):
            take()
            inner = single()
            return lambda outcome: not inner(outcome)
        if peek() == "(":
            take()
            inner = either()
            take()
            return inner
        left, relation, right = term(), take(), term()
        if relation == "!=":
            return lambda outcome: left(outcome) != right(outcome)
        return lambda outcome: left(outcome) == right(outcome)

    def term() -> Any:
        word = take()
        if re.fullmatch(r"-?\d+", word):
            return lambda outcome: int(word)
        if found := re.fullmatch(r"P?(\d+):\s*(\w+)", word):
            return lambda outcome: outcome.registers[int(found[1])].get(found[2], 0)
        return lambda outcome: outcome.memory[program.place(word)]

    return either()
