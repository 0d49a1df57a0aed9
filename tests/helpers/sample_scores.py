"""A script that lets scikit-learn find scores on loky and on Runyard, one JSON line each.

It runs in an empty folder; a worker that finds a file `kill-…` there removes it and dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

FOLDER = Path.cwd()


def score(estimator: Any, features: Any, classes: Any) -> float:
    """The estimator's own score, in a worker that may not live to tell."""
    for victim in FOLDER.glob(f"kill-{type(estimator).__name__}"):
        with contextlib.suppress(FileNotFoundError):
            victim.rename(FOLDER / f"died-{type(estimator).__name__}")
            os.kill(os.getpid(), signal.SIGKILL)
    return float(estimator.score(features, classes))


def find_scores() -> dict[str, list[str]]:
    """Exact scores of four candidates on three folds each, and of one forest on eight."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    problem = make_classification(300, 10, random_state=0)
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [2, 4], "max_features": [2, 3]}
    search = GridSearchCV(tree, grid, cv=3, scoring=score).fit(*problem)
    forest = RandomForestClassifier(n_estimators=5, random_state=0, n_jobs=1)
    cross = cross_val_score(forest, *problem, cv=8, scoring=score)
    return {
        "grid": [float(found).hex() for found in search.cv_results_["mean_test_score"]],
        "cross": [float(found).hex() for found in cross],
    }


def main() -> None:
    from joblib import parallel_config

    from runyard import Yard

    def tell(what: str, found: Any) -> None:
        print(json.dumps([what, found]))

    for backend in ("loky", "runyard"):
        with parallel_config(backend, n_jobs=2):
            tell(backend, find_scores())
    for kind in ("DecisionTreeClassifier", "RandomForestClassifier"):
        Path(f"kill-{kind}").touch()
    with parallel_config("runyard", n_jobs=2):
        tell("killed", find_scores())
    tell("deaths", len(list(FOLDER.glob("died-*"))))
    recorded = {}
    with Yard("yard") as yard:
        for run in ("named", "again"):
            with parallel_config("runyard", n_jobs=2, name="search", yard=yard):
                tell(run, find_scores())
            stats = yard.results("search").stats
            recorded[run] = [stats.total, stats.completed]
    tell("recorded", recorded)


if __name__ == "__main__":
    main()
