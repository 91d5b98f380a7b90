"""What the player says of speed, and at which speed it plays."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.player.conftest import Server, data, open_player, stop_at
from tests.player.samples import plain_trace, spec_plans, spec_trace

pytestmark = pytest.mark.browser


def test_only_the_viewer_changes_the_speed_from_run_to_run(page: Page, server: Server) -> None:
    """Catches: a run at the pace of the race that played before it, and one that forgets the viewer's."""
    server.files["/traces/spec.json"] = spec_trace(spec_plans() * 2).to_json()
    server.files["/traces/next.json"] = server.files["/traces/last.json"] = spec_trace().to_json()
    speed = page.locator(".speed")
    run = "url => player.update({ ...JSON.parse(url[0]), traces: [{ label: url[1], url: url[1] }] })"
    open_player(page, autoplay=True)
    expect(speed).to_have_value("2")
    page.evaluate(run, [json.dumps(data()), "/traces/next.json"])
    expect(page.locator(".lane")).to_have_count(1)
    expect(speed).to_have_value("1")
    speed.select_option("4")
    page.evaluate(run, [json.dumps(data()), "/traces/last.json"])
    expect(page.locator(".lane-label")).to_have_text("/traces/last.json")
    expect(speed).to_have_value("4")


def test_speedup_is_the_ratio_of_the_lanes_rates(page: Page) -> None:
    open_player(page)
    ratio = spec_trace().stats.tokens_per_second / plain_trace().stats.tokens_per_second
    expect(page.locator(".speedup-value")).to_have_text(f"{ratio:.2f}×")
    expect(page.locator(".provenance:not(.slowed)")).to_have_text(
        "measured · this machine, this run · same text"
    )
    expect(page.locator(".speedup-title")).to_have_text("Measured speedup")
    stop_at(page, 0)
    expect(page.locator(".speedup-value")).to_have_text("—")
    expect(page.locator(".speedup-title")).to_have_text("Measured speedup against Plain")


def test_no_speedup_is_named_before_both_lanes_have_written_enough(page: Page) -> None:
    """Catches: "16× faster" over a lane of one token; the promise of a figure where every lane has ended."""
    least = plain_trace().stats.tokens
    open_player(page, least=least)
    expect(page.locator(".speedup-value")).not_to_have_text("—")
    page.locator(".control.previous").click()
    expect(page.locator(".speedup-value")).to_have_text("—")
    expect(page.locator(".speedup-words")).to_have_text(f"shown after {least} tokens in each lane")
    open_player(page, least=least + 1)
    expect(page.locator(".speedup-words")).to_have_text(f"none: fewer than {least + 1} tokens in a lane")


def test_what_the_scatter_of_the_rounds_explains_is_not_called_faster(page: Page, server: Server) -> None:
    """Other work slows some of the plain lane's rounds. Catches: "faster" over luck, beside "not clearly" below it."""
    record = json.loads(plain_trace().to_json())
    for row in record["rounds"][4:8]:
        row["verify_s"] *= 9
    server.files["/traces/plain.json"] = json.dumps(record)
    server.files["/traces/spec.json"] = spec_trace(ms=22).to_json()
    open_player(page)
    assert float(page.locator(".speedup-value").inner_text().rstrip("×")) > 1.01
    expect(page.locator(".speedup-words")).to_have_text("the speed of Plain: not clearly faster")


def test_a_speedup_above_the_tokens_per_pass_is_called_noise(page: Page, server: Server) -> None:
    """Catches: "faster" of a figure that no guessing can reach, which the tiles below say of it."""
    server.files["/traces/spec.json"] = spec_trace(ms=2).to_json()
    open_player(page)
    most = len(spec_trace().output.ids) / len(spec_trace().rounds)
    expect(page.locator(".speedup-words")).to_have_text(
        f"the speed of Plain, above its {most:.2f} tokens per pass, so timing noise"
    )


def test_slower_is_said_as_plainly(page: Page, server: Server) -> None:
    server.files["/traces/spec.json"] = spec_trace(ms=60).to_json()
    open_player(page)
    expect(page.locator(".speedup-words")).to_have_text("the speed of Plain: slower")
    assert float(page.locator(".speedup-value").inner_text().rstrip("×")) < 1
