"""TLS, mutual TLS and tokens against the real server."""

import subprocess

import pytest
from conftest import running_server

import attend
import attend.aio


def sign(folder, name, authority):
    """A key and a certificate for localhost and 127.0.0.1, by the openssl program; authority None: signed by itself."""
    options = ["-addext", "basicConstraints=critical,CA:TRUE"] if authority is None else [
        "-CA", folder / f"{authority}.cert", "-CAkey", folder / f"{authority}.key",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.cert", "-days", "2",
                    "-subj", f"/CN={name}", *options], check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("security")
    for authority in ("servers", "clients"):
        sign(folder, authority, None)
    sign(folder, "server", "servers")
    sign(folder, "client", "clients")
    sign(folder, "stranger", "servers")
    (folder / "tokens").write_text("alice:alices-token\n")
    return folder


@pytest.fixture(scope="module")
def secured(request, files):
    """A server that wants TLS, a client's certificate and a token."""
    with running_server(request.config.getoption("--server"), files, f"--tls_cert={files}/server.cert",
                        f"--tls_key={files}/server.key", f"--tls_client_ca={files}/clients.cert",
                        f"--token_file={files}/tokens") as running:
        yield running[1]["grpc"]


def pair(files, name):
    return {"certificate_file": files / f"{name}.cert", "key_file": files / f"{name}.key"}


def test_right(secured, files, tensors):
    with attend.connect(secured, ca_file=files / "servers.cert", token="alices-token",
                        **pair(files, "client")) as client:
        assert client.attention(*tensors).output.shape == (2, 4, 5, 6)
        assert client.server_info().version and client.is_serving()


async def call_aio(address, tensors, **settings):
    async with attend.aio.connect(address, **settings) as client:
        return await client.attention(*tensors)


def test_right_and_wrong_with_asyncio(secured, files, tensors):
    import asyncio

    settings = {"ca_file": files / "servers.cert", **pair(files, "client")}
    assert asyncio.run(call_aio(secured, tensors, token="alices-token", **settings)).output.shape == (2, 4, 5, 6)
    with pytest.raises(attend.UnauthenticatedError, match="not one of this server's"):
        asyncio.run(call_aio(secured, tensors, token="mallory", **settings))


@pytest.mark.parametrize("token, certified, words", [
    (None, True, "the call has no token"), ("mallory", True, "not one of this server's"),
    ("alices-token", False, "no client certificate")])
def test_calls_that_are_not_taken(secured, files, tensors, token, certified, words):
    settings = pair(files, "client") if certified else {}
    with attend.connect(secured, ca_file=files / "servers.cert", token=token, **settings) as client:
        with pytest.raises(attend.UnauthenticatedError, match=words):
            client.attention(*tensors)
        with pytest.raises(attend.UnauthenticatedError, match=words):
            client.server_info()
        assert client.is_serving(), "health is for everybody"


def test_connections_that_are_not_made(secured, files, tensors):
    right = {"ca_file": files / "servers.cert"}
    for settings in ({}, {"tls": True}, {"ca_file": files / "clients.cert"}, {**right, "server_name": "elsewhere"},
                     {**right, **pair(files, "stranger")}):
        with attend.connect(secured, timeout=20, retry=False, **settings) as client:
            with pytest.raises(attend.UnavailableError):
                client.attention(*tensors)
            with pytest.raises(attend.UnavailableError):
                client.is_serving()


def test_what_to_look_at(secured, server, files, tensors):
    right = {"ca_file": files / "servers.cert"}
    for address, settings, words in (
            (secured, {}, "may want tls=True or ca_file"), (server["grpc"], right, "speaks no TLS: connect without"),
            (secured, {"tls": True}, "does ca_file hold the authority"),
            (secured, {**right, "server_name": "elsewhere"}, "or server_name, a name in the server's certificate")):
        with attend.connect(address, **settings) as client:
            with pytest.raises(attend.UnavailableError, match=words) as caught:
                client.attention(*tensors)
        assert address in str(caught.value)


def test_client_certificate_that_the_handshake_wants(request, files, tensors, tmp_path):
    with running_server(request.config.getoption("--server"), tmp_path / "insists", f"--tls_cert={files}/server.cert",
                        f"--tls_key={files}/server.key", f"--tls_client_ca={files}/clients.cert",
                        "--health_requires_client_certificate") as running:
        for own, words in (({}, "may want a certificate_file, or"),
                           (pair(files, "stranger"), "may want a certificate_file signed by another authority")):
            with attend.connect(running[1]["grpc"], ca_file=files / "servers.cert", **own) as client, \
                    pytest.raises(attend.UnavailableError, match=words):
                client.attention(*tensors)
