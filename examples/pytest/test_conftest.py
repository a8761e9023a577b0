"""The fixture itself: what a failed test shows, and what it leaves."""

import http.server
import json
import pathlib
import threading
import urllib.parse

import pytest
from conftest import Mux

pytest_plugins = ["pytester"]


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


@pytest.fixture
def slow_agent():
    """An agent that answers a first call too late. The fixture is its address, and the reqIds that it was sent."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            asked.append(query["reqId"][0])
            if len(asked) == 1:
                gave_up.wait(10)
            body = json.dumps({"active_side": "lower_tor"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                pass  # the client is gone, as it should be

        def log_message(self, *args):
            pass

    gave_up = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/mux/vms6-1", asked
    gave_up.set()
    server.shutdown()
    server.server_close()


def test_what_timed_out_is_repeated_with_its_req_id(slow_agent):
    url, asked = slow_agent
    assert Mux(url, timeout=0.2).toggle(0)["active_side"] == "lower_tor"
    assert len(asked) == 2 and asked[0] == asked[1]
