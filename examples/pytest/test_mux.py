"""How tests use the fixture `mux`."""

import threading

PORT = 0


def other(side):
    return {"upper_tor": "lower_tor", "lower_tor": "upper_tor"}[side]


def test_set_side(mux):
    for side in ("upper_tor", "lower_tor"):
        status = mux.set_side(PORT, side)
        assert status["active_side"] == side
        assert status["healthy"]


def test_toggle_is_one_flap(mux):
    flaps = mux.flaps(PORT)
    before = mux.status(PORT)["active_side"]
    assert mux.toggle(PORT)["active_side"] == other(before)
    assert mux.flaps(PORT) == flaps + 1


def test_wait_for_a_switchover(mux):
    """As when linkmgrd on a ToR switches the mux some time after the test did something else."""
    target = other(mux.status(PORT)["active_side"])
    tor = threading.Timer(0.2, mux.toggle, [PORT])
    tor.start()
    assert mux.wait_for_side(PORT, target)["active_side"] == target
    tor.join()


def test_drop_and_output(mux):
    dropped = mux.drop(PORT, "nic")
    assert not dropped["healthy"]
    assert mux.output(PORT, "nic")["healthy"]


def test_all_ports_are_healthy(mux):
    assert [port for port, status in mux.statuses().items() if not status["healthy"]] == []
