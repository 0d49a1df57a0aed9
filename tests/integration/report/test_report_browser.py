"""The report in real Chromium, opened from disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from report_kit import HOSTILE, Project


@pytest.fixture
def report(told: Project, text: str) -> Path:
    """The file that is opened."""
    path = told.batch("tills") / "report.html"
    assert path.read_text(encoding="utf-8") == text
    return path


def opened(page: Page, report: Path) -> list[str]:
    """Open it; everything that the page asked for or complained about."""
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    page.goto(report.as_uri())
    return heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_opens_without_a_request_or_a_complaint_and_fits_the_screen(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    with browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    ) as context:
        page = context.new_page()
        assert opened(page, report) == [report.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (
            scheme == "dark"
        )
        light = page.evaluate(_BRIGHTNESS.format("backgroundColor"))
        ink = page.evaluate(_BRIGHTNESS.format("color"))
        assert (light > ink) == (scheme == "light")
        assert page.get_by_text(HOSTILE).count() > 0
        _texts_do_not_leave_the_page(page, width)


_BRIGHTNESS = """
    getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3)
        .reduce((sum, part) => sum + Number(part), 0)
"""


def _texts_do_not_leave_the_page(page: Page, width: int) -> None:
    """Labels of charts stay inside the window; tables may be scrolled by themselves."""
    boxes = page.evaluate(
        "[...document.querySelectorAll('.chart text, .chart .label, .chart .note, h1, h2, h3, p')]"
        ".map(e => e.getBoundingClientRect()).filter(b => b.width).map(b => [b.left, b.right])"
    )
    assert boxes
    assert all(left >= 0 and right <= width for left, right in boxes)


def test_on_paper_it_is_light_and_everything_is_open(browser: Browser, report: Path) -> None:
    with browser.new_context(color_scheme="dark") as context:
        page = context.new_page()
        opened(page, report)
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
        assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_it_can_be_read_without_scripts(browser: Browser, report: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        assert opened(page, report) == [report.as_uri()]
        assert page.get_by_role("heading", name="Comparison").is_visible()
        assert page.get_by_role("img", name="worker 0").first.is_visible()


def test_a_click_on_a_head_sorts_the_table(browser: Browser, report: Path) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        opened(page, report)
        tables = page.locator("table.sortable").filter(has_text="median")
        head = tables.first.get_by_role("button", name="mean")
        column = "[...document.querySelectorAll('table.sortable')].find(" \
            "t => t.textContent.includes('median')).tBodies[0]"  # fmt: skip
        means = f"[...{column}.rows].map(row => parseFloat(row.cells[2].textContent))"
        head.click()
        rising = page.evaluate(means)
        assert rising == sorted(rising)
        head.click()
        assert page.evaluate(means) == rising[::-1]


def test_marks_differ_in_shape_not_only_in_colour(browser: Browser, report: Path) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        opened(page, report)
        shapes = page.evaluate(
            "[...document.querySelectorAll('.mark path, .sign path')]"
            ".map(path => [path.className.baseVal, path.getAttribute('d')])"
        )
    kinds = dict(shapes)
    assert {"square", "triangle", "diamond"} <= set(kinds)
    assert len(set(kinds.values())) == len(kinds)
