"""What is told to Tune."""

import pytest
from ray.tune.experiment import Trial

from orchestrator.schedule import InTurn


@pytest.fixture
def queue():
    """A scheduler, and four trials that it was given."""
    scheduler, trials = InTurn(), [Trial("pack", stub=True) for _ in range(4)]
    for trial in trials:
        scheduler.on_trial_add(None, trial)
    return scheduler, trials


def test_trials_start_in_the_order_in_which_they_came(queue):
    scheduler, trials = queue
    for trial in trials:
        assert scheduler.choose_trial_to_run(None) is trial
        assert scheduler.choose_trial_to_run(None) is trial  # until it has started
        trial.set_status(Trial.RUNNING)
    assert scheduler.choose_trial_to_run(None) is None


def test_one_that_starts_before_its_turn_is_passed_over(queue):
    scheduler, (first, second, third, _) = queue
    second.set_status(Trial.RUNNING)
    assert scheduler.choose_trial_to_run(None) is first
    first.set_status(Trial.ERROR)
    assert scheduler.choose_trial_to_run(None) is third
