"""Shared by all tests: no network, a device to run on, one browser, and how tests are spread over the cores."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from xdist.scheduler import LoadScopeScheduling

    from specdec_core.models.bundle import Models

# Set before anything imports the hub client: a test that reaches for the network must fail, not wait.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# Models in tests gain little from a second thread, and lose much if it waits for a core that a browser or another
# worker has. Set before anything imports torch; the servers that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


APP, PLAYER = "tests/browser/", "tests/player/"
# What axe passed in one of them is passed in the other.
WITH_AXE = (f"{APP}test_axe.py", f"{APP}test_course.py")
SPENT = pytest.StashKey[float]()
SLOWEST = 30
BEHIND = 10  # the app itself lets its pages wait a little for what decodes
# Of a window that nobody sees: it would load two pages of Chromium's own for the address bar's menus. Of several such
# switches Chromium takes the last, so Playwright's are said again.
WITHOUT = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding",
    "ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "TcpPortRandomizationWin",
    "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
)  # fmt: skip
# A page is loaded, walked through and left within seconds: what V8's last compiler makes of it is seldom used. It is
# left to loops that run long.
LATE = (
    "--invocation-count-for-turbofan=30000",
    "--invocation-count-for-osr=5000",
)  # ten times as many as usual


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a browser, and put the longest first, so that no core is idle at the end.

    Tests in Chromium wait for pages with time limits, which two busy cores miss now and then: they get a second try,
    which the summary reports. One that fails twice fails.
    """
    for item in items:
        if item.nodeid.startswith((APP, PLAYER)):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(APP), item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported by then stays until the end: the collector need not walk over its million objects, neither while
    it grows nor, half a second each time, in the middle of one test after another."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The worker of the pages, which wait for one answer after another, goes before the others, which compute."""
    if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "nice") and not item.nodeid.startswith(APP):
        os.nice(max(0, BEHIND - os.nice(0)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note the processor's seconds of each phase, of this process and of those it waited for."""
    report = yield
    spent = sum(os.times()[:4])
    report.processor_s = spent - item.config.stash.get(SPENT, spent)
    item.config.stash[SPENT] = spent
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which files take longest, and which tests needed a second try."""
    files: Counter[str] = Counter()
    processor: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "processor_s"):
                files[report.nodeid.split("::")[0]] += report.duration
                processor[report.nodeid.split("::")[0]] += report.processor_s
    if len(files) > SLOWEST:
        terminalreporter.section(f"{SLOWEST} slowest files: seconds, and of them the processor's")
        for name, seconds in files.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:7.1f} {processor[name]:7.1f}  {name}")
        total = f"{files.total():7.1f} {processor.total():7.1f}  all {len(files)} files"
        terminalreporter.write_line(total)
        terminalreporter.write_line(f"Second tries: {len(terminalreporter.stats.get('rerun', []))}.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """One file per worker at a time, and those that need the running app on two, each with its own: more would slow
    each other down, and one alone would be the last to end. The player's files need a browser alone, which starts
    within a second."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith(APP):
                return super()._split_scope(nodeid)
            return "with axe" if nodeid.startswith(WITH_AXE) else APP

    return Files(config, log)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The CPU, and the GPU if there is one."""
    name: str = request.param
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("this machine has no CUDA device")
    return name


@pytest.fixture(scope="session")
def chat_models() -> Models:
    """SmolLM2 135M Instruct, converted by the first test that needs it. If it is unavailable, tests are skipped, and
    fail in CI."""
    import specdec_core as sd
    from specdec_core.models import catalogue

    try:
        return sd.load_models(catalogue.CHAT, device="cpu", dtype="float32")
    except sd.ModelError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, or Playwright's own; without either, tests are skipped, and fail in CI."""
    from playwright.sync_api import Error, sync_playwright

    path = chromium()
    # Root in a container has no sandbox.
    arguments = [
        "--no-sandbox",
        "--font-render-hinting=none",  # letters as wide in the shell as in the whole Chromium
        "--disable-background-networking",
        f"--disable-features={','.join(WITHOUT)}",
        f"--js-flags={' '.join(LATE)}",
    ]
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=path, args=arguments)
        except Error as error:
            sentence = (
                "No Chromium was found: run `make test`, or install one (Debian: apt-get install chromium)."
            )
            if os.environ.get("CI"):
                raise RuntimeError(sentence) from error
            pytest.skip(sentence)
        yield opened
        opened.close()
