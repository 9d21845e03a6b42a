"""What the service itself says no to, before the log is asked."""

from __future__ import annotations

from ...domain.errors import InputError, JobLogError, RefusedError


class RequestRefusedError(RefusedError):
    """A request that the service does not take."""

    code = "request-refused"


class BadRequestError(RequestRefusedError):
    """Bytes that are no HTTP request."""

    code = "bad-request"


class BadBodyError(RequestRefusedError):
    """A body that is no JSON, or not whole."""

    code = "bad-body"


class MediaTypeError(RequestRefusedError):
    """A body of a type or an encoding that is not taken."""

    code = "media-type"


class BodyTooLargeError(RequestRefusedError):
    """A body over its bound, counted after unpacking."""

    code = "body-too-large"


class SlowBodyError(RequestRefusedError):
    """A body that did not arrive in time."""

    code = "body-too-slow"


class KeyMissingError(RequestRefusedError):
    """A command without an Idempotency-Key."""

    code = "idempotency-key-missing"


class BadCursorError(RequestRefusedError):
    """A cursor of another list, or none at all."""

    code = "bad-cursor"


class StaleCursorError(RequestRefusedError):
    """A place in the log of another epoch, or past its end: what followed may be other events now."""

    code = "stale-cursor"


class ViewBehindError(RequestRefusedError):
    """A question about the past that the view of job versions can't answer yet."""

    code = "view-behind"


class RouteNotFoundError(RequestRefusedError):
    """No such path."""

    code = "route-not-found"


class MethodError(RequestRefusedError):
    """A path that does not take this method."""

    code = "method-not-allowed"
    allowed = ""  #: those that it takes


class UnauthorizedError(RequestRefusedError):
    """No token, or one that opens nothing."""

    code = "unauthorized"


class ScopeMissingError(RequestRefusedError):
    """A token without the scope, or bound to a tenant or owner where the answer is about all."""

    code = "scope-missing"


class CrossSiteError(RequestRefusedError):
    """A command that another site's page made the browser send."""

    code = "cross-site"


class ReadOnlyError(RequestRefusedError):
    """A command to a service that was started with --read-only."""

    code = "read-only"


class OverloadedError(RequestRefusedError):
    """More at once than the service takes; nothing was written."""

    code = "overloaded"


class TokenNotFoundError(RefusedError):
    """No such token that still stands."""

    code = "token-not-found"


class UnsafeBindError(InputError):
    """A public address that nobody guards."""

    code = "unsafe-bind"


class UnexpectedError(JobLogError):
    """A fault of the service; the log of the process has it under the request id."""

    code = "unexpected"
