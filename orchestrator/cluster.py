"""The second door to Ray: what a cluster is asked besides training packs."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
from typing import Any

from orchestrator import ray_settings  # noqa: F401 - they must stand before Ray is imported


def refusal(tree: dict[str, Any]) -> str | None:
    """What `ray up` would refuse a cluster's file for, as one line; None where it would not.

    Offline: no provider's library is needed. The two functions are private to Ray, which is
    pinned; they take the right shape of everything for granted, so that on a file of another
    shape they raise whatever they stumble over.
    """
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    logging.getLogger("ray").setLevel(logging.ERROR)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            validate_config(prepare_config(copy.deepcopy(tree)))
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path)) or "file"
        return f"{place}: `ray up` refuses it: {_line(error.message)}"
    except NotImplementedError as error:
        return f"provider.type: `ray up` refuses it: {_line(str(error))}"
    except Exception as error:  # see above
        return f"file: `ray up` refuses it: {_line(str(error)) or type(error).__name__}"
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:160]
