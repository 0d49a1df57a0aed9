"""Configuration files in YAML (`.yaml`, `.yml`) or TOML (`.toml`), and a template."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from runyard.doors.letitride.config.model import FullConfig
from runyard.errors import NotFound, RunyardError, UsageError
from runyard.spaces import read_text
from runyard.spec import toml


def read_file(path: str | Path) -> FullConfig:
    """Read the configuration in a file; errors start with the file's name."""
    place = Path(path)
    reader = _READERS[_suffix(place)]
    try:
        text = read_text(place)
    except FileNotFoundError:
        raise NotFound(
            f"file not found: {place}", hint="`runyard letitride init` writes one"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place} can't be read: {error}") from None
    try:
        return FullConfig.from_data(reader(text))
    except RunyardError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from None


def starting_text(path: str | Path = "letitride.yaml") -> str:
    """The template for such a file: every key with its default and a comment."""
    name = "init.toml" if _suffix(Path(path)) == ".toml" else "init.yaml"
    return files("runyard.doors.letitride.config").joinpath(name).read_text(encoding="utf-8")


def _suffix(path: Path) -> str:
    """The suffix that determines a file's format."""
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise UsageError(
            f"{path}: the format of a configuration is given by its suffix",
            hint="use .yaml, .yml or .toml",
        )
    return suffix


def _read_toml(text: str) -> dict[str, Any]:
    try:
        return toml.loads(text)
    except ValueError as error:
        raise UsageError(f"not valid TOML: {error}") from None


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "reading YAML needs PyYAML, which is not installed",
            hint="pip install 'runyard[letitride]', or write the configuration as TOML",
        ) from None

    class Loader(yaml.SafeLoader):
        """Refuses duplicate keys, of which only the last would count."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, str) and key in seen:
                    line = key_node.start_mark.line + 1
                    raise UsageError(f"duplicate key {key!r} (line {line})")
                if isinstance(key, str):
                    seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        found = yaml.load(text, Loader=Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise UsageError(f"not valid YAML: {error}") from None
    except RecursionError:
        raise UsageError("the YAML is nested too deeply") from None
    except ValueError as error:  # an impossible number or date
        raise UsageError(f"not valid YAML: {error}") from None
    return {} if found is None else found


_READERS: dict[str, Callable[[str], Any]] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".toml": _read_toml,
}
