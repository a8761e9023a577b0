"""The fixture itself: what a failed test shows, and what it leaves. Needs -p pytester."""

import pathlib

import pytest


@pytest.fixture
def run(pytester, request):
    """Run a test file against the same testbed."""

    def run_file(text):
        pytester.makeconftest((pathlib.Path(__file__).parent / "conftest.py").read_text())
        pytester.makepyfile(text)
        return pytester.runpytest("--mux-url", request.config.getoption("--mux-url") or "")

    return run_file


def test_a_failure_shows_what_happened(mux, run):
    mux.set_side(1, "upper_tor")
    result = run(
        """
        def test_fails(mux):
            mux.set_side(1, "lower_tor")
            assert False
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*mux history*", "*-1 upper_tor -> lower_tor by api *"])


def test_a_wait_in_vain_says_so(mux, run):
    mux.set_side(1, "upper_tor")
    result = run(
        """
        def test_waits(mux):
            mux.wait_for_side(1, "lower_tor", seconds=0.1)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*port 1 has no lower_tor after 0.1 s*"])


def test_drops_end_with_the_test(mux, run):
    run(
        """
        def test_drops(mux):
            mux.drop(1, "nic", "upper_tor")
        """
    ).assert_outcomes(passed=1)
    assert mux.status(1)["healthy"]


def test_an_unknown_port_fails_in_the_agents_words(run):
    result = run(
        """
        def test_unknown(mux):
            mux.status(4711)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*404*Unknown bridge*port_index=4711*"])


def test_without_a_testbed_tests_are_skipped(pytester):
    pytester.makeconftest((pathlib.Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile("def test_skips(mux): pass")
    pytester.runpytest("--mux-url", "").assert_outcomes(skipped=1)
