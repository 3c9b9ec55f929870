import os
import platform
import subprocess
import sys

import pytest
import torch

from rules import catalog
from rules.dims import dims_of
from rules.memory import Held, bytes_each, share
from rules.pack_size import roughly
from rules.settings import Network, Training
from rules.task import Examples, Task
from rules.train import Job, fit

PAGES_OF_A_STEP = """
from resource import RUSAGE_SELF, getrusage

import torch
from rules.bp import BP
from rules.dims import dims_of
from rules.memory import keep_freed
from rules.net import Net
from rules.settings import Network, Training
from rules.task import Examples
from rules.train import Job, advance, start

keep_freed()
torch.set_num_threads(1)
network, training, seeds = Network(10, 64), Training(steps=1, batch_size=128), tuple(range(8))
job = Job(network, training, BP(), seeds, seeds, (0.01,) * 8, None)
learner = start(job, dims_of(network, 40, 10), torch.device("cpu"))
x, y = torch.ones(256, 40), torch.arange(256) % 10
examples = Examples(x, y, 10, 0.0, 1.0, torch.float32)
advance(Net(), learner, training, examples, 20)  # the first steps ask for the memory
before = getrusage(RUSAGE_SELF).ru_minflt
advance(Net(), learner, training, examples, 60)
print((getrusage(RUSAGE_SELF).ru_minflt - before) / 40)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_a_step_uses_the_memory_of_the_last_one_and_asks_the_system_for_none():
    run = subprocess.run([sys.executable, "-c", PAGES_OF_A_STEP], stdout=-1, check=True)
    assert float(run.stdout) < 64  # of some 2,000 that it would ask for


def test_bytes_count_while_a_tensor_or_a_view_of_it_lives():
    with Held() as held:
        a = torch.ones(1000)
        b = a + 1
        view = b.view(10, 100).mT
        del a, b
        assert held.most == 8000
        c = torch.ones(10, dtype=torch.float64)
        assert held.most == 8000
        del view
        d = torch.ones(1900)
    assert held.most == 8000
    del c, d


def jobs(rule, width, batch):
    """A task, and a job of so many networks of depth 4 for it."""
    x, y = torch.ones(1200, 20), torch.arange(1200) % 5
    train = Examples(x, y, 5, 0.0, 1.0, torch.float32)
    network, training = Network(4, width), Training(steps=2, batch_size=batch)

    def make(count):
        seeds = tuple(range(count))
        return Job(network, training, catalog.find(rule)(), seeds, seeds, (0.01,) * count, None)

    return make, Task(train, None, None), dims_of(network, 20, 5)


@pytest.mark.parametrize("rule", sorted(catalog.names()))
@pytest.mark.parametrize(("width", "batch"), [(8, 8), (32, 128), (128, 8)])
def test_the_bytes_of_a_network_tell_what_a_pack_takes(rule, width, batch):
    make, task, dims = jobs(rule, width, batch)
    each = bytes_each(make, task)

    def taken(count):
        with Held() as held:
            fit(make(count), task)
        return held.most

    assert taken(12) - taken(1) == pytest.approx(11 * each, rel=0.05)
    assert each > 2 * 4 * dims.parameter_count  # weights and their momentum
    assert each / 3 < roughly(dims, 4) < 10 * each


def test_workers_of_a_machine_share_its_memory():
    one, all_ = share("cpu", 1, 1.0), share("cpu", 10**6, 1.0)
    assert one == all_ // os.cpu_count()
    assert share("cpu", 2, 1.0) in (2 * one, 2 * one + 1, all_)
