"""The peer of packing: the same step in JAX, with jit, vmap over networks and scan over steps.

Backpropagation through tanh layers, cross-entropy, momentum, a rate a network; float32, one
thread. `pip install rulesweep[bench]` brings JAX; without it these rows are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
STEPS = 8


def there() -> bool:
    """Whether JAX is installed; makes it use one thread of the CPU. To be called first."""
    os.environ |= {"XLA_FLAGS": ONE_THREAD, "JAX_PLATFORMS": "cpu"}
    try:
        import jax  # noqa: F401
    except ImportError:
        return False
    return True


def stepper(sizes: tuple[int, ...], replicas: int, batch: int) -> Callable[[int], float]:
    """A function that trains for so many times `STEPS` steps, and gives seconds a step."""
    import jax
    from jax import numpy as jnp

    ready: Any = jax.block_until_ready

    rng = np.random.default_rng(0)
    layers = [
        (rng.normal(0, a**-0.5, (replicas, a, b)).astype("f4"), np.zeros((replicas, 1, b), "f4"))
        for a, b in pairwise(sizes)
    ]
    x = rng.normal(size=(replicas, STEPS, batch, sizes[0])).astype("f4")
    y = rng.integers(sizes[-1], size=(replicas, STEPS, batch))
    rates = np.full(replicas, 0.01, "f4")

    def loss(params: Any, h: Any, classes: Any) -> Any:
        for w, b in params[:-1]:
            h = jnp.tanh(h @ w + b)
        scores = jax.nn.log_softmax(h @ params[-1][0] + params[-1][1])
        return -jnp.take_along_axis(scores, classes[:, None], 1).mean()

    def network(params: Any, velocity: Any, x: Any, y: Any, lr: Any) -> Any:
        def step(carry: Any, examples: Any) -> Any:
            params, velocity = carry
            found = jax.grad(loss)(params, *examples)
            velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, found)
            return (jax.tree.map(lambda p, v: p - lr * v, params, velocity), velocity), None

        return jax.lax.scan(step, (params, velocity), (x, y))[0]

    train = jax.jit(jax.vmap(network))
    given = [jax.device_put(v) for v in (x, y, rates)]
    state = jax.device_put((layers, jax.tree.map(np.zeros_like, layers)))
    ready(train(*state, *given))  # compiles

    def seconds_a_step(calls: int) -> float:
        nonlocal state
        began = time.perf_counter()
        for _ in range(calls):
            state = ready(train(*state, *given))
        return (time.perf_counter() - began) / (calls * STEPS)

    return seconds_a_step
