"""A secret's value is refused where a reference to one belongs (SEC-01, SEC-02, REC-03)."""

from typing import Any

import pytest

from joblog.domain.errors import SecretInInputError
from joblog.domain.storable import refuse_secrets

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"password": CANARY}, "args.password"),
        ({"db_password": CANARY}, "args.db_password"),
        ({"DB_PASSWORD": CANARY}, "args.DB_PASSWORD"),
        ({"dbPassword": CANARY}, "args.dbPassword"),
        ({"password2": CANARY}, "args.password2"),
        ({"passwd": CANARY}, "args.passwd"),
        ({"passphrase": CANARY}, "args.passphrase"),
        ({"pass": CANARY}, "args.pass"),
        ({"userPass": CANARY}, "args.userPass"),
        ({"db-pwd": CANARY}, "args.db-pwd"),
        ({"client_secret": CANARY}, "args.client_secret"),
        ({"token": CANARY}, "args.token"),
        ({"accesstoken": CANARY}, "args.accesstoken"),
        ({"x-api-key": CANARY}, "args.x-api-key"),
        ({"apiKey": CANARY}, "args.apiKey"),
        ({"private_key": CANARY}, "args.private_key"),
        ({"Authorization": f"Bearer {CANARY}"}, "args.Authorization"),
        ({"credentials": CANARY}, "args.credentials"),
        ([{"to": {"token": CANARY}}], "args[0].to.token"),
        (f"https://u:{CANARY}@h/x", "args"),
        (f"https://{CANARY}@h/x", "args"),
        (f"HTTPS://{CANARY}@h", "args"),
        (f"postgresql://u:{CANARY}@h/db", "args"),
        (f"see https://u:{CANARY}@h/x, please", "args"),
        (f"first http://h/, then ftp://u:{CANARY}@h", "args"),
        (f"https://h/x?token={CANARY}#f", "args"),
        (f"https://h/x?a=1&X-Amz-Signature={CANARY}", "args"),
        (f"https://h/x?sv=1;sig={CANARY}", "args"),
        (f"https://h/cb#access_token={CANARY}", "args"),
        (f"https://[::1/x?token={CANARY}", "args"),
        ({"urls": ["https://h/", f"https://h/?api_key={CANARY}"]}, "args.urls[1]"),
    ],
)
def test_a_secret_is_refused_by_its_path_and_not_repeated(args: Any, path: str) -> None:
    with pytest.raises(SecretInInputError) as refused:
        refuse_secrets(args, "args")

    assert refused.value.field == path
    assert "env:NAME" in str(refused.value)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "args",
    [
        {"token": "env:TRELLO_TOKEN"},
        {"password": "file:/run/secrets/db"},
        {"credential": "cred:42"},
        {"token": ""},
        {"token": None},
        {"max_tokens": 512},
        {"tokens": ["the", "cat"]},
        {"compass": "north"},
        {"bypass": "yes"},
        {"author": "ada", "authority": "x", "design": "y", "signal": "z", "passenger": "p"},
        {"page_token": "abc", "nextToken": "abc", "idempotency-token": "abc"},
        "https://h/x?page_token=2&author=ada",
        "https://h/x?token=env:TOKEN",
        "https://h/a:b@c",
        "https://medium.example/@ada",
        "postgresql://ada@h/db",
        "ssh://git@h/repo.git",
        "a://b: c@d",
        "password: none of a name",
        "env:DATABASE_URL",
        ["https://h/", 7, None],
    ],
)
def test_a_reference_and_a_harmless_name_are_let_through(args: Any) -> None:
    refuse_secrets(args, "args")


def test_a_text_of_the_longest_size_is_no_burden() -> None:
    """A quadratic pattern would take minutes on this."""
    for text in ("a" * 1_000_000 + "://", "://" * 300_000, "http://" + "?a=" * 300_000):
        refuse_secrets(text, "args")
