"""Traces that other programs wrote: what is filled in, and what is said about mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_measure.adapters import foreign

ROOT = Path(__file__).resolve().parents[2]


def least() -> dict[str, Any]:
    """The least that an engine has to tell."""
    return {
        "format": "specdec-trace",
        "version": 1,
        "header": {
            "target": {"name": "theirs"},
            "settings": {"proposer": "draft-model", "rule": "exact-match", "temperature": 0},
            "prompt": "Once",
            "prompt_ids": [7],
        },
        "rounds": [
            {"nodes": {"token": [1, 2, 3]}, "committed": {"token": [1, 2, 9]}},
            {"committed": {"token": [4]}},
            {"nodes": {"token": [5, 6]}, "committed": {"token": [5, 6, 8]}},
            {"nodes": {"token": [5, 6]}, "committed": {"token": [5]}},
        ],
        "texts": {"1": " upon", "2": " a", "9": " time"},
        "end": "stop",
    }


def test_what_follows_from_the_rest_is_filled_in() -> None:
    """Catches: an accepted guess that is counted wrong, an invented time or probability."""
    (trace,) = foreign.read(json.dumps(least()).encode())
    assert trace.audit() == [] and trace.token_ids == [1, 2, 9, 4, 5, 6, 8, 5]
    assert [row.nodes.verdict for row in trace.rounds] == [
        ["accepted", "accepted", "rejected"], [], ["accepted", "accepted"], ["accepted", "cut"],
    ]  # fmt: skip
    assert [row.committed.source[-1] for row in trace.rounds] == ["corrected", "plain", "bonus", "accepted"]
    assert (trace.stats.accepted, trace.stats.rejected, trace.stats.tokens_per_pass) == (5, 1, 2.0)
    assert trace.stats.tokens_per_second is None and trace.rounds[0].nodes.p is None
    assert trace.text.startswith(" upon a time⟨4⟩") and trace.rounds[2].cache_before == 4
    assert foreign.unknown(trace)[0] == "times"
    assert sd.Trace.from_json(trace.to_json()) == trace


def test_our_own_traces_pass_unchanged() -> None:
    """Catches: an import that alters what is complete."""
    data = (ROOT / "assets" / "traces" / "welcome.json").read_bytes()
    assert foreign.read(data) == [sd.Trace.from_json(data)]


def broken(change: str) -> dict[str, Any]:
    """A trace with one mistake."""
    content = least()
    exec(change, {"t": content, "rounds": content["rounds"], "header": content["header"]})
    return content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("t['version'] = 9", "This trace has version 9; this program reads version 1. Update the program."),
        ("t['version'] = '1'", "'version' has to be the number 1, got the text '1'."),
        ("t['version'] = True", "'version' has to be the number 1, got True."),
        ("del t['version']", "'version' is missing."),
        ("del t['format']", "'format' is missing; it has to be 'specdec-trace'."),
        ("del header['prompt_ids']", "'header.prompt_ids' is missing."),
        ("del header['settings']['rule']", "'header.settings.rule' is missing; the player explains a round by it."),
        ("rounds[1] = 3", "Round 1 has to be an object."),
        ("del rounds[1]['committed']", "In round 1, 'committed' is missing."),
        ("rounds[0]['nodes']['token'][1] = 'x'", "In round 0, 'nodes.token[1]' has to be a whole number, got 'x'."),
        ("rounds[0]['nodes']['verdict'] = ['accepted', 'sure', 'rejected']", "'nodes.verdict[1]' has to be "),
        ("rounds[0]['nodes']['verdict'] = ['accepted']", "In round 0, 'nodes.verdict' has 1 entries for 3 nodes."),
        ("rounds[0]['nodes']['p'] = [0.5, 1.5, None]", "In round 0, 'nodes.p[1]' has to be at most 1.00001, got 1.5."),
        ("rounds[0]['nodes']['parent'] = [-1, -1, 0]", "In round 0, 'nodes.verdict' is missing; it can be worked out"),
        ("rounds[0]['nodes']['parent'] = [-1, 3, 0]", "In round 0, 'nodes.parent[1]' has to be −1 or"),
        ("rounds[0]['drafts_s'] = 3", "In round 0, 'drafts_s' is not a known field (did you mean 'draft_s'?)."),
        ("rounds[0]['colour'] = 3", "In round 0, 'colour' is not a known field."),
        (
            "rounds[0]['nodes']['verdict'] = ['accepted', 'rejected', 'unreached']",
            "Round 0: 3 tokens committed for 1 accepted node.",
        ),
        ("rounds[2]['start_s'] = -1.0", "In round 2, 'start_s' has to be at least 0, got -1.0."),
        ("t['end'] = 'done'", "'end' has to be 'length', 'eos', 'stop' or 'cancelled', got 'done'."),
        ("header['settings']['temperature'] = 'cold'", "'header.settings.temperature': a number is expected"),
        ("header['settings']['temperature'] = -3", "'header.settings.temperature' has to be "),
        ("header['settings']['temperature'] = None", "'header.settings.temperature' is missing"),
        ("header['settings']['draft_length'] = 'many'", "'header.settings.draft_length': a number is expected"),
        ("header['settings']['seed'] = '1'", "'header.settings.seed': "),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(change: str, said: str, tmp_path: Path) -> None:
    """Catches: a mistake that is taken for a trace, or a sentence that does not say where it is."""
    with pytest.raises(foreign.ForeignError) as caught:
        foreign.read(json.dumps(broken(change)).encode())
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_a_record_without_its_rounds_is_refused() -> None:
    """Catches: tokens that no round committed, taken for a whole record; and refusals of the two records that have no
    rounds: of the text alone, and of a decode that was cancelled before its first round."""
    whole = json.loads(foreign.read(json.dumps(least()).encode())[0].to_json())
    hollow = whole | {"rounds": []}
    with pytest.raises(
        foreign.ForeignError, match="The trace has no rounds, and its statistics count"
    ) as caught:
        foreign.read(json.dumps(hollow).encode())
    assert sd.Trace.from_json(json.dumps(hollow)).audit() == caught.value.problems
    alone = hollow | {
        "header": whole["header"] | {"settings": whole["header"]["settings"] | {"record": "off"}}
    }
    cancelled = least() | {"rounds": [], "end": "cancelled"}
    for kept in (alone, cancelled):
        assert foreign.read(json.dumps(kept).encode())[0].rounds == []


def test_one_mistake_is_one_sentence_of_what_the_file_holds() -> None:
    """Catches: what was filled in shown as the file's, what follows from a mistake listed beside it."""
    misspelt = "In round 1, 'comitted' is not a known field (did you mean 'committed'?)."
    for change, expected in (
        (
            "rounds[1]['comitted'] = rounds[1].pop('committed')",
            ["In round 1, 'committed' is missing.", misspelt],
        ),
        ("t['texts']['1'] = 5", ["'texts.1' has to be a text, got 5."]),
        ("t['output'] = {'texts': [5]}", ["'output.texts[0]' has to be a text, got 5."]),
    ):
        with pytest.raises(foreign.ForeignError) as caught:
            foreign.read(json.dumps(broken(change)).encode())
        assert caught.value.problems == expected


def test_one_of_a_thing_is_not_many(tmp_path: Path) -> None:
    """Catches: "1 rounds, 3 tokens; 1 of 1 judged guesses accepted"."""
    file = tmp_path / "one.json"
    content = least() | {"end": "cancelled"}
    content["rounds"] = [{"nodes": {"token": [1]}, "committed": {"token": [1, 2]}}]
    file.write_text(json.dumps(content))
    done = CliRunner().invoke(cli.app, ["import", str(file)])
    assert "1 round, 2 tokens; 1 of 1 judged guess accepted" in done.output, done.output


def test_what_import_and_export_cannot_use_is_refused(tmp_path: Path) -> None:
    """Catches: an option that is ignored, an empty file with advice about servers, a record to complete that nobody
    says how to complete."""
    theirs, empty, answer = tmp_path / "theirs.json", tmp_path / "empty.json", tmp_path / "answer.json"
    theirs.write_text(json.dumps(least()))
    empty.write_text(" \n")
    answer.write_text('{"timings": {"draft_n": 4, "draft_n_accepted": 2}}')
    page = str(tmp_path / "x.html")
    for arguments, said in (
        (
            ["import", str(theirs), "--since", str(theirs)],
            "--since can be given for what a server reported only",
        ),
        (
            ["import", str(theirs), "--proposer", "eagle", "-t", "0"],
            "--proposer and --temperature can be given",
        ),
        (
            ["import", str(answer), "--since", str(answer)],
            "--since takes the difference of two pages of /metrics",
        ),
        (["import", str(empty)], "is empty; a trace,"),
        (
            ["export", str(theirs), "-o", page],
            "'specdec_core import FILE --output WHOLE' completes it first.",
        ),
    ):
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 2 and done.output.startswith("error: ")
        assert said in " ".join(done.output.split()), done.output


def test_settings_of_an_engine_s_own_are_kept_and_named(tmp_path: Path) -> None:
    """Catches: a misspelt setting that nobody hears of, an engine's own that is refused, an unknown one that is none
    of the values that ours may have."""
    file, content = tmp_path / "theirs.json", least()
    content["header"]["settings"] |= {"tempreature": 1, "top_k": None, "min_p": None, "stop": ["⟨8⟩"]}
    file.write_text(json.dumps(content))
    done = CliRunner().invoke(cli.app, ["import", str(file)])
    assert done.exit_code == 0 and "the lab does not know, kept as they are: tempreature" in done.output
    (trace,) = foreign.read(file.read_bytes())
    assert trace.header.settings == {
        "proposer": "draft-model", "rule": "exact-match", "temperature": 0, "tempreature": 1, "min_p": None,
        "stop": ["⟨8⟩"],
    }  # fmt: skip


def test_the_published_schema_is_that_of_the_code() -> None:
    """Catches: a changed field without `python -m specdec_core import --schema > docs/trace.schema.json`."""
    published = json.loads((ROOT / "docs" / "trace.schema.json").read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(foreign.schema()))
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    example = json.loads(text.split("```json\n")[1].split("```")[0])
    assert foreign.read(json.dumps(example).encode())[0].stats.accepted == 2


def test_the_command_checks_completes_and_draws(tmp_path: Path) -> None:
    """Catches: an imported run that no page plays, or a mistake that ends in success."""
    theirs, ours, page = tmp_path / "theirs.json", tmp_path / "ours.json", tmp_path / "run.html"
    theirs.write_text(json.dumps(least()))
    done = CliRunner().invoke(cli.app, ["import", str(theirs), "-o", str(ours), "--page", str(page)])
    assert done.exit_code == 0 and "drawn as unknown: times" in done.output.replace("\n", " ")
    assert sd.Trace.from_json(ours.read_bytes()).stats.accepted == 5
    html = page.read_text(encoding="utf-8")
    assert "0 parameters" not in html and "seed" not in html.split("</header>")[0]
    theirs.write_text(json.dumps(broken("t['end'] = 'done'")))
    failed = CliRunner().invoke(cli.app, ["import", str(theirs)])
    assert failed.exit_code == 2 and "'end' has to be 'length', " in failed.output
