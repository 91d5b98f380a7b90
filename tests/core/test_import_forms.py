"""Each form that is read, in a small file made after its source; and counters between two pages, series by series."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specdec_core as sd
from specdec_measure.adapters import forms, logs
from specdec_measure.adapters.acceptance import Acceptance

FILES = Path(__file__).parent / "engines"
TENSORRT = {
    "acceptance_rate": 0.504, "acceptance_histogram": [12, 9, 7, 13], "num_spec_steps": 41, "num_spec_tokens": 3,
    "total_accepted_draft_tokens": 62, "total_draft_tokens": 123,
}  # fmt: skip
LM_STUDIO = {
    "usedDraftModelKey": "d", "predictedTokensCount": 512, "totalDraftTokensCount": 399,
    "acceptedDraftTokensCount": 311, "rejectedDraftTokensCount": 80, "ignoredDraftTokensCount": 8,
}  # fmt: skip
SGLANG = {
    "completion_tokens": 107, "spec_verify_ct": 43, "spec_num_correct_drafts": 63, "spec_num_proposed_drafts": 215,
    "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}  # fmt: skip
AIPERF = {
    "engine": "vllm", "mean_acceptance_length": 2.2, "draft_acceptance_rate": 0.6, "completion_tokens": 12,
    "acceptance_histogram": {"0": 1, "2": 3, "1": 1}, "num_accepted_draft_tokens": 7, "num_draft_tokens": 10,
    "num_spec_steps": 5, "num_spec_tokens": 2,
}  # fmt: skip
FIRST_VLLM = (
    "INFO 03-04 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.500, System efficiency: 0.500, Number "
    "of speculative tokens: 3, Number of accepted tokens: {}, Number of draft tokens: {}, Number of emitted tokens: {}."
)
BENCH = (
    "---------------Speculative Decoding---------------\nAcceptance rate (%):                     50.00\n"
    "Acceptance length:                       2.50\nDrafts:                                  30\n"
    "Draft tokens:                            90\nAccepted tokens:                         45\n"
    "Per-position acceptance (%):\n  Position 0:                            80.00\n  Position 1:           50.00\n"
    "  Position 2:             20.00\n"
)
STATISTICS = (
    "spec common_specu: statistics        {}: #calls(b,g,a) =    1     {n}     {n}, #gen drafts =     {n}, "
    "#acc drafts =     42, #gen tokens =    {g}, #acc tokens =   {a}, #mean acc len = 3.10, #acc rate/pos = ({r}), "
    "dur(b,g,a) = 0.004, 402.100, 0.310 ms\n"
)
OLD_STATISTICS = (
    "statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc "
)
OLD_STATISTICS += "tokens = 73\n"
SGLANG_LINE = (
    "Decode batch, #running-req: 1, accept len: 3.41, accept rate: 0.48, cap len: 4.10, block accept len: "
)
SGLANG_LINE += "3.60, x\n"
FORK = (
    "llamacpp:draft_tokens_total 36\nllamacpp:draft_tokens_accepted_total 18\n"
    "llamacpp:draft_verify_steps_total 12\n"
)
GAPS = ((1, {}), (2, {"draft_n": 2, "draft_n_accepted": 1}), (5, {"draft_n": 6, "draft_n_accepted": 2}))
MTP = STATISTICS.format("draft-mtp", n=50, g=150, a=105, r="0.840, 0.700, 0.560")
LOOKUP = STATISTICS.format("ngram-mod", n=10, g=20, a=12, r="0.700, 0.500")
NO_RATES = "slot print_timing: id  1 | task 7 | draft acceptance = {} ({:5d} accepted / {:5d} generated){}\n"
# Rounds, guesses, accepted, by position.
SMALL: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {
    "TensorRT-LLM's answer": [
        ({"choices": [{"index": 0, "avg_decoded_tokens_per_iter": 2.5, "speculative_decoding": TENSORRT}]},
         (41, 123, 62, (29, 20, 13))),
        ({"choices": [{"speculative_decoding": TENSORRT}, {"speculative_decoding": TENSORRT}]},
         (82, 246, 124, (58, 40, 26))),
        ({"choices": [{"avg_decoded_tokens_per_iter": 2.5}]}, (None, None, None, ())),
    ],
    "LM Studio's stats": [
        ({"content": "x", "stats": LM_STUDIO}, (None, 399, 311, ())),
        ({"choices": [{}], "stats": {"total_draft_tokens_count": 9, "accepted_draft_tokens_count": 4}},
         (None, 9, 4, ())),
    ],
    "SGLang's answer or stream (meta_info, sglext)": [
        ({"text": "x", "meta_info": SGLANG}, (43, 215, 63, (32, 18, 7, 3, 3))),
        ([{"text": "x", "meta_info": SGLANG}] * 2, (86, 430, 126, (64, 36, 14, 6, 6))),
        ({"choices": [{}, {}], "sglext": {"spec_tokens_details": [SGLANG, SGLANG]}},
         (86, 430, 126, (64, 36, 14, 6, 6))),
        ({"choices": [{"meta_info": SGLANG}]}, (43, 215, 63, (32, 18, 7, 3, 3))),
        # A stream: each event has all so far.
        ([{"text": "x", "meta_info": {"id": "a", "finish_reason": None, "spec_verify_ct": 2, "completion_tokens": 4}},
          {"text": "xy", "meta_info": SGLANG | {"id": "a", "finish_reason": {"type": "stop"}}}],
         (43, 215, 63, (32, 18, 7, 3, 3))),
        # Drafts that were cut: how many were checked is not told.
        ({"meta_info": SGLANG | {"spec_cap_length": 3.1}}, (43, None, 63, (32, 18, 7, 3, 3))),
    ],
    "mlx-vlm's answer (timings with draft_rounds)": [
        ({"choices": [{}], "timings": {"predicted_n": 512, "draft_kind": "mtp", "draft_rounds": 200, "draft_n": 399,
                                       "draft_n_accepted": 311}}, (200, 399, 311, ())),
    ],
    "llama.cpp's answer or stream (timings)": [
        ({"timings": {"predicted_n": 200, "draft_n": 347, "draft_n_accepted": 65}}, (None, 347, 65, ())),
        # An event that is missing may hide a round.
        ([{"stop": False, "index": 0, "tokens": [n], "content": "", "timings": {"predicted_n": n} | more}
          for n, more in GAPS],
         (None, 6, 2, ())),
    ],
    "vLLM's answer or stream": [
        ({"choices": [], "metrics": {"speculative_decoding": {
            "num_spec_steps": 50, "num_draft_tokens": 136, "num_accepted_draft_tokens": 12, "acceptance_histogram":
            [44, 3, 0, 3], "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3], "1": [5, 2]}}}},
         (50, 136, 12, (6, 3, 3))),
    ],
    "SpecDecode-Bench's positions (acc_len)": [
        ({"id": "1", "prompt_token_ids": [1], "generated_token_ids": [5, 6, 7, 8, 9],
          "acc_eagle": {"acc_len": [1, 3, 9, 9, 1]}, "acc_ngram": {"acc_len": [1, 1, 1, 1, 1]}},
         (None, None, None, ())),
    ],
    "AIPerf's acceptance record": [
        ({"metadata": {"x": 1}, "spec_decode_acceptance": AIPERF}, (5, 10, 7, (4, 3))),
        (TENSORRT, (41, 123, 62, (29, 20, 13))),
    ],
    "node-llama-cpp's tokenPredictions": [
        ({"used": 40, "unused": 2, "validated": 42, "refuted": 188}, (None, 230, 42, ())),
    ],
    "ONNX Runtime GenAI's speculative stats": [
        ({"rounds": 12, "draft_tokens_proposed": 48, "draft_tokens_accepted": 30, "acceptance_length_histogram": [0]},
         (12, 48, 30, ())),
    ],
    "Spec-Bench's answers (accept_lengths)": [
        ({"question_id": 3, "model_id": "m", "choices": [{"new_tokens": [9], "accept_lengths": [4, 1, 4]}]},
         (None, None, 6, ())),
        # Lists of accepted guesses alone, or with a token too many: which is not certain.
        ({"question_id": 3, "choices": [{"new_tokens": [9], "accept_lengths": [3, 0, 3]}]}, (None, None, None, ())),
    ],
    "SGLang's bench_serving, as JSON": [({"backend": "sglang", "accept_length": 2.5}, (None, None, None, ()))],
    "llama-speculative's block": [
        ("n_draft   = 5\nn_predict = 70\nn_drafted = 90\nn_accept  = 45\naccept    = 50.000%\n", (None, 90, 45, ())),
    ],
    "vLLM 0.6's log (Speculative metrics)": [
        (FIRST_VLLM.format(20, 30, 25) + "\n" + FIRST_VLLM.format(45, 90, 60), (None, 90, 45, ())),
        ("\n".join(FIRST_VLLM.format(*one) for one in ((45, 90, 60), (5, 9, 7), (6, 12, 9))), (None, 102, 51, ())),
    ],
    "vLLM's bench serve, as printed": [(BENCH, (30, 90, 45, (24, 15, 6))), (BENCH * 2, (60, 180, 90, (48, 30, 12)))],
    "SGLang's log": [
        (SGLANG_LINE, (None, None, None, ())),
    ],
    "llama.cpp's log": [
        (MTP, (50, 150, 105, (42, 35, 28))),
        (MTP + LOOKUP, (60, 170, 117, (49, 40, 28))),  # two ways to guess: a round is of one
        (MTP + MTP, (50, 150, 105, (42, 35, 28))),  # the second line has all of the first
        (OLD_STATISTICS, (5, 187, 73, ())),
        (NO_RATES.format("0.70000", 105, 150, ", mean len =  3.10"), (50, 150, 105, ())),
        (NO_RATES.format("0.00000", 0, 12, ", mean len =  1.00"), (None, 12, 0, ())),
        (NO_RATES.format("0.70000", 105, 150, ""), (None, 150, 105, ())),
        (NO_RATES.format("0.70000", 105, 150, "") + MTP, (50, 150, 105, (42, 35, 28))),
    ],
    "/metrics of vLLM, llama.cpp or SGLang": [
        (FORK, (12, 36, 18, ())),
        ("sglang:spec_accept_length 2.5\nsglang:spec_verify_calls_total 812\nsglang:generation_tokens_total 2030\n",
         (812, None, None, ())),
        ('vllm:spec_decode_num_draft_tokens_total{e="0"} 9\nvllm:spec_decode_num_draft_tokens_total{e="1"} 9\n'
         'vllm:spec_decode_num_accepted_tokens_total{e="0"} 4\n', (None, 18, None, ())),  # one engine does not tell
    ],
}  # fmt: skip
RECORDED = {
    "mlx-lm's responses (from_draft)": "mlx-lm-0.32.2-stream-draft.jsonl",
    "OpenVINO GenAI's metrics (m_batch_sizes)": "openvino-genai-2026.4.1.0-draft.json",
    "vLLM's bench serve, as JSON": "vllm-0.32.0-bench-serve.json",
    "vLLM's log": "vllm-0.32.0-log.txt",
    "/metrics of vLLM, llama.cpp or SGLang": "vllm-0.32.0-metrics-ngram.txt",
}


def text_of(sample: Any) -> bytes:
    return (sample if isinstance(sample, str) else json.dumps(sample)).encode()


def numbers(found: Acceptance | None) -> tuple[Any, ...]:
    assert found is not None
    return found.rounds, found.drafted, found.accepted, found.at


@pytest.mark.parametrize(
    ("sample", "right"),
    [pytest.param(*one, id=f"{name} {at}") for name in SMALL for at, one in enumerate(SMALL[name])],
)
def test_a_small_file_of_each_form_is_read(sample: Any, right: tuple[Any, ...]) -> None:
    """Catches: a count of another name, one that is invented, one of the parts instead of the whole."""
    assert numbers(forms.read(text_of(sample))) == right


@pytest.mark.parametrize("form", forms.FORMS, ids=lambda form: form.name)
def test_what_the_docs_say_of_a_form_is_true_of_its_files(form: forms.Form) -> None:
    """Catches: a row that promises a number which the parser does not give, or hides one that it gives."""
    samples = [sample for sample, _ in SMALL.get(form.name, [])]
    read = [numbers(forms.read(text_of(sample))) for sample in samples]
    if form.name in RECORDED:
        read.append(numbers(forms.read((FILES / RECORDED[form.name]).read_bytes())))
    assert read
    for place, said in enumerate((form.rounds, form.guesses, form.accepted, form.positions)):
        told = [one[place] not in (None, ()) for one in read]
        assert any(told) if said.startswith(("yes", "where", "with", "as")) else True, (form.name, place)
        assert not any(told) if said == "no" or said.startswith("no;") else True, (form.name, place)


def test_what_other_numbers_say_is_in_remarks() -> None:
    """Catches: tokens a round from vLLM 0.6's accepted ones, of which some were judged behind a rejection."""
    found = forms.read(text_of(FIRST_VLLM.format(45, 90, 60)))
    assert found is not None and found.per_round is None
    assert "60 tokens were written in 30 rounds with guesses" in found.remarks[0]
    found = forms.read(text_of({"stats": LM_STUDIO}))
    assert found is not None and found.rate is None and "80 rejected and 8 ignored" in found.remarks[0]
    found = forms.read(text_of(SMALL["SGLang's log"][0][0]))
    assert found is not None and [one.name for one in found.stated] == [
        "accept length", "accept rate", "cap length", "block accept length",
    ]  # fmt: skip
    found = forms.read(text_of(SMALL["/metrics of vLLM, llama.cpp or SGLang"][1][0]))
    assert found is not None and found.tokens == 2030 and found.stated[0].values == (2.5,)
    found = forms.read(text_of({"choices": [{}, {}], "sglext": {"spec_tokens_details": [SGLANG, None]}}))
    assert found is not None and found.rounds == 43 and "1 of 2 choices has no counts" in found.remarks[-1]
    turns = {"new_tokens": [9], "accept_lengths": [4, 1, 4], "decoding_steps": [4]}
    found = forms.read(text_of({"question_id": 3, "model_id": "m", "choices": [turns]}))
    assert found is not None and "decoding_steps count 4 passes, its accept_lengths 3" in found.remarks[-1]
    found = forms.read(text_of(SMALL["vLLM's answer or stream"][0][0]))
    assert found is not None and found.reached == (50, 4, 3)  # 7 drafts had one guess


def page(created: dict[str, float] | None = None, **engines: tuple[int, int, int]) -> Acceptance:
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    text = "".join(
        f'vllm:spec_decode_{name}_total{{engine="{engine}",model_name="m"}} {count}\n'
        for engine, counts in engines.items()
        for name, count in zip(names, counts, strict=True)
    )
    for engine, when in (created or {}).items():
        text += f'vllm:spec_decode_num_drafts_created{{engine="{engine}",model_name="m"}} {when}\n'
    found = logs.read(text)
    assert found is not None
    return found


A, B = (70, 140, 90), (60, 120, 80)
BEFORE: Callable[[], Acceptance] = lambda: page(a=A, b=B)  # noqa: E731


@pytest.mark.parametrize(
    ("now", "right", "said"),
    [
        (page(a=(90, 180, 110), b=(65, 130, 85)), (25, 50, 25), ""),
        (page(a=(190, 380, 240), b=(5, 10, 6)), (125, 250, 156), "engine=b began to count anew"),
        (page(a=(190, 380, 240)), (120, 240, 150), "engine=b is on the earlier page only"),
        (page(a=A, b=B, c=(40, 80, 50)), (40, 80, 50), "engine=c is not on the earlier page"),
        (page(a=(71, 142, 91), c=(40, 80, 50)), (41, 82, 51), "engine=b is on the earlier page only"),
    ],
)
def test_each_series_has_its_own_difference(now: Acceptance, right: tuple[int, ...], said: str) -> None:
    """Catches: the sum's difference over a process that was started again, went away or came, without a word."""
    found = logs.later(now, BEFORE())
    assert (found.rounds, found.drafted, found.accepted) == right
    assert said in " ".join(found.remarks) and bool(said) == bool(found.remarks)


def test_a_page_says_itself_when_its_counters_began() -> None:
    """Catches: a restart whose new counts are already higher than the old ones; two files that are swapped."""
    before = page({"a": 1000.0, "b": 1000.5}, a=A, b=B)
    now = page({"a": 1000.0, "b": 2000.0}, a=(80, 160, 100), b=(100, 200, 110))
    found = logs.later(now, before)
    assert (found.rounds, found.drafted, found.accepted) == (110, 220, 120)
    assert "engine=b began to count anew" in " ".join(found.remarks)
    with pytest.raises(sd.TraceError, match="swapped"):
        logs.later(before, now)
    alone = logs.later(page({"a": 2000.0}, a=(5, 10, 6)), page({"a": 1000.0}, a=A))
    assert (alone.rounds, alone.drafted, alone.accepted) == (5, 10, 6) and alone.remarks


def test_pages_that_have_no_difference_are_refused() -> None:
    """Catches: a difference of other servers' series, of ratios, of an answer, of files that are swapped."""
    with pytest.raises(sd.TraceError, match="No series of the two pages has the same labels"):
        logs.later(page(c=A), BEFORE())
    with pytest.raises(sd.TraceError, match="swapped"):
        logs.later(BEFORE(), page(a=(90, 180, 110), b=B))
    ratios = logs.read("sglang:spec_accept_length 2.5\n")
    answer = forms.read(text_of({"timings": {"predicted_n": 2, "draft_n": 2, "draft_n_accepted": 1}}))
    assert ratios is not None and answer is not None
    for one, other in ((ratios, ratios), (BEFORE(), answer), (answer, BEFORE())):
        with pytest.raises(sd.TraceError, match="Only two pages of /metrics"):
            logs.later(one, other)


def test_counts_of_several_forms_are_not_added() -> None:
    """Catches: the same guesses counted twice, in a log and in the answers behind it."""
    answer = json.dumps({"timings": {"predicted_n": 200, "draft_n": 347, "draft_n_accepted": 65}})
    with pytest.raises(sd.TraceError, match="answers and a log"):
        forms.read(f"{answer}\n{MTP}".encode())
    piece = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    end = piece | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    last = end | {"choices": [], "usage": {}, "metrics": {"speculative_decoding": COUNTS}}
    both = [
        piece,
        end | {"timings": {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 4}},
        piece,
        end,
        last,
    ]
    with pytest.raises(sd.TraceError, match="of several engines"):  # streams without an end between them
        forms.read("".join(f"data: {json.dumps(one)}\n" for one in both).encode())
    with pytest.raises(sd.TraceError, match="in several forms"):
        forms.read((MTP + SMALL["llama-speculative's block"][0][0]).encode())
    with pytest.raises(sd.TraceError, match=r"llama.cpp and vLLM|vLLM and llama.cpp"):
        forms.read((BENCH + MTP).encode())


COUNTS = {
    "acceptance_histogram": [1, 2, 2], "num_spec_steps": 5, "num_accepted_draft_tokens": 6, "num_draft_tokens": 10,
    "num_spec_tokens": 2,
}  # fmt: skip
MANY = "9" * 5000


def of_vllm(**more: Any) -> str:
    return json.dumps({"choices": [{}], "metrics": {"speculative_decoding": COUNTS | more}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (of_vllm(per_step_accepted=[1, 1, 1, 1, 2], per_step_drafted=[2] * 5), "not those of the histogram"),
        (of_vllm(acceptance_histogram_by_draft_length={"2": [0, 4, 1]}), "not those of the histogram"),
        (of_vllm(acceptance_histogram_by_draft_length={"\u00b2": [0, 4, 1]}), "does not fit that length"),
        (of_vllm(num_draft_tokens=10**400), "has to be a whole number"),
        (of_vllm(num_draft_tokens=-(10**400)), "has to be a whole number"),
        (json.dumps({"backend": "sglang", "accept_length": 10**400}), "has to be a number from 0"),
        (of_vllm(acceptance_histogram=[1, 3, 0, 1], num_draft_tokens=9, num_accepted_draft_tokens=6),
         "1 round of the histogram accepted more than 2"),
        (of_vllm(num_draft_tokens=11), "11 guesses in 5 rounds of at most 2"),
        (json.dumps({"stats": LM_STUDIO | {"rejectedDraftTokensCount": 90}}), "401 of 399 guesses"),
        (json.dumps({"choices": [{"speculative_decoding": None}]}), "they are null"),
        ('{"choices": [{"avg_decoded_tokens_per_iter": NaN}]}', "has to be a number from 0"),
        ('{"backend": "sglang", "accept_length": NaN}', "has to be a number from 0"),
        ("sglang:spec_accept_length NaN\n", "has to be a number from 0"),
        (NO_RATES.format("0.7", 105, 150, "").replace("105", MANY), "has to be a whole number"),
        (MTP.replace("150,", f"{MANY},"), "has to be a whole number"),
        (f"n_drafted = {MANY}\nn_accept = 3\n", "has to be a whole number"),
        (FIRST_VLLM.format(MANY, 9, 9), "has to be a whole number"),
        (f"SpecDecoding metrics: Accepted: {MANY} tokens, Drafted: 9 tokens", "has to be a whole number"),
        ("vllm:spec_decode_num_drafts_total 3\nvllm:spec_decode_num_drafts_total 5\n", "twice, 3 and 5"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(text: str, said: str) -> None:
    """Catches: a traceback, or a table, of counts that contradict each other, are no numbers or are of two pages."""
    with pytest.raises(sd.TraceError, match=said):
        forms.read(text.encode())


def test_numbers_beside_those_that_count_may_be_none() -> None:
    """Catches: a traceback of a share that is no number; a counter of two spellings, counted twice."""
    result = {"spec_decode_num_drafts": 30, "spec_decode_draft_tokens": 90, "spec_decode_accepted_tokens": 45}
    result |= {"spec_decode_acceptance_rate": 50.0, "spec_decode_acceptance_length": 2.5}
    rates = {"spec_decode_per_position_acceptance_rates": [float("nan"), 0.5, 0.2]}
    assert numbers(forms.read(text_of(result | rates))) == (30, 90, 45, ())
    cut = {"meta_info": {"spec_verify_ct": 4, "spec_cap_length": 3.1}}
    assert numbers(forms.read(text_of(cut))) == (4, None, None, ())
    both = FORK + "llamacpp:spec_decode_num_drafts_total 12\nllamacpp:spec_decode_num_draft_tokens_total 36\n"
    assert numbers(forms.read(both.encode())) == (12, 36, 18, ())


def test_a_page_without_positions_has_a_difference_without_them() -> None:
    """Catches: everything by position of the later page as its difference; a restart that nothing shows."""
    counts = "vllm:spec_decode_num_{}_total {}\n"
    first = "".join(map(counts.format, ("drafts", "draft_tokens", "accepted_tokens"), A))
    then = "".join(map(counts.format, ("drafts", "draft_tokens", "accepted_tokens"), (90, 180, 110)))
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    at = f'{name}{{{{position="0"}}}} {{}}\n{name}{{{{position="1"}}}} {{}}\n'
    for now, before in ((then + at.format(70, 40), first), (then, first + at.format(60, 30))):
        pages = logs.read(now), logs.read(before)
        assert pages[0] is not None and pages[1] is not None
        assert numbers(logs.later(*pages)) == (20, 40, 20, ())


def test_positions_of_specdecode_bench_are_walked() -> None:
    """Catches: positions summed as if each were a pass; one proposer's mean as another's."""
    ((sample, _),) = SMALL["SpecDecode-Bench's positions (acc_len)"]
    found = forms.read(text_of(sample))
    assert found is not None and [(one.name.split(":")[0], one.values) for one in found.stated] == [
        ("acc_eagle", (5 / 3,)), ("acc_ngram", (1.0,)),
    ]  # fmt: skip
    with pytest.raises(sd.TraceError, match="below 1"):
        forms.read(text_of(sample | {"acc_eagle": {"acc_len": [0, 1]}}))
