"""A row's key is the same in every attempt and process, and no two rows of a file share one."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from joblog.workers.operations.row_key import row_key
from joblog.workers.operations.rows import Row

SOURCE = "ab" * 32


def test_the_key_is_for_ever() -> None:
    """UNI-02: a key that changed would import everything once more."""
    row = Row(7, 9, {"id": "1", "name": "Ada"})

    assert row_key(row, ["id"], SOURCE) == hashlib.sha256(b'[["id","1"]]').hexdigest()
    assert row_key(row, [], SOURCE) == hashlib.sha256(f'["{SOURCE}",7]'.encode()).hexdigest()


def test_identical_rows_stay_distinct() -> None:
    rows = [Row(number, number, {"a": "x"}) for number in range(1, 100)]

    assert len({row_key(row, [], SOURCE) for row in rows}) == 99


def test_a_row_with_a_key_is_the_same_in_any_file_and_at_any_place() -> None:
    one, two = Row(1, 2, {"id": "1", "a": "x"}), Row(5, 9, {"a": "y", "id": "1"})

    assert row_key(one, ["id"], SOURCE) == row_key(two, ["id"], "other")


def test_a_second_job_over_the_same_file_has_keys_of_its_own() -> None:
    row = Row(1, 2, {"a": "x"})

    assert row_key(row, [], f"job-1/{SOURCE}") != row_key(row, [], f"job-2/{SOURCE}")


@given(st.lists(st.text() | st.integers() | st.none(), min_size=2, max_size=2, unique_by=repr))
def test_other_key_values_give_other_keys(pair: list[object]) -> None:
    one, two = (row_key(Row(1, 1, {"a": value, "b": ""}), ["a", "b"], SOURCE) for value in pair)
    assert one != two
    assert row_key(Row(1, 1, {"a": "x", "b": ""}), ["a", "b"], SOURCE) != row_key(
        Row(1, 1, {"a": "", "b": "x"}), ["a", "b"], SOURCE
    )
