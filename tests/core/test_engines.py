"""What other engines report, as files written here after their documentation (no engine wrote any of them), and
llama-cpp-python's `generate`: a stand-in with its attributes always, the real one where it is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_measure.adapters import foreign, forms, logs
from specdec_measure.adapters.acceptance import Acceptance
from specdec_measure.adapters.as_json import answers
from specdec_measure.adapters.generate.llama_cpp import record

from . import gguf_writing

VLLM_LINE = (
    "(APIServer pid=1) INFO 05-18 11:19:54 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: {}, "
    "Accepted throughput: 1.00 tokens/s, Drafted throughput: 1.00 tokens/s, Accepted: {} tokens, Drafted: {} tokens, "
    "Per-position acceptance rate: {}, Avg Draft acceptance rate: 80.8%\n"
)
LLAMA_LINE = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)\n"
)
SGLANG_LINE = (
    "[2026-01-02 03:04:05] Decode batch, #running-req: 2, accept len: {}, accept rate: {}, #queue-req: 0\n"
)
METRICS = """# TYPE {0}:spec_decode_num_drafts_total counter
{0}:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {1}.0
{0}:spec_decode_num_drafts_created{{engine="0",model_name="m"}} 1.7e+09
{0}:spec_decode_num_drafts_total{{engine="1",model_name="m"}} 10.0
{0}:spec_decode_num_draft_tokens_total{{engine="1",model_name="m"}} 0.0
{0}:spec_decode_num_accepted_tokens_total{{engine="1",model_name="m"}} 0.0
{0}:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {2}.0
{0}:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {3}.0
{0}:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {4}.0
{0}:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {5}.0
"""


def vllm(**changed: Any) -> dict[str, Any]:
    """A detailed answer of vLLM with three rounds, in the last of which the text ends."""
    said = {
        "acceptance_histogram": [1, 0, 1, 1], "num_spec_steps": 3, "num_spec_tokens": 3,
        "num_accepted_draft_tokens": 5, "num_draft_tokens": 8, "per_step_accepted": [2, 0, 3],
        "per_step_drafted": [3, 2, 3],
    }  # fmt: skip
    choice = {
        "finish_reason": "length", "token_ids": [1, 2, 3, 4, 5, 6, 7],
        "logprobs": {"tokens": [" a", " b", " c", " d", " e", " f", " g"]},
    }  # fmt: skip
    return {
        "model": "theirs", "prompt_token_ids": [8, 9], "choices": [choice],
        "metrics": {"speculative_decoding": said | changed},
    }  # fmt: skip


def test_counters_of_a_log_and_of_metrics_are_read_as_far_as_they_are_certain() -> None:
    """Catches: a wrong number of rounds, a rate of guesses that were never judged, `_created` taken for a count."""
    found = logs.read(VLLM_LINE.format("3.42", 676, 837, "0.921, 0.828, 0.674") * 2 + "other lines\n")
    assert found is not None and (found.rounds, found.drafted, found.accepted) == (558, 1674, 1352)
    assert found.at == (514, 462, 376) and found.rate == pytest.approx(1352 / (558 + 514 + 462))
    # Drafts of several lengths: how many of a position were judged is not known, so neither is α.
    found = logs.read("\x1b[32m" + LLAMA_LINE)
    assert found is not None and (found.engine, found.rounds, found.at) == ("llama.cpp", 87, (70, 55, 42))
    assert found.rate is None and found.content()["acceptance_rate"] is None and found.per_round is not None
    # A line whose rounded ratios fit no number of rounds, or several, leaves rounds unknown.
    vague = logs.read(
        VLLM_LINE.format("3.42", 676, 837, "0.921, 0.828, 0.674")
        + VLLM_LINE.format("1.00", 0, 30, "0.000, 0.000, 0.000")
    )
    assert vague is not None and (vague.rounds, vague.at, vague.accepted, vague.per_round) == (
        None,
        (),
        676,
        None,
    )
    older = logs.read("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)")
    assert older is not None and (older.accepted, older.drafted, older.rounds) == (171, 297, None)
    for name, engine in (("vllm", "vLLM"), ("llamacpp", "llama.cpp")):
        now = logs.read(METRICS.format(name, 90, 200, 120, 80, 40))
        before = logs.read(METRICS.format(name, 40, 100, 60, 40, 20))
        assert now is not None and before is not None and (now.engine, now.rounds) == (engine, 100)
        assert now.rate == pytest.approx(120 / 180)
        assert logs.later(now, before).rounds == 50 and logs.later(now, before).at == (40, 20)
        with pytest.raises(sd.TraceError, match="started again"):
            logs.later(before, now)
    stated = logs.read(SGLANG_LINE.format("2.40", "0.84") + SGLANG_LINE.format("2.60", "0.90"))
    assert (
        stated is not None
        and stated.accepted is None
        and [one.values for one in stated.stated] == [(2.4, 2.6), (0.84, 0.9)]
    )
    gauges = logs.read(
        'sglang:spec_accept_length{tp_rank="0"} 2.5\nsglang:spec_accept_length{tp_rank="1"} 2.5\n'
    )
    assert gauges is not None and gauges.stated[0].values == (2.5,)
    assert logs.read("nothing of the kind\n") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (METRICS.format("vllm", 90, 100, 120, 80, 40), "120 of 100 guesses accepted"),
        (METRICS.format("vllm", 90, 200, 120, 80, 41), "by position"),
        (METRICS.format("vllm", 90, 200, 120, 80, 40).replace('position="0"', 'position="2"'), "cut off"),
        (VLLM_LINE.format("3.42", 676, 837, "0.921")[:190], "lack their counts"),
        (METRICS.format("vllm", 9, 20, 0, 0, 0) + METRICS.format("llamacpp", 9, 20, 0, 0, 0), "of vLLM and llama.cpp"),
        (VLLM_LINE.format("3.42", 676, 837, "0.921, 0.828, 0.674") + LLAMA_LINE, "counts of vLLM and llama.cpp"),
        (METRICS.format("vllm", -90, 200, 120, 80, 40), "'spec_decode_num_drafts' is negative, -90"),
        (VLLM_LINE.format("3.42", -676, 837, "0.921, 0.828, 0.674"), "'accepted guesses' is negative, -676"),
        (LLAMA_LINE.replace("  167", " -167"), "'accepted guesses' is negative, -167"),
        (SGLANG_LINE.format("-2.40", "0.84"), "'accept length' is negative, -2.4"),
    ],
)  # fmt: skip
def test_counters_that_contradict_each_other_are_refused(text: str, said: str) -> None:
    """Catches: a table of a file that is cut off or altered, and one of the first engine of two."""
    with pytest.raises(sd.TraceError, match=said):
        logs.read(text)


def counts(*given: dict[str, Any]) -> Acceptance:
    """What `import` makes of a list of answers."""
    found = forms.read(json.dumps(list(given)).encode())
    assert found is not None
    return found


def test_the_counts_in_answers_are_summed() -> None:
    """Catches: α from guesses that were never judged, a histogram of another meaning, answers of two engines as one."""
    found = counts(vllm(), vllm())
    assert (found.rounds, found.drafted, found.accepted, found.at) == (6, 16, 10, (4, 4, 2))
    assert found.reached == (6, 4, 4) and found.rate == pytest.approx(10 / 14)
    summary = vllm()
    for name in ("per_step_accepted", "per_step_drafted"):
        del summary["metrics"]["speculative_decoding"][name]
    assert counts(summary).rate is None  # the drafts' lengths differ, and are not told
    meta = {"spec_verify_ct": 43, "spec_num_correct_drafts": 63, "spec_num_proposed_drafts": 215}
    sglang = {"meta_info": meta | {"spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3]}}
    found = counts(sglang)
    assert (
        found.at == (32, 18, 7, 3, 3) and found.rate is None and found.per_round == pytest.approx(1 + 63 / 43)
    )
    chat = {"choices": [{}], "sglext": {"spec_tokens_details": sglang["meta_info"]}}
    assert counts(chat) == found  # of /v1/chat/completions
    older = {
        "spec_verify_ct": 7,
        "spec_accept_token_num": 0,
        "spec_draft_token_num": 35,
        "spec_accept_histogram": [0, 7],
    }
    found = counts({"meta_info": older})
    assert found.at == () and "left out" in found.remarks[1]
    timed = {"timings": {"predicted_n": 200, "draft_n": 347, "draft_n_accepted": 65}}
    found = counts(timed)
    assert (found.rounds, found.of_drafted, found.per_round) == (None, pytest.approx(65 / 347), None)
    for given, said in (
        ([vllm(), timed], "several engines"),
        ([{"choices": []}], "without counts"),
        ([vllm(num_draft_tokens="many")], "whole number"),
        ([vllm(per_step_accepted=[2, 0])], "contradict"),
        ([vllm(acceptance_histogram=[1, 0, 1])], "in the histogram"),
    ):
        with pytest.raises(sd.TraceError, match=said):
            counts(*given)


def test_a_detailed_answer_becomes_a_trace_whose_untold_guesses_stay_untold(tmp_path: Path) -> None:
    """Catches: an invented token, probability or time; a guess in the wrong round, an end counted as accepted,
    numbers that contradict the server's without a word, a refusal that does not name the file."""
    file, trace, page, counts = (tmp_path / name for name in ("a.json", "t.json", "p.html", "c.json"))
    full = vllm(per_step_drafted=[3, 3, 3], num_draft_tokens=9)
    file.write_text(json.dumps(full))
    run = CliRunner().invoke
    done = run(cli.app, ["import", str(file), "--proposer", "eagle", "-o", str(trace), "--page", str(page)])
    assert done.exit_code == 0 and "the tokens of some guesses" in done.output.replace("\n", " "), done.output
    said = done.output.replace("\n", " ")
    assert (
        "4 rounds, 7 tokens; 4 of 6 judged" in said
        and "The first round is the pass that read the prompt" in said
    )
    assert "The table also counts 1 accepted guess beyond the end of the text." in said
    found = sd.Trace.from_json(trace.read_bytes())
    assert found.token_ids == [1, 2, 3, 4, 5, 6, 7] and found.text == " a b c d e f g" and found.audit() == []
    assert [row.nodes.token for row in found.rounds] == [[], [2, 3, -1], [-1, -1, -1], [6, 7, -1]]
    assert [row.nodes.verdict for row in found.rounds][1:] == [
        ["accepted", "accepted", "rejected"], ["rejected", "unreached", "unreached"], ["accepted", "accepted", "cut"],
    ]  # fmt: skip
    assert found.texts["-1"] == "⟨?⟩" and "⟨?⟩" in page.read_text(encoding="utf-8")
    assert found.stats.tokens_per_second is None and found.rounds[1].nodes.p is None
    assert found.rounds[0].note == {"reads_prompt": True} and found.header.settings["rule"] == "exact-match"
    # Counts alone have their own file and no page.
    assert run(cli.app, ["import", str(file), "-o", str(counts)]).exit_code == 0
    assert json.loads(counts.read_text())["format"] == "specdec-acceptance"
    alone = run(cli.app, ["import", str(file), "--page", str(page)])
    assert alone.exit_code == 2 and "nothing to play" in alone.output.replace("\n", " ")
    warm = run(cli.app, ["import", str(file), "--proposer", "eagle", "-t", "1"])
    assert warm.exit_code == 2 and "--rule" in warm.output
    for text, wrong in (
        (json.dumps(vllm())[:-9], "not complete JSON"), ("[]", "holds an empty list"), ("hello", "neither a trace"),
    ):  # fmt: skip
        file.write_text(text)
        refused = run(cli.app, ["import", str(file)])
        assert refused.exit_code == 2 and wrong in refused.output.replace("\n", " ")
        assert "a.json'cannotbeimported:" in "".join(refused.output.split())
    file.write_text(json.dumps(vllm()), encoding="utf-16")  # as a shell on Windows redirects
    assert run(cli.app, ["import", str(file), "-o", str(counts)]).exit_code == 0
    file.write_bytes(b"\xff\xfe{")
    refused = run(cli.app, ["import", str(file)])
    assert refused.exit_code == 2 and "mark of UTF-16, and is not UTF-16" in " ".join(refused.output.split())
    file.write_text(json.dumps(vllm()), encoding="utf-8-sig")
    assert run(cli.app, ["import", str(file), "-o", str(counts)]).exit_code == 0
    with pytest.raises(foreign.ForeignError, match="do not begin with the accepted"):
        foreign.read(_claiming_an_untold_guess(found))


def _claiming_an_untold_guess(trace: sd.Trace) -> bytes:
    content = json.loads(trace.to_json())
    content["rounds"][1]["nodes"]["token"][1] = -1
    return json.dumps(content).encode()


def test_an_answer_that_does_not_place_its_tokens_has_no_timeline() -> None:
    """Catches: rounds without guesses, which the counts leave out, as others."""
    for answer, said in (
        (vllm(), "some rounds had no guesses"),
        (vllm(per_step_accepted=None), "no timeline in this"),
    ):
        answer["choices"][0]["token_ids"] = list(range(20))
        with pytest.raises(sd.TraceError, match=f"(?i){said}"):
            answers.trace(answer, proposer="prompt-lookup", temperature=0, rule="exact-match")


class LikeLlama:
    """What the recorder uses of `llama_cpp.Llama` 0.3.36, over a table of logits by token."""

    def __init__(self, draft_model: Any) -> None:
        self.metadata = {"general.name": "Stand-in"}
        self.draft_model = draft_model
        self.table = np.random.default_rng(3).standard_normal((32, 32)).astype(np.float32) * 4
        self.input_ids, self.scores = np.zeros(96, np.int32), np.zeros((96, 32), np.float32)
        self.n_tokens = 0
        self.set_seed(0)

    def set_seed(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def reset(self) -> None:
        self.n_tokens = 0

    def n_ctx(self) -> int:
        return 96

    def n_vocab(self) -> int:
        return 32

    def token_eos(self) -> int:
        return 31

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return [byte % 31 for byte in text]

    def detokenize(self, tokens: list[int], special: bool = False) -> bytes:
        return "".join(chr(97 + token) for token in tokens).encode()

    def eval(self, tokens: list[int]) -> None:
        end = self.n_tokens + len(tokens)
        self.input_ids[self.n_tokens : end] = tokens
        self.scores[self.n_tokens : end] = self.table[tokens]
        self.n_tokens = end

    def generate(self, tokens: list[int], temp: float, **_: Any) -> Any:
        tokens, place = list(tokens), len(tokens) - 1
        while True:
            self.eval(tokens)
            while place < self.n_tokens:
                row = self.scores[place]
                noise = self.random.gumbel(size=32) if temp else 0.0
                token = int(np.argmax(row / (temp or 1.0) + noise))
                place += 1
                yield token
                tokens = [token]
                if place < self.n_tokens and token != self.input_ids[place]:
                    self.n_tokens = place
                    break
            self.input_ids[self.n_tokens] = token
            tokens += self.draft_model(self.input_ids[: self.n_tokens + 1]).tolist()


class Knowing:
    """Guesses what plain decoding wrote, and errs in the third guess of a round."""

    def __init__(self) -> None:
        self.text: list[int] = []

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        found = np.array(self.text[len(ids) : len(ids) + 3], np.int32)
        found[2:] ^= 1
        return found


def llamas(folder: Path) -> list[Any]:
    """The stand-in, and the real one where it is installed."""
    found: list[Any] = [LikeLlama(Knowing())]
    try:
        from llama_cpp import Llama  # type: ignore[import-not-found,unused-ignore]
    except (ImportError, OSError, RuntimeError):
        return found
    file = gguf_writing.write(folder / "tiny.gguf", quantised=gguf.GGMLQuantizationType.F32)
    return [*found, Llama(str(file), n_ctx=128, draft_model=Knowing(), verbose=False)]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_record_is_what_llama_cpp_did(temperature: float, tmp_path: Path) -> None:
    """Catches: a token, round or probability that is not llama.cpp's; a recording that changes the text, or stays."""
    for llama in llamas(tmp_path):
        prompt, alone, asked = [5, 6, 7, 5, 6], [], dict(vars(llama))
        llama.reset()
        llama.set_seed(4)
        for token in llama.generate(prompt, temp=temperature, top_k=0, top_p=1.0, min_p=0.0):
            alone.append(int(token))
            if len(alone) == 48 or token == llama.token_eos():
                break
        llama.draft_model.text = [*prompt, *alone]
        trace = record(llama, prompt, max_new_tokens=48, temperature=temperature, seed=4)
        assert trace.token_ids == alone and trace.audit() == [] and vars(llama).keys() == asked.keys()
        assert sd.Trace.from_json(trace.to_json()) == trace
        assert 0 < trace.stats.accepted < trace.stats.proposed
        assert all(row.nodes.coin is None for row in trace.rounds)
        rule = "token-matching" if temperature else "exact-match"
        assert trace.header.settings["rule"] == rule and trace.header.settings["proposer"] == "Knowing"
        text = [*prompt, *alone]
        place = len(prompt)
        for row in trace.rounds:
            for position in row.positions:
                if isinstance(llama, LikeLlama):
                    row_of = llama.table[text[place - 1]].astype(np.float64)
                    p = np.exp(row_of - row_of.max()) / np.exp(row_of - row_of.max()).sum()
                    assert np.allclose(p[position.model_p.id], position.model_p.prob, atol=1e-5)
                place += 1
        with pytest.raises(sd.SettingsError, match="room for"):
            record(llama, prompt, max_new_tokens=1_000)
        llama.draft_model = None
        with pytest.raises(sd.SettingsError, match="does not speculate"):
            record(llama, prompt)
