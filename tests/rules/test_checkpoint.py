"""A training stopped after any step and gone on with is the undisturbed one, bit for bit."""

from dataclasses import fields, replace

import pytest
import torch

from rules.bp import BP
from rules.checkpoint import DERIVED, Checkpoints
from rules.dfa import DFA
from rules.learner import Learner
from rules.sdil import SDIL
from rules.settings import Measure, Network, Training
from rules.streams import Streams
from rules.task import Examples, Task
from rules.train import Job, fit

STEPS = 7
NAMES = ("a", "b", "c", "d")
MADE = {"torch": torch.__version__}


def examples(count, name, dtype):
    streams = Streams((3,), torch.float64)
    x, y = (streams.normal(f"{name}/{part}", (count, n))[0] for part, n in (("x", 5), ("y", 3)))
    return Examples(x.to(dtype), y.argmax(-1), 3, 0.0, 1.0, dtype)


def task_of(dtype):
    sizes = (("train", 20), ("validation", 10), ("test", 15))
    return Task(*(examples(count, name, dtype) for name, count in sizes))


TASK = task_of(torch.float32)


class StopError(Exception):
    """The end of a process, after some step."""


def stopping(rule, after):
    """The rule, but for the end of its process."""

    class Stopping(type(rule)):
        def teach(self, trace, params, state):
            if trace.step == after and not trace.measuring:
                raise StopError
            return super().teach(trace, params, state)

    return Stopping(**{name: getattr(rule, name) for name in [f.name for f in fields(rule)]})


def job_of(rule, rates=(0.05, 0.1, 1e4, 0.2), **training):
    """Four networks; the third diverges."""
    training = Training(STEPS, 8, record=(0, 3, 5), **training)
    seeds = ((0, 1, 2, 3), (5, 6, 7, 8))
    return Job(Network(2, 7), training, rule, *seeds, rates, Measure(examples=10))


def part_of(job, places):
    """The job of some of its networks."""
    seeds = [tuple(getattr(job, n)[p] for p in places) for n in ("init_seeds", "feedback_seeds")]
    eta = getattr(job.rule, "eta_A", None)
    rule = replace(job.rule, eta_A=eta[places]) if isinstance(eta, torch.Tensor) else job.rule
    lr = tuple(job.lr[p] for p in places)
    return replace(job, init_seeds=seeds[0], feedback_seeds=seeds[1], lr=lr, rule=rule)


def leave(path, job, after):
    """Train, with a checkpoint after every step, until the process ends after so many steps."""
    keeping = Checkpoints(path, NAMES, MADE, seconds=0)
    with pytest.raises(StopError):
        fit(replace(job, rule=stopping(job.rule, after)), TASK, keeping)
    assert keeping.notes == []


def weights_of(learner):
    """The weights of every network that did not diverge, by its place in the job."""
    tensors = [*learner.params.weights, *learner.params.biases]
    return {r: [t[i].numpy().tobytes() for t in tensors] for i, r in enumerate(learner.replicas)}


def go_on(path, job, places):
    """Go on with these networks; their outcomes as text, their weights, and from which step."""
    keeping = Checkpoints(
        path.with_name("next"), [NAMES[p] for p in places], MADE, seconds=60, start=path
    )
    outcomes, learner = fit(part_of(job, places), TASK, keeping)
    assert keeping.notes == []
    assert not keeping.path.exists()  # the minute was not over
    weights = {places[replica]: kept for replica, kept in weights_of(learner).items()}
    return dict(zip(places, map(repr, outcomes), strict=True)), weights, keeping.resumed


JOBS = {
    "bp": job_of(BP()),
    "dfa with adam": job_of(DFA(), optimizer="adam", schedule="cosine", warmup=2),
    "dfa": job_of(DFA(), momentum=0.5, weight_decay=0.01, normalize_signals=True),
    "sdil": job_of(SDIL(eta_A=torch.tensor([0.1, 0.2, 0.3, 0.4])[:, None, None], pert_every=2)),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_training_stopped_after_any_step_goes_on_bit_for_bit(job, tmp_path):
    outcomes, learner = fit(job, TASK)
    assert [outcome.diverged_step is not None for outcome in outcomes] == [0, 0, 1, 0]
    expected, weights = dict(enumerate(map(repr, outcomes))), weights_of(learner)
    for after in range(1, STEPS):
        path = tmp_path / f"after {after}"
        leave(path, job, after)
        for places in ([0, 1, 2, 3], [0, 1], [2, 3], [3, 0], [2]):
            found, kept, resumed = go_on(path, job, places)
            assert resumed == after
            assert found == {p: expected[p] for p in places}
            assert kept == {p: w for p, w in weights.items() if p in places}


def test_every_part_of_a_learner_is_kept_or_follows_from_its_job():
    """A part added later must be put on one side or the other: it is kept of its own accord."""
    assert set(DERIVED) < set(Learner.__dataclass_fields__)


def damaged(content):
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damaged, "it is damaged"),
        (lambda content: content[: len(content) // 2], "it is damaged"),
        (lambda content: b"", "it is damaged"),
        (lambda content: content.replace(b'"a"', b'"e"'), "it is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_training_starts_anew(tmp_path, damage, reason):
    job = JOBS["dfa"]
    leave(tmp_path / "left", job, 4)
    path = tmp_path / "left"
    path.write_bytes(damage(path.read_bytes()))
    keeping = Checkpoints(tmp_path / "next", NAMES, MADE, seconds=60, start=path)
    outcomes, _ = fit(job, TASK, keeping)
    assert keeping.notes == [f"checkpoint {path} is not used: {reason}"]
    assert keeping.resumed is None
    assert repr(outcomes) == repr(fit(job, TASK)[0])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (replace(JOBS["bp"], network=Network(2, 9)), "it holds other networks' params"),
        (replace(JOBS["bp"], network=Network(3, 7)), "it holds other networks' params"),
        (job_of(BP(), dtype="float64"), "it holds other networks' params"),
    ],
)
def test_a_checkpoint_of_other_networks_is_named_and_training_starts_anew(tmp_path, other, reason):
    leave(tmp_path / "left", JOBS["bp"], 4)
    task = task_of(getattr(torch, other.training.dtype))
    keeping = Checkpoints(tmp_path / "next", NAMES, MADE, 60, tmp_path / "left")
    outcomes, _ = fit(other, task, keeping)
    (note,) = keeping.notes
    assert note.startswith(f"checkpoint {tmp_path / 'left'} is not used: ")
    assert reason in note
    assert repr(outcomes) == repr(fit(other, task)[0])


class Pickled:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_a_checkpoint_runs_no_code(tmp_path):
    from rules.sealed import write

    head = {"networks": NAMES, "step": 4, "made": MADE}
    write(tmp_path / "left", head, lambda file: torch.save({"replicas": Pickled()}, file))
    keeping = Checkpoints(tmp_path / "next", NAMES, MADE, 60, tmp_path / "left")
    fit(JOBS["bp"], TASK, keeping)
    assert "Weights only load failed" in keeping.notes[0]


def test_where_no_checkpoint_can_be_written_that_is_said_once_and_training_goes_on(tmp_path):
    keeping = Checkpoints(tmp_path / "nowhere" / "left", NAMES, MADE, seconds=0)
    outcomes, _ = fit(JOBS["bp"], TASK, keeping)
    assert keeping.notes == [
        f"no checkpoint can be written to {keeping.path}: No such file or directory"
    ]
    assert repr(outcomes) == repr(fit(JOBS["bp"], TASK)[0])
