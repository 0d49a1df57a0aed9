"""Draw `report.png`, the README's picture: a real batch, its report, real Chromium.

.venv/bin/python docs/pictures/draw.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import runyard as ry
from runyard.reports.html import write_report

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def day(ctx: ry.Context, name: str, tills: int, speed: float) -> dict[str, float]:  # noqa: ARG001
    """How long customers of a shop wait in a day."""
    gaps = ctx.rng.exponential(0.7, 300).tolist()
    services = ctx.rng.exponential(1 / speed, 300).tolist()
    free, now, waited = [0.0] * tills, 0.0, 0.0
    for gap, service in zip(gaps, services, strict=True):
        now += gap
        till = free.index(min(free))
        start = max(now, free[till])
        waited += start - now
        free[till] = start + service
    return {"minutes waited": waited / 300}


def draw(page_of: Path) -> None:
    """Take the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 960, "height": 1180}, color_scheme="light")
        page.goto(page_of.as_uri())
        metrics = page.get_by_role("heading", name="Metrics")
        metrics.evaluate("heading => scrollTo(0, heading.getBoundingClientRect().top - 24)")
        page.screenshot(path=HERE / "report.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
        batch = ry.batch(
            day,
            variants=[
                {"name": "two tills", "tills": 2, "speed": 1.0},
                {"name": "two faster tills", "tills": 2, "speed": 1.2},
                {"name": "three slow tills", "tills": 3, "speed": 0.8},
            ],
            replicates=2000,
            seed=3,
            name="tills",
            common_random_numbers=True,
        )
        result = yard.run(batch)
        draw(write_report(result, yard.batch_folder("tills"), metrics=["minutes waited"]))
