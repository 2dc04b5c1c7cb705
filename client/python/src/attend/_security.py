"""How a client knows its server, and how it is known to it: TLS, certificates and tokens, checked before anything is
sent. gRPC would say what is wrong in its log, and of a call only that there is no server."""

from __future__ import annotations

import os
import pathlib
import ssl
from typing import Any

import grpc

from attend.errors import InvalidArgumentError, invalid

Path = str | os.PathLike[str]


class Security:
    """What a channel needs. `encrypted` and `certified` (has a certificate of its own) are for messages.

    InvalidArgumentError, which names the argument and the file, for what cannot be used; OSError for a file that cannot
    be read.
    """

    def __init__(self, *, tls: bool | None = None, ca_file: Path | None = None, certificate_file: Path | None = None,
                 key_file: Path | None = None, server_name: str | None = None, token: str | None = None) -> None:
        files = {"ca_file": ca_file, "certificate_file": certificate_file, "key_file": key_file}
        given = [name for name, value in {**files, "server_name": server_name}.items() if value is not None]
        if (certificate_file is None) != (key_file is None):
            raise invalid("", "certificate_file and key_file belong together: one is given without the other")
        if tls is False and given:
            raise invalid("", f"tls is False, and {given[0]} is given: it means TLS")
        for name, text in (("server_name", server_name), ("token", token)):
            if text is not None and not (isinstance(text, str) and text and text.isascii() and text.isprintable()):
                raise invalid("", f"{name} must be a text, printable ASCII and not empty")  # a token is never shown
        self.encrypted = bool(tls or given)
        self.certified = certificate_file is not None
        self.server_name = server_name
        self.token = token
        self.credentials: grpc.ChannelCredentials | None = None
        if self.encrypted:
            self.credentials = _credentials(ca_file, certificate_file, key_file)
        if self.credentials is not None and token is not None:
            self.credentials = grpc.composite_channel_credentials(self.credentials,
                                                                  grpc.access_token_call_credentials(token))

    @property
    def options(self) -> list[tuple[str, Any]]:
        return [] if self.server_name is None else [("grpc.ssl_target_name_override", self.server_name)]

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """The token, where no credentials carry it."""
        return [("authorization", f"Bearer {self.token}")] if self.token is not None and not self.encrypted else []


def _credentials(ca_file: Path | None, certificate_file: Path | None, key_file: Path | None) -> grpc.ChannelCredentials:
    ca = certificate = key = None
    if ca_file is not None:
        ca = _read("ca_file", ca_file)
        _check_certificates("ca_file", ca_file, ca)
    if certificate_file is not None and key_file is not None:
        certificate, key = _read("certificate_file", certificate_file), _read("key_file", key_file)
        _check_certificates("certificate_file", certificate_file, certificate)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate_file, key_file, _no_passphrase)
        except (ssl.SSLError, _PassphraseError) as error:
            raise _unusable("key_file", key_file, "must hold the key, without a passphrase, of certificate_file "
                            f"{os.fspath(certificate_file)}", error) from None
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _check_certificates(name: str, path: Path, content: bytes) -> None:
    try:  # between certificates there may be words in any language
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:  # ValueError: nothing at all
        raise _unusable(name, path, "must hold certificates as PEM", error) from None


def _read(name: str, path: Path) -> bytes:
    # A pipe without a writer would be waited for, and what is read from one cannot be read again to be checked.
    if pathlib.Path(path).exists() and not pathlib.Path(path).is_file():
        raise invalid("", f"{name} '{os.fspath(path)}' is no file", os.fspath(path), "a PEM file")
    with open(path, "rb") as file:
        return file.read()


class _PassphraseError(Exception):
    def __str__(self) -> str:
        return "it has one"


def _no_passphrase() -> bytes:
    raise _PassphraseError


def _unusable(name: str, path: Path, limit: str, error: Exception) -> InvalidArgumentError:
    reason = getattr(error, "reason", None) or str(error)
    return invalid("", f"{name} {os.fspath(path)} cannot be used, {limit}: {reason}", os.fspath(path), limit)
