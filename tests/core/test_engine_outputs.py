"""Real outputs of engines against numbers that were worked out without them: each is right, or is not told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_cli import render
from specdec_measure.adapters import forms, logs
from specdec_measure.adapters.acceptance import Acceptance
from specdec_measure.adapters.as_json import answers

FILES = Path(__file__).parent / "engines"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "trace.md"
LLAMA, MLX, OPENVINO = "llama-server-0.10434-", "mlx-lm-0.32.2-", "openvino-genai-2026.4.1.0-"
LONG = (63_696, 63_696, *[62_369] * 14)
# Rounds, guesses, accepted, by position, tokens, passes: as they were; None and () where the file does not tell.
RIGHT: dict[str, tuple[Any, ...]] = {
    LLAMA + "log.txt": (201, 782, 327, (), None, None),
    LLAMA + "log-ngram.txt": (14, 56, 48, (), None, None),
    LLAMA + "log-lv4-excerpt.txt": (117, 458, 161, (64, 45, 31, 21), None, None),
    LLAMA + "metrics-before.txt": (0, 0, 0, (), 0, None),
    LLAMA + "metrics-after.txt": (201, 782, 327, (122, 92, 62, 51), 541, None),
    LLAMA + "metrics-ngram.txt": (14, 56, 48, (14, 13, 12, 9), 104, None),
    LLAMA + "metrics-million.txt": (63_696, None, 1_000_558, LONG, None, None),
    LLAMA + "metrics-million-later.txt": (63_744, None, 1_001_312, (63_744, 63_744, *[62_416] * 14), None, None),
    LLAMA + "stream.sse": (17, 67, 30, (12, 10, 6, 2), 48, None),
    LLAMA + "stream-ended.sse": (14, 56, 32, (11, 8, 7, 6), 45, None),
    LLAMA + "chat-stream.sse": (8, 32, 23, (7, 6, 5, 5), 32, None),
    LLAMA + "completion.json": (None, 41, 36, (), 48, None),
    LLAMA + "chat.json": (None, 32, 23, (), 32, None),
    LLAMA + "two-answers.json": (None, 20, 12, (), 56, None),
    MLX + "stream-draft.jsonl": (17, None, 32, (12, 10, 7, 3), 48, 17),
    MLX + "stream-draft-ended.jsonl": (14, None, 32, (11, 9, 6, 6), 45, 14),
    OPENVINO + "draft.json": (None, None, None, (), 48, 18),
    OPENVINO + "draft-ended.json": (None, None, None, (), 45, 15),
    OPENVINO + "draft-one-round.json": (None, None, None, (), 5, 2),
    OPENVINO + "prompt-lookup.json": (None, None, None, (), 48, 11),
    "vllm-0.32.0-bench-serve.json": (82, 328, 46, (38, 7, 1, 0), None, None),
    "vllm-0.32.0-chat-eagle3-detailed.json": (9, 45, 40, (9, 8, 8, 8, 7), 48, None),
    "vllm-0.32.0-log.txt": (41, 161, 134, (37, 36, 31, 30), None, None),
    "vllm-0.32.0-metrics-draft-model.txt": (334, 1336, 592, (199, 159, 133, 101), None, None),
    "vllm-0.32.0-metrics-ngram.txt": (50, 197, 144, (43, 39, 32, 30), None, None),
    "vllm-0.32.0-ngram-answer-with-plain-rounds.json": (22, 88, 27, (12, 8, 5, 2), None, None),
    "vllm-0.32.0-stream.sse": (14, 56, 50, (13, 13, 13, 11), 64, None),
}  # fmt: skip


def data(name: str) -> bytes:
    return (FILES / name).read_bytes()


def numbers(found: Acceptance) -> tuple[Any, ...]:
    return found.rounds, found.drafted, found.accepted, found.at, found.tokens, found.passes


def test_each_file_has_its_right_numbers_here() -> None:
    """Catches: a recorded output that no test reads."""
    silent = {"vllm-0.32.0-stop-string-no-metrics.json", "README.md"}
    assert {path.name for path in FILES.iterdir()} == set(RIGHT) | silent


@pytest.mark.parametrize("name", RIGHT)
def test_an_output_is_read_right_or_is_not_told(name: str) -> None:
    """Catches: a count that is off, invented, or unknown though the file tells it."""
    found = forms.read(data(name))
    assert found is not None and numbers(found) == RIGHT[name]
    if found.reached:  # of a chain: each position is judged where the one before it was accepted, or less
        assert all(one <= other for one, other in zip(found.reached[1:], found.at, strict=False))
        assert all(one <= other for one, other in zip(found.at, found.reached, strict=True))


def test_streams_tell_which_guesses_were_judged() -> None:
    """Catches: α of the last round's shorter draft, which has 3 guesses and not 4."""
    found = forms.read(data(LLAMA + "stream.sse"))
    assert found is not None and found.reached == (17, 12, 10, 5) and found.rate == pytest.approx(30 / 44)


def test_six_digits_are_not_taken_for_whole_counts() -> None:
    """Catches: 1.00056e+06 as 1,000,560, and a difference of two such numbers."""
    now, before = (
        forms.read(data(LLAMA + name)) for name in ("metrics-million-later.txt", "metrics-million.txt")
    )
    assert now is not None and before is not None
    assert "between 1,000,555 and 1,000,565" in " ".join(before.remarks)
    between = logs.later(now, before)
    assert (between.rounds, between.drafted, between.accepted) == (48, None, 754)
    assert sum(between.at) == 754 and "between 740 and 760" in " ".join(between.remarks)
    text = data(LLAMA + "metrics-million.txt").decode()
    alone = logs.read(re.sub(r".*per_pos.*\n", "", text))  # nothing exact is left to take it from
    assert alone is not None and alone.accepted is None and alone.drafted is None and alone.rounds == 63_696
    # Prometheus writes the rounded number out; vLLM prints all digits.
    plain = logs.read(text.replace("1.00056e+06", "1000560"))
    assert plain is not None and (plain.drafted, plain.accepted) == (None, 1_000_558)
    exact = logs.read("vllm:spec_decode_num_draft_tokens_total 1.00056e+06\n")
    assert exact is not None and exact.drafted == 1_000_560


def test_an_answer_without_counts_among_others_is_said(tmp_path: Path) -> None:
    """Catches: llama.cpp's answer without guesses as an error; one whose counts are unknown counted as none."""
    found = forms.read(data(LLAMA + "two-answers.json"))
    assert found is not None and "draft_n is left out where it is 0" in " ".join(found.remarks)
    silent = json.loads(data("vllm-0.32.0-stop-string-no-metrics.json"))
    with pytest.raises(sd.TraceError, match="a stop string ended it"):
        forms.read(json.dumps(silent).encode())
    several = {"metrics": None, "choices": [{"index": 0}, {"index": 1}]}
    with pytest.raises(sd.TraceError, match="several choices"):
        forms.read(json.dumps(several).encode())
    told = json.loads(data("vllm-0.32.0-chat-eagle3-detailed.json"))
    both = forms.read(json.dumps([told, silent]).encode())
    assert both is not None and (both.rounds, both.source) == (9, "1 of 2 answers")
    assert "1 of 2 answers has no counts of guesses; the numbers are of the others." in both.remarks


def test_a_timeline_is_drawn_only_where_the_counts_force_it(tmp_path: Path) -> None:
    """Catches: passes without guesses drawn as rounds, in a real answer whose rounds are known and in a small one."""
    real = json.loads(data("vllm-0.32.0-ngram-answer-with-plain-rounds.json"))
    for proposer in ("prompt-lookup", "suffix", "ngram"):
        with pytest.raises(sd.TraceError, match="may guess nothing"):
            answers.trace(real, proposer=proposer, temperature=0, rule="exact-match")
    (stream,) = answers.parse(data("vllm-0.32.0-stream.sse"))
    with pytest.raises(sd.TraceError, match="may guess nothing"):
        answers.trace(stream, proposer="prompt-lookup", temperature=0, rule="exact-match")
    (eagle,) = answers.parse(data("vllm-0.32.0-chat-eagle3-detailed.json"))
    made = answers.trace(eagle, proposer="eagle3", temperature=0, rule="exact-match")
    assert made["rounds"][0]["committed"]["token"] == eagle["choices"][0]["token_ids"][:1]
    assert sum(len(row["committed"]["token"]) for row in made["rounds"]) == 48 and len(made["rounds"]) == 10
    small = {
        "model": "invented", "prompt_token_ids": [1, 2, 1],
        "choices": [{"finish_reason": "length", "token_ids": [5, 9, 1, 2]}],
        "metrics": {"speculative_decoding": {
            "acceptance_histogram": [0, 0, 1], "num_spec_steps": 1, "num_spec_tokens": 2,
            "num_accepted_draft_tokens": 2, "num_draft_tokens": 2, "per_step_accepted": [2], "per_step_drafted": [2]}},
    }  # fmt: skip
    said = small["metrics"]["speculative_decoding"]  # type: ignore[index]
    for tokens, per_step, proposer, drawn in (
        ([5, 9, 1, 2], [2], "prompt-lookup", False),
        ([5, 9, 1], [2], "suffix", False),
        ([5, 9], [2], "prompt-lookup", True),  # as many are missing as can be cut
        ([5, 9, 1, 2], [2], "draft-model", True),
        ([5, 9, 1, 2], [2], "eagle", True),
    ):
        small["choices"][0]["token_ids"] = tokens  # type: ignore[index]
        said["per_step_drafted"] = per_step
        file = tmp_path / "f.json"
        file.write_text(json.dumps(small))
        done = CliRunner().invoke(cli.app, ["import", str(file), "--proposer", proposer])
        assert (done.exit_code == 0) == drawn, done.output
    # A draft shorter than the server's: what cut it (a grammar, the load) may cut others to nothing.
    said |= {"num_spec_tokens": 3}
    small["choices"][0]["token_ids"] = [5, 9, 1, 2]  # type: ignore[index]
    with pytest.raises(sd.TraceError, match="drafts were shorter than num_spec_tokens"):
        answers.trace(small, proposer="eagle", temperature=0, rule="exact-match")
    said |= {"num_spec_steps": 0, "per_step_accepted": None, "per_step_drafted": None}
    with pytest.raises(sd.TraceError, match="no round of it had guesses"):
        answers.trace(small, proposer="eagle", temperature=0, rule="exact-match")


def test_a_file_of_no_known_form_is_told_the_known_ones() -> None:
    """Catches: advice to restart a server for a file of another program; a request taken for an answer."""
    for text in (
        '{"prompt": [1, 2], "n_predict": 4}\n{"prompt": [3]}\n',
        '{"slots": []}',
        "hello\n",
        '{"a": 1}',
    ):
        with pytest.raises(sd.TraceError) as refused:
            forms.read(text.encode())
        assert all(form.name in str(refused.value) for form in forms.FORMS)
        assert "neither a trace" in str(refused.value)


def test_the_docs_have_a_row_for_each_form_that_is_read() -> None:
    """Catches: a table of forms that another version read."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    listed = {row[0]: row[1:] for row in rows if row[0] in {form.name for form in forms.FORMS}}
    for form in forms.FORMS:
        columns = [
            form.versions,
            form.rounds,
            form.guesses,
            form.accepted,
            form.positions,
            form.timeline,
            form.untold,
        ]
        assert listed.get(form.name) == columns, form.name
    at = next(place for place, row in enumerate(rows) if row[0] == "form")
    table = rows[at + 2 : at + 2 + len(forms.FORMS)]
    assert [row[0] for row in table] == [form.name for form in forms.FORMS]


def test_the_table_has_the_passes_where_rounds_are_not_told() -> None:
    """Catches: tokens a pass that nobody sees, since a report counts no rounds; an unknown number printed as 0."""
    done = CliRunner().invoke(cli.app, ["import", str(FILES / (OPENVINO + "draft.json"))])
    said = " ".join(done.output.split())
    assert "rounds with guesses unknown guesses unknown accepted unknown" in said
    assert "tokens 48 passes of the target 18" in said and "tokens per pass 2.67" in said
    assert "30 guesses were accepted, or 31 if the text ends with an accepted guess" in said


def lane(tokens: list[int], proposer: str, rule: str = "exact-match", temperature: float = 0.0) -> Any:
    settings = {"proposer": proposer, "rule": rule, "temperature": temperature}
    return SimpleNamespace(token_ids=tokens, header=SimpleNamespace(settings=settings, dtype="bfloat16"))


def test_a_lossless_lane_s_other_text_is_explained_and_a_lossy_one_s_is_not() -> None:
    """Catches: a list of lanes whose texts differ, without why; ties as the cause of what a lossy rule did."""
    plain, other = lane([1, 2], "none"), lane([1, 3], "draft-model")
    said = render.comparison({"none": plain, "draft-model": other})
    assert said.startswith(
        "Texts that differ from plain decoding's: draft-model. At temperature 0 a lossless rule"
    )
    assert (
        "in draft-model two tokens were tied to within rounding (the weights are bfloat16), or the rule is"
        in said
    )
    lossy = lane([1, 3], "draft-model", "typical")
    assert (
        render.comparison({"none": plain, "typical": lossy})
        == "Texts that differ from plain decoding's: typical."
    )
    both = render.comparison({"none": plain, "typical": lossy, "draft-model": other})
    assert "so in draft-model two" in both and "plain decoding's: typical, draft-model." in both
    assert (
        render.comparison({"none": plain, "draft-model": lane([1, 2], "draft-model")})
        == "All texts are equal."
    )
