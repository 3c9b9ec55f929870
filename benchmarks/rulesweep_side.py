"""A study through rulesweep on a Ray of its own, as `rulesweep run` would do it."""

from __future__ import annotations

from benchmarks.sides import answer, arguments
from benchmarks.studies import quick_study, small_study
from orchestrator.driver import run


def main() -> None:
    """Run the study that the arguments name: small or quick."""
    sizes, folder, (which,) = arguments()
    study = small_study(sizes) if which == "small" else quick_study(sizes.memory_epochs)
    result = run(study, folder / "run", address="local", workers=sizes.workers)
    assert result.exit_code == 0, result
    answer(folder, networks=result.trained)


if __name__ == "__main__":
    main()
