"""The studies that are run here, as study files would say them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.sizes import Sizes
from orchestrator.spec import Study, load_study, study_from

QUICK_FILE = Path(__file__).parent.parent / "examples" / "quick.yaml"


def small_study(sizes: Sizes) -> Study:
    """The study of the end-to-end comparison: nothing is measured but losses and accuracies.

    One point of the curve, at the end, so that plain Ray Tune has no more and no less to do.
    """
    return study_from(
        {
            "name": "benchmark",
            "task": {"dataset": "mnist-1d"},
            "training": {"epochs": sizes.epochs, "batch_size": 128, "record": 1},
            "rules": list(sizes.rules),
            "grid": {"depth": list(sizes.depths), "width": sizes.width, "seeds": sizes.seeds},
            "search": {
                "lr": {"low": 0.003, "high": 0.3},
                "rounds": sizes.rounds,
                "points": sizes.points,
                "seeds": 1,
            },
            "measure": {"alignment": False, "probes": False},
        }
    )


def quick_study(epochs: int) -> Study:
    """`examples/quick.yaml` with everything it measures, but so many epochs."""
    return load_study(QUICK_FILE, [f"training.epochs={epochs}"])


def many_packs(sizes: Sizes) -> Study:
    """A study of so many cells at a fixed rate: each is one pack, and all are ready at once."""
    return study_from(
        {
            "name": "overhead",
            "task": {"dataset": "mnist-1d"},
            "training": {"steps": 1},
            "rules": ["bp"],
            "grid": {
                "depth": 1,
                "width": list(range(1, sizes.packs + 1)),
                "seeds": sizes.rows,
            },
            "search": {"lr": 0.1},
        }
    )
