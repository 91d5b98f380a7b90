"""Profiles: rooflines against sums done by hand, sizes against transformers, files that are whole or refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_cli import profile as cli_profile
from specdec_core.models import catalogue
from specdec_core.runtime.timing.width_curve import WidthCurve
from specdec_measure.machines import profiles, recording
from specdec_measure.machines.model_sizes import SHAPES, Shape, shape, shape_of
from specdec_measure.machines.profiles import RecordedProfile, read, shipped, write
from specdec_measure.machines.roofline import Modelled

from .tiny import pair

SMALL = Shape("small", "by hand", 2, 8, 4, 2, 2, 16, 100, True)
# Matrices: 2 layers × (8×8 queries + 2 × 8×4 keys and values + 8×8 outputs + 3 × 8×16) + 8×100 = 2 × 576 + 800.
SMALL_READ = 1_952
SMALL_KV = 16  # keys and values of 2 heads × 2 numbers in 2 layers

CARD = Modelled(
    format="specdec-profile", version=1, label="a card", dtype="bfloat16", kind="modelled", bytes_per_s=1e6,
    flops_per_s=1e7, memory_bytes=1e9, kernel_s=1e-5, sources=dict.fromkeys(Modelled.FIGURES, "made up"),
)  # fmt: skip
RECORDED: dict[str, Any] = {
    "format": "specdec-profile", "version": 1, "kind": "recorded", "label": "here", "dtype": "float32", "note": "",
    "machine": "a machine", "device": "cpu", "threads": 1, "passes": "eager", "weights": "trained", "measurements": 3,
    "date": "2026-01-01T00:00:00+00:00", "packages": {"torch": "2"},
    "target": {"name": "big", "parameters": 1000, "layers": 4, "width": 10, "vocabulary": 20, "tied": True},
    "draft": {"name": "small", "parameters": 500, "layers": 1, "width": 10, "vocabulary": 20, "tied": False},
    "curves": [
        {
            "batch": 1, "context": context, "widths": [1, 3, 5], "target_s": [0.004, 0.005, 0.008],
            "target_median_s": [0.004, 0.005, 0.007], "draft_widths": [1, 4], "draft_s": [0.001, 0.0013],
            "draft_median_s": [0.001, 0.001],
        }
        for context in (128, 512)
    ],
}  # fmt: skip


def changed(*way: str | int, value: Any) -> dict[str, Any]:
    """RECORDED with one field replaced."""
    content: Any = json.loads(json.dumps(RECORDED))
    *above, last = way
    place = content
    for step in above:
        place = place[step]
    place[last] = value
    return dict(content)


def test_a_pass_by_hand_that_moves_longer_than_it_computes() -> None:
    """Catches: keys counted without values, bytes of the wrong width, weights moved once per text."""
    assert (SMALL.read, SMALL.kv_numbers) == (SMALL_READ, SMALL_KV)
    # batch 3, context 10, 2 tokens: 2 bytes × (1952 + 3 × 12 × 16) over 1e6 bytes/s = 5.056 ms
    # against 3 × 2 × (2 × 1952 + 4 × 2 layers × 4 heads × 2 × 12) = 28,032 operations over 1e7 = 2.8032 ms
    # and 2 layers × 10 kernels × 10 µs = 0.2 ms
    assert CARD.seconds(SMALL, 2, 3, 10) == pytest.approx(0.005056 + 0.0002)


def test_a_pass_by_hand_that_computes_longer_than_it_moves() -> None:
    """Catches: a batch that multiplies nothing, attention left out of the operations."""
    # batch 3, context 10, 8 tokens: 3 × 8 × (3904 + 64 × 18) = 121,344 operations = 12.1344 ms; moving 5.632 ms
    assert CARD.seconds(SMALL, 8, 3, 10) == pytest.approx(0.0121344 + 0.0002)


def test_eight_billion_parameters_on_an_h100_by_hand() -> None:
    """15 GB over 3.35 TB/s: the example everybody knows. Catches: a factor of two, or of a thousand."""
    h100 = shipped()[0]["h100-sxm"]
    assert isinstance(h100, Modelled)
    read_by_hand = 32 * (2 * 4096 * 128 * (32 + 8) + 3 * 4096 * 14336) + 4096 * 128256
    kv_by_hand = 2 * 32 * 8 * 128
    expected = 2 * (read_by_hand + 513 * kv_by_hand) / 3.35e12 + 32 * 10 * 2e-6
    assert h100.costs(1, 512).target(1) == pytest.approx(expected)
    assert 0.0045 < expected < 0.0055


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_are_those_of_the_model_they_build(name: str) -> None:
    """Against transformers' own count, on a device without memory. Catches: a tied embedding counted twice."""
    with torch.device("meta"):
        model = LlamaForCausalLM(cli_profile._config(SHAPES[name]))
    assert SHAPES[name].parameters == model.num_parameters()
    matrices = sum(module.weight.numel() for module in model.modules() if isinstance(module, torch.nn.Linear))
    assert SHAPES[name].read == matrices
    assert shape(name.lower()) is SHAPES[name]


def test_the_catalogue_counts_tied_weights_once() -> None:
    """Against the published sizes, all of models with one matrix for both. Catches: Qwen3 1.7B shown as 2032 M."""
    qwen3 = Shape("1.7B", "Qwen3-1.7B", 28, 2048, 16, 8, 128, 6144, 151_936, True)
    published = {"smollm2-135m-instruct": SHAPES["135M"], "qwen2.5-1.5b": SHAPES["1.5B"], "qwen3-1.7b": qwen3}
    counted = {entry.name: entry.parameters for entry in catalogue.entries()}
    for name, size in published.items():
        assert counted[name] == pytest.approx(size.parameters / 1e6, rel=0.001), name


@given(
    tokens=st.integers(1, 2_000), batch=st.integers(1, 500), context=st.integers(0, 30_000),
    name=st.sampled_from(["135M", "1B", "8B"]), card=st.sampled_from(["h100-sxm", "l4", "laptop-cpu"]),
)  # fmt: skip
def test_more_tokens_more_texts_and_longer_ones_never_take_less(
    tokens: int, batch: int, context: int, name: str, card: str
) -> None:
    """And a pass over n tokens never takes longer than n passes over one. Catches: a sign, a division the wrong way."""
    machine = PROFILES[card]
    model = SHAPES[name]
    here = machine.seconds(model, tokens, batch, context)
    assert machine.seconds(model, tokens + 1, batch, context) >= here
    assert machine.seconds(model, tokens, batch + 1, context) >= here
    assert machine.seconds(model, tokens, batch, context + 1) >= here
    single = machine.seconds(model, 1, batch, context + tokens)
    assert here <= tokens * single * (1 + 1e-9)


PROFILES = {name: one for name, one in shipped()[0].items() if isinstance(one, Modelled)}


def test_the_knee_is_where_computing_overtakes_moving() -> None:
    """Against a walk over every n. Catches: an interval halved in the wrong direction."""
    h100, model = PROFILES["h100-sxm"], SHAPES["8B"]
    for batch, context in ((1, 512), (8, 512), (32, 4096), (128, 128), (1024, 0)):

        def computes(tokens: int, batch: int = batch, context: int = context) -> bool:
            without = replace_bandwidth(h100, 1e18).seconds(model, tokens, batch, context)
            return h100.seconds(model, tokens, batch, context) == without

        walked = next((tokens for tokens in range(1, 500) if computes(tokens)), None)
        assert h100.knee(model, batch, context) == walked
    assert h100.knee(model, 1, 512, most=100) is None


def replace_bandwidth(card: Modelled, value: float) -> Modelled:
    return card.model_copy(update={"bytes_per_s": value})


def test_what_does_not_fit_is_refused_and_says_how_much_is_missing() -> None:
    """Catches: a 70B model timed on a card of 24 GB, and a batch whose keys alone are larger than the card."""
    with pytest.raises(
        sd.SettingsError, match=r"needs 1\d\d GB in bfloat16, and NVIDIA GeForce RTX 4090.* has 24 GB"
    ):
        PROFILES["rtx-4090"].costs(1, 512, "70B", "1B")
    with pytest.raises(sd.SettingsError, match="a smaller batch"):
        PROFILES["h100-sxm"].costs(256, 16_384)
    assert PROFILES["h100-sxm-x4"].costs(1, 512, "70B", "1B").cost_ratio


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"batch": 0}, "The batch must be a whole number from 1"),
        ({"batch": True}, "The batch"),
        ({"context": -1}, "The context"),
        *(
            ({"target": size}, f"There is no model size '{size}'; expected one of 135M, .*from 10M to 2000B")
            for size in ("9X", "banana", "", "0B", "9M", "9999B", "100000B", 9)
        ),
        ({"target": "1B", "draft": "8B"}, "8B is not smaller than 1B"),
        ({"target": "1B", "draft": "1B"}, "1B is not smaller than 1B"),
    ],
)  # fmt: skip
def test_a_question_out_of_range_is_refused(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(sd.SettingsError, match=said):
        PROFILES["h100-sxm"].costs(**given_)


def test_a_size_of_ones_own_lies_between_its_published_neighbours() -> None:
    """Catches: a size whose parameters are not those asked for, and one that costs more than a larger model."""
    sizes = ["20M", "135M", "360M", "0.5B", "1B", "3B", "7B", "8B", "14B", "32B", "70B", "405B"]
    found = [shape_of(size) for size in sizes]
    for size, one in zip(sizes, found, strict=True):
        asked = float(size[:-1]) * (1e9 if size.endswith("B") else 1e6)
        assert one == SHAPES.get(size) or abs(one.parameters / asked - 1) < 0.01, size
        assert one.heads % one.kv_heads == 0
    assert [one.read for one in found] == sorted(one.read for one in found)


def test_every_shipped_profile_is_whole_and_says_where_it_comes_from() -> None:
    """Catches: a file that a change of the format left behind, a figure without a source."""
    found, problems = shipped()
    assert problems == []
    kinds = [one.kind for one in found.values()]
    assert kinds == sorted(kinds, reverse=True) and {*kinds} == {"recorded", "modelled"}
    for name, one in found.items():
        assert read(write(one), name) == one
        assert one.provenance.startswith(one.kind) and len(one.assumptions) >= 3
        costs = one.costs()
        times = [costs.target(tokens) for tokens in (1, 2, 5, 9, 17, 33, 65, 200)]
        assert all(later >= earlier * 0.8 for earlier, later in pairwise(times))
        assert costs.draft is not None and 0 < costs.draft(1) < costs.target(1)
        assert 0 < costs.output_share < 1


def test_the_stated_formula_gives_the_stated_figures() -> None:
    """The parameters that a pass reads, as the page names them, times 2 bytes, over the bandwidth. Catches: "all
    weights", which gives 117 tokens/s of an 8B on an A100 where the page says 125; 13,400 GB/s written as 1.34e+04."""
    found = shipped()[0]
    costs = found["a100-80gb"].costs(context=128)
    assert "A pass of 8B reads 7.50 billion of its 8.03 billion parameters." in costs.counted
    assert (
        "A pass of 1B reads 1.24 billion parameters; its input embedding is the output matrix."
        in costs.counted
    )
    weights = 7.5e9 * 2 / 2_039e9 + 32 * 10 * 2e-6
    assert 1 / costs.target(1) == pytest.approx(1 / weights, rel=0.005)
    for name, figure in (("a100-80gb", "2,039 GB/s"), ("h100-sxm-x4", "13,400 GB/s"), ("h100-sxm", "80 GB")):
        assert any(said.startswith(figure) for said in found[name].assumptions), name
    assert not any("e+" in said for one in found.values() for said in one.assumptions)
    assert found["h200-8b"].costs().counted == ""


def test_a_recorded_profile_is_read_between_its_widths_and_at_its_own_contexts() -> None:
    profile = read(json.dumps(RECORDED), "x.json")
    assert isinstance(profile, RecordedProfile)
    costs = profile.costs()
    assert (costs.context, profile.contexts(), profile.batches) == (128, [128, 512], [1])
    assert costs.target(4) == pytest.approx(0.0065)
    assert costs.target(9) == pytest.approx(0.008 + 4 * 0.0015)
    assert costs.draft is not None and costs.draft(2) == pytest.approx(0.0011)
    assert costs.cost_ratio == pytest.approx(0.25)
    assert costs.output_share == 0.2
    # not the embedding
    assert profile.draft is not None and profile.draft.output_share == pytest.approx(200 / 300)
    assert costs.pair == "big with small"
    with pytest.raises(
        sd.SettingsError, match=r"not recorded at batch 8; choose one of: batch 1 with context 128"
    ):
        profile.costs(8)
    with pytest.raises(sd.SettingsError, match="batch 1 with context 4096"):
        profile.costs(1, 4096)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (changed("curves", 0, "target_s", 1, value=-1.0), r"curves\.0\.target_s\.1"),
        (changed("curves", 1, "widths", value=[2, 3, 5]), r"curves\.1"),
        (changed("curves", 1, "widths", value=[1, 5, 3]), r"curves\.1"),
        (changed("curves", 0, "draft_s", value=[0.1]), r"curves\.0"),
        (changed("curves", 0, "target_median_s", value=[]), r"curves\.0"),
        (changed("curves", value=[]), "curves"),
        (changed("curves", value=RECORDED["curves"][:1] * 2), "same batch and context"),
        (changed("draft", value=None), "exactly if there is one"),
        (changed("target", "parameters", value=199), "at least the parameters"),
        (changed("target", "tied", value="yes"), r"target\.tied"),
        (changed("machine", value="x" * 300), "machine"),
        (changed("machine", value=None), "machine"),
        (changed("dtype", value="int4"), "dtype"),
        (changed("date", value="yesterday"), "date"),
        (changed("version", value=2), "version"),
        (changed("path", value="/etc"), "path"),
        (changed("kind", value="guessed"), "'kind'"),
        (changed("kind", value=["recorded"]), "'kind'"),
        (changed("format", value="specdec-trace"), "'format'"),
        (json.loads(write(CARD)) | {"bytes_per_s": 0.0}, "bytes_per_s"),
        (json.loads(write(CARD)) | {"kernel_s": "1e-6"}, "kernel_s"),
        (json.loads(write(CARD)) | {"sources": {"bytes_per_s": "a data sheet"}}, "sources"),
        (json.loads(write(CARD)) | {"sources": dict.fromkeys(Modelled.FIGURES, "")}, "sources"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_field(content: dict[str, Any], field: str) -> None:
    with pytest.raises(sd.SettingsError, match=rf"^my\.json is not a profile: .*{field}") as caught:
        read(json.dumps(content), "my.json")
    assert str(caught.value).count("\n") == 0 and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '"recorded"', b"\xff\xfe", '{"format": "specdec-profile"}', "[" * 5_000, "{" * 100,
     '{"format": "specdec-profile", "kind": "modelled", "bytes_per_s": NaN}', " " * (profiles.MAX_BYTES + 1)],
)  # fmt: skip
def test_what_is_no_profile_is_refused_in_one_sentence(text: str | bytes) -> None:
    with pytest.raises(sd.SettingsError, match=r"^my\.json is not a profile: .*\.$"):
        read(text, "my.json")


def test_a_bad_file_does_not_hide_the_good_ones(tmp_path: Path) -> None:
    """Catches: a page that stays empty because of one file."""
    (tmp_path / "good.json").write_text(json.dumps(RECORDED), encoding="utf-8")
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    (tmp_path / "huge.json").write_bytes(b" " * 3_000_000)
    (tmp_path / "folder.json").mkdir()
    found, problems = shipped(tmp_path)
    assert [*found] == ["good"]
    assert len(problems) == 3 and not any(str(tmp_path) in problem for problem in problems)


def test_profiles_are_read_without_torch() -> None:
    """Catches: two seconds of import on a page that only shows records."""
    code = "import sys, specdec_measure.analysis.whatif as w; w.profiles_of = w.Profile; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_recording_keeps_the_quietest_and_the_median_of_every_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Curves that are dealt out. Catches: the draft's times under the target's, medians over contexts."""
    dealt: list[tuple[str, int]] = []

    def curve(models: sd.Models, widths: tuple[int, ...], *, prefix: int, **more: Any) -> WidthCurve:
        turn = sum(one == (models.target.info.name, prefix) for one in dealt)
        dealt.append((models.target.info.name, prefix))
        assert models.draft is None
        base = prefix * (1.0 if models.target.info.name == "tiny target" else 0.1) * (1.0, 5.0, 2.0)[turn]
        return WidthCurve(
            widths, tuple(base * width for width in widths), None, prefix, "cpu", "float32", "m", "t", "", "d"
        )

    monkeypatch.setattr(recording, "width_curve", curve)
    models = pair("llama")
    plan = recording.PassPlan(contexts=(32, 16), widths=(1, 4), measurements=3)
    steps: list[tuple[int, int]] = []
    recorded = recording.record(
        models,
        plan,
        label="",
        note="as a test",
        weights="trained",
        on_progress=lambda *step: steps.append(step),
    )
    assert [one.context for one in recorded.curves] == [16, 32]
    assert recorded.curves[0].widths == (1, 4) and recorded.curves[0].target_s == (16.0, 64.0)
    assert recorded.curves[1].target_median_s == (64.0, 256.0)
    assert recorded.curves[1].draft_s[:2] == pytest.approx((3.2, 6.4))
    assert recorded.target.parameters == models.target.info.parameters
    assert steps == [(step, 6) for step in range(6)]
    assert read(write(recorded), "x") == recorded and "as a test" in recorded.assumptions


def test_random_weights_of_a_shape_are_timed_and_written(tmp_path: Path) -> None:
    """The real command's way on a real, tiny model. Catches: a shape that transformers builds otherwise."""
    small = replace(SMALL, width=16, head_dim=4, vocabulary=4_096)
    models = cli_profile.random_models(small, replace(small, layers=1), "cpu", "float32")
    assert models.target.info.parameters == small.parameters
    plan = recording.PassPlan(contexts=(8,), widths=(1, 3), measurements=1, seconds=0.0)
    recorded = recording.record(
        models, plan, label="tiny", note="", weights="random", on_progress=lambda *step: None
    )
    out = tmp_path / "tiny.json"
    cli_profile.save(None, out)
    assert not [*tmp_path.iterdir()]
    cli_profile.save(recorded, out)
    assert shipped(tmp_path)[0]["tiny"] == recorded
    assert recorded.costs().cost_ratio and "random" in " ".join(recorded.assumptions)
    with pytest.raises(sd.SpecdecError, match="Choose another file"):
        cli_profile.save(None, tmp_path / "missing" / "x.json")


@pytest.mark.parametrize(
    "plan",
    [
        recording.PassPlan(contexts=(100_000,)),
        recording.PassPlan(contexts=(-1,)),
        recording.PassPlan(widths=(0,)),
        recording.PassPlan(measurements=0),
        recording.PassPlan(seconds=float("nan")),
    ],
)
def test_a_plan_out_of_range_is_refused_before_anything_is_measured(plan: recording.PassPlan) -> None:
    with pytest.raises(sd.SettingsError):
        plan.check(pair("llama"))


def test_models_larger_than_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_profile, "available_bytes", lambda device: 10**9)
    with pytest.raises(sd.ModelError, match=r"Random weights of 0\.5B and 135M need .* GB are free"):
        cli_profile.random_models(SHAPES["0.5B"], SHAPES["135M"], "cpu", "float32")
    with pytest.raises(sd.ModelError, match=r"Random weights of 9B and 360M need .* GB are free"):
        cli_profile.models_for((None, None), ("9b", "360M"), "cpu", "float32", True)
    with pytest.raises(sd.SettingsError, match=r"no model size '0B'; expected one of .*from 10M to 2000B"):
        cli_profile.models_for((None, None), ("0B", None), "cpu", "float32", True)
    for names, sizes in (((None, None), (None, "1B")), (("gpt2", None), ("8B", None))):
        with pytest.raises(sd.SettingsError):
            cli_profile.models_for(names, sizes, "cpu", "float32", True)


def test_the_configuration_is_the_shape() -> None:
    config = cli_profile._config(SHAPES["8B"])
    assert isinstance(config, LlamaConfig) and config.num_key_value_heads == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "{missing}/x.json"], "The profile could not be written"),
        (["--out", "{here}/x.json", "--shape", "9x"], "There is no model size '9x'"),
        (["--out", "{here}/x.json", "--draft-shape", "1B"], "needs a --shape"),
        (["--out", "{here}/x.json", "--shape", "8b", "--model", "gpt2"], "either --shape"),
        (["--out", "{here}/x.json", "--device", "cuda:nope"], "device"),
    ],
)
def test_the_command_refuses_in_one_sentence_and_leaves_nothing_behind(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    places = {"here": str(tmp_path), "missing": str(tmp_path / "missing")}
    result = CliRunner().invoke(cli.app, ["profile", *(one.format(**places) for one in arguments)])
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output
    assert not [*tmp_path.iterdir()]


def test_the_command_records_the_models_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole command on tiny models. Catches: options that do not reach the measurement."""
    monkeypatch.setattr(cli_profile, "load_models", lambda *names, **more: pair("llama"))
    out = tmp_path / "mine.json"
    result = CliRunner().invoke(
        cli.app,
        ["profile", "--out", str(out), "--context", "16", "--width", "1", "--width", "7", "--measurements", "2",
         "--seconds", "0", "--label", "mine", "--note", "a test"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    profile = shipped(tmp_path)[0]["mine"]
    assert isinstance(profile, RecordedProfile)
    assert (profile.label, profile.note, profile.measurements, profile.contexts()) == (
        "mine",
        "a test",
        2,
        [16],
    )
    assert profile.curves[0].widths == (1, 7) and profile.weights == "trained" and profile.passes == "eager"
