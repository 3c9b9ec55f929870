import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cluster import _Log


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40)), st.integers(1, 7))
def test_a_log_whose_connection_breaks_is_said_once(text, breaks, chunk):
    said, lines = 0, []
    for end in [*breaks, None]:
        log = _Log(said, lines.append)
        seen = text if end is None else text[:end]
        for start in range(0, len(seen), chunk):
            log.take(seen[start : start + chunk])
        if end is None:
            log.end()
        said += log.said
    assert "\n".join(lines) == text.removesuffix("\n")


@pytest.mark.parametrize("words", [["jobs"], ["stop", "a-job"]])
@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("ray://127.0.0.1:10001", "should be that of the dashboard, as http://127.0.0.1:8265"),
        ("127.0.0.1:8265", "should be that of the dashboard, as http://127.0.0.1:8265"),
        ("http://127.0.0.1:1", ("nothing answers there; forward", "jobs need the extra `cluster`")),
    ],
)
def test_an_address_without_a_job_server_is_one_line(command, words, address, line):
    done = command(*words, "--address", address)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert any(text in done.err for text in ([line] if isinstance(line, str) else line))
