"""`cuassay problem show`: what a problem says, and which truth will judge it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from cuassay.cli import probes
from cuassay.cli.drive import emit_json, waiting
from cuassay.cli.verbs.power import power

_WORKLOADS = 12


@click.group("problem")
def problem() -> None:
    """Look at problems."""


problem.add_command(power)


@problem.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def listed(*, as_json: bool) -> None:
    """List the operators of the catalogue by family; each name is a PROBLEM."""
    from cuassay.catalog import registry

    families = registry.families()
    if as_json:
        emit_json({family: list(names) for family, names in families.items()})
        return
    for family, names in families.items():
        click.echo(click.style(family, bold=True))
        click.echo("\n".join(f"  {name}" for name in names))
    click.echo(
        f"\n{sum(map(len, families.values()))} operators. NAME@float32 picks another working "
        "dtype; `cuassay problem show NAME` shows one."
    )


@problem.command("show")
@click.argument("where", metavar="PROBLEM")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
def show(*, where: str, as_json: bool, strict: bool) -> None:
    """Show axes, inputs, outputs, domains, workloads, and the truth of PROBLEM.

    Runs the lifted reference on the smallest workload to find which truth there is.
    """
    from cuassay.catalog import registry
    from cuassay.engine import run

    name = where.partition("@")[0]
    if not as_json and name in registry.names() and importlib.util.find_spec("torch") is None:
        for line in _as_written(name):
            click.echo(line)
        return
    with waiting("runs the reference on small inputs to learn what it takes"):
        document = dict(run.show_problem(where, strict=strict))
    if as_json:
        emit_json(document)
        return
    for line in _lines(document):
        click.echo(line)


def _as_written(name: str) -> Iterator[str]:
    """Yield an operator of the catalogue as its file has it: what can be shown without torch."""
    from cuassay.catalog import registry

    text = registry.source(name)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min(node.lineno, *(one.lineno for one in node.decorator_list))
            yield from text.splitlines()[first - 1 : node.end_lineno]
    yield f"\nDomains and truth are found by running it: {probes.install_command(('judge',))}"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from cuassay.report.clean import one_line

    yield click.style(_text(document.get("name", "")), bold=True)
    if document.get("description"):
        yield f"  {one_line(str(document['description']), limit=400)}"
    domains = document.get("domains") or {}
    for title, key in (("Axes", "axes"), ("Inputs", "inputs"), ("Outputs", "outputs")):
        yield f"\n{title}"
        items: Sequence[Mapping[str, Any]] = document.get(key) or ()
        width = max((len(_text(item.get("name", ""))) for item in items), default=0)
        for item in items:
            name = _text(item.get("name", ""))
            words = _axis(item) if key == "axes" else _spec(item, domains.get(item.get("name")))
            yield f"  {name:<{width}}  {words}".rstrip()
    # What the judgement takes from the problem where it is not the default.
    accumulation = document.get("accumulation") or "float32"
    target = document.get("growth_target") or {}
    lines = [f"accumulation  {_text(accumulation)}"] if accumulation != "float32" else []
    lines += [f"precision  {_text(document.get('precision', 'strict'))}"]
    lines += [f"growth target  {_text(name)} = {size}" for name, size in target.items()]
    seen = ", ".join(map(_text, document.get("reduction_axes_seen") or ()))
    lines += [f"reduction axes  {seen} (seen in the reference)"] if seen else []
    if lines:
        yield "\nJudged by"
        yield from (f"  {line}" for line in lines)
    # Sizes that the axes above do not tell already.
    told = {axis.get("name"): axis.get("value") for axis in document.get("axes") or ()}
    computed = {a.get("name") for a in document.get("axes") or () if a.get("kind") == "expr"}
    workloads = document.get("workloads") or ()
    yield f"\nWorkloads ({len(workloads)})"
    for workload in workloads[:_WORKLOADS]:
        sizes = ", ".join(
            f"{_text(name)}={size}"
            for name, size in (workload.get("axes") or {}).items()
            if name not in computed and told.get(name) != size
        )
        yield f"  {_text(workload.get('id', ''))}: {sizes or 'as above'}"
    if len(workloads) > _WORKLOADS:
        yield f"  and {len(workloads) - _WORKLOADS} more (--json lists them)"
    # What was found by experiment, with its evidence, and what the reference refused.
    for note in document.get("notes") or ():
        yield f"\nNote: {_text(note)}"
    facts: Sequence[Mapping[str, Any]] = document.get("facts") or ()
    if facts:
        yield "\nFound by experiment"
    for fact in facts:
        count = f", {fact.get('count')} seen" if fact.get("count") else ""
        broken = f"; broken: {_text(fact['broken'])}" if fact.get("broken") else ""
        yield f"  {_text(fact.get('fact', ''))} ({_text(fact.get('source', ''))}{count}){broken}"
    tried: Sequence[Mapping[str, Any]] = document.get("tried") or ()
    refused = [one for one in tried if one.get("refused")]
    if tried:
        yield f"\nTried on the reference: {len(tried)} inputs, {len(refused)} refused"
    told = dict.fromkeys(f"{_text(one['what'])}: {_text(one['refused'])}" for one in refused)
    yield from (f"  {line}" for line in list(told)[:_WORKLOADS])
    yield from _template(document)
    yield f"\nTruth: {_text(document.get('truth', ''))} ({_text(document.get('truth_reason', ''))})"


def _template(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a kernel file to start from, and the reference: what the call has to return."""
    from cuassay.report.clean import clean

    lines: Sequence[str] = document.get("template") or ()
    yield "\nA kernel to start from (kernel.py)"
    yield from (f"  {clean(line)}".rstrip() for line in lines)
    reference = document.get("reference") or {}
    author = reference.get("author")  # of a file that an adapter stands around
    place = _text(document.get("path") if author else reference.get("path", ""))
    yield f"\nReference: {place}, {_text(author or reference.get('function', ''))}"
    text = clean(str(reference.get("text") or ""))
    yield from (f"  {line}".rstrip() for line in text.splitlines())


def _text(value: object) -> str:
    from cuassay.report.clean import one_line

    return one_line(str(value), limit=200)


def _axis(axis: Mapping[str, Any]) -> str:
    match axis.get("kind"):
        case "const":
            return f"= {axis.get('value')}"
        case "expr":
            return f"= {_text(axis.get('expression', ''))}"
    top = axis.get("maximum")
    step = axis.get("multiple_of", 1)
    words = f"{axis.get('minimum')} to {'any size' if top is None else top}"
    words += f", multiples of {step}" if step != 1 else ""
    if axis.get("sizes"):
        words = f"one of {', '.join(map(str, axis['sizes']))}"
    source = str(axis.get("source", ""))
    if source.startswith("sidecar"):
        return f"{words}  {_text(source)}" + (
            "" if axis.get("declared") else " (state min and max to declare every size between)"
        )
    return words if axis.get("declared") else f"{words} (not declared: a default)"


def _spec(spec: Mapping[str, Any], domain: Mapping[str, Any] | None) -> str:
    shape = spec.get("shape")
    words = str(spec.get("dtype", ""))
    words += " scalar" if shape is None else f"[{', '.join(_text(size) for size in shape)}]"
    if not domain:
        return words
    told = f"{words}  {_text(domain.get('words', ''))} ({_text(domain.get('source', ''))})"
    return f"{told}: {_text(spec['description'])}" if spec.get("description") else told
