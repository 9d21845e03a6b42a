"""A TCP proxy between a client and its database that loses what it is told to lose."""

import contextlib
import socket
import threading
from collections import Counter
from typing import Final, Self

ANSWER: Final = "answer"  #: the request reaches the server and is carried out; the client hears nothing of it
REQUEST: Final = "request"  #: the server never hears of it


class Proxy:
    """Listens on a port of its own; each connection is two threads that copy."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.fired: Counter[str] = Counter()
        self._lose = ""
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def lose(self, what: str) -> None:
        """Lose the next answer, or the next request, of whichever connection speaks next, and break that connection."""
        with self._guard:
            self._lose = what

    def _start(self, target: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:  # the server is down: so are we
                self._break(client)
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._guard:
                self._open |= {client, server}
            self._start(self._requests, client, server)
            self._start(self._answers, server, client)

    def _loses(self, what: str) -> bool:
        """Whether to lose this one; then it has been done."""
        with self._guard:
            mine = self._lose == what
            if mine:
                self._lose = ""
                self.fired[f"{what}-lost"] += 1
        return mine

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        self._copy(client, server, REQUEST)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        self._copy(server, client, ANSWER)

    def _copy(self, source: socket.socket, target: socket.socket, what: str) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if self._loses(what):
                    break
                target.sendall(chunk)
        self._break(source, target)

    def _break(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # also wakes the other thread, which a close would not
        for one in sockets:
            one.close()
            with self._guard:
                self._open.discard(one)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            left = list(self._open)
        self._break(*left)
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
