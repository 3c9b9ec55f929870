"""The laws that a learning rule must keep for its sweep to mean something, as a check.

In a test of a rule of your own:

    from rules.testing import check_rule

    def test_my_rule_keeps_the_laws():
        check_rule(MyRule())
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from rules.case import CASES, Case
from rules.laws import CLASS_LAWS, FORM, LAWS
from rules.net import Net
from rules.rule import Rule
from rules.settings import Network, Training


class RuleBrokenError(AssertionError):
    """A rule breaks a law; the message names the law, and where it is broken."""


def check_rule(rule: Rule) -> None:
    """Teach small networks with the rule, and see that it keeps every law.

    The networks are 1 and 4 layers deep, with and without skip connections, of both losses and
    both precisions; each is taught for three steps, the last of them with a single example.

    Raises:
        RuleBrokenError: at the first law that the rule breaks; the message names it.
    """
    for law, broken in CLASS_LAWS.items():
        _expect_none(rule, law, broken(rule))
    for case, (law, breaks) in product(CASES, LAWS.items()):
        _expect_none(rule, f"{law} ({case})", breaks(rule, case))


def check_form(rule: Rule, network: Network, training: Training) -> None:
    """See in a moment that a rule can be trained at all: the laws of form, on one small network.

    Raises:
        RuleBrokenError: at the first law that the rule breaks; the message names it.
    """
    case = Case(
        seeds=(10**9, 10**9 + 1),  # seeds of no study
        sizes=(5, 6, 6, 4),
        net=Net(network.activation, network.residual, training.loss),
        bias=network.bias,
        dtype=getattr(torch, training.dtype),
        weight_decay=training.weight_decay,
    )
    for law in FORM:
        _expect_none(rule, law, LAWS[law](rule, case))


def _expect_none(rule: Rule, law: str, complaints: Iterator[str]) -> None:
    try:
        complaint = next(complaints, None)
    except Exception as error:  # a user's rule may raise anything
        raise RuleBrokenError(f"{rule!r} breaks a law: {law}: it raised {error!r}") from error
    if complaint:
        raise RuleBrokenError(f"{rule!r} breaks a law: {law}: {complaint}")
