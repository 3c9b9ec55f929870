"""Packs of networks on a GPU: `python -m benchmarks.gpu`. Needs rules/, torch and numpy only.

Networks x steps a second against the size of a pack, on one CPU thread, on the GPU step by step,
as a CUDA graph and compiled, in float32 and TF32; memory; the share of the device's own batched
product; and how far a network in a pack is from the same one alone. Under five minutes; without a
GPU the CPU's part runs, compiled too.
"""

from __future__ import annotations

import json
import platform
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from rules.bp import BP
from rules.compiled import compiling
from rules.compiled import step as compiled_step
from rules.dims import dims_of
from rules.learner import Learner
from rules.memory import bytes_each, keep_freed
from rules.net import Net
from rules.optimizer import Scales
from rules.settings import Network, Training
from rules.task import Examples, Task
from rules.train import Job, start, take_step

BATCH, EXAMPLES, CLASSES = 128, 8192, 10
SHAPES = ((Network(6, 64), 40, (1, 16, 64, 256, 1024)), (Network(6, 256), 784, (1, 16, 64, 256)))
"""Networks, their inputs, and the sizes of packs."""

ON_CPU = (1, 16)
START = Scales(1.0, 1.0, 1.0)  # of sgd at a constant rate
Step = Callable[[torch.Tensor], None]
Row = dict[str, Any]


@dataclass
class Pack:
    """Networks of one shape on a device, and the examples that they share."""

    network: Network
    inputs: int
    count: int
    device: torch.device

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(EXAMPLES, self.inputs, generator=generator).to(self.device)
        y = (torch.arange(EXAMPLES) % CLASSES).to(self.device)
        self.examples = Examples(x, y, CLASSES, 0.0, 1.0, torch.float32)
        self.net = Net(self.network.activation, self.network.residual)
        self.dims = dims_of(self.network, self.inputs, CLASSES)
        self.training = Training(steps=1, batch_size=BATCH)
        self.order = torch.randint(EXAMPLES, (self.count, BATCH), generator=generator)
        self.order = self.order.to(self.device)

    def learner(self, seeds: range | None = None) -> Learner:
        """Fresh networks, of the seeds 0, 1, ... unless told otherwise."""
        return start(self.job(tuple(seeds or range(self.count))), self.dims, self.device)

    def job(self, seeds: tuple[int, ...]) -> Job:
        """Backpropagation at one rate."""
        rates = (0.01,) * len(seeds)
        return Job(self.network, self.training, BP(), seeds, seeds, rates, None)

    def counted(self) -> int:
        """Bytes of all networks while they train and are evaluated, as a worker counts them."""
        task = Task(self.examples, None, None)
        return self.count * bytes_each(lambda count: self.job(tuple(range(count))), task)

    def step(self, learner: Learner, *, compile: bool = False) -> Step:
        """One step on the examples at an index (replica, batch), in place."""

        def step(index: torch.Tensor) -> None:
            batch = self.examples.take(index)
            if compile:
                with compiling():
                    compiled_step(take_step, self.net, learner, self.training, batch, START)
            else:
                take_step(self.net, learner, learner.streams, self.training, batch, START)

        return step

    @property
    def operations(self) -> float:
        """Floating-point operations of a step of all networks: products only."""
        each = self.dims.core_operations + BP().operations(self.dims)
        return float(self.count * BATCH * each)


def eager(pack: Pack, learner: Learner) -> Step:
    """Call by call."""
    return pack.step(learner)


def compiled(pack: Pack, learner: Learner) -> Step:
    """As `training: {compile: true}` trains."""
    return pack.step(learner, compile=True)


def graph(pack: Pack, learner: Learner) -> Step:
    """All of a step's kernels as one launch."""
    step, index = pack.step(learner), pack.order[: len(learner.replicas)]
    static = index.clone()
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(static)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step(static)

    def replay(index: torch.Tensor) -> None:
        static.copy_(index)
        captured.replay()

    return replay


MODES = {"eager": eager, "graph": graph, "compiled": compiled}


def seconds(work: Callable[[], object], device: torch.device, least: float) -> float:
    """The median of three times that one call takes, each over at least `least` seconds."""

    def clocked(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    clocked(3)
    calls = max(1, round(least / max(1e-6, clocked(3) / 3)))
    return median(clocked(calls) / calls for _ in range(3))


def peak(device: torch.device, least: float) -> float:
    """Floating-point operations a second of the device's own batched product."""
    batch, side = (16, 2048) if device.type == "cuda" else (4, 512)
    a, b = torch.randn(2, batch, side, side, device=device)
    return 2 * batch * side**3 / seconds(partial(torch.bmm, a, b), device, least)


def measured(pack: Pack, mode: str, best: float, least: float) -> Row:
    """The speed of a pack in a mode, its memory, and its share of the device's product."""
    cuda = pack.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    began = time.perf_counter()
    step = MODES[mode](pack, pack.learner())
    step(pack.order)
    made = time.perf_counter() - began
    took = seconds(lambda: step(pack.order), pack.device, least)
    if cuda:
        taken = torch.cuda.max_memory_allocated() - before
    row: Row = {
        "pack": pack.count,
        "mode": mode,
        "networks_steps_a_second": pack.count / took,
        "share_of_product": pack.operations / took / best,
        "seconds_to_make": made,
        "megabytes_counted": pack.counted() / 2**20,
    }
    if cuda:
        row["megabytes"] = taken / 2**20
    return row


def invariance(pack: Pack, mode: str, steps: int = 20) -> float:
    """The largest difference of a weight in a pack from the same one alone, over the largest."""
    together = pack.learner()
    step = MODES[mode](pack, together)
    for _ in range(steps):
        step(pack.order)
    worst = 0.0
    for place in {0, pack.count // 2, pack.count - 1}:
        alone = pack.learner(range(place, place + 1))
        own = pack.order[place : place + 1]
        step = MODES[mode](pack, alone)
        for _ in range(steps):
            step(own)
        for a, b in zip(together.params, alone.params, strict=True):
            worst = max(worst, ((a[place] - b[0]).abs().max() / b.abs().max().clamp(1e-30)).item())
    return worst


def runs(device: torch.device) -> Iterator[tuple[str, Pack, str]]:
    """What is measured: precision, pack, mode. Compiling takes long, so once a shape."""
    cuda = device.type == "cuda"
    for precision in ("float32", "tf32") if cuda else ("float32",):
        for network, inputs, counts in SHAPES:
            own = counts if cuda else tuple(n for n in ON_CPU if n * network.width <= 4096)
            for count in own:
                pack = Pack(network, inputs, count, device)
                yield precision, pack, "eager"
                if cuda:
                    yield precision, pack, "graph"
            if precision == "float32":
                yield precision, Pack(network, inputs, own[-1], device), "compiled"


def main() -> None:
    """Measure on the CPU, then on the GPU where there is one, for as long as the budget lasts."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="a sample lasts at least so long"
    )
    parser.add_argument("--budget", type=float, default=270.0, help="seconds; then it stops")
    parser.add_argument("--out", type=Path, help="a JSON file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    devices = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
    name = torch.cuda.get_device_name() if len(devices) > 1 else "no GPU"
    print(f"torch {torch.__version__}, python {platform.python_version()}, {name}")
    report: Row = {"torch": torch.__version__, "gpu": name, "rows": [], "left_out": 0}
    began = time.perf_counter()
    for device in devices:
        for precision, pack, mode in runs(device):
            if time.perf_counter() - began > given.budget:
                report["left_out"] += 1
                continue
            report["rows"].append(_told(device, precision, pack, mode, given.seconds))
    print(f"{report['left_out']} left out; {time.perf_counter() - began:.0f} s")
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


def _told(device: torch.device, precision: str, pack: Pack, mode: str, least: float) -> Row:
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    where = {"device": device.type, "precision": precision, "width": pack.network.width}
    try:
        row = where | measured(pack, mode, peak(device, least), least)
        if pack.count == 16:
            row["pack_difference"] = invariance(pack, mode)
    except Exception as error:  # a mode that this machine cannot, such as compiling without g++
        line = str(error).strip().partition("\n")[0]
        row = where | {"pack": pack.count, "mode": mode, "error": f"{type(error).__name__}: {line}"}
    print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    return row


if __name__ == "__main__":
    main()
