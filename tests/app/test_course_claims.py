"""The claims heard in the field: their verdicts by other means, their files, what the page sends before an answer."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.course import progress
from app.course.common_claims import claims
from app.course.common_claims.claims import SECTIONS, Claim
from app.course.common_claims.claims_chart import chart
from app.course.common_claims.claims_view import GLYPHS, provenance
from app.course.facts import claims as facts
from app.course.files import reading
from app.course.files.lesson import MOST_WORDS
from app.course.files.words import Words
from specdec_core.foundations.errors import SettingsError
from specdec_measure import theory
from specdec_measure.machines import profiles

from .course_page import page, press
from .course_page import sent as proto

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"

CHART = """chart: {kind: bars, across: "[1, 2]", series: {size: "[one, two]"}, level: one, label: exact}"""
GOOD = f"""---
claim: Two is more than one.
heard:
  - {{name: somewhere, says: “it is”, link: https://example.org/a}}
given: {{one: 1}}
facts: {{two: 2 * one}}
verdict: {{"true": two > 1, conditional: two == 1, "false": two < 1}}
{CHART}
---
## answer
Two is {{two}}.

## demonstration
Look.
- title: Two bars
- across: number
- up: size
- size: their size
- level: one
"""


def sent(at: AppTest) -> str:
    """All that is sent to the browser, its quotes as they are read."""
    return proto(at).replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")


def every() -> dict[str, Claim]:
    found, problems = claims.every("en")
    assert problems == []
    return {claim.id: claim for claim in found}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of claims of this test alone, used by the page too."""
    (tmp_path / "en" / "claims").mkdir(parents=True)
    (tmp_path / "en" / "strings").symlink_to(reading.FOLDER / "en" / "strings")
    monkeypatch.setattr(reading, "FOLDER", tmp_path)
    return tmp_path / "en" / "claims"


# --- the files that ship -------------------------------------------------------------------------------------------


def test_the_claims_are_there_and_in_order() -> None:
    assert list(every()) == [
        "less-computation",
        "speed-against-accuracy",
        "sixty-to-seventy-per-cent",
        "coding",
        "energy-and-machines",
        "first-token",
        "identical",
        "long-documents",
        "accepted-length",
    ]


@pytest.mark.parametrize("key", [path.stem[3:] for path in claims.files("en")])
def test_every_claim_names_its_source_and_fits_a_screen(key: str) -> None:
    claim = every()[key]
    assert claim.front.heard and all(re.match(r"https://\S+$", heard.link) for heard in claim.front.heard)
    assert all(claim.sections[name].words() <= MOST_WORDS for name in SECTIONS)
    assert claim.verdict in claims.VERDICTS
    assert (claim.drawn is None) == (claim.front.chart is None)
    if claim.front.chart is not None and claim.drawn is not None:
        texts = claim.sections["demonstration"].items
        words = Words("en", reading.FOLDER)
        source = provenance(claim.front.chart, words)
        drawn = chart(claim.front.chart, claim.drawn, texts, source, words.number)
        assert re.match("(exact|recorded|modelled)", drawn.provenance), "a chart that does not say what it is"
        for values in claim.drawn.series.values():
            form = ".0%" if claim.front.chart.share else ".3g"
            written = [format(value, form) if value > 1e-9 or value < -1e-9 else "0" for value in values]
            assert all(f" {value}" in drawn.alt for value in written), "a value no screen reader hears"


def test_every_source_of_a_claim_is_among_those_that_were_read() -> None:
    """Catches: a claim that quotes somebody, and no row that says who has read it there."""
    listed = (Path(__file__).resolve().parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
    sources = [one for claim in every().values() for one in (*claim.front.heard, *claim.front.beside)]
    assert [one.link for one in sources if f"({one.link})" not in listed] == []


# --- verdicts, by other means --------------------------------------------------------------------------------------


def stats(example: str) -> dict[str, object]:
    return json.loads((TRACES / f"{example}.json").read_text(encoding="utf-8"))


def chain_tokens(alpha: float, gamma: int) -> float:
    """Expected tokens of a round, over every number of accepted guesses."""
    return sum(
        (accepted + 1) * alpha**accepted * ((1 - alpha) if accepted < gamma else 1)
        for accepted in range(gamma + 1)
    )


def test_guessing_adds_arithmetic_at_every_setting() -> None:
    """A round computes γ guesses with the draft and γ + 1 positions with the target, for E tokens."""
    claim = every()["less-computation"]
    share, given = claim.facts["share"], claim.front.given
    for alpha, gamma in itertools.product(given["alphas"], given["gammas"]):
        spent = gamma * share + (gamma + 1)
        assert facts.arithmetic_growth(alpha, gamma, share) == pytest.approx(
            spent / chain_tokens(alpha, gamma)
        )
        assert spent / chain_tokens(alpha, gamma) >= 1
    assert claim.drawn is not None
    assert claim.drawn.series["reads"] == pytest.approx([1 / chain_tokens(0.8, g) for g in given["gammas"]])
    assert claim.facts["crowded"] < 1 < claim.facts["alone"] and claim.verdict == "conditional"


def texts_of(keep: object, p: list[float], q: list[float], gamma: int) -> float:
    """By hand, how far from p the first token is of a rule that keeps x with `keep` and else draws what is left."""
    kept = [one * keep(at) for at, one in enumerate(q)]  # type: ignore[operator]
    rest = [max(0.0, one - other) for one, other in zip(p, q, strict=True)]
    lost = 1 - sum(kept)
    written = [
        one + (lost * left / sum(rest) if lost > 0 else 0) for one, left in zip(kept, rest, strict=True)
    ]
    return 0.5 * sum(abs(one - other) for one, other in zip(written, p, strict=True))


def test_lossless_rules_stay_on_the_target_and_lossy_ones_leave_it() -> None:
    """By hand at γ = 1: speculative sampling keeps with min(1, p/q); the ensemble of weight ½ lands half-way to q."""
    claim = every()["speed-against-accuracy"]
    p, q = claim.front.given["p"], claim.front.given["q"]
    apart = 0.5 * sum(abs(one - other) for one, other in zip(p, q, strict=True))
    assert texts_of(lambda at: min(1, p[at] / q[at]), p, q, 1) == pytest.approx(0, abs=1e-15)
    assert facts.rule_off_target("speculative-sampling", p, q, 1) == pytest.approx(0, abs=1e-15)
    assert facts.rule_off_target("ensemble", p, q, 1) == pytest.approx(0.5 * apart)
    assert texts_of(lambda at: min(1, 0.5 + 0.5 * p[at] / q[at]), p, q, 1) == pytest.approx(0.5 * apart)
    # at γ = 3 the tokens of speculative sampling are those of a chain with α = Σ min(p, q)
    alpha = sum(map(min, p, q))
    assert facts.rule_round_tokens("speculative-sampling", p, q, 3) == pytest.approx(chain_tokens(alpha, 3))
    matched = sum(one * other for one, other in zip(p, q, strict=True))
    assert facts.rule_round_tokens("token-matching", p, q, 3) == pytest.approx(chain_tokens(matched, 3))
    assert claim.drawn is not None
    values = claim.drawn.series["distance"]
    assert max(values[:3]) < 1e-12 < 0.01 < min(values[3:])
    assert claim.verdict == "conditional"


def test_the_acceptance_a_speedup_needs_is_the_root_of_the_formula() -> None:
    """By scanning: the first of a million α whose speedup is large enough."""
    for gain, gamma, cost in ((2.5, 5, 0.05), (10 / 3, 3, 0.05), (2.8, 4, 0.05)):
        needed = facts.acceptance_needed(gain, gamma, cost)
        wanted = gain * (1 + gamma * cost)
        scanned = next(at / 1e5 for at in range(100_001) if chain_tokens(at / 1e5, gamma) >= wanted)
        assert needed == pytest.approx(scanned, abs=2e-5)
        assert theory.speedup(needed, gamma, cost) == pytest.approx(gain)
    assert facts.acceptance_needed(1.0, 0, 0.3) == 0.0
    assert facts.acceptance_needed(4.1, 3, 0.0) == math.inf, "four tokens are the most of three guesses"
    assert facts.acceptance_needed(4.0, 3, 0.0) == pytest.approx(1.0)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(SettingsError, match="above 0"):
            facts.acceptance_needed(wrong, 3, 0.1)


def test_sixty_per_cent_depends_on_the_acceptance() -> None:
    """At c = .05, 2.5× needs an α between .72 and .74 with five guesses, and between .83 and .87 with three."""
    claim = every()["sixty-to-seventy-per-cent"]
    assert chain_tokens(0.72, 5) / 1.25 < 2.5 < chain_tokens(0.74, 5) / 1.25
    assert chain_tokens(claim.facts["hard"], 3) / 1.15 == pytest.approx(2.5)
    assert facts.latency_saved(1.0, 3, 0.05) == pytest.approx(1 - 1.15 / 4)
    hard = stats("slower")["stats"]
    accepted, rejected = hard["accepted"], hard["rejected"]  # type: ignore[index]
    assert accepted / (accepted + rejected) < 0.95, "the hard text has become easy: look at the claim again"
    assert claim.verdict == "conditional"


def test_coding_has_no_speedup_of_its_own() -> None:
    claim = every()["coding"]
    gains = []
    for example in claim.front.given["coded"]:
        plain, lane = (stats(name)["stats"] for name in (f"{example}-plain", example))
        gains.append(lane["tokens_per_second"] / plain["tokens_per_second"])  # type: ignore[index]
    assert claim.drawn is not None
    assert claim.drawn.series["gains"] == pytest.approx(gains)
    assert claim.verdict == ("true" if min(gains) >= 2.8 else "conditional"), (
        "4.2 tokens at α = 1 are attainable"
    )


def test_machines_are_saved_one_by_one_and_not_in_a_crowd() -> None:
    """The roofline by hand: bytes over bandwidth against operations over throughput."""
    claim = every()["energy-and-machines"]
    card = profiles.shipped()[0][claim.front.given["machine"]]
    assert isinstance(card, profiles.Modelled)
    from specdec_measure.machines.model_sizes import SHAPES

    def seconds(size: str, tokens: int, batch: int) -> float:
        of, there = SHAPES[size], 512 + tokens
        moved = 2 * (of.read + batch * there * of.kv_numbers) / card.bytes_per_s
        work = 2 * of.read + 4 * of.layers * of.heads * of.head_dim * there
        return max(moved, batch * tokens * work / card.flops_per_s) + of.layers * 10 * card.kernel_s

    def gain(batch: int) -> float:
        one = 4 * seconds("1B", 1, batch) + seconds("8B", 5, batch)
        return chain_tokens(0.8, 4) * seconds("8B", 1, batch) / one

    assert claim.drawn is not None
    assert claim.drawn.series["gains"] == pytest.approx(
        [gain(batch) for batch in claim.front.given["batches"]]
    )
    assert gain(1) > 1.5 and gain(256) < 0.9
    assert claim.verdict == "conditional"


def test_the_first_token_does_not_come_sooner() -> None:
    claim = every()["first-token"]
    assert claim.drawn is not None
    for at, example in enumerate(claim.front.given["shown"]):
        for name, key in ((f"{example}-plain", "plain"), (example, "guessed")):
            found = stats(name)
            first = found["rounds"][0]  # type: ignore[index]
            waited = found["stats"]["prefill_s"] + sum(
                first[f"{p}_s"] for p in ("draft", "verify", "judge", "commit")
            )  # type: ignore[index]
            assert claim.drawn.series[key][at] == pytest.approx(1e3 * waited, rel=0.02)
    ratios = [a / b for a, b in zip(claim.drawn.series["guessed"], claim.drawn.series["plain"], strict=True)]
    assert claim.verdict == (
        "false" if min(ratios) >= 0.95 else "conditional" if max(ratios) >= 0.95 else "true"
    )


def test_texts_are_the_same_at_temperature_0_and_draws_of_the_same_distribution_above() -> None:
    claim = every()["identical"]

    def ids(name: str) -> list[int]:
        return [token for row in stats(name)["rounds"] for token in row["committed"]["token"]]  # type: ignore[attr-defined]

    same = [ids(example) == ids(f"{example}-plain") for example in claim.front.given["greedy"]]
    assert claim.facts["same"] == same
    assert claim.facts["sampled"] == (ids("fork") == ids("fork-plain"))
    assert stats("fork")["header"]["settings"]["temperature"] == 1.0  # type: ignore[index]
    assert claim.verdict == ("true" if all(same) and claim.facts["sampled"] else "conditional")


def test_long_texts_do_not_shorten_the_best_draft() -> None:
    """Every draft length tried by hand on the profile's own pass times."""
    claim = every()["long-documents"]
    given = claim.front.given
    card = profiles.shipped()[0][given["machine"]]

    def best(batch: int, context: int) -> int:
        costs = card.costs(batch, context)
        assert costs.draft is not None
        rates = [
            chain_tokens(0.8, gamma) / (gamma * costs.draft(1) + costs.target(gamma + 1))
            for gamma in range(11)
        ]
        return rates.index(max(rates))

    lengths = [
        best(1, given["page"]),
        best(1, given["book"]),
        best(64, given["page"]),
        best(64, given["pages"]),
    ]
    assert [claim.facts[key] for key in ("on_page", "on_book", "many_page", "many_pages")] == lengths
    assert lengths[1] >= lengths[0] and lengths[3] >= lengths[2]
    assert claim.verdict == "false"


def test_a_machine_that_is_not_there_or_too_small_is_reported() -> None:
    with pytest.raises(ValueError, match="no profile “dodo”"):
        facts.pair_gain("dodo", 1, 512, 0.8, 4)
    with pytest.raises(ValueError, match="needs"):
        facts.pair_gain("rtx-4090", 4_000, 8_192, 0.8, 4)


# --- a file with a mistake -----------------------------------------------------------------------------------------


def problems_of(folder: Path, text: str) -> list[str]:
    (folder / "01-bad.md").write_text(text, encoding="utf-8")
    found, problems = claims.every("en")
    assert (found == []) == bool(problems)
    return [str(problem) for problem in problems]


def test_a_claim_in_order_has_its_verdict_and_its_chart_worked_out(folder: Path) -> None:
    assert problems_of(folder, GOOD) == []
    claim = claims.every("en")[0][0]
    assert claim.verdict == "true" and claim.sections["answer"].prose == "Two is 2."
    assert claim.drawn == claims.Drawn((1, 2), {"size": (1.0, 2.0)}, 1)
    assert problems_of(folder, GOOD.replace('"true":', "true:").replace('"false":', "false:")) == [], (
        "unquoted words"
    )


@pytest.mark.parametrize(
    ("piece", "instead", "line", "words"),
    [
        ("claim: Two is more than one.\n", "", 1, "is missing"),
        ("https://example.org/a", "javascript:alert(1)", 4, "has to match"),
        ("two > 1", "two >= 1 and", 7, "is not an expression"),
        ("two > 1", "two > 3", 7, "Exactly one verdict has to hold; now it is: none"),
        ("conditional: two == 1", "conditional: two == 2", 7, "now it is: true and conditional"),
        ('conditional: two == 1, "false"', '"false"', 7, "is missing"),
        ("two: 2 * one", "two: 2 * won", 6, "won"),
        ("kind: bars", "kind: pies", 8, "'bars' or 'lines'"),
        ('series: {size: "[one, two]"}', 'series: {size: "[one]"}', 8, "list of 2 numbers"),
        ('across: "[1, 2]"', "across: one", 8, "has to be a list"),
        ("label: exact", "label: recorded", 8, "needs `of`"),
        ("label: exact", "label: recorded, of: dodo", 8, "There is no “dodo”"),
        ("label: exact", "label: modelled, of: dodo", 8, "There is no “dodo”"),
        ("- up: size\n", "", 8, "no item `- up"),
        (CHART + "\n", "", 1, "`picture` or by a `chart`"),
        (CHART, "picture: {picture: dodo}", 8, "There is no picture “dodo”"),
        (CHART, "picture: {picture: player, with: {examples: [dodo]}}", 8, "dodo"),
        ("Two is {two}.", "Two is 2.", 11, "“2.” is typed"),
        ("Two is {two}.", "Two is {too}.", 11, "no fact “too”"),
        ("Two is {two}.", "word " * 91, 11, "91 words"),
        ("Two is {two}.\n", "", 11, "“answer” says nothing"),
        ("## demonstration", "## evidence", 13, "no section “evidence”"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_and_remedy(
    folder: Path, piece: str, instead: str, line: int, words: str
) -> None:
    """Catches: a mistake that is not seen, is reported of another line, or ends in a traceback."""
    assert GOOD.count(piece) == 1
    found = problems_of(folder, GOOD.replace(piece, instead))
    assert len(found) == 1
    said = re.fullmatch(r"en/claims/01-bad\.md, line (\d+): (.+)", found[0], re.DOTALL)
    assert said and words in said[2], found
    assert int(said[1]) == line, found


def test_a_broken_claim_is_named_on_the_page_and_the_others_work(folder: Path) -> None:
    (folder / "00-good.md").write_text(GOOD, encoding="utf-8")
    broken = GOOD.replace("two > 1", "two > 3")
    (folder / "01-bad.md").write_text(broken, encoding="utf-8")
    at = page(claims="1")
    assert "en/claims/01-bad.md, line 7" in sent(at).replace("\\", "")
    press(at, "claim-good-true")
    assert "Two is 2." in sent(at)


# --- the page ------------------------------------------------------------------------------------------------------


def secrets(claim: Claim) -> list[str]:
    """What the page must not hold before the visitor has said something."""
    texts = [claim.sections["answer"].prose, claim.sections["demonstration"].prose]
    texts += [item.text for key, item in claim.sections["demonstration"].items.items() if key == "title"]
    return [text[:50] for text in texts]


def test_no_answer_is_in_the_page_before_it_is_asked_for_and_each_is_judged() -> None:
    """Catches: an answer, a chart or a source that settles it among what is sent; a verdict of another claim."""
    at = page(claims="1")
    found = every()
    assert len(at.get("plotly_chart")) == 0
    assert "class='verdict" not in sent(at)
    text = sent(at)
    for claim in found.values():
        assert claim.front.claim.split(".")[0][:10] in text.replace("\\", "")
        assert [piece for piece in secrets(claim) if piece in text] == [], claim.id
    linked = {one.link for claim in found.values() for one in claim.front.heard}
    assert not [
        one.link
        for claim in found.values()
        for one in claim.front.beside
        if one.link in text and one.link not in linked
    ]
    open_ones = dict(found)
    for key, said in zip(list(found), itertools.cycle(claims.VERDICTS), strict=False):
        claim = open_ones.pop(key)
        press(at, f"claim-{key}-{said}")
        text = sent(at)
        assert claim.sections["answer"].prose[:50] in text
        assert f"verdict {claim.verdict}" in text and GLYPHS[claim.verdict] in text
        answer = at.session_state[progress.STORE].claims[key]
        assert (answer.given, answer.right) == (said, said == claim.verdict)
        assert not [button for button in at.button if (button.key or "").startswith(f"claim-{key}-")], (
            "it is locked"
        )
        for other in open_ones.values():
            assert [piece for piece in secrets(other) if piece in text] == [], other.id
    assert len(at.get("plotly_chart")) == sum(claim.front.chart is not None for claim in found.values())
    rows = progress.as_csv(at.session_state[progress.STORE], {}).splitlines()
    assert rows[1].startswith("claims,,less-computation,true,False,")
    assert len(rows) == 1 + len(found)
