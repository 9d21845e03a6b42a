"""One connection to a service: documents out of JSON, refusals out of problem documents."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...domain.errors import InvalidFieldError, JobLogError, RefusedError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .settings import Settings

    Document = dict[str, Any]

_SECONDS: Final = 75.0  #: longer than any answer is held back
_LARGEST: Final = 64 * 1024 * 1024
_FIRST_BAD: Final = 400


class HttpClient:
    """See the module; not for two threads at once."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None or parts.query:
            raise InvalidFieldError("server", "no address of a service", "give http://host:port; the token goes apart")
        self._shown = f"{parts.scheme}://{parts.netloc}"
        self._base, self._token = parts.path.rstrip("/"), token
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(parts.netloc, timeout=_SECONDS, context=context)
        else:
            self._connection = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def get(self, path: str) -> Document:
        """A document.  Asked once more on a new connection if the old one was closed meanwhile."""
        return self._asked("GET", path, None, {})

    def post(self, path: str, body: Document, key: str, headers: dict[str, str] | None = None) -> Document:
        """A command under an idempotency key, so that it is safe to send again."""
        more = {"Content-Type": "application/json", "Idempotency-Key": key, **(headers or {})}
        return self._asked("POST", path, json.dumps(body).encode(), more)

    def put(self, path: str, body: Document) -> Document:
        """What shall be there; safe to send again."""
        return self._asked("PUT", path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def delete(self, path: str) -> None:
        """Forget what is there."""
        self._asked("DELETE", path, None, {})

    def _asked(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Document:
        given = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **headers}
        for is_last in (False, True):
            try:
                self._connection.request(method, self._base + path, body, given)
                answer = self._connection.getresponse()
                raw = answer.read(_LARGEST)
                break
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if is_last or not isinstance(error, http.client.RemoteDisconnected | ConnectionResetError):
                    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    raise StoreUnavailableError(f"{self._shown} can't be reached: {text}") from error
        try:
            found = json.loads(raw or b"{}")
        except ValueError:
            raise StoreUnavailableError(f"{self._shown} is no job log: it answers no JSON") from None
        if answer.status >= _FIRST_BAD:
            raise refusal_of(found, answer.status)
        made: Document = found
        return made


def refusal_of(problem: Any, status: int) -> JobLogError:
    """A problem document as the error that it was there."""
    fields = problem if isinstance(problem, dict) else {}
    code, text = str(fields.get("code", "")), str(fields.get("detail", f"the service answers with status {status}"))
    kind = next((one for one in _every(JobLogError) if vars(one).get("code") == code), RefusedError)
    error: JobLogError = kind.__new__(kind)
    Exception.__init__(error, text)
    vars(error)["code"] = code or kind.code  # a newer service may know more of them
    return error


def _every(kind: type[JobLogError]) -> Iterator[type[JobLogError]]:
    from ..http import errors  # noqa: F401 - so that its classes are known

    yield kind
    for below in kind.__subclasses__():
        yield from _every(below)


def token_of(settings: Settings) -> str:
    """The token: of the environment, or of a file; never of the command line, where every process could see it."""
    if settings.token_file:
        try:
            return Path(settings.token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFieldError("token_file", f"{settings.token_file} can't be read", "give a file") from error
    if token := os.environ.get("JOBLOG_TOKEN", "").strip():
        return token
    raise InvalidFieldError("token", "none", "set JOBLOG_TOKEN, or give --token-file")
