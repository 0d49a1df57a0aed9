"""The part of a configuration about what is written and shown, and where."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class ConfigSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a configuration; unknown keys are errors."""


class CsvConfig(ConfigSection, frozen=True):
    """Which tables are written as CSV."""

    enabled: bool = True
    include_hands: bool = False
    include_sessions: bool = True
    include_aggregate: bool = True
    include_seat_aggregate: bool = False


class JsonConfig(ConfigSection, frozen=True):
    """Whether the results are written as JSON."""

    enabled: bool = True
    pretty: bool = True
    include_config: bool = True


class HtmlConfig(ConfigSection, frozen=True):
    """Whether the report is written; charts are inline SVG with every `chart_library`."""

    enabled: bool = False
    include_charts: bool = True
    chart_library: Literal["svg", "plotly", "matplotlib"] = "svg"


class FormatsConfig(ConfigSection, frozen=True):
    """The file formats that are written."""

    csv: CsvConfig = CsvConfig()
    json: JsonConfig = JsonConfig()
    html: HtmlConfig = HtmlConfig()


ChartName = Literal[
    "session_outcomes_histogram", "bankroll_trajectory", "hand_frequency", "bonus_impact",
    "strategy_comparison",
]  # fmt: skip


class ChartConfig(ConfigSection, frozen=True):
    """One chart."""

    type: ChartName
    title: str | None = None
    sample_sessions: Annotated[int, Meta(ge=1, le=1000)] | None = None


class VisualizationsConfig(ConfigSection, frozen=True):
    """Charts as files of their own."""

    enabled: bool = True
    charts: tuple[ChartConfig, ...] = ()
    format: Literal["png", "svg", "html"] = "svg"
    dpi: Annotated[int, Meta(ge=72, le=600)] = 150


class ConsoleConfig(ConfigSection, frozen=True):
    """What is printed on the terminal."""

    progress_bar: bool = True
    verbosity: Annotated[int, Meta(ge=0, le=3)] = 1
    show_summary: bool = True


class OutputConfig(ConfigSection, frozen=True):
    """Where files go."""

    directory: str = "results"
    prefix: str = "simulation"
    timestamp_format: str = "%Y-%m-%d %H:%M:%S"
    formats: FormatsConfig = FormatsConfig()
    visualizations: VisualizationsConfig = VisualizationsConfig()
    console: ConsoleConfig = ConsoleConfig()
