"""The collector is off while a batch is folded, and on again afterwards, whatever happens and whoever else does it."""

import gc
import threading

import pytest

from joblog.projections.uncollected import uncollected


def test_the_collector_is_off_for_the_batch_and_on_again() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_batch_that_fails_leaves_it_on() -> None:
    with pytest.raises(ValueError, match="broken"), uncollected():
        raise ValueError("broken")
    assert gc.isenabled()


def test_whoever_runs_without_it_goes_on_without_it() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_batches_of_two_threads_leave_it_on_whoever_ends_first() -> None:
    begun, end = threading.Event(), threading.Event()

    def batch() -> None:
        with uncollected():
            begun.set()
            end.wait(10)

    for outlives in (False, True):
        begun.clear()
        end.clear()
        other = threading.Thread(target=batch)
        other.start()
        assert begun.wait(10)
        with uncollected():
            if not outlives:
                end.set()
                other.join()
        end.set()
        other.join()
        assert gc.isenabled()
