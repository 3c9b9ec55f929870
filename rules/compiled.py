"""The training step as machine code of its own: many small passes over a pack become few.

`torch.compile` turns a step into C++ once for every rule, its options and the shape of a network,
for any number of replicas. What a network's numbers are follows from that code alone, and not
from what else is in its pack or trained before in the process: a network comes out the same in
any pack, bit for bit. From the step that is not compiled it may differ in the last bits.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, library

from rules.optimizer import Scales
from rules.streams import Streams

if TYPE_CHECKING:
    from rules.learner import Learner
    from rules.net import Net
    from rules.settings import Training

Step = Callable[..., None]

MOST = 10**6
"""Steps of unlike code that a process may keep; `torch.compile` gives up after eight."""


class CompilerError(RuntimeError):
    """A step cannot be compiled: the machine has no compiler, or the rule is not made for it."""


def step(
    eager: Step,
    net: Net,
    learner: Learner,
    training: Training,
    batch: tuple[Tensor, Tensor],
    now: Scales,
) -> None:
    """What `eager` does to the learner, compiled on first use; inside of `compiling`."""
    if len(learner.replicas) == 1:  # one replica would get code of its own: a twin goes along
        pair = learner.part([0, 0])
        x, targets = (part[[0, 0]] for part in batch)
        step(eager, net, pair, training, (x, targets), now)
        pair.keep([0])
        vars(learner).update(vars(pair))
        return
    streams = CalledBack.of(learner.streams)
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (now.factor, now.mean, now.square))
    code = compiled(eager)
    for tensor in (*batch, streams.keys, *_tensors(learner)):
        if not hasattr(tensor, "_dynamo_dynamic_indices"):  # which marks it, slowly
            torch._dynamo.mark_dynamic(tensor, 0)
    code(net, learner, streams, training, batch, Scales(*numbers))


@cache
def compiled(eager: Step) -> Step:
    """The step as it will be compiled, shape by shape.

    Raises:
        CompilerError: there is no C++ compiler.
    """
    compiler()
    return torch.compile(eager, dynamic=False)


@cache
def compiler() -> str:
    """What compiles here, and for which instructions: other bits come of another.

    Raises:
        CompilerError: there is no C++ compiler.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        words = [get_cpp_compiler(), "--version"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (InvalidCxxCompiler, OSError, subprocess.CalledProcessError) as error:
        raise CompilerError(
            "training.compile needs a C++ compiler, and there is none here: install g++ "
            "(with Python's headers), or name one in CXX"
        ) from error
    return f"{told.splitlines()[0]}, {torch.backends.cpu.get_cpu_capability()}"


@contextmanager
def compiling() -> Iterator[None]:
    """What must surround compiled steps.

    Raises:
        CompilerError: a step cannot be compiled; torch's own words, in one line.
    """
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor
    from torch._dynamo.exc import TorchDynamoException
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    general: Any = torch.compiler.config
    limits = dynamo.patch(recompile_limit=MOST, accumulated_recompile_limit=MOST)
    alone = inductor.patch(compile_threads=1)  # starts no processes
    # the number of the step is read when a step runs, not built into its code
    read = general.patch(dynamic_sources=r"L\['learner'\]\.step")
    try:
        with limits, alone, read:
            yield
    except ConstraintViolationError as error:
        raise CompilerError(
            "the step cannot be compiled for packs of any size: does the rule loop over replicas?"
        ) from error
    except TorchDynamoException as error:
        lines = str(error).splitlines()
        reason = next((line for line in lines if "error: " in line), lines[0])
        raise CompilerError(f"the step cannot be compiled: {reason}") from error


def _tensors(learner: Learner) -> Iterator[Tensor]:
    """All that has an axis of replicas."""
    yield from (learner.lr, learner.limit, learner.healthy, learner.lasted)
    for params in (learner.params, *learner.moments):
        yield from params
    for tensors in learner.state.values():
        yield from tensors
    yield from (option for option in vars(learner.rule).values() if isinstance(option, Tensor))


@dataclass(frozen=True)
class CalledBack(Streams):
    """Streams whose numbers compiled code calls back for: they are not drawn by torch."""

    keys: Tensor = field(kw_only=True)  # the seeds

    @classmethod
    def of(cls, streams: Streams) -> CalledBack:
        """The same streams."""
        return cls((), streams.dtype, streams.device, keys=torch.tensor(streams.seeds))

    def normal(self, purpose: str, shape: tuple[int, ...], step: int = 0) -> Tensor:
        drawn: Tensor = normal(self.keys, purpose, list(shape), step, self.dtype, self.device)
        return drawn

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        return torch.zeros((self.keys.shape[0], *shape), dtype=self.dtype, device=self.device)


@library.custom_op("rules::normal", mutates_args=())
def normal(
    seeds: Tensor,
    purpose: str,
    shape: Sequence[int],
    step: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """`Streams.normal` as one operation, which a compiler calls and does not look into."""
    return Streams(tuple(seeds.tolist()), dtype, device).normal(purpose, tuple(shape), step)


normal.register_fake(
    lambda seeds, _purpose, shape, _step, dtype, device: torch.empty(
        (seeds.shape[0], *shape), dtype=dtype, device=device
    )
)
