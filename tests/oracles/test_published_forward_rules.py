"""One step of fdfa, ddtp and pepita beside their authors' code, in float64; see the other file.

These learn from forward passes with noise or with a changed input. Theirs draw from torch's
generator; they are given the noise that ours draws.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rules.ddtp import DDTP
from rules.fdfa import FDFA
from rules.pepita import PEPITA

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

BACHO = "Florian-BACHO/FDFA"
MEULEMANS = "meulemansalex/theoretical_framework_for_target_propagation"
DELLAFERRERA = "GiorgiaD/PEPITA"


def noise(bench) -> Iterator[Tensor]:
    """What ours adds to the layers, from the lowest on."""
    for l, n in enumerate(bench.case.sizes[1:-1], start=1):
        yield bench.case.streams.normal(f"perturbation/{l}/0", (bench.case.batch, n), 0)[0]


def drawn(bench, name: str) -> dict[str, tuple[Tensor, ...]]:
    """Feedback (replica, outputs, n_l) that is not 0, for one replica."""
    sizes = bench.case.sizes
    shapes = [(sizes[-1], n) for n in sizes[1:-1]]
    return {
        name: tuple(
            bench.case.streams.normal(f"oracle/{l}", shape) for l, shape in enumerate(shapes)
        )
    }


@pytest.mark.parametrize("sizes", [(20, 32, 16, 8, 4), (20, 32, 4)], ids=str)
def test_bacho_chu(sizes: tuple[int, ...], bench, clone, monkeypatch):
    """Their derivative is exact, and one pass shifts all layers at once.

    So what is learned is compared where there is one layer, and all above it is linear.
    """
    clone(BACHO)
    from torch.autograd import forward_ad
    from utils.DFATrainingHook import DFATrainingHook
    from utils.OutputTrainingHook import OutputTrainingHook

    bench.case = replace(bench.case, sizes=sizes)
    state, rule = drawn(bench, "A"), FDFA()
    hooks = [DFATrainingHook("FDFA", bench.x.device) for _ in state["A"]]
    for hook, a in zip(hooks, state["A"], strict=True):
        hook.feedbacks, hook.is_not_initialized = nn.Parameter(a[0].clone()), False
    linear = nn.ModuleList(nn.Linear(m, n) for m, n in pairwise(sizes))
    layers, given = bench.layers(linear), noise(bench)
    monkeypatch.setattr(torch, "randn_like", lambda *_, **__: next(given))
    out, slopes = (torch.zeros(bench.case.batch, sizes[-1], dtype=bench.x.dtype) for _ in "ab")
    with forward_ad.dual_level():
        h = forward_ad.make_dual(bench.x, torch.zeros_like(bench.x))
        for layer, hook in zip(layers[:-1], hooks, strict=True):
            h = hook(torch.tanh(layer(h)), slopes, out)
        logits = OutputTrainingHook("FDFA")(layers[-1](h), slopes, out)
        nn.functional.cross_entropy(forward_ad.unpack_dual(logits).primal, bench.y).backward()
    theirs = [layer.weight.grad.T for layer in layers] + [layer.bias.grad for layer in layers]
    ours = bench.taught(rule, state)
    if len(sizes) == 3:
        _, after = rule.teach(bench.case.trace(), bench.case.params(), state)
        ours.append((state["A"][0] - after["A"][0])[0] / rule.eta_A)
        theirs.append(hooks[0].feedbacks.grad)
    bench.close(ours, theirs)


def test_meulemans_et_al(bench, clone, monkeypatch):
    """Their losses are means over units and not halved: twice ours, over n_l for the feedback's."""
    clone(MEULEMANS)
    from lib.direct_feedback_networks import DDTPMLPNetwork

    bench.case = replace(bench.case, bias=False)
    sizes, params = bench.case.sizes, bench.case.params()
    state, rule = drawn(bench, "Q"), DDTP(damping=0.0)
    kinds = {"activation": "tanh", "output_activation": "linear", "fb_activation": "linear"}
    kinds |= {"bias": False, "sigma": rule.sigma, "size_hidden_fb": None}
    net = DDTPMLPNetwork(sizes[0], list(sizes[1:-1]), sizes[-1], **kinds).double()
    hidden, given = net.layers[:-1], noise(bench)
    for layer, w in zip(net.layers, params.weights, strict=True):
        layer.weights.data = w[0].T.clone()
    for layer, q in zip(hidden, state["Q"], strict=True):
        layer.feedbackweights.data = q[0].T.clone()
    monkeypatch.setattr(torch, "randn_like", lambda *_, **__: next(given))
    for i in range(len(hidden)):
        loss = nn.functional.cross_entropy(net(bench.x), bench.y)
        net.backward_random(loss, bench.case.batch / 2, i)
        net.compute_feedback_gradients(i)
    theirs = [layer.weights.grad.T for layer in hidden]
    halves = (n / 2 for n in sizes[1:-1])
    theirs += [h * layer.feedbackweights.grad.T for h, layer in zip(halves, hidden, strict=True)]
    _, after = rule.teach(bench.case.trace(), params, state)
    moved = zip(state["Q"], after["Q"], strict=True)
    ours = bench.taught(rule, state)[: len(hidden)]
    bench.close([*ours, *((q - new)[0] / rule.eta_Q for q, new in moved)], theirs)


def softmax(o: np.ndarray) -> np.ndarray:
    return np.exp(o) / np.exp(o).sum()


def test_dellaferrera_kreiman(bench, clone):
    """One example at a time, as a column, without biases; their step is 1 over the batch."""
    clone(DELLAFERRERA)
    from functions import general_network

    bench.case = replace(bench.case, bias=False)
    sizes, batch, params = bench.case.sizes, bench.case.batch, bench.case.params()
    rule = PEPITA(scale=0.5)
    state = rule.init(bench.case.dims, bench.case.streams)
    phi = [np.tanh] * (len(sizes) - 2) + [softmax]
    net = general_network(list(sizes), phi, phi, "ERIN", batch, "SGD", 0, "zero", 2)
    for layer, w in zip(net.layers, params.weights, strict=True):
        layer.w = w[0].T.numpy().copy()
    F, targets = state["F"][0][0].T.numpy(), np.eye(sizes[-1])[bench.y.numpy()]
    for net.s in range(batch):
        x, target = bench.x[net.s].numpy()[:, None], targets[net.s][:, None]
        _, error = net.forward(x.copy(), target, 1.0, True)
        _, error = net.forward(x.copy(), target, 1.0, True, F @ error, True)
        net.learning(error, 1.0, 1.0)
    pairs = zip(params.weights, net.layers, strict=True)
    theirs = [w[0] - torch.from_numpy(layer.w).T for w, layer in pairs]
    bench.close(bench.taught(rule, state)[: len(theirs)], theirs)
