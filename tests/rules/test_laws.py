"""What holds for every rule: independent replicas, packs that change nothing, pure teaching."""

import os
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from rules import catalog
from rules.case import Case
from rules.dfa import DFA
from rules.dims import Dims, dims_of
from rules.drtp import DRTP
from rules.fa import FA
from rules.learner import Learner, keep_rule
from rules.local_loss import LocalLoss
from rules.net import Net
from rules.node_perturbation import NP
from rules.pc import PC
from rules.pepita import PEPITA
from rules.record import Outcome
from rules.rule import Rule, State
from rules.sdil import SDIL
from rules.settings import Measure, Network, Training
from rules.shallow import Shallow
from rules.streams import Streams
from rules.task import Examples, Task
from rules.train import Job, advance, fit, start, train
from rules.wm import WM

INPUTS, CPU = 10, torch.device("cpu")
BUILT_IN = [catalog.find(name)() for name in catalog.BUILT_IN]
each_rule = pytest.mark.parametrize("rule", BUILT_IN, ids=catalog.BUILT_IN)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])

SHAPED = {"bp", "fa", "kp", "sdil", "np"}
"""Rules that between them form every kind of product."""
WIDTHS = [
    pytest.param(rule, width, id=f"{width}-{name}")
    for name, rule in zip(catalog.BUILT_IN, BUILT_IN, strict=True)
    for width in ((24, 31, 47, 64) if name in SHAPED else (31, 64))
]


COMPILED = BUILT_IN if os.environ.get("RULESWEEP_LONG") else [SDIL(pert_every=2)]
each_compiled = pytest.mark.parametrize("rule", COMPILED, ids=lambda rule: type(rule).__name__)


def small_task(count: int, dtype: str, classes: int | None = 5) -> Task:
    """A task of `count` training examples that can be learned; of one output without classes."""
    kind = getattr(torch, dtype)

    def part(name: str, size: int) -> Examples:
        x = Streams((7,), kind).normal(name, (size, INPUTS))[0]
        y = x[:, :classes].argmax(-1) if classes else x[:, :1] * x[:, 1:2]
        return Examples(x, y, classes, 0.0, 1.0, kind)

    return Task(part("train", count), part("validation", 30), part("test", 35))


def job_of(rule: Rule, dtype: str, replicas: int = 5, width: int = 16, **training: object) -> Job:
    """A pack of networks that differ in seeds and learning rates."""
    options = {"steps": 3, "batch_size": 64, "record": (2,), "weight_decay": 1e-3}
    places = range(replicas)
    return Job(
        Network(depth=2, width=width),
        Training(**options | {"dtype": dtype} | training),
        rule,
        tuple(3 + p for p in places),
        tuple(40 + p for p in places),
        tuple(0.01 * (1 + p) for p in places),
        Measure(),
    )


def one_of(job: Job, place: int) -> Job:
    """The same job for one of its networks alone."""
    lone = {name: (getattr(job, name)[place],) for name in ("init_seeds", "feedback_seeds", "lr")}
    return replace(job, rule=keep_rule(job.rule, [place]), **lone)


def same(some: Outcome, other: Outcome) -> bool:
    """Equal in every bit; NaN equals NaN."""
    return repr(some) == repr(other)


def check_pack(job: Job, task: Task) -> None:
    pack = train(job, task)
    assert len(pack[0].points) == 3
    for place, outcome in enumerate(pack):
        assert same(outcome, *train(one_of(job, place), task))


@pytest.mark.parametrize(("rule", "width"), WIDTHS)
@each_dtype
def test_a_network_does_not_depend_on_its_pack(rule: Rule, dtype: str, width: int):
    check_pack(job_of(rule, dtype, width=width), small_task(64 + 16, dtype))


@each_rule
@each_dtype
@pytest.mark.parametrize("width", [1, 31])
def test_nor_with_single_units_examples_and_outputs(rule: Rule, dtype: str, width: int):
    job = job_of(rule, dtype, width=width, loss="squared")
    check_pack(job, small_task(64 + 1, dtype, classes=None))


@each_rule
@each_dtype
def test_nor_with_full_batches_skips_relu_and_normalised_signals(rule: Rule, dtype: str):
    job = job_of(rule, dtype, width=31, batch_size=100, normalize_signals=True)
    network = replace(job.network, activation="relu", residual=True, bias=False)
    check_pack(replace(job, network=network), small_task(77, dtype))


@each_dtype
def test_nor_with_sigmoid_units(dtype: str):
    job = job_of(FA(), dtype, width=31)
    check_pack(
        replace(job, network=replace(job.network, activation="sigmoid")), small_task(80, dtype)
    )


@each_dtype
@pytest.mark.parametrize("width", [1, 31, 64])
def test_nor_with_another_optimizer_and_a_schedule(dtype: str, width: int):
    job = job_of(FA(), dtype, width=width, optimizer="adam", schedule="cosine", warmup=2)
    check_pack(job, small_task(80, dtype))


@pytest.mark.parametrize(
    ("rule", "option"), [(FA, "scale"), (DFA, "scale"), (SDIL, "eta_A"), (WM, "lam_B")]
)
def test_nor_with_options_of_its_own(rule: type, option: str):
    values = torch.linspace(0.1, 0.8, 5).reshape(-1, 1, 1)
    check_pack(job_of(rule(**{option: values}), "float32"), small_task(80, "float32"))


@pytest.mark.usefixtures("compiler")
@each_compiled
def test_nor_where_its_step_is_compiled(rule: Rule):
    """Two steps of an epoch, of which the second, on the 16 examples left, is not compiled.

    However many steps and replicas: one piece of code, or two for a rule with steps of two kinds.
    """
    from torch._dynamo.utils import counters

    made = counters["stats"]["unique_graphs"]
    options = {"steps": 5, "optimizer": "adam", "schedule": "cosine", "warmup": 2}
    job, task = job_of(rule, "float64", width=7, **options), small_task(64 + 16, "float64")
    compiled = replace(job, training=replace(job.training, compile=True))
    for ours, theirs in zip(*(fit(j, task)[1].params for j in (compiled, job)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    check_pack(compiled, task)
    assert 0 < counters["stats"]["unique_graphs"] - made <= 2


@each_rule
@each_dtype
def test_a_diverging_network_is_reported_and_changes_no_other(rule: Rule, dtype: str):
    check_diverging(rule, dtype)


def test_a_diverging_network_takes_its_moments_with_it():
    check_diverging(FA(), "float32", optimizer="adam", schedule="cosine")


@pytest.mark.usefixtures("compiler")
def test_nor_does_it_where_steps_are_compiled():
    scale = torch.tensor([0.5, 1.0, 1.5, 2.0]).reshape(-1, 1, 1)
    check_diverging(FA(scale), "float32", compile=True)


@pytest.mark.usefixtures("compiler")
def test_every_width_is_compiled_for_itself_whatever_was_before():
    """And not for all widths once there have been two, which gives other numbers."""
    from torch._dynamo.utils import counters

    made = [counters["stats"]["unique_graphs"]]
    for width in (3, 4, 5):
        job = job_of(Shallow(), "float32", width=width, compile=True, batch_size=100)
        train(job, small_task(64, "float32"))
        made.append(counters["stats"]["unique_graphs"])
    assert [after - before for before, after in pairwise(made)] == [1, 1, 1]


def check_diverging(rule: Rule, dtype: str, **training: object) -> None:
    task = small_task(80, dtype)
    job = job_of(rule, dtype, replicas=4, steps=6, record=(2, 4), **training)
    wild = replace(job, lr=(job.lr[0], 1e30, job.lr[2], 1e5))
    calm, mixed = train(job, task), train(wild, task)
    assert [same(a, b) for a, b in zip(calm, mixed, strict=True)] == [True, False, True, False]
    assert [outcome.diverged_step is None for outcome in mixed] == [True, False, True, False]
    for outcome in (mixed[1], mixed[3]):
        assert outcome.diverged_step < 4
        assert [point.step for point in outcome.points] in ([0], [0, 2])
        assert outcome.probe_accuracy is None
    for place in range(4):
        assert same(mixed[place], *train(one_of(wild, place), task))


@each_rule
@each_dtype
def test_signals_and_state_ignore_the_data_and_seeds_of_other_networks(rule: Rule, dtype: str):
    case = Case(dtype=getattr(torch, dtype))
    ours, theirs = case, replace(case, seeds=(7, 1, 9))
    for a, b in zip(learned(rule, ours), learned(rule, theirs), strict=True):
        assert torch.equal(a[1], b[1])


def learned(rule: Rule, case: Case) -> list[Tensor]:
    lesson, state = taught(rule, case)
    return [*lesson.signals, *(t for tensors in state.values() for t in tensors)]


def taught(rule: Rule, case: Case) -> tuple:
    """What the rule teaches in its second step; sdil is silent in its first."""
    return rule.teach(case.trace(), case.params(), second_state(rule, case))


def second_state(rule: Rule, case: Case) -> State:
    first = rule.init(case.dims, case.streams)
    return rule.teach(case.trace(), case.params(), first)[1]


@each_rule
def test_updates_ignore_the_learning_rates_of_other_networks(rule: Rule):
    task, job = small_task(80, "float32"), job_of(rule, "float32", replicas=3)
    other = replace(job, lr=(0.5, job.lr[1], 1e-5))
    assert same(train(job, task)[1], train(other, task)[1])


@pytest.mark.parametrize("rule", [r for r in BUILT_IN if not isinstance(r, NP)], ids=str)
def test_permuting_the_batch_permutes_the_signals(rule: Rule):
    """But for np, whose signals are the noise of an example's place in the batch."""
    case, order = Case(), torch.tensor([3, 0, 5, 1, 4, 2])
    state, (x, targets) = second_state(rule, case), case.examples()
    permuted = case.net.trace(case.params(), x[:, order], targets[:, order], case.streams, 0)
    found, _ = rule.teach(permuted, case.params(), state)
    for s, t in zip(found.signals, taught(rule, case)[0].signals, strict=True):
        torch.testing.assert_close(s, t[:, order], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "rule", [r for r in BUILT_IN if not isinstance(r, DRTP | NP | LocalLoss | PEPITA)], ids=str
)
def test_without_an_error_there_are_no_signals(rule: Rule):
    """But for the rules whose signals come not, or not all, from the error that they are told."""
    trace = Case().trace()
    silent = replace(trace, error=torch.zeros_like(trace.error))
    lesson, _ = rule.teach(silent, Case().params(), second_state(rule, Case()))
    assert not any(s.any() for s in lesson.signals)


@each_rule
@each_dtype
def test_teaching_twice_is_the_same_and_leaves_global_generators_alone(rule: Rule, dtype: str):
    case = Case(dtype=getattr(torch, dtype))
    before = random.getstate(), str(np.random.get_state()), torch.get_rng_state()  # noqa: NPY002
    assert all(map(torch.equal, learned(rule, case), learned(rule, case)))
    assert random.getstate() == before[0]
    assert str(np.random.get_state()) == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


@each_rule
@pytest.mark.parametrize("first", [0, 1, 3, 4, 5])
def test_training_can_stop_at_any_step_and_go_on(rule: Rule, first: int):
    optimizer = "adam" if first == 3 else "sgd"
    job = job_of(rule, "float32", steps=7, batch_size=20, optimizer=optimizer, schedule="linear")
    task = small_task(3 * 20 + 5, "float32")
    dims = dims_of(job.network, INPUTS, 5)
    whole, parts = (start(job, dims, CPU) for _ in range(2))
    for stop, learner in [(7, whole), (first, parts), (7, parts)]:
        advance(Net(), learner, job.training, task.train, stop)
    assert whole.step == parts.step == 7
    assert all(map(torch.equal, numbers(whole), numbers(parts)))


@pytest.mark.parametrize(
    "rule",
    [*BUILT_IN, SDIL(pert_ndirs=3, pert_every=4), NP(pert_ndirs=3), PC(prediction="strict")],
    ids=str,
)
def test_a_step_takes_the_operations_that_the_rule_and_the_core_state(rule: Rule):
    part, job = small_task(4 * 5, "float64").train, job_of(rule, "float64", 1, batch_size=5)
    dims, counted = Dims((INPUTS, 6, 7, 8, 5)), []
    learner = start(job, dims, CPU)
    advance(counting_net(counted), learner, job.training, part, 4)
    assert sum(counted) == 4 * 5 * (dims.core_operations + rule.operations(dims))


def counting_net(counted: list[int]) -> Net:
    """A network that notes the operations of its products."""

    class Counting(Net):
        @staticmethod
        def product(a: Tensor, b: Tensor) -> Tensor:
            counted.append(2 * a.shape[1] * a.shape[2] * b.shape[2])
            return Net.product(a, b)

    return Counting()


def numbers(learner: Learner) -> list[Tensor]:
    tensors = [t for part in (learner.params, *learner.moments) for t in part]
    return [*tensors, *(t for kept in learner.state.values() for t in kept), learner.lasted]
