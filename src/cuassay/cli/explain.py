"""`cuassay explain`: the page of a check, or the list of all codes."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("code", required=False)
def explain(*, code: str | None) -> None:
    """Say what CODE means, how it decides, and when it can be wrong."""
    from cuassay.checks import registry

    if code is None:
        for known in registry.codes():
            click.echo(f"{known:<9} {registry.page(known).title}")
        click.echo("\ncuassay explain CODE tells how it decides and when it can be wrong.")
        return
    page = registry.page(code)
    click.echo(f"{click.style(page.code, bold=True)}: {page.title}")
    for heading, body in page.sections:
        click.echo(f"\n{click.style(heading, bold=True)}")
        for line in body.splitlines():
            click.echo(f"  {line}".rstrip())
