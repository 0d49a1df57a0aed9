"""No text of a report runs into another, on a phone, a tablet or a screen, however long it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from report_kit import Project

WIDTHS = [320, 360, 720, 800, 1200]

LARGE = """
def large(ctx, the_name_of_a_parameter, scale):
    profit = float(ctx.rng.normal(-2.5e7, 1e8)) * scale
    return {"profit": profit, "a metric whose name takes quite some room": profit / 3e5,
            "tiny": profit * 1e-14, "won": profit > 0}
"""

GAME = """
simulation: {num_sessions: 400, hands_per_session: 50, random_seed: 3}
bankroll: {starting_amount: 9000000, base_bet: 20000}
bonus_strategy: {enabled: true, type: always, always: {amount: 9000}, limits: {max_bet: 10000}}
output: {formats: {html: {enabled: true}}}
"""

USERS = """
from runyard.doors.malice import Parts
from runyard.doors.malice.society.agents import Malicious, Promoter

def crowd():
    users = [Promoter(f"a-user-with-a-long-name-{number}") for number in range(14)]
    return Parts(agents=[*users, Malicious("mallory")])
"""

CROWDED = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, title, details:not([open])")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const shown = parent.closest(".scroll")?.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      const left = Math.max(box.left, shown?.left ?? box.left);
      const right = Math.min(box.right, shown?.right ?? box.right);
      if (right - left < 1) continue;
      texts.push({node, text: node.data.trim(), left, right, top: box.top, bottom: box.bottom,
                  held: Boolean(shown)});
    }
  }
  const met = [];
  for (const [at, one] of texts.entries()) {
    if (!one.held && (one.left < 0 || one.right > innerWidth)) met.push([one.text, "the edge"]);
    for (const other of texts.slice(at + 1)) {
      if (one.node === other.node) continue;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (across > 1 && down > 4) met.push([one.text, other.text]);  // lines may be set tight
    }
  }
  return met;
}"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a batch with many groups, long names and large figures."""
    project = Project(tmp_path_factory.mktemp("large"))
    (project.folder / "jobs.py").write_text(LARGE)
    names = [f"variant-number-{number}-of-many" for number in range(11)]
    names.append("a/name/without/a/space/" * 4)
    project.run("large", "figures", the_name_of_a_parameter=names, scale=[1, 3000], replicates=4)
    project.report("figures")
    return project.batch("figures") / "report.html"


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a game for millions."""
    project = Project(tmp_path_factory.mktemp("game"))
    (project.folder / "game.yaml").write_text(GAME)
    answer = project("letitride", "run", "game.yaml", "--workers", "1")
    assert answer.code == 0, answer.err
    return project.folder / "results" / "simulation_report.html"


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a social vote among many users with long names."""
    project = Project(tmp_path_factory.mktemp("votes"))
    (project.folder / "users.py").write_text(USERS)
    words = "malice run --runs 6 --seed 7 --workers 1 --tag votes --parts users.py:crowd"
    answer = project(*words.split())
    assert answer.code == 0, answer.err
    assert project("report", "malice-votes").code == 0
    return project.batch("malice-votes") / "report.html"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["large", "game", "votes"])
def test_no_text_runs_into_another(
    browser: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    report: Path = request.getfixturevalue(which)
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        assert page.evaluate(CROWDED) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_long_name_in_a_table_leaves_room_for_its_figures(browser: Browser, large: Path) -> None:
    with browser.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        page.goto(large.as_uri())
        shares = page.evaluate("""() => [...document.querySelectorAll(".scroll tbody th")].map(
            name => name.offsetWidth / name.closest(".scroll").offsetWidth)""")
    assert shares
    assert max(shares) < 0.7


def test_labels_of_several_lines_are_told_apart(browser: Browser, large: Path) -> None:
    with browser.new_context(viewport={"width": 1200, "height": 800}) as context:
        page = context.new_page()
        page.goto(large.as_uri())
        gaps = page.evaluate("""() => {
            const box = label => {
                const range = document.createRange();
                range.selectNodeContents(label);
                return range.getBoundingClientRect();
            };
            return [...document.querySelectorAll(".row + .row > .label")].map(label =>
                box(label).top - box(label.parentElement.previousSibling.firstChild).bottom);
        }""")
    assert gaps
    assert min(gaps) >= 4
