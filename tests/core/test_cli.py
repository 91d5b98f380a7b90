"""The command line on the bundled models: options from the core's tables, lanes, labels, questions, refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field
from typer.testing import CliRunner, Result

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_cli import common as cli_common
from specdec_cli import fit as cli_fit
from specdec_cli import profile as cli_profile
from specdec_cli import records as cli_records
from specdec_cli import sweep as cli_sweep
from specdec_core.foundations.options import OptionSet, fields
from specdec_core.foundations.options import parse as read
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.models import catalogue
from specdec_core.models.generation import OFF, Generation
from specdec_core.models.gguf_files import cache as conversions
from specdec_core.proposers import PROPOSERS, available
from specdec_core.rules import RULES
from specdec_measure.machines import recording
from specdec_measure.testing import scripted

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "Once upon a time, there was"


@pytest.fixture(scope="module")
def family() -> sd.Models:
    """The bundled models, loaded once; the commands load them anew each time."""
    return sd.load_models(device="cpu", dtype="float32")


@pytest.fixture
def run(family: sd.Models, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command; its words are one string without the terminal's line breaks and colours."""
    given: list[dict[str, Any]] = []

    def load(*names: str | None, **more: Any) -> sd.Models:
        given.append(dict(zip(("model", "draft"), names, strict=True)) | more)
        return family

    for module in (cli, cli_sweep):
        monkeypatch.setattr(module, "load", load)
    monkeypatch.setenv("COLUMNS", "80")

    def one(*arguments: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(cli.app, list(arguments), input=input)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    one.given = given  # type: ignore[attr-defined]
    return one


def flat(text: str) -> str:
    return " ".join(text.split())


class Everything(OptionSet):
    """One option of each kind."""

    steps: int = Field(3, ge=1, le=16)
    share: float = Field(0.5, gt=0.0, lt=1.0)
    eager: bool = True
    way: Literal["first", "last"] = "first"
    size: Literal[1, 2] = 1
    paths: list[list[int]] = Field(default_factory=list)
    cost: float | None = None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "7", 7),
        ("share", "0.25", 0.25),
        ("share", "2e-1", 0.2),
        ("eager", "no", False),
        ("eager", "true", True),
        ("way", "last", "last"),
        ("size", "2", 2),
        ("paths", "[[0],[0,1]]", [[0], [0, 1]]),
        ("paths", "[1, 2]", [1, 2]),
        ("cost", "1.5", 1.5),
    ],
)
def test_texts_are_read_as_the_option_declares(name: str, text: str, value: object) -> None:
    """Catches: a number handed over as a string, which the strict option sets refuse."""
    found = read("x", fields(Everything), {name: text})[name]
    assert found == value and type(found) is type(value)
    assert fields(Everything)[name].read(fields(Everything)[name].write(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("steps", "17", "a whole number from 1 to 16"),
        ("steps", "2.0", "a whole number"),
        ("steps", "9" * 5_000, "a whole number"),
        ("share", "1", "a number above 0 and below 1"),
        ("share", "nan", "a number"),
        ("cost", "inf", "a number"),
        ("eager", "maybe", "true or false"),
        ("way", "middle", "one of first, last"),
        ("size", "3", "one of 1, 2"),
        ("paths", '["a"]', "a list"),
        ("paths", "[true]", "a list"),
        ("paths", "[" * 3_999, "a list"),
        ("nothing", "1", "its options are: steps, share"),
    ],
)
def test_what_is_no_value_is_one_sentence(name: str, text: str, wanted: str) -> None:
    """Catches: a traceback, and a sentence that does not say what was expected."""
    with pytest.raises(sd.SettingsError) as refused:
        read("the proposer 'x'", fields(Everything), {name: text})
    assert wanted in str(refused.value) and len(str(refused.value)) < 220


def test_decode_takes_options_of_proposer_rule_and_length_policy(run: Any, tmp_path: Path) -> None:
    """Catches: an option that is read and then not used, in the trace's own settings."""
    file = tmp_path / "trace.json"
    result = run("decode", PROMPT, "-n", "8", "-p", "prompt-lookup", "-o", "max_ngram=2", "--memory-budget-mb", "64",
                 "--seed", "3", "--json", str(file))  # fmt: skip
    assert result.exit_code == 0, result.output
    settings = sd.Trace.from_json(file.read_text()).header.settings
    assert (settings["options"], settings["memory_budget_mb"], settings["seed"]) == (
        {"max_ngram": 2},
        64.0,
        3,
    )


def test_penalties_are_given_and_what_the_model_asks_for_is_said(run: Any, family: sd.Models) -> None:
    """Catches: an option that is read and not used, in one lane of a race or in all; a model's wish that is followed in
    silence, or printed among a trace."""
    given = ("--repetition-penalty", "1.3", "--no-repeat-ngram-size", "3", "--min-p", "0.1")
    result = run("race", PROMPT, "-n", "8", *given, "--json", "-")
    assert result.exit_code == 0, result.output
    for trace in json.loads(result.stdout):
        chosen = trace["header"]["settings"]
        assert [chosen[name] for name in OFF] == [1.3, 3, 0.1]
    refused = run("decode", PROMPT, "--repetition-penalty", "0")
    assert refused.exit_code == 2 and "--repetition-penalty has to be" in refused.stderr
    family.generation = Generation(requests={"repetition_penalty": 1.2}, not_done=("suppress_tokens",))
    try:
        said = flat(run("decode", PROMPT, "-n", "4").stderr)
        alone = run("decode", PROMPT, "-n", "4", "--json", "-")
    finally:
        family.generation = Generation()
    assert "sets repetition_penalty = 1.2: applied." in said and "suppress_tokens" in said
    assert alone.stderr == ""
    assert json.loads(alone.stdout)["header"]["settings"]["repetition_penalty"] == 1.2


def test_the_text_is_the_same_as_from_python(run: Any, family: sd.Models) -> None:
    result = run("decode", PROMPT, "-n", "12", "--json", "-")
    trace = sd.Trace.from_json(result.stdout)
    assert trace.text == sd.decode(family, PROMPT, sd.Settings(max_new_tokens=12)).text


def test_race_takes_options_per_lane_and_common_ones_where_they_fit(run: Any) -> None:
    lanes = ("-p", "prompt-lookup:max_ngram=2", "-p", "prompt-lookup", "-p", "draft-model")
    result = run("race", PROMPT, "-n", "8", *lanes, "-o", "max_ngram=5", "--json", "-")
    assert result.exit_code == 0, result.output
    ran = [trace["header"]["settings"] for trace in json.loads(result.stdout)]
    assert [lane["proposer"] for lane in ran] == ["none", "prompt-lookup", "prompt-lookup", "draft-model"]
    assert [lane["options"] for lane in ran] == [{}, {"max_ngram": 2}, {"max_ngram": 5}, {}]
    assert "All texts are equal." not in result.stderr
    assert "All texts are equal." in run("race", PROMPT, "-n", "8", *lanes).stderr


def test_the_lanes_of_a_race_may_differ_in_what_the_lanes_of_a_sweep_may(run: Any) -> None:
    """Catches: a race that cannot compare two γ, a setting of one lane that reaches the others."""
    lanes = ("-p", "draft-model:draft_length=2", "-p", "draft-model,draft_length=7,rule=block,overlap=true")
    result = run(
        "race",
        PROMPT,
        "-n",
        "8",
        *lanes,
        "-p",
        "draft-model: l.threshold = 0.3, length_policy=confidence",
        "--json",
        "-",
    )
    assert result.exit_code == 0, result.output
    ran = [trace["header"]["settings"] for trace in json.loads(result.stdout)][1:]
    assert [one["draft_length"] for one in ran] == [2, 7, 4]
    assert [one["rule"] for one in ran] == ["speculative-sampling", "block", "speculative-sampling"]
    assert [one["overlap"] for one in ran] == [False, True, False]
    assert [one["length_options"] for one in ran] == [{}, {}, {"threshold": 0.3}]


def test_a_lane_is_named_one_way_however_it_is_written(run: Any) -> None:
    """Catches: one lane under two names, and blanks that tear a table's label apart."""
    lanes = (
        "-p",
        "draft-model : draft_length = 2 , rule=block",
        "-p",
        "draft-model,draft_length=2,rule=block",
    )
    result = run("race", PROMPT, "-n", "8", *lanes)
    assert result.exit_code == 0, result.output
    assert flat(result.output).count("draft_length=2") == 2 and "(2)" in result.output


def test_a_race_of_fewer_than_sixteen_tokens_has_no_speedup(run: Any) -> None:
    """Catches: a speedup from two tokens, which the app refuses; and its silence where one is missing."""
    words = "–: no speedup, fewer than 16 tokens in a lane"
    for tokens, shown in ((2, False), (15, False), (16, True)):
        said = run("race", PROMPT, "-n", str(tokens), "-p", "prompt-lookup").stderr
        assert len(re.findall(r"\d\.\d\d×", said)) == 2 * shown
        assert (words in flat(said)) == (not shown)


@pytest.mark.parametrize("more", [("-p", "branching"), ("--overlap",)], ids=["pruned", "discarded"])
def test_accepted_are_of_judged_guesses_wherever_they_are_counted(
    run: Any, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Catches: guesses that were never sent to the target among those of which some were accepted."""
    file = tmp_path / "run.json"
    shown = run("decode", PROMPT, "-n", "32", *more, "--json", str(file))
    stats = sd.Trace.from_json(file.read_bytes()).stats
    assert 0 < stats.accepted < stats.judged < stats.proposed - stats.cut - stats.unreached
    assert "accepted/" in shown.output and f" {stats.accepted}/{stats.judged} " in shown.output
    said = f"{stats.accepted} of {stats.judged} judged guesses accepted"
    assert said in flat(run("import", str(file)).output)


def test_a_refusal_names_the_flag(run: Any) -> None:
    """Catches: 'stop.0', and a setting's name where the command line has another."""
    for given, said in (
        (("decode", PROMPT, "--stop", ""), "--stop needs at least 1 character, got ''."),
        (
            ("record-transformers", PROMPT, "-t", "nan"),
            "--temperature has to be a number from 0 to 10, got nan.",
        ),
    ):
        assert flat(run(*given).stderr) == f"error: {said}"


def test_a_lane_races_against_itself(run: Any) -> None:
    """Catches: the second of two equal lanes, dropped in silence."""
    ran = json.loads(
        run("race", PROMPT, "-n", "2", "-p", "prompt-lookup", "-p", "prompt-lookup", "--json", "-").stdout
    )
    assert len(ran) == 3 and ran[1]["header"]["settings"] == ran[2]["header"]["settings"]
    assert "(2)" in run("race", PROMPT, "-n", "2", *["-p", "prompt-lookup"] * 2).stderr


def test_another_engine_s_rule_is_kept_and_named(run: Any, tmp_path: Path) -> None:
    """Catches: a misspelt rule that nobody mentions, and whose thresholds go unchecked."""
    file = tmp_path / "run.json"
    run("decode", PROMPT, "-n", "2", "--json", str(file))
    file.write_text(
        file.read_text().replace('"rule":"speculative-sampling"', '"rule":"speculative_sampling"')
    )
    said = flat(run("import", str(file)).stdout)
    assert "knows no rule 'speculative_sampling', kept as it is. Did you mean 'speculative-sampling'?" in said


def test_one_lane_is_compared_with_nothing(run: Any) -> None:
    """Catches: "All texts are equal." of a single one."""
    assert "texts" not in run("race", PROMPT, "-n", "2", "-p", "none").stderr


def test_what_was_written_is_said_in_bytes(run: Any, tmp_path: Path) -> None:
    """Catches: a size in characters, and a name in brackets that is taken for a style."""
    file = tmp_path / "run[b].json"
    said = run("decode", "né 😀", "-n", "2", "--json", str(file)).stderr
    assert f"run[b].json({file.stat().st_size:,}bytes)" in "".join(
        said.split()
    )  # lines wrap within a name too


def test_json_on_standard_output_comes_alone(run: Any) -> None:
    """Catches: verdicts and tables between the lines of a trace that a terminal shows."""
    for command in ("decode", "race"):
        result = run(
            command, PROMPT, "-n", "4", "-p", "prompt-lookup", "--length-policy", "confidence", "--json", "-"
        )
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)
        assert result.stderr == ""


def test_a_policy_that_changes_nothing_is_said(run: Any) -> None:
    """Catches: a policy that was asked for, is not used, and seems to have worked."""
    said = "The length policy 'confidence' changes nothing here"
    for command in ("decode", "race"):
        result = run(command, PROMPT, "-n", "4", "-p", "prompt-lookup", "--length-policy", "confidence")
        assert flat(result.stderr).count(f"note: {said}") == 1
    assert said not in flat(run("decode", PROMPT, "-n", "4", "--length-policy", "confidence").stderr)


def test_a_file_that_cannot_be_written_is_refused_first_and_one_that_can_is_left_alone(
    run: Any, tmp_path: Path
) -> None:
    """Catches: minutes of decoding whose trace is then lost; an old trace emptied by a run that fails."""
    for command in ("decode", "race"):
        result = run(command, PROMPT, "--json", str(tmp_path / "nowhere" / "x.json"))
        assert result.exit_code == 2 and "could not be written" in flat(result.stderr)
    assert run.given == []
    old = tmp_path / "old.json"
    old.write_text("old")
    assert run("decode", "", "-p", "none", "-n", "999999", "--json", str(old)).exit_code == 2
    assert old.read_text() == "old"
    assert run("decode", PROMPT, "-n", "999999", "--json", str(tmp_path / "new.json")).exit_code == 2
    assert not (tmp_path / "new.json").exists()


def test_ids_of_models_are_never_cut(run: Any) -> None:
    """Catches: a table that shortens hub ids on a terminal of 80 columns, so that none can be copied."""
    lines = run("models").stdout.splitlines()
    for entry in catalogue.entries():
        for name in filter(None, (entry.target, entry.draft)):
            folder = catalogue.shipped(name)
            if folder is not None and not folder.is_dir():
                continue  # not trained yet
            assert any(name in line.split() for line in lines), name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("decode", "x", "-p", "magic"), "There is no proposer 'magic'. Choose one of: none, "),
        (("decode", "x", "-p", "sufix"), "There is no proposer 'sufix'. Did you mean 'suffix'?"),
        (("decode", "x", "-p", "suffix", "-o", "factr=2"), "Did you mean 'factor'?"),
        (("race", "x", "-p", "suffix", "-o", "factr=2"), "has an option 'factr'. Did you mean 'factor'?"),
        (("decode", "x", "-o", "max_ngram=2"), "'draft-model' has no option 'max_ngram'"),
        (("decode", "x", "-o", "max_ngram"), "An option is written as name=value, got 'max_ngram'"),
        (
            ("decode", "x", "-p", "prompt-lookup", "-o", "max_ngram=99"),
            "a whole number from 1 to 16, got '99'",
        ),
        (("decode", "x", "--rule", "exact-match", "-t", "0.5"), "exact-match"),
        (("decode", "x", "--length-policy", "hope"), "There is no length policy 'hope'"),
        (("decode", "x", "--length-option", "a=1"), "The length policy 'fixed' has no option 'a'"),
        (
            ("race", "x", "-p", "draft-model:colour=1"),
            "The lane 'draft-model:colour=1' has no 'colour'. Choose one of: draft",
        ),
        (
            ("race", "x", "-p", "draft-model,draft-length=2"),
            "has no 'draft-length'. Did you mean 'draft_length'?",
        ),
        (("sweep", "-l", "suffix,factr=2"), "has no 'factr'. Did you mean 'factor'?"),
        (("sweep", "--families", "cod"), "no family of prompts 'cod'. Did you mean 'code'?"),
        (("decode", "x", "-p", "EAGLE"), "There is no proposer 'EAGLE'. Did you mean 'eagle'?"),
        *(
            (
                (command, *word, f"draft-model,{given}"),
                f"Option '{given.partition('=')[0]}' of the lane 'draft-model,{given}' has to be {wanted}",
            )
            for command, *word in (("race", "x", "-p"), ("sweep", "-l"))
            for given, wanted in (
                ("draft_length=many", "a whole number from 1 to 64, got 'many'"),
                ("overlap=perhaps", "true or false, got 'perhaps'"),
                ("memory_budget_mb=-1", "a number from 0 to 1e+06, got '-1'"),
            )
        ),
        (("race", "x", "-o", "colour=1"), "No proposer of this race has an option 'colour'"),
        (("race", "x", "-p", "branching:width"), "no value for 'width'; write it as branching,width=VALUE."),
        (
            ("race", "x", "-p", "none", "-n", "0"),
            "--max-new-tokens has to be a whole number from 1 to 4096, got 0.",
        ),
        (("decode", "x", "--memory-budget-mb", "-1"), "--memory-budget-mb has to be a number from 0"),
        (
            ("decode", "x", "-p", "mtp", "--model", catalogue.CHAT),
            "none ship for 'smollm2-135m-instruct'. Name some",
        ),
        (
            ("race", "x", "-p", "eagle", "--model", "some/model"),
            "none ship for 'some/model'. Name some with --eagle",
        ),
        (("decode", "x", "-p", "prompt-lookup", "--overlap"), "cannot draft while the target verifies"),
    ],
)
def test_a_refusal_is_one_sentence_before_any_model_is_loaded(
    run: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    """Catches: a traceback, a wait for models that are then not used, and exit status 0."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in flat(result.stderr)
    assert flat(result.stderr).startswith("error: ")
    assert run.given == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("record-transformers x --lookup 0", "1 to 64 tokens a round, got 0"),
        ("record-transformers x --lookup -1", "1 to 64 tokens a round, got -1"),
        ("record-transformers x --lookup 2 -t -2", "temperature"),
        ("record-transformers x --lookup 2 -t nan", "temperature"),
        ("record-transformers x --lookup 2 -n 0", "--max-new-tokens"),
        ("memory {here}", "holds no model: neither a config.json nor a GGUF file"),
        ("memory {empty}", "The model's name is empty"),
        ("memory {here}/nope", "There is no file or folder '/"),
        ("memory bundled --progress x", "There is no progress 'x'"),
        ("models --prepare nope", "There is no model 'nope'"),
        ("models --prepare {here}", "holds no model"),
        ("models --prepare a --delete b", "--delete does not go together with --prepare"),
        ("models --most-gb 5", "--most-gb limits a download and needs --fetch"),
        ("models --fetch a/b --most-gb inf", "--most-gb is a number of gigabytes"),
        ("sweep --csv {here}", "The table of cells could not be written"),
        ("sweep --json {here}", "The sweep's results could not be written"),
        ("sweep --out {here}", "The sweep's measurements could not be written"),
        ("sweep --out {file}", "is not a sweep's file"),
        ("fit --prompts {here}/none.txt --out {here}/fit", "No such file or directory. Check the path."),
        ("fit --prompts {file} --out {file}/fit", "is a file. Choose another folder."),
        ("import --schema -o {here}", "The schema could not be written"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_model_is_loaded(
    run: Any, line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a traceback, a wait for models, an option that is ignored, a sentence about something else."""
    for module in (cli_fit, cli_records):
        monkeypatch.setattr(module, "load", lambda *_, **__: pytest.fail("models were loaded"))
    here, file = tmp_path / "here", tmp_path / "file.txt"
    here.mkdir()
    file.write_text("not a sweep\n")
    places = {"here": here, "file": file, "empty": ""}
    result = run(*(word.format(**places) for word in line.split()))
    said = flat(result.stderr)
    assert result.exit_code == 2 and said.startswith("error: ") and sentence in said
    assert run.given == [] and not [*here.iterdir()] and file.read_text() == "not a sweep\n"


def test_a_path_to_nothing_is_shown_whole(tmp_path: Path) -> None:
    """Catches: “There is no folder 'nope'” to someone who typed a long path with a mistake in its middle."""
    for more in ({}, {"eagle3": str(tmp_path / "nope")}):
        with pytest.raises(sd.ModelError, match=f"There is no file or folder '{tmp_path}/nope'"):
            cli_common.load(None if more else f"{tmp_path}/nope", None, **more)


def test_what_a_decode_does_not_use_or_have_is_said(run: Any) -> None:
    """Catches: junk after an empty prompt, and a γ that has no effect, without a word; a note where all is used."""
    said = flat(run("decode", "", "-p", "eagle3", "-g", "1", "-n", "2").stderr)
    assert "note: the prompt is empty, so the text begins from the model's start token alone." in said
    assert "note: γ changes nothing here: the proposer 'eagle3' does not use it;" in said
    assert "; its options are: depth, top_k, nodes, tree_temperature." in said
    usual = run("race", PROMPT, "-p", "prompt-lookup", "-g", "1", "-n", "2").stderr
    assert "prompt is empty" not in usual and "γ changes nothing" not in usual
    assert "note" not in run("decode", "", "-p", "eagle3", "-g", "1", "-n", "2", "--json", "-").stderr


def test_the_schema_is_written_to_a_file(run: Any, tmp_path: Path) -> None:
    """Catches: an output file that is ignored."""
    file = tmp_path / "schema.json"
    result = run("import", "--schema", "-o", str(file))
    assert result.exit_code == 0 and json.loads(file.read_text()) == json.loads(
        run("import", "--schema").stdout
    )


def test_a_profile_refuses_widths_beyond_the_window(
    run: Any, family: sd.Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a width that is dropped in silence after all was measured, and --eager without effect or a word."""
    monkeypatch.setattr(cli_profile, "load_models", lambda *_, **__: family)
    given = ("profile", "--out", str(tmp_path / "x.json"), "--device", "cpu")
    result = run(*given, "--width", "99999999")
    assert result.exit_code == 2 and "got a width of 99,999,999" in flat(result.stderr)
    assert not [*tmp_path.iterdir()]
    assert cli_profile.disturbed([1.0, 0.9, 1.3]) is None
    assert "held the machine up" in (cli_profile.disturbed([1.0, 1.2, 0.8]) or "")
    remark = cli_profile.check_asked(family, recording.PassPlan(), None, True)
    assert remark is not None and "--eager changes nothing on cpu" in remark


def test_a_model_is_converted_listed_and_deleted(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: progress that no program can read, a copy that the list leaves out, room that does not come free."""
    from .gguf_writing import write

    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))
    file = str(write(tmp_path / "small.gguf"))
    result = run("models", "--prepare", file, "--progress", "json")
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    shares = [line["fraction"] for line in lines]
    assert shares == sorted(shares) and shares[-1] == 1.0 and all(line["words"] for line in lines)
    (copy,) = conversions.copies()
    assert f"{copy.name}  " in run("models").stdout
    assert "is ready" in flat(run("models", "--prepare", file).stderr)
    assert run("models", "--delete", copy.name).exit_code == 0 and conversions.copies() == []
    again = run("models", "--delete", copy.name)
    assert again.exit_code == 2 and "no converted model" in flat(again.stderr)
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    broken = run("models", "--prepare", file, "--progress", "json")
    assert broken.exit_code == 1 and "cut off" in json.loads(broken.stdout.splitlines()[-1])["error"]


def test_heads_are_handed_to_the_loader_only_if_they_were_named(run: Any) -> None:
    run("decode", PROMPT, "-n", "1", "-p", "none")
    run("decode", PROMPT, "-n", "1", "-p", "none", "--medusa", "somewhere")
    assert "medusa" not in run.given[0] and "eagle" not in run.given[0]
    assert run.given[1]["medusa"] == "somewhere" and "eagle" not in run.given[1]


def test_a_lossy_rule_is_called_lossy_wherever_it_is_shown(run: Any) -> None:
    """Catches: a list or a result that shows a lossy rule as if it kept the target's distribution, or claims equal
    texts."""
    lossy = [name for name, rule in RULES.items() if not rule.lossless]
    assert f"{lossy[0]} (lossy)" in flat(re.sub("[│╭╰╮╯─]", " ", run("decode", "--help").stdout))
    result = run("race", PROMPT, "-n", "8", "-p", "draft-model", "--rule", lossy[0])
    assert result.exit_code == 0, result.output
    said = flat(result.stderr)
    assert said.count("(lossy)") == 1  # the plain lane is judged by no rule
    assert f"lossy: the text judged by '{lossy[0]}' may not follow the target's distribution." in said
    assert "All texts are equal" not in said
    assert "lossy" not in flat(run("race", PROMPT, "-n", "4", "-p", "draft-model").stderr)


def test_you_are_asked_at_the_terminal(run: Any) -> None:
    """Catches: words that are trimmed or never reach the run, and a run that hangs once the input has ended."""
    plain = json.loads(run("race", PROMPT, "-n", "8", "-p", "none", "--json", "-").stdout)[0]["output"][
        "text"
    ]
    result = run("decode", PROMPT, "-n", "8", "-p", "you", "--json", "-", input=plain + "\n")
    assert result.exit_code == 0, result.output
    assert "What comes next?" in result.stderr
    trace = sd.Trace.from_json(result.stdout)
    assert trace.text == plain
    assert trace.stats.accepted > 0
    assert trace.audit() == []


def test_nobody_can_be_asked_while_the_prompt_comes_from_standard_input(run: Any) -> None:
    result = run("decode", "-", "-n", "8", "-p", "you", input="Once")
    assert result.exit_code == 2
    assert "there is nobody here" in flat(result.stderr)


def test_the_list_has_every_name_option_and_reason(run: Any, family: sd.Models) -> None:
    """Catches: a new proposer, rule, policy or option that the list leaves out."""
    said = flat(run("proposers").stdout)
    for table in (PROPOSERS, RULES, LENGTH_POLICIES):
        for name, kind in table.items():
            assert f"{name} {kind.title}" in said
            assert flat(kind.summary) in said
            for option in fields(kind.Options):
                assert f"option {option}=" in said
    for reason in available(family).values():
        assert reason is None or f"cannot run here: {flat(reason)}" in said


def test_help_names_what_the_tables_hold(run: Any) -> None:
    words = flat(re.sub("[│╭╰╮╯─]", " ", run("decode", "--help").stdout))
    for name in (*PROPOSERS, *RULES, *LENGTH_POLICIES):
        assert name in words


def test_the_module_runs_as_a_program() -> None:
    """Catches: an entry point that only works in process, a refusal or a help page that waits for torch."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "specdec_core", "decode", "x", "--rule", "nope"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "There is no rule 'nope'" in done.stderr and "Traceback" not in done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "specdec_cli.commands" in imported and "torch" not in imported


def counting(context: tuple[int, ...]) -> list[float]:
    """0 1 2 3 0 1 2 3 …, for ever."""
    return [1.0 if token == ((context[-1] if context else 0) + 1) % 4 else 0.0 for token in range(4)]


def test_a_text_that_repeats_is_said_beside_the_figures(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a loop's figures without a word about the loop, the same sentence once for each lane, the word where
    nothing repeats."""
    quiet = run("race", PROMPT, "-n", "24", "-p", "draft-model")
    assert "repeat" not in quiet.stderr
    models = scripted(counting, counting)
    monkeypatch.setattr(cli, "load", lambda *_, **__: models)
    raced = flat(run("race", "a", "-n", "40").stderr)
    assert "(repeats 90%)" in raced and "repeats: this share of the text" in raced
    assert raced.count("The last 36 of 40 tokens repeat the same 4 tokens") == 1
    assert "repeats: The last 36 of 40" in flat(run("decode", "a", "-n", "40").stderr)
    swept = run(
        "sweep",
        "--families",
        "poem",
        "--per-family",
        "1",
        "--lane",
        "draft-model",
        "-n",
        "40",
        "--repeats",
        "1",
    )
    assert "1 of 1 loop" in flat(swept.stdout)
    assert "1 of 1 text of the guessing lanes is a loop (at least 20% of the tokens" in flat(swept.stderr)
