"""The command line: decode, race, sweep, fit, export, proposers, models, doctor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from specdec_core.engine.choice import check
from specdec_core.engine.events import Finished, Started, Step
from specdec_core.foundations.errors import SpecdecError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS, available
from specdec_core.record.read import race_json
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES
from specdec_measure.machines.model_sizes import SIZES

from . import app_and_train as cli_lab
from . import doctor as cli_doctor
from . import fit as cli_fit
from . import inspect as cli_inspect
from . import memory as cli_memory
from . import records as cli_records
from . import render as cli_render
from . import sweep as cli_sweep
from . import watch as cli_watch
from .common import (
    ask_person,
    check_progress,
    check_writable,
    load,
    print_generation,
    print_numbers,
    print_remarks,
    print_start,
    read_prompt,
    write,
)
from .options import LANE_HELP, SharedOptions, apart, lanes_of, names_of, pairs_of, with_shared
from .render import err, out, sentences

app = typer.Typer(
    help="Speculative decoding, recorded: see every proposal, acceptance and rejection.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
NEXT_WORDS = 200  # characters of the text so far shown to the person


Prompt = Annotated[
    str,
    typer.Argument(
        help="The text to continue, or the message to a chat model; '-' reads it from standard input."
    ),
]
JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the trace to this file; '-' for standard output.")
]


@app.command()
@with_shared
def decode(
    shared: SharedOptions,
    prompt: Prompt,
    proposer: Annotated[
        str, typer.Option("--proposer", "-p", help=f"{names_of(PROPOSERS)}.")
    ] = "draft-model",
    json: JsonFile = None,
) -> None:
    """Continue PROMPT and show each token's verdict as it is committed."""
    settings = shared.lane(proposer, pairs_of(shared.option))
    check_writable(json)
    print_remarks([settings], json)
    from specdec_core.engine.decode import stream

    models = load(shared.model, shared.draft, device=shared.device, dtype=shared.dtype, **shared.parts)
    print_generation(models, settings, json)
    text = read_prompt(prompt)
    quiet = json == "-"
    trace: Trace | None = None
    asked = shared.asked(models, text)
    print_start(models, asked, json)
    for event in stream(models, asked, settings, ask=ask_person if prompt != "-" else None):
        if isinstance(event, Finished):
            trace = event.trace
        elif quiet:
            continue
        elif isinstance(event, Started):
            out.print(Text(cli_render.shown(text), style="dim"), end="\n" if asked != text else "")
        elif isinstance(event, Step):
            out.print(cli_render.verdicts(event), end="")
    assert trace is not None
    if not quiet:
        out.print()
        err.print(cli_render.legend())
        print_numbers({proposer: trace})
    cli_render.audit([trace])
    if json is not None:
        write(trace.to_json(), json)


@app.command()
@with_shared
def race(
    shared: SharedOptions,
    prompt: Prompt,
    proposer: Annotated[
        list[str] | None,
        typer.Option(
            "--proposer",
            "-p",
            help=f"{LANE_HELP} Options given with --option go to every lane that has them.",
        ),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Race plain decoding against one or more proposers on fair clocks; the speedups are measured in this run."""
    lanes = apart(lanes_of(shared, proposer or ["draft-model", "prompt-lookup"], "race"))
    check(lanes["none"])
    check_writable(json)
    print_remarks(list(lanes.values()), json)
    from specdec_core.engine.race import race as run

    models = load(shared.model, shared.draft, device=shared.device, dtype=shared.dtype, **shared.parts)
    print_generation(models, lanes["none"], json)
    traces: dict[int, Trace] = {}
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[clock]}"),
    )
    with Progress(*columns, console=err, transient=True, disable=json == "-") as progress:

        def ask(text: str) -> str:
            progress.stop()
            err.print(Text(f"…{cli_render.shown(text[-NEXT_WORDS:])}", style="dim"), end="")
            words = ask_person(text)
            progress.start()
            return words

        tasks = [progress.add_task(name, total=shared.max_new_tokens, clock="") for name in lanes]
        asked = shared.asked(models, read_prompt(prompt))
        print_start(models, asked, json)
        for event in run(models, asked, list(lanes.values()), ask=ask if prompt != "-" else None):
            if isinstance(event, Step):
                progress.update(tasks[event.lane], completed=event.total, clock=f"{event.clock_s:.2f} s")
            elif isinstance(event, Finished):
                traces[event.lane] = event.trace
    named = {name: traces[lane] for lane, name in enumerate(lanes)}
    if json != "-":
        out.print(Text(cli_render.shown(named["none"].text)))
        print_numbers(named)
        if len(named) > 1:
            err.print(cli_render.comparison(named))
    cli_render.audit(list(named.values()))
    if json is not None:
        write(race_json(named.values()), json)


app.command()(with_shared(cli_sweep.sweep))
app.command()(with_shared(cli_fit.fit, hidden=cli_fit.SOUGHT))


@app.command()
def export(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Traces as 'decode --json' and 'race --json' write them, or as the app saves them; each is a lane."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: a page (.html), a timeline for Perfetto (.json), a Markdown table (.md).",
        ),
    ],
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Make one HTML file that plays traces in any browser, without a server or a network; or a timeline, or a table."""
    with sentences():
        from specdec_core.record.read import read_traces
        from specdec_measure.records import elsewhere
        from specdec_measure.records.show import show

        if output.resolve() in [file.resolve() for file in files]:
            raise SpecdecError(
                f"'{output}' is one of the traces, which the page would replace. Choose another file."
            )
        traces = [trace for file in files for trace in read_traces(file)]
        forms = {".json": elsewhere.chrome_trace, ".md": elsewhere.markdown}
        if form := forms.get(output.suffix.lower()):
            write(form(traces), str(output), "file")
            return
        show(traces, title=title, path=output)
        err.print(Text(f"wrote {output} ({output.stat().st_size:,} bytes)"))


@app.command()
def proposers() -> None:
    """List proposers, acceptance rules and length policies with their options, and what the bundled models can run."""
    reasons: dict[str, str | None] = {}
    try:
        reasons = available(load(None, None, device="cpu", dtype="float32"))
    except SpecdecError as error:
        err.print(Text(f"What can run here is unknown: {error}"))
    out.print(cli_render.kinds("Proposers", "--option", PROPOSERS, reasons), soft_wrap=False)
    out.print(cli_render.kinds("Acceptance rules", "--rule-option", RULES), soft_wrap=False)
    out.print(cli_render.kinds("Length policies", "--length-option", LENGTH_POLICIES), soft_wrap=False)


@app.command()
def models(
    prepare: Annotated[
        str | None,
        typer.Option(
            help="Convert this model's GGUF file into the cache now: a catalogue name, or the file."
        ),
    ] = None,
    fetch: Annotated[
        str | None,
        typer.Option(
            help="Download this model from the hub into its cache now: a catalogue name or a hub id."
        ),
    ] = None,
    most_gb: Annotated[
        float | None, typer.Option(min=0, help="With --fetch: refuse a model whose download is larger.")
    ] = None,
    delete: Annotated[
        str | None, typer.Option(help="Remove this converted model from the cache, to save room.")
    ] = None,
    progress: Annotated[
        str,
        typer.Option(
            help="With --prepare or --fetch: bar, or json for one object per line on standard output."
        ),
    ] = "bar",
) -> None:
    """List the models that are known to go together, and those that were converted; fetch, convert or delete one."""
    with sentences():
        from . import models as cli_models

        check_progress(progress)
        cli_models.check_together(prepare, fetch, most_gb, delete)
        if delete is not None:
            from specdec_core.models.gguf_files import cache as conversions

            err.print(Text(f"deleted '{delete}', {conversions.delete(delete) / 1e6:,.0f} MB"))
        if fetch is not None:
            most = None if most_gb is None else round(most_gb * 1e9)
            cli_models.download(fetch, most, json_lines=progress == "json")
        if prepare is not None:
            cli_models.prepare(prepare, json_lines=progress == "json")
        if fetch is None and prepare is None and delete is None:
            out.print(cli_render.known_models())
            out.print(cli_render.converted_models())
            out.print(
                "Any other causal LM with safetensors weights, or a GGUF file, loads by hub id or path: "
                "--model ID --draft ID."
            )


@app.command()
def profile(
    out: Annotated[Path, typer.Option(help="The file to write, such as assets/profiles/my-machine.json.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Target, as for decode; the bundled one by default.")
    ] = None,
    draft: Annotated[str | None, typer.Option("--draft", "-d", help="Draft model, as for decode.")] = None,
    shape: Annotated[str | None, typer.Option(help=f"Random weights of this size instead: {SIZES}.")] = None,
    draft_shape: Annotated[str | None, typer.Option(help="Random weights of this size as the draft.")] = None,
    context: Annotated[
        list[int] | None,
        typer.Option(help="Tokens in the KV cache; can be repeated. By default 128 and 512."),
    ] = None,
    width: Annotated[
        list[int] | None,
        typer.Option(help="Tokens in a target pass; can be repeated. By default from 1 to 65."),
    ] = None,
    measurements: Annotated[
        int,
        typer.Option(help="How many whole curves; the quietest counts, so use more where other work runs."),
    ] = 9,
    seconds: Annotated[float, typer.Option(help="About how long to measure each curve.")] = 0.5,
    eager: Annotated[bool, typer.Option("--eager", help="On cuda: launch kernel by kernel.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    label: Annotated[
        str, typer.Option(help="What the profile is called; by default machine and target.")
    ] = "",
    note: Annotated[str, typer.Option(help="A sentence to be shown beside it.")] = "",
) -> None:
    """Record this machine's width curves, what a pass over n tokens takes, for the what-if clock."""
    with sentences():
        from specdec_measure.machines import recording

        from . import profile as cli_profile

        cli_profile.save(None, out)
        plan = recording.PassPlan(measurements=measurements, seconds=seconds)
        plan = replace(plan, contexts=tuple(context or plan.contexts), widths=tuple(width or plan.widths))
        with err.status("loading models …") as status:
            models = cli_profile.models_for((model, draft), (shape, draft_shape), device, dtype, not eager)
            if remark := cli_profile.check_asked(models, plan, width, eager):
                err.print(Text.assemble(("note: ", "bold yellow"), remark))
            recorded = recording.record(
                models, plan, label=label, note=note, weights="random" if shape else "trained",
                on_progress=lambda done, of: status.update(f"measuring, {done} of {of} …"),
            )  # fmt: skip
        cli_profile.save(recorded, out)
        for curve in recorded.curves:
            ratios = ", ".join(
                f"{n}: {s / curve.target_s[0]:.2f}" for n, s in zip(curve.widths, curve.target_s, strict=True)
            )
            err.print(
                f"context {curve.context}: T(1) = {1e3 * curve.target_s[0]:.3f} ms, T(n)/T(1) = {ratios}"
            )
            if doubt := cli_profile.disturbed(curve.target_s):
                err.print(Text.assemble(("note: ", "bold yellow"), doubt))
        err.print(Text(f"wrote {out}"))


app.command()(cli_doctor.doctor)
app.command(name="app")(cli_lab.start_app)
app.command(name="import")(cli_records.import_)
app.command()(cli_records.record_transformers)
app.command()(cli_watch.watch)
app.command()(cli_inspect.inspect)
app.command()(cli_memory.memory)
app.command(context_settings=cli_lab.PASSED_ON, add_help_option=False)(cli_lab.train)
