"""A death without a process: what a fail point raises, at its n-th passing."""

from collections.abc import Callable


class Killed(BaseException):
    """What a test raises where a process would be killed."""


def dying_at(passes: int) -> Callable[[], None]:
    left = [passes]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    return die
