"""Pages that play traces on their own: the linker, what stands in a page, its size, `show()` and the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any
from zlib import decompress

import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import specdec_core as sd
from app.decoding.runs import Runs
from app.export import page
from app.export.linker import LinkError, link, ordered, read
from app.ui import presenter
from specdec_cli.commands import app
from specdec_core.foundations.options import fields
from specdec_core.record.trace import Trace
from specdec_measure.records import show as showing
from tests.player.samples import plain_trace, spec_trace

from .sheets import hides

MAIN = Path(page.__file__).parents[1] / "main.py"
MODULES = sorted(str(path.relative_to(page.PLAYER)) for path in page.PLAYER.rglob("*.js"))
HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> \u2028 ]]> ' \" & \x00\x07"


class Elements(HTMLParser):
    """The elements of a page: names with attributes, and the text of each script by its id or class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, list[str]] = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found.append((tag, given))
        if tag == "script":
            self._script = given.get("id") or given.get("class") or "code"
            self.scripts.setdefault(self._script, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script][-1] += data

    def traces(self) -> list[str]:
        return self.scripts["trace"]


def folder(tmp_path: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def traces() -> list[Trace]:
    return [plain_trace(), spec_trace()]


# --- the linker -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_player_can_be_linked(name: str) -> None:
    made = list(ordered(page.PLAYER, name))
    assert made[-1].name == name
    for at, module in enumerate(made):
        assert module.needs.keys() <= {other.name for other in made[:at]}, "each after those it needs"
        assert not re.search(r"^(import|export)\b", module.body, re.MULTILINE)
        for source, names in module.needs.items():
            assert names <= read(source, (page.PLAYER / source).read_text(encoding="utf-8")).exports.keys()


def test_modules_in_a_circle_are_refused_by_name(tmp_path: Path) -> None:
    root = folder(
        tmp_path,
        a='import { b } from "./b.js";\nexport const a = 1;',
        b='import { c } from "./c.js";\nexport const b = 1;',
        c='import { b } from "./b.js";\nexport const c = 1;',
    )
    with pytest.raises(LinkError, match=r"in a circle.*: b\.js → c\.js → b\.js\."):
        link(root, "a.js", "a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("export default function a() {}", "export default function a"),
        ("export let a = 1;", "export let a"),
        ("export const { a } = {};", "export const { a }"),
        ('export * from "./b.js";', "export *"),
        ('import b from "./b.js";\nexport const a = b;', "import b from"),
        ('import { b } from "../b.js";\nexport const a = b;', "a.js imports ../b.js, which is not in"),
        ('import { default as b } from "./b.js";\nexport const a = b;', "default as b"),
        ('export const a = () => import("./b.js");', "import("),
        ("export const a = import.meta.resolve;", "import.meta"),
        ('import { c } from "./b.js";\nexport const a = c;', "a.js imports c, which b.js does not export"),
        ('import { c } from "./c.js";\nexport const a = c;', "a.js imports c.js, which is not in"),
        ("export const b = 1;", "a.js does not export a"),
    ],
)
def test_what_is_not_linked_is_named(tmp_path: Path, text: str, words: str) -> None:
    root = folder(tmp_path, a=text, b="export const b = 1;")
    with pytest.raises(LinkError, match=re.escape(words)):
        link(root, "a.js", "a")


def test_linked_code_cannot_end_its_element(tmp_path: Path) -> None:
    root = folder(tmp_path, a='export const a = () => "</SCRIPT><!--";\n')
    code = link(root, "a.js", "a")
    assert '"<\\/SCRIPT><\\!--"' in code


# --- the page ---------------------------------------------------------------------------------------------------------


def test_a_page_holds_its_traces_as_they_were_written(traces: list[Trace]) -> None:
    found = Elements(page.make(traces))
    assert [Trace.from_json(text) for text in found.traces()] == traces
    assert page.make(traces) == page.make(traces)


def test_a_large_record_is_packed_and_comes_out_the_same(
    traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PACK_BYTES", 100)
    found = Elements(page.make(traces))
    assert [Trace.from_json(decompress(b64decode(text.strip('"')))) for text in found.traces()] == traces


def test_the_head_names_what_was_recorded(traces: list[Trace]) -> None:
    traces[1].header.packages = {"specdec_core": "0.1.0", "torch": "2.13.0"}
    text = unescape(page.make(traces))
    header = traces[1].header
    for words in (
        header.prompt.strip(),
        header.machine,
        "2026-01-01",
        "draft-model",
        "torch 2.13.0",
        header.id,
    ):
        assert words in text.partition("</header>")[0]


def test_nothing_in_a_page_is_loaded_from_elsewhere_and_only_its_own_script_may_run(
    traces: list[Trace],
) -> None:
    text = page.make(traces)
    found = Elements(text)
    for tag, given in found.found:
        assert not {"src", "srcset", "action", "background", "poster", "ping"} & given.keys(), tag
        assert given.get("href", "data:,") == "data:,"
        assert not [name for name in given if name.startswith("on")]
    policy = next(given["content"] for tag, given in found.found if given.get("http-equiv"))
    assert policy is not None
    (code,) = found.scripts["code"]
    assert f"script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}';" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    styles = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)
    assert len(styles) == 2
    assert not re.search(r"@import|url\((?!['\"]?(data:|#))", "".join(styles))


def test_hostile_texts_are_only_text(traces: list[Trace]) -> None:
    clean = Elements(page.make(traces)).found
    for trace in traces:
        trace.header.prompt = HOSTILE
        trace.header.machine = HOSTILE
        trace.header.settings["proposer"] = HOSTILE
        trace.header.packages = {HOSTILE: HOSTILE}
    text = page.make(traces, [HOSTILE, HOSTILE], title=HOSTILE)
    found = Elements(text)
    names = [tag for tag, _ in found.found]
    assert set(names) == {tag for tag, _ in clean}
    assert names.count("script") == len(traces) + 2
    assert [Trace.from_json(record).header.prompt for record in found.traces()] == [HOSTILE] * 2
    assert "\x00" not in text


def facts(text: str) -> dict[str, list[str]]:
    """The table of settings as a reader sees it: by row, a text for each lane."""
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', text)
    return {
        unescape(name): [unescape(cell) for cell in re.findall("<td>(.*?)</td>", cells)]
        for name, cells in rows
    }


def set_to(trace: Trace, **choices: Any) -> Trace:
    return replace(
        trace, header=replace(trace.header, settings=sd.Settings(**choices).model_dump(mode="json"))
    )


def test_the_head_names_the_settings_that_each_lane_used(traces: list[Trace]) -> None:
    """Catches: γ for a proposer that never asks for it; an option that is silent because it is as usual."""
    lanes = [
        set_to(traces[0], proposer="none"),
        set_to(traces[1], proposer="eagle"),
        set_to(traces[1], proposer="branching", options={"width": 2}),
        set_to(traces[1], proposer="prompt-lookup", draft_length=7),
        set_to(traces[1], length_policy="confidence", rule="typical"),
    ]
    rows = facts(page.make(lanes))
    assert rows["draft length"] == ["", "", "", "7", "up to 4"]
    assert rows["rule"] == ["", *["speculative-sampling"] * 3, "typical"]
    assert rows["rule options"] == ["", "", "", "", "epsilon = 0.09, delta = 0.3"]
    assert rows["length options"] == ["", "", "", "", "threshold = 0.4"]
    for at, name in enumerate(("eagle", "branching", "prompt-lookup"), start=1):
        usual = {key: field.default for key, field in fields(sd.PROPOSERS[name].Options).items()}
        wanted = usual | ({"width": 2} if name == "branching" else {})
        for key, value in wanted.items():
            written = value if isinstance(value, str) else json.dumps(value)
            assert ("" if value is None else f"{key} = {written}") in rows["options"][at]
    assert rows["options"][0] == ""


def test_a_lane_is_called_as_in_a_comparison(traces: list[Trace]) -> None:
    """Catches: two lanes of one name that differ in their options, or in drafting beside the check."""
    for choices, name in (
        ({"proposer": "none", "rule": "typical"}, "Plain decoding"),
        ({}, "Draft model, γ = 4"),
        ({"overlap": True}, "Draft model, γ = 4, overlap"),
        ({"proposer": "eagle"}, "EAGLE head"),
        ({"proposer": "prompt-lookup", "options": {"max_ngram": 2}}, "Prompt lookup, γ = 4, max ngram = 2"),
        ({"rule": "typical"}, "Draft model, γ = 4, lossy: Typical acceptance"),
    ):
        assert page.label(set_to(traces[1], **choices)) == name
    traces[1].header.settings = {"proposer": "prompt-lookup", "options": {"no-such": 1}}
    assert page.label(traces[1]) == "prompt-lookup"


def beside(traces: list[Trace], **more: Any) -> tuple[bool, str]:
    """Whether the player holds the lanes' times against each other, and what stands beside the speedup."""
    settings = json.loads(Elements(page.make(traces, **more)).scripts["settings"][0])
    return settings["compared"], settings["provenance_note"]


def test_separate_runs_are_called_so_beside_their_speedup(traces: list[Trace]) -> None:
    """Two decodes, twenty seconds apart, of a tenth of a second each: no race."""
    traces[1].header.created = "2026-01-01T00:00:20Z"
    compared, words = beside(traces)
    assert compared and words.endswith(" · two separate runs on the same machine")
    head = page.make(traces).partition("</header>")[0]
    assert "two separate runs on the same machine" in head
    assert "separate runs on the same machine" in beside([*traces, traces[0]])[1]
    assert "two" not in beside([*traces, traces[0]])[1]


def test_a_race_is_believed_where_it_is_known_and_doubted_where_it_is_not(traces: list[Trace]) -> None:
    """Short lanes that ended in one second may have been raced or not; long ones must have run side by side."""
    said = " · one race or two separate runs: the record does not say"
    assert beside(traces)[1].endswith(said)
    assert beside(traces, raced=True) == (True, beside(traces[1:])[1])
    for trace in traces:
        trace.stats.verify_s = 3.0
    assert "runs" not in beside(traces)[1]
    traces[0].header.created = "long ago"
    assert beside(traces)[1].endswith(said)
    traces[0].header.created = traces[1].header.created
    traces[0].header.settings["max_new_tokens"] = 9
    assert beside(traces)[1].endswith(" · two separate runs on the same machine")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda head: head.settings.update(temperature=0.0), "temperature"),
        (lambda head: head.settings.update(seed=99), "seed"),
        (lambda head: setattr(head, "machine", "another"), "machine"),
        (lambda head: setattr(head, "dtype", "bfloat16"), "number format"),
        (lambda head: setattr(head, "target", replace(head.target, parameters=7)), "target model"),
        (lambda head: setattr(head, "prompt_ids", [1, 2]), "prompt"),
    ],
)
def test_lanes_that_did_other_work_have_no_speedup(traces: list[Trace], change: Any, named: str) -> None:
    change(traces[0].header)
    compared, words = beside(traces, raced=True)
    assert not compared and "runs" not in words
    head = page.make(traces).partition("</header>")[0]
    assert f"separate runs that differ in {named}, so their times are not compared" in head


def test_no_clock_makes_a_race_of_runs_in_a_row_or_the_other_way_round(traces: list[Trace]) -> None:
    """A day's clock simulated: lanes one after the other, and lanes of which the one behind goes next."""
    numbers = Random(1)
    seen = set()
    for _ in range(300):
        rounds = [
            [numbers.uniform(0.01, 0.5) for _ in range(numbers.randint(1, 40))]
            for _ in range(numbers.randint(2, 4))
        ]
        one_by_one, now = [], numbers.random()
        for lane in rounds:
            now += sum(lane) + numbers.choice((0.0, 0.3, 30.0))
            one_by_one.append(now)
        clocks, ended, now = [0.0] * len(rounds), [0.0] * len(rounds), numbers.random()
        left = [list(lane) for lane in rounds]
        while any(left):
            lane = min((at for at, rest in enumerate(left) if rest), key=clocks.__getitem__)
            step = left[lane].pop()
            clocks[lane] += step
            now = ended[lane] = now + 1.5 * step  # of which a third is on no clock
        for dates, never in ((one_by_one, True), (ended, False)):
            lanes = [
                replace(
                    traces[0],
                    header=replace(
                        traces[0].header, created=f"{datetime(2026, 1, 1) + timedelta(seconds=int(date))}"
                    ),
                    stats=replace(traces[0].stats, draft_s=0.0, other_s=0.0, verify_s=sum(lane)),
                )
                for date, lane in zip(dates, rounds, strict=True)
            ]
            found = page.of_one_race(lanes)
            assert found is not never
            seen.add(found)
    assert seen == {True, False, None}


def test_a_record_that_breaks_its_laws_says_so(traces: list[Trace]) -> None:
    traces[1].rounds[0].cache_after += 1
    assert "is inconsistent" in page.make(traces)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda traces: traces.clear(), "1 to 8 traces as lanes, got 0"),
        (lambda traces: traces.extend(traces * 4), "got 10"),
        (lambda traces: setattr(traces[0].header, "prompt", "another"), "share one prompt"),
    ],
)
def test_lanes_that_do_not_make_a_page_are_refused(traces: list[Trace], change: Any, words: str) -> None:
    change(traces)
    with pytest.raises(sd.SpecdecError, match=words):
        page.make(traces)


@pytest.mark.slow
def test_pages_stay_small_with_the_bundled_models() -> None:
    """Chains: two lanes of 128 tokens below 1.5 MB; trees of 64 nodes below 3 MB."""
    models = sd.load_models()
    chain = sd.Settings(draft_length=4, max_new_tokens=128, temperature=0.8)
    tree = chain.but(proposer="branching", options={"width": 4, "nodes": 64, "depth": 8})
    prompt = "Once upon a time, there was a little boy named Hugo."
    plain = sd.decode(models, prompt, chain.but(proposer="none"))
    for settings, limit in ((chain, 1_500_000), (tree, 3_000_000)):
        trace = sd.decode(models, prompt, settings)
        assert len(trace.token_ids) == len(plain.token_ids) == 128
        size = len(page.make([plain, trace]).encode())
        print(f"{settings.proposer}: {size:,} bytes")
        assert size < limit
    assert max(len(row.nodes.token) for row in trace.rounds) == 64


# --- from Python and the command line ---------------------------------------------------------------------------------


def test_show_gives_a_frame_without_a_way_out(traces: list[Trace]) -> None:
    plain, spec = traces
    shown = spec.show(plain)
    ((tag, frame),) = Elements(shown._repr_html_()).found
    assert tag == "iframe"
    assert frame["srcdoc"] == shown.html == page.make(traces)
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert "src" not in frame
    assert len(repr(shown)) < 200


def test_show_writes_a_file_only_when_asked(
    traces: list[Trace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    traces[1].show()._repr_html_()
    assert list(tmp_path.iterdir()) == []
    shown = traces[1].show(path="run.html")
    assert Path("run.html").read_bytes().decode() == shown.html
    with pytest.raises(sd.SpecdecError, match=r"could not be written to .none/run\.html"):
        traces[1].show(path="none/run.html")


def test_without_the_app_s_folder_show_says_so(traces: list[Trace], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("app_that_is_not_there.page", "json"):
        monkeypatch.setattr(showing, "MAKER", name)
        with pytest.raises(sd.SpecdecError, match="own package 'app'"):
            traces[1].show()


def test_a_page_is_made_without_streamlit_and_the_core_stays_light() -> None:
    """Catches: a record whose page takes seconds because something imports torch, or needs the app's own packages."""
    code = (
        "import sys, specdec_core as sd\n"
        "assert not {'torch', 'app', 'pydantic'} & sys.modules.keys()\n"
        "from tests.player.samples import spec_trace\n"
        "spec_trace().show()\n"
        "assert not {'streamlit', 'plotly', 'app.player', 'torch', 'transformers'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=120)


def test_the_command_line_makes_a_page_of_files_and_of_a_race(traces: list[Trace], tmp_path: Path) -> None:
    plain, spec = traces
    (tmp_path / "plain.json").write_text(plain.to_json())
    (tmp_path / "spec.json").write_text(spec.to_json())
    (tmp_path / "race.json").write_text(f"[{plain.to_json()}, {spec.to_json()}]\n")
    for given in (["plain.json", "spec.json"], ["race.json"]):
        files = [str(tmp_path / name) for name in given]
        done = CliRunner().invoke(
            app, ["export", *files, "-o", str(tmp_path / "run.html"), "--title", "Mine"]
        )
        assert done.exit_code == 0, done.output
        assert (tmp_path / "run.html").read_text(encoding="utf-8") == page.make(traces, title="Mine")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"hello", "cannot be read: This is not a trace"),
        (b"\xff\xfe", "byte-order mark"),
        (b'[{"format": "specdec-trace", "version": 7}]', "has version 7"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"[1, 2", "is not complete JSON"),
        (b"[3]", "its 'format' is not"),
        (b"[]", "1 to 8 lanes, and this file has 0"),
    ],
)
def test_bad_files_get_one_sentence(content: bytes | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    if content is not None:
        file.write_bytes(content)
    done = CliRunner().invoke(app, ["export", str(file), "-o", str(tmp_path / "run.html")])
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "run.html").exists()


def test_a_page_does_not_replace_a_trace(traces: list[Trace], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(traces[0].to_json())
    done = CliRunner().invoke(app, ["export", str(file), "-o", str(tmp_path / "." / "t.json")])
    assert done.exit_code == 2
    assert Trace.from_json(file.read_text()) == traces[0]


# --- a presentation ---------------------------------------------------------------------------------------------------


def test_a_link_that_hides_parts_opens_the_whole_lab(fresh: Runs, prompts: Path) -> None:
    """Older links could name parts to leave out. Catches: one that is complained about, or still leaves them out."""
    at = AppTest.from_file(MAIN, default_timeout=30)
    for key, value in {"hide": "settings,numbers,moon", "tokens": "24", "seed": "5", "gamma": "3"}.items():
        at.query_params[key] = value
    at.run()
    at.button(key="go").click().run()
    assert not at.exception and not at.warning
    run = fresh.get(str(at.query_params["run"]))
    assert run is not None and run.wait(20)
    assert [(lane.seed, lane.max_new_tokens) for lane in run.request.lanes] == [(5, 24)] * 2
    assert run.request.lanes[1].draft_length == 3
    at.run()
    assert not at.exception and at.metric
    assert not hides(" ".join(element.proto.body for element in at.get("html")))


def test_a_presentation_begins_and_ends_in_the_address(fresh: Runs, prompts: Path) -> None:
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.query_params["present"] = "1"
    at.run()
    assert not at.exception
    sheet = " ".join(element.proto.body for element in at.get("html"))
    assert "stHeader" in sheet and f"font-size: {presenter.LARGE_REM}px" in sheet
    at.button(key="leave").click().run()
    assert not at.exception
    assert "present" not in at.query_params
    assert not any("stHeader" in element.proto.body for element in at.get("html"))
    assert at.button(key="go").label == "Run"


def test_the_app_s_page_has_the_run_s_own_labels(traces: list[Trace]) -> None:
    text = page.make(traces, ["Plain decoding", "Draft model, γ = 9"])
    assert "<h1>Speculative decoding, replayed: Draft model, γ = 9</h1>" in text
    with pytest.raises(sd.SpecdecError, match="2 lanes and 1 labels"):
        page.make(traces, ["one"])
