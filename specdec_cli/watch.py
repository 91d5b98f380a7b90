"""`watch`: why a running server is not faster."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from specdec_core.foundations.errors import SpecdecError

from .common import check_writable, write
from .render import err, out, sentences, shown

if TYPE_CHECKING:
    from specdec_measure.watching.asking import Leg

KEY = "SPECDEC_WATCH_KEY"


def watch(
    urls: Annotated[
        list[str],
        typer.Argument(
            help="The server of vLLM, SGLang or llama.cpp; then others of the same model, with another draft length or "
            "without guesses, for what a guess costs."
        ),
    ],
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="Prompts to send: one a line, or JSON objects with 'prompt' and other fields of a request."
        ),
    ] = None,
    listen: Annotated[
        bool, typer.Option("--listen", help="Send nothing: measure whatever runs there for --seconds.")
    ] = False,
    length: Annotated[int, typer.Option("--length", "-n", min=2, max=4096, help="Tokens to ask for.")] = 96,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="At most so long for each server.")] = 60.0,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="At most so long for one request.")] = 60.0,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the numbers to this file; '-' for standard output.")
    ] = None,
    html: Annotated[str | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Measure a running server's speculation, and name the cause if it is not faster.

    Requests go to the given addresses only. A key for them is read from SPECDEC_WATCH_KEY.
    """
    with sentences():
        from specdec_measure.watching import numbers, report
        from specdec_measure.watching.cause import cause

        for file, what in ((json_file, "numbers"), (html, "page")):
            check_writable(file, what)
        if listen and (prompts is not None or len(urls) > 1):
            raise SpecdecError("--listen sends nothing, so it takes one address and no --prompts.")
        found = numbers.watched(*_measured(urls, prompts, listen, length, seconds, timeout))
        why = cause(found)
        if json_file != "-":
            table = Table(box=None, show_header=False, pad_edge=False)
            table.add_column()
            table.add_column(justify="right")
            table.add_column(style="dim")
            for cells in report.lines(found):
                table.add_row(*map(shown, cells))
            out.print(Text(f"{found.engine} at {found.url}"))
            out.print(table)
            if rows := report.lengths(found):
                out.print(Text(f"\n{report.LENGTHS}"))
                other = Table(*rows[0], box=None, pad_edge=False)
                for row in rows:
                    other.add_row(*row.values())
                out.print(other)
            out.print(Text(shown(f"\nCause: {why.name}. {why.seen}\nChange: {why.change}")))
        if json_file is not None:
            write(json.dumps(report.as_json(found, why), indent=1), json_file, "numbers")
        if html is not None:
            write(report.page(found, why), html, "page")


def _measured(
    urls: list[str], prompts: Path | None, listen: bool, length: int, seconds: float, timeout: float
) -> tuple[Leg, list[Leg], Leg | None]:
    """The server's requests as asked for, those of the other servers, and the server's greedily without penalties."""
    from specdec_measure.watching import asking
    from specdec_measure.watching.client import Server

    servers = [Server(url, timeout, os.environ.get(KEY)) for url in urls]
    with err.status("measuring …") as status:
        if listen:
            return asking.listen(servers[0], seconds), [], None
        requests = asking.bodies(prompts)

        def ask(server: Server, name: str, more: dict[str, Any] | None = None) -> Leg:
            return asking.ask(
                server, name, requests, length, time.monotonic() + seconds, more,
                lambda done: status.update(f"{server.url}, {name}: {done} of {len(requests)}"),
            )  # fmt: skip

        main = ask(servers[0], "as asked for")
        neutral = ask(servers[0], "greedily", dict(asking.NEUTRAL))
        return main, [ask(server, "as asked for") for server in servers[1:]], neutral
