"""Proof of death: a worker holds ``flock`` on its presence file for as long as it and its children live.

Who opens that same file (device, inode, nonce) and gets the lock has the proof, on the same host and boot.  No file,
another inode or a network file system prove nothing: then the lease is waited for.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from uuid import UUID

_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "fuse"}
)


def folder_for(store_id: UUID) -> Path:
    """Where the workers of a log on this host keep their presence files."""
    return Path(tempfile.gettempdir()) / f"joblog-{os.getuid()}-{store_id.hex[:12]}"


def is_local(path: Path) -> bool:
    """Whether *path* lies on a file system whose locks end with the process."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return True  # no Linux: temporary folders are local there
    for line in mounts:
        _, mount, filesystem, *_ = line.split(" ")
        if (str(path) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
            best, kind = mount, filesystem
    return kind.split(".")[0] not in _NETWORK


class Presence:
    """This worker's presence file, locked until ``close`` or the end of the process and its children."""

    def __init__(self, folder: Path, name: str, boot_id: str, nonce: str) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / f"{nonce}.alive"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        os.write(self.fd, nonce.encode())
        stat = os.fstat(self.fd)
        told = {"path": str(self.path), "dev": stat.st_dev, "ino": stat.st_ino, "nonce": nonce, "boot": boot_id}
        self.text = orjson.dumps({**told, "worker": name}).decode()

    def close(self) -> None:
        """Gone in order."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        os.close(self.fd)


def is_dead(presence: str, boot_id: str) -> bool:
    """Whether the holder that left *presence* is proven dead."""
    told = orjson.loads(presence)
    if told["boot"] != boot_id:
        return False
    try:
        fd = os.open(told["path"], os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        stat = os.fstat(fd)
        if (stat.st_dev, stat.st_ino) != (told["dev"], told["ino"]):
            return False
        if os.pread(fd, 200, 0) != told["nonce"].encode():
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)
