"""The control whose hidden layers stay as they were drawn."""

import torch

from rules.bp import BP
from rules.case import Case
from rules.dims import Dims
from rules.net import Net
from rules.settings import Measure, Network, Training
from rules.shallow import Shallow
from rules.task import Examples
from rules.train import Job, advance, start


def test_only_the_readout_is_taught_and_as_by_backpropagation(case: Case):
    lesson, state = Shallow().teach(case.trace(), case.params(), {})
    true, _ = BP().teach(case.trace(), case.params(), {})
    assert not any(s.any() for s in lesson.signals[:-1])
    assert torch.equal(lesson.signals[-1], true.signals[-1])
    assert state == Shallow().init(case.dims, case.streams) == {}


def test_hidden_weights_stay_bit_for_bit_what_they_were():
    x, y = (part[0] for part in Case((5, 7, 7, 3), batch=40).examples())
    training = Training(steps=9, batch_size=16, dtype="float64")
    job = Job(Network(2, 7), training, Shallow(), (0, 1), (0, 1), (0.1, 0.2), Measure())
    learner = start(job, Dims((5, 7, 7, 3)), torch.device("cpu"))
    before = [w.clone() for w in learner.params.weights]
    part = Examples(x, y, 3, 0.0, 1.0, torch.float64)
    advance(Net(), learner, training, part, 9)
    unchanged = [torch.equal(w, v) for w, v in zip(before, learner.params.weights, strict=True)]
    assert unchanged == [True, True, False]
    assert not any(b.any() for b in learner.params.biases[:-1])
