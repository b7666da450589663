"""`cuassay explain`: the page of a check, or the list of all codes."""

from __future__ import annotations

from importlib import resources

import click


@click.command("explain")
@click.argument("code", required=False)
@click.option(
    "--skill", is_flag=True, help="Print the skill file for agents: how they use cuassay."
)
def explain(*, code: str | None, skill: bool) -> None:
    """Explain a check's CODE, such as NUM001, or a failure class, such as N1.

    Without CODE: the list of all checks.
    """
    if skill:
        click.echo(
            resources.files("cuassay.agents").joinpath("SKILL.md").read_text("utf-8"), nl=False
        )
        return
    from cuassay.checks import registry
    from cuassay.model.failure_classes import FAILURE_CLASSES

    if code is None:
        for known in registry.codes():
            click.echo(f"{known:<9} {registry.page(known).title}")
        click.echo("\ncuassay explain CODE tells how it decides and when it can be wrong.")
        return
    one = FAILURE_CLASSES.get(code.strip().upper())
    if one is not None:
        click.echo(f"{click.style(one.code, bold=True)}: {one.name} ({one.group})")
        click.echo(f"\n{click.style('How it comes about', bold=True)}\n  {one.mechanism}")
        return
    page = registry.page(code)
    click.echo(f"{click.style(page.code, bold=True)}: {page.title}")
    for heading, body in page.sections:
        click.echo(f"\n{click.style(heading, bold=True)}")
        for line in body.splitlines():
            click.echo(f"  {line}".rstrip())
