"""`import` and `record-transformers`: records of what other programs did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from specdec_core.foundations.errors import SettingsError, SpecdecError, TraceError, many, meant
from specdec_core.proposers import PROPOSERS
from specdec_core.record.read import race_json
from specdec_core.record.schema import MAX_JSON_BYTES
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES
from specdec_measure.adapters import foreign, forms, logs
from specdec_measure.adapters.acceptance import Acceptance
from specdec_measure.adapters.as_json import answers
from specdec_measure.adapters.generate.asked import asked
from specdec_measure.adapters.unwrapping import utf8

from . import render as cli_render
from .common import check_writable, load, print_numbers, read_prompt, write
from .options import flags
from .render import err, out, sentences

NO_PAGE = (
    "These are counts over many rounds, not a record of them, so there is nothing to play. "
    "Of a vLLM answer with detailed counts and token ids, give --proposer and --temperature."
)

FIRST_PASS = "Its first pass also reads the prompt, so these times include what 'decode' reports as prefill."
SAMPLED = "0 is greedy; above it generate's own defaults apply, such as top_k = 50."


def import_(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A trace, or a list with one a lane; or what another program reported: an answer, a stream, a log, "
            "/metrics, a benchmark. docs/trace.md lists the forms."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Write the completed trace (the library reads it) or the counts here."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write an HTML file here that plays it in any browser.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the format as JSON Schema instead.")
    ] = False,
    proposer: Annotated[
        str | None,
        typer.Option(
            help="Of a vLLM answer: how the server guessed, which makes a trace of its detailed counts."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", "-t", help="Of a vLLM answer: the request's; 0 if left out."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="Of a vLLM answer above temperature 0: how guesses were judged.")
    ] = None,
    since: Annotated[
        Path | None, typer.Option(help="An earlier page of /metrics; what was counted since is shown.")
    ] = None,
) -> None:
    """Check what another program recorded or counted, fill in what follows from it, and make a trace playable."""
    with sentences():
        if schema:
            _print_schema(output)
            return
        if file is None:
            raise SpecdecError("Name the file to import, or give --schema.")
        check_writable(output)
        data = _read(file)
        found = _engines(data, file)
        if found is None:
            _no_use({"--proposer": proposer, "--temperature": temperature, "--rule": rule, "--since": since})
            _write(_checked(data, file), output, page)
            return
        if since is not None:
            found = _later(found, since)
        out.print(cli_render.acceptance(found))
        if proposer is None:
            _keep(found, output, page)
            return
        _write(_checked(_timeline(data, proposer, temperature or 0.0, rule), file, found), output, page)


def _no_use(options: dict[str, object]) -> None:
    """Refuse options about what a server reported, where the file is a trace."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SpecdecError(
            f"{' and '.join(given)} can be given for what a server reported only; this file is a trace, which is "
            "read as it is. Leave the option out, or change the file."
        )


def _print_schema(output: str | None) -> None:
    """The format as JSON Schema, on standard output or in a file."""
    text = json.dumps(foreign.schema(), indent=1)
    if output is None:
        out.print(text, markup=False)
        return
    write(text, output, "schema")


def _write(traces: list[Trace], output: str | None, page: Path | None) -> None:
    """The completed traces, and a page that plays them, where they were asked for."""
    if output is not None:
        write(traces[0].to_json() if len(traces) == 1 else race_json(traces), output)
    if page is not None:
        from specdec_measure.records.show import show

        show(traces, path=page)
        err.print(Text(f"wrote {page} ({page.stat().st_size:,} bytes)"))


def _keep(found: Acceptance, output: str | None, page: Path | None) -> None:
    """Write counts that no timeline is made of."""
    if page is not None:
        raise SpecdecError(NO_PAGE)
    if output is not None:
        write(json.dumps(found.content(), indent=1, ensure_ascii=False), output)


def _timeline(data: bytes, proposer: str, temperature: float, rule: str | None) -> bytes:
    """A trace as JSON, of the one answer in a file."""
    found = answers.parse(data)
    if len(found) != 1:
        raise SpecdecError(f"A timeline is made of one answer; the file has {len(found) or 'none'}.")
    made = answers.trace(
        found[0], proposer=proposer, temperature=temperature, rule=answers.rule_of(temperature, rule)
    )
    return json.dumps(made).encode()


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise TraceError(
                f"'{file}' has {file.stat().st_size:,} bytes; at most {MAX_JSON_BYTES:,} are read."
            )
        data = file.read_bytes()
    except OSError as error:
        raise TraceError(f"'{file}' cannot be read: {error.strerror or 'unknown error'}.") from None
    try:
        data = utf8(data)
    except TraceError as error:
        raise TraceError(f"'{file}' cannot be read: {error}") from None
    if not data.strip():
        raise TraceError(
            f"'{file}' is empty; a trace, or an answer, a log or the metrics of a server is expected."
        )
    return data


def _engines(data: bytes, file: Path) -> Acceptance | None:
    """What an engine counted; None for what is, or is meant to be, a trace.

    Raises:
        TraceError: one sentence that names the file.
    """
    try:
        return _counts(data)
    except TraceError as error:
        raise TraceError(f"'{file}' cannot be imported: {error}") from None


def _counts(data: bytes) -> Acceptance | None:
    return forms.read(data)


def _later(now: Acceptance, since: Path) -> Acceptance:
    """What was counted since an earlier page of metrics."""
    if not now.series:
        raise TraceError(
            "--since takes the difference of two pages of /metrics, and the first file is not one."
        )
    before = _engines(_read(since), since)
    if before is None:
        raise TraceError(f"'{since}' is a trace, which has no counters.")
    return logs.later(now, before)


def _differences(counts: Acceptance, trace: Trace) -> str:
    """Why a timeline's numbers are not those that the server counted, in sentences; empty if they are."""
    said = []
    if any(row.note.get("reads_prompt") for row in trace.rounds):
        said.append(
            "The first round is the pass that read the prompt: the table leaves it out, as it has no guesses."
        )
    beyond = (counts.accepted or 0) - trace.stats.accepted
    if beyond:
        guesses = many(beyond, "accepted guess", "accepted guesses")
        said.append(f"The table also counts {guesses} beyond the end of the text.")
    return " ".join(said)


def _checked(data: bytes, file: Path, counts: Acceptance | None = None) -> list[Trace]:
    """The traces, with what they hold and what they leave open; the file's problems and exit status 2 otherwise.

    Args:
        counts: what the server counted, where the trace was made of its answer.
    """
    try:
        traces = foreign.read(data)
    except foreign.ForeignError as error:
        err.print(Text.assemble(("error: ", "bold red"), f"'{file}' is not a trace that can be shown:"))
        for problem in error.problems:
            err.print(Text(f"  {cli_render.shown(problem)}"))
        raise typer.Exit(2) from None
    for trace in traces:
        stats = trace.stats
        out.print(
            f"{many(len(trace.rounds), 'round')}, {many(stats.tokens, 'token')}; "
            f"{stats.accepted} of {many(stats.judged, 'judged guess', 'judged guesses')} accepted"
        )
        if counts is not None and (said := _differences(counts, trace)):
            out.print(said)
        if others := foreign.others(trace):
            out.print(Text(f"settings that the lab does not know, kept as they are: {', '.join(others)}"))
        for what, known in (("proposer", PROPOSERS), ("rule", RULES)):
            if (name := trace.header.settings[what]) not in known:
                out.print(Text(f"the lab knows no {what} '{name}', kept as it is.{meant(name, known)}"))
        if missing := foreign.unknown(trace):
            out.print(f"not in the file, so drawn as unknown: {', '.join(missing)}")
    return traces


def record_transformers(
    prompt: Annotated[str, typer.Argument(help="The text to continue; '-' reads it from standard input.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Target; the bundled one by default.")
    ] = None,
    draft: Annotated[
        str | None, typer.Option("--draft", "-d", help="The assistant model, as for decode.")
    ] = None,
    lookup: Annotated[
        int | None,
        typer.Option(help="Prompt lookup of so many tokens (prompt_lookup_num_tokens) in place of a draft."),
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", "-n", help="The most tokens to write.")
    ] = 64,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help=SAMPLED)] = 0.0,
    seed: Annotated[int, typer.Option(help="torch's seed, for sampling.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    json: Annotated[
        str | None, typer.Option("--json", help="Write the trace to this file; '-' for standard output.")
    ] = None,
) -> None:
    """Record transformers' own assisted generation while it runs."""
    with sentences():
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        with flags():
            asked(max_new_tokens, seed, sampling | {"prompt_lookup_num_tokens": lookup})
        check_writable(json)
        from transformers.utils.logging import set_verbosity_error

        from specdec_core.models.bundle import HubModel
        from specdec_core.models.tokens.tokenizer import HubCodec
        from specdec_measure.adapters.generate.transformers import record

        models = load(model, draft, device=device, dtype=dtype)
        set_verbosity_error()  # its generate warns about how its own assistant is called
        text, small = read_prompt(prompt), models.draft
        if not isinstance(models.codec, HubCodec) or not models.causal:
            raise SettingsError("transformers' assisted generation is recorded for causal models only.")
        if lookup is None and not isinstance(small, HubModel):
            raise SettingsError(
                "transformers needs an assistant model over the target's tokens; give --draft, or --lookup."
            )
        speculation = (
            {"assistant_model": small.model}
            if lookup is None and isinstance(small, HubModel)
            else {"prompt_lookup_num_tokens": lookup}
        )
        trace = record(
            models.causal_target, text, models.codec.tokenizer,
            max_new_tokens=max_new_tokens, seed=seed, **speculation, **sampling,
        )  # fmt: skip
        if json != "-":
            out.print(Text(cli_render.shown(trace.text)))
            print_numbers({trace.header.settings["proposer"]: trace})
            err.print(FIRST_PASS)
        cli_render.audit([trace])
        if json is not None:
            write(trace.to_json(), json)
