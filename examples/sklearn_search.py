"""A scikit-learn search that survives the death of its workers and its script, with one added line.

With a name, every fit is recorded. The second search reads all of them from the record; it would do
so too if the script had been killed in the middle, or if the grid had more candidates.
"""

import tempfile

from joblib import parallel_config
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import runyard as ry


def search() -> GridSearchCV:
    """Fit eight candidates on five folds, without any reference to Runyard."""
    grid = {"max_depth": [1, 2, 3, 4], "min_samples_leaf": [1, 5]}
    features, classes = load_iris(return_X_y=True)
    return GridSearchCV(DecisionTreeClassifier(random_state=0), grid, cv=5).fit(features, classes)


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    for run in ("first", "second"):
        before = yard.status()[0].stats.completed if yard.status() else 0
        with parallel_config("runyard", n_jobs=2, name="iris", yard=yard):
            found = search()
        fits = yard.status()[0].stats.completed
        print(f"{run} search: {fits - before} fits run, {before} already recorded")
        print(f"  best {found.best_score_:.3f} with {found.best_params_}")
