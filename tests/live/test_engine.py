"""The live page's engine against the decoder: the same tokens, rounds and records, on the same seeds."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import specdec_core as sd
from app.live.files import ENGINE
from specdec_core.engine.events import Finished
from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.models.tokens.tokenizer import Pieces
from specdec_core.proposers.you import continuation
from specdec_measure.sweep import cases
from tests.live.engine import CLOSE, NODE, differences, lane, node, rounds, tie
from tests.live.ties import Moving, edges

pytestmark = pytest.mark.skipif(NODE is None, reason="no node: it is in requirements-dev.txt")
ROOT = Path(__file__).resolve().parents[2]
TOKENS = 24
PROMPTS = cases.shipped()
STORY = "Once upon a time, there was a little boy named Hugo. Hugo had a small red boat."
COPY = (
    'The rabbit asked the fox, "Can I play with you?" The fox said, "No." The rabbit asked the bear, "Can I'
)


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models(device="cpu")


def settings(**given: Any) -> sd.Settings:
    return sd.Settings(**{"max_new_tokens": TOKENS, **given})


def both(
    models: sd.Models, prompt: str, wanted: sd.Settings, build: str = "relaxed"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decoder's record and the engine's."""
    core = json.loads(sd.decode(models, prompt, wanted).to_json())
    ((found,),) = (
        run["traces"] for run in node("runs", build=build, runs=[{"prompt": prompt, "lanes": [lane(wanted)]}])
    )
    return core, found


def test_the_builds_are_those_of_the_source(tmp_path: Path) -> None:
    """Catches: a kernel changed without a new build, and a build that nobody can repeat."""
    if importlib.util.find_spec("ziglang") is None and not os.environ.get("CI"):
        pytest.skip("ziglang, the compiler of requirements-dev.txt, is not installed")
    from scripts.kernels import build_live

    for path in build_live(tmp_path):
        assert path.read_bytes() == (ENGINE / path.name).read_bytes(), path.name


def test_the_numbers_of_a_seed_are_the_decoders() -> None:
    """Catches: a word of the counter or the key in another place, and a number that is cut off elsewhere."""
    keys = [(0, 0, 0, 1), (5, 1, 7, 9), (2**53 - 1, 2, 100_000, 70)]
    for key, found in zip(keys, node("uniforms", keys=keys), strict=True):
        assert found == uniforms(key[0], Stream(key[1]), *key[2:]).tolist()


def test_the_tokenizer_is_the_decoders(models: sd.Models) -> None:
    """Catches: a merge out of order, a digit or a space in another word, another class of characters."""
    files = [
        *ROOT.glob("assets/lessons/**/*.md"),
        *ROOT.glob("app/player/static/**/*.js"),
        *ROOT.glob("specdec_core/**/*.py"),
    ]
    texts = [path.read_text(encoding="utf-8") for path in sorted(files)]
    texts += [case.prompt for case in PROMPTS] + noise(300)
    known = [models.codec.encode(text) for text in texts]
    assert sum(map(len, known)) > 300_000
    for text, ids, found in zip(texts, known, node("encode", texts=texts), strict=True):
        assert found == ids, text[:200]


def noise(count: int) -> list[str]:
    """Texts of odd characters: digits of all scripts, white space of all kinds, emoji, marks, controls, specials."""
    signs = r"7|½|²|٣| |  |'s|'LL|don't|é|日本|🎉|_|<|endof|ﬁ|Ⅷ|a|Z|…|—"
    signs += "|\n|\r\n|\t|\x00|\u00a0|\u2003|\u0085|\ufeff|\u200b|e\u0301|👩\u200d👩"
    parts = [*signs.split("|"), "<|endoftext|>"]
    generator = random.Random(7)
    return ["".join(generator.choices(parts, k=generator.randrange(12))) for _ in range(count)]


def test_names_and_pieces_of_tokens_are_the_decoders(models: sd.Models) -> None:
    """Catches: bytes of a split character shown as text, a lost leading space, a dropped remainder."""
    codec, every = models.codec, list(range(4096))
    assert node("names", ids=every) == codec.names(every)
    generator = random.Random(3)
    ids = [generator.randrange(4096) for _ in range(600)] + codec.encode("日本語 🎉 é") + [0, 200]
    pieces = Pieces(codec, ids[:5])
    assert node("pieces", prompt=ids[:5], ids=ids[5:]) == [
        *(pieces.push(token) for token in ids[5:]),
        pieces.rest(),
    ]


def test_typed_words_become_the_decoders_tokens(models: sd.Models) -> None:
    """Catches: typed words that merge with the last token, or are cut from their space."""
    codec = models.codec
    given = [
        (codec.encode(text), typed)
        for text in (STORY, "The ca", "x = 1")
        for typed in (" He went", "t sat", "", "23", "!")
    ]
    assert node("continuations", cases=given) == [continuation(codec, ids, typed) for ids, typed in given]


@pytest.mark.parametrize("build", ["plain", "relaxed"])
def test_a_row_of_a_tree_is_the_row_alone(build: str, models: sd.Models) -> None:
    """Catches: a mask with a hole, sums that depend on a row's neighbours, keys of another row."""
    parents = [-1, 0, 0, 1, 1, 2, 3, 5, 0, 8]
    ids = models.codec.encode(STORY * 3)
    found = node("rows", build=build, ids=ids, tree=[5 + 17 * at for at in range(10)], parents=parents)
    assert found["together"] == found["alone"]


@pytest.mark.parametrize("proposer", ["none", "draft-model", "prompt-lookup", "branching"])
def test_greedy_texts_and_rounds_of_all_shipped_prompts(proposer: str, models: sd.Models) -> None:
    """Catches: another token, pass, proposal or verdict than the decoder's on any prompt."""
    wanted = settings(proposer=proposer)
    prompts = [case.prompt for case in PROMPTS]
    given = [{"prompt": prompt, "lanes": [lane(wanted)]} for prompt in prompts]
    compared = 0
    for prompt, run in zip(prompts, node("runs", build="relaxed", runs=given), strict=True):
        core, found = json.loads(sd.decode(models, prompt, wanted).to_json()), run["traces"][0]
        margin = tie(core, found)
        assert margin is None or margin < CLOSE, prompt
        compared += margin is None
        if margin is None:
            assert rounds(found) == rounds(core), prompt
    assert compared >= 0.97 * len(prompts) > 50


@pytest.mark.parametrize("proposer", ["draft-model", "branching"])
def test_sampled_texts_of_all_shipped_prompts(proposer: str, models: sd.Models) -> None:
    """Catches: a seed that means another text here, by a number used at another place or a sum that errs."""
    prompts = [case.prompt for case in PROMPTS]
    wanted = [
        settings(proposer=proposer, temperature=(1.0, 0.6)[at % 2], seed=at) for at in range(len(prompts))
    ]
    given = [{"prompt": prompt, "lanes": [lane(one)]} for prompt, one in zip(prompts, wanted, strict=True)]
    moving, same = Moving(), 0
    try:
        for prompt, one, run in zip(prompts, wanted, node("runs", build="relaxed", runs=given), strict=True):
            moved = edges(models, prompt, one, run["traces"][0], moving)
            assert moved is not None, f"it parts at no tie: {prompt}"
            same += not moved
    finally:
        moving.stop()
    assert same >= 0.9 * len(prompts)  # a number may lie on the edge of two tokens


@pytest.mark.parametrize(
    "given",
    [
        {"proposer": "none", "temperature": 0.7},
        {},
        {"temperature": 1.0, "seed": 3, "draft_length": 7},
        {"temperature": 1.3, "seed": 9, "rule": "token-matching"},
        {"rule": "exact-match", "draft_length": 1},
        {"rule": "typical"},
        {"rule": "typical", "temperature": 0.7, "proposer": "branching"},
        {"proposer": "branching"},
        {"proposer": "branching", "temperature": 0.8, "seed": 4},
        {"proposer": "prompt-lookup", "temperature": 1.0, "seed": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("build", ["plain", "relaxed"])
def test_the_record_is_the_decoders(given: dict[str, Any], build: str, models: sd.Models) -> None:
    """Catches: any column, candidate, threshold, entropy, mass, text or statistic that the decoder has otherwise."""
    core, found = both(models, COPY, settings(**given), build)
    assert list(differences(core, found)) == []
    trace = sd.Trace.from_json(json.dumps(found))
    assert trace.audit() == [] and trace.stats.tokens == TOKENS


def test_an_end_of_sequence_cuts_what_lies_behind_it(models: sd.Models) -> None:
    """Catches: a text that goes on after its end, and guesses behind it that count."""
    prompt = next(case.prompt for case in PROMPTS if case.family == "arithmetic")
    wanted = [settings(max_new_tokens=300, temperature=1.0, seed=seed) for seed in range(12)]
    cores = [json.loads(sd.decode(models, prompt, one).to_json()) for one in wanted]
    found = node("runs", build="relaxed", runs=[{"prompt": prompt, "lanes": [lane(one)]} for one in wanted])
    assert "eos" in {core["end"] for core in cores}
    for core, run in zip(cores, found, strict=True):
        if core["end"] == "eos":
            assert list(differences(core, run["traces"][0])) == []


def test_a_race_ends_when_it_is_stopped(models: sd.Models) -> None:
    """Catches: a stopped run without a record, or with a wrong one; lanes of a race that do not name it."""
    lanes = [lane(settings(proposer=name)) for name in ("none", "draft-model")]
    (run,) = node("runs", build="relaxed", runs=[{"prompt": STORY, "lanes": lanes, "stop": 9}])
    assert run["said"].count("step") == 9 and run["said"][-1] == "done"
    traces = [sd.Trace.from_json(json.dumps(trace)) for trace in run["traces"]]
    assert [trace.end for trace in traces] == ["cancelled", "cancelled"]
    assert all(trace.audit() == [] and trace.rounds for trace in traces)
    races = [trace.header.race for trace in traces]
    assert races[0] and races[1] and races[0].id == races[1].id and (races[0].lane, races[1].lane) == (0, 1)


def test_you_can_be_the_draft(models: sd.Models) -> None:
    """Catches: typed words that are not judged like the decoder judges them, a person's time that is on the clock."""
    wanted, words = settings(proposer="you", max_new_tokens=12), [" He took", "", " the river with his dad"]
    given = iter([*words, *[""] * 12])
    core = next(
        event.trace
        for event in sd.stream(models, STORY, wanted, ask=lambda _: next(given))
        if isinstance(event, Finished)
    )
    (run,) = node("runs", build="relaxed", runs=[{"prompt": STORY, "lanes": [lane(wanted)], "typed": words}])
    assert list(differences(json.loads(core.to_json()), run["traces"][0])) == []
