"""The fixture `mux`: a testbed's muxes over plain HTTP.

Copy this file beside your tests, and name the testbed with --mux-url or MUX_URL:

    pytest --mux-url http://10.0.0.64:8080/mux/vms17-8
"""

import os
import time
import uuid

import pytest
import requests


class Mux:
    """The muxes of one testbed. Sides are "upper_tor" and "lower_tor"; "nic" can be dropped as well."""

    def __init__(self, url, timeout=10):
        self.url = url.rstrip("/")
        self.timeout = timeout  # of one try, in seconds
        self.http = requests.Session()
        self.changed = set()

    def status(self, port):
        """Return what the switch does on a port: active_side, healthy, flows and so on."""
        return self._get(f"/{port}")

    def statuses(self):
        """Return the status of every port, by port index."""
        return {status["port_index"]: status for status in self._get("").values()}

    def set_side(self, port, side):
        """Make a side the active one. "toggle" and "random" are sides as well."""
        return self._post(port, "", {"active_side": side})

    def toggle(self, port):
        """Make the other side the active one."""
        return self.set_side(port, "toggle")

    def drop(self, port, *sides):
        """Drop what goes to the sides."""
        return self._post(port, "/drop", {"out_sides": sides})

    def output(self, port, *sides):
        """Undo drop."""
        return self._post(port, "/output", {"out_sides": sides})

    def reset(self, port):
        """Undo every drop, and whatever else is wrong on the switch."""
        return self._post(port, "/reset", {})

    def flaps(self, port):
        """Return how often the active side changed."""
        (count,) = self._get(f"/{port}/flap_counter").values()
        return count

    def wait_for_side(self, port, side, seconds=10):
        """Return the status once the side is active, however it came to be; fail when it takes longer (at most 60 s)."""
        query = {"active_side": side, "wait": f"{seconds}s"}
        answer = self.http.get(f"{self.url}/{port}", params=query, timeout=seconds + 10)
        if answer.status_code == requests.codes.precondition_failed:
            pytest.fail(f"port {port} has no {side} after {seconds} s: {answer.json()}", pytrace=False)
        return self._json(answer)

    def history(self):
        """Return the last changes of all ports, oldest first."""
        return self._get("/history")["events"]

    def _get(self, path):
        return self._json(self.http.get(self.url + path, timeout=self.timeout))

    def _post(self, port, path, body):
        # With the same reqId a repeat does nothing twice, so it is safe even for a toggle, and for a call that timed out: the
        # agent may have done it all the same.
        self.changed.add(port)
        query = {"reqId": str(uuid.uuid4())}
        for pause in (0.2, 1, None):
            try:
                answer = self.http.post(f"{self.url}/{port}{path}", params=query, json=body, timeout=self.timeout)
                if answer.status_code < 500 or pause is None:
                    return self._json(answer)
            except (requests.ConnectionError, requests.Timeout):
                if pause is None:
                    raise
            time.sleep(pause)

    @staticmethod
    def _json(answer):
        if not answer.ok:
            pytest.fail(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text.strip()}", pytrace=False)
        return answer.json()


def pytest_addoption(parser):
    parser.addoption("--mux-url", default=os.environ.get("MUX_URL"), help="http://SERVER:PORT/mux/VM_SET of the testbed")


@pytest.fixture
def mux(request):
    """The testbed's muxes. Ports that the test changed are reset after it; their side stays."""
    url = request.config.getoption("--mux-url")
    if not url:
        pytest.skip("no testbed: say --mux-url http://SERVER:PORT/mux/VM_SET")
    testbed = Mux(url)
    before = testbed.history()
    request.node.mux_since = testbed, before[-1]["seq"] if before else 0
    yield testbed
    for port in testbed.changed:
        testbed.reset(port)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Add to a failed test's report what happened on the muxes meanwhile."""
    outcome = yield
    report = outcome.get_result()
    if call.when != "call" or not report.failed or not hasattr(item, "mux_since"):
        return
    testbed, seq = item.mux_since
    try:
        lines = [_line(event) for event in testbed.history() if event["seq"] > seq]
    except requests.RequestException as err:
        lines = [f"no history: {err}"]
    report.sections.append(("mux history", "\n".join(lines) or "nothing happened"))


def _line(event):
    sides = " -> ".join(_condition(event[end]) for end in ("from", "to"))
    who = event["cause"] + (f" {event['client']}" if event["client"] else "")
    return f"{event['time']} {event['bridge']} {sides} by {who}"


def _condition(condition):
    if condition is None:
        return "gone"
    dropped = f" dropped {','.join(condition['dropped'])}" if condition["dropped"] else ""
    return condition["active_side"] + dropped + ("" if condition["healthy"] else " unhealthy")
