"""Retries, deadlines, errors of the server, addresses, TLS and tokens."""

import concurrent.futures
import contextlib
import os
import pickle
import socket
import subprocess
import threading

import grpc
import numpy as np
import pytest
from fake_server import OK, FakeServer, Refusal, retry_info

import attend
from attend import _call
from attend._security import Security
from attend.client.v1 import error_details_pb2, health_pb2
from attend.v1 import attention_pb2 as pb

UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
JOIN_SECONDS = 60
BUSY = Refusal(EXHAUSTED, "busy", [retry_info(1)])
DRAINING = Refusal(UNAVAILABLE, "draining", trailers=[("attend-request-id", "r")])


@pytest.fixture
def call(tensors):
    """call(answers, **options): attention on a fake server that answers so; gives result and server."""
    def run(answers, timeout=60.0, retry=True, **options):
        fake = FakeServer(answers)
        with fake.running() as port, attend.connect(f"127.0.0.1:{port}", timeout=timeout, retry=retry) as client:
            try:
                return client.attention(*tensors, **options), fake
            except attend.AttendError as error:
                return error, fake
    return run


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# Which failures are tried again.

def test_busy_and_draining_servers_are_tried_again_with_the_same_bytes(call):
    result, fake = call([BUSY, DRAINING, BUSY, OK])
    assert result.attempts == 4 and len(set(fake.requests)) == 1
    assert {one["attend-message-bytes"] for one in fake.metadata} == {str(len(fake.requests[0]))}


def test_retry_false_is_one_attempt(call):
    error, fake = call([BUSY, OK], retry=False)
    assert isinstance(error, attend.ResourceExhaustedError) and error.attempts == len(fake.requests) == 1
    assert error.retry_delay == 0.001


@pytest.mark.parametrize("refusal", [
    Refusal(EXHAUSTED, "too large"), Refusal(grpc.StatusCode.INTERNAL), Refusal(grpc.StatusCode.INVALID_ARGUMENT),
    Refusal(UNAVAILABLE, "go away", trailers=[("grpc-retry-pushback-ms", "-1")]),
    Refusal(EXHAUSTED, "odd", [retry_info(1)], trailers=[("grpc-retry-pushback-ms", "soon")]),
    Refusal(EXHAUSTED, "a delay beyond the deadline", [retry_info(600_000)]),
])
def test_failures_that_are_final(call, refusal):
    error, fake = call([refusal, OK])
    assert error.status == refusal.code and refusal.message in error.message and len(fake.requests) == 1


def test_cancelled_by_the_server_is_unavailable(call):
    result, fake = call([DRAINING, Refusal(grpc.StatusCode.CANCELLED, "shutting down"), OK])
    assert result.attempts == 3
    error, _ = call([Refusal(grpc.StatusCode.CANCELLED, "shutting down")], retry=False)
    assert isinstance(error, attend.UnavailableError) and "broke off: shutting down" in error.message


def test_server_that_was_restarted_is_found_again(tensors):
    fake = FakeServer([OK])
    with fake.running() as port:
        client = attend.connect(f"127.0.0.1:{port}")
        client.attention(*tensors)
    results = []
    with client:
        waiting = threading.Thread(target=lambda: results.append(client.attention(*tensors)))
        waiting.start()
        with FakeServer([OK]).running(f"127.0.0.1:{port}"):
            waiting.join()
    assert results[0].attempts >= 1


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Failure(Exception):
    """What Attempts reads of a grpc.RpcError."""

    def __init__(self, status, message="", trailers=()):
        self.code, self.details, self.trailing_metadata = (lambda: status), (lambda: message), (lambda: trailers)


def attempts(timeout=60.0, uniform=1.0, answered=True):
    endpoint = _call.Endpoint("127.0.0.1:1", Security())
    endpoint.answered = answered
    return _call.Attempts(endpoint, timeout, clock=Clock(), uniform=lambda: uniform)


def test_delays_double_up_to_a_limit_and_have_jitter():
    for uniform, factor in ((1.0, 1.0), (0.0, 0.5)):
        plan, delays = attempts(uniform=uniform), []
        for _ in range(8):
            plan.start()
            delays.append(plan.delay_after(Failure(UNAVAILABLE)) / factor)
        assert delays == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_delay_of_the_server_is_taken_as_it_is():
    plan = attempts(uniform=0.0)
    plan.start()
    assert plan.delay_after(Failure(EXHAUSTED, trailers=[("grpc-retry-pushback-ms", "250")])) == 0.25


def test_no_server_is_final_until_one_has_answered():
    plan = attempts(answered=False)
    plan.start()
    with pytest.raises(attend.UnavailableError, match="no server at 127.0.0.1:1: Connection refused"):
        plan.delay_after(Failure(UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN: "
                                              "ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused"))
    plan = attempts(answered=False)
    plan.start()
    assert plan.delay_after(Failure(UNAVAILABLE, trailers=[("attend-request-id", "r")])) > 0


def test_deadline_names_the_failure_before():
    plan = attempts(timeout=3.0)
    plan.start()
    plan.delay_after(Failure(UNAVAILABLE, "draining"))
    plan.start()
    plan._clock.now += 3
    words = "within 3 s in 2 attempts; the one before the last: draining"
    with pytest.raises(attend.DeadlineExceededError, match=words):
        plan.delay_after(Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))


# What errors say.

def test_error_of_the_real_server(client, tensors):
    with pytest.raises(attend.InvalidArgumentError) as caught:
        client.attention(*tensors, key_lengths=[1, 100], request_id="mine")
    error = caught.value
    assert (error.status, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "KEY_LENGTH_OUT_OF_RANGE")
    assert (error.field, error.value, error.limit) == ("options.key_lengths[1]", "100", "in [0, 7]")
    assert (error.request_id, error.attempts) == ("mine", 1) and "100" in str(error)


def test_result_that_is_too_large(client):
    long = np.zeros((1, 1, 8192, 1), np.float32)
    with pytest.raises(attend.InvalidArgumentError) as caught:
        client.attention(long, long, long, weights=True)
    assert caught.value.reason == "RESPONSE_TOO_LARGE"


def test_request_that_is_too_large(client):
    large = np.zeros((1, 1, 100_000, 64), np.float32)
    with pytest.raises(attend.ResourceExhaustedError) as caught:
        client.attention(large, large, large)
    assert caught.value.reason == "MESSAGE_TOO_LARGE" and caught.value.retry_delay is None


def test_field_that_the_server_does_not_know(call):
    info = error_details_pb2.ErrorInfo(reason="UNKNOWN_FIELD", domain="attend.v1")
    error, _ = call([Refusal(grpc.StatusCode.UNIMPLEMENTED, "field 99 of options is not known to 0.1.0", [info])])
    assert isinstance(error, attend.UnimplementedError) and isinstance(error, NotImplementedError)
    assert error.reason == "UNKNOWN_FIELD" and "field 99" in str(error)


def test_proxy_that_limits_messages(call):
    error, fake = call([Refusal(EXHAUSTED, "Received message larger than max (5000000 vs. 4194304)")])
    assert "4194304" in str(error) and "proxy" in str(error) and len(fake.requests) == 1


def test_errors_can_be_sent_to_other_processes(call):
    error, _ = call([Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "late", trailers=[("attend-request-id", "r")])])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is attend.DeadlineExceededError and vars(again) == vars(error) and str(again) == "late"


def test_details_that_are_no_message(call):
    trailers = [("grpc-status-details-bin", b"\xff")]
    error, _ = call([Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no", trailers=trailers)])
    assert isinstance(error, attend.InvalidArgumentError) and error.field == ""


def with_output(**fields):
    return pb.AttendResponse(output=pb.Tensor(**fields)).SerializeToString()


@pytest.mark.parametrize("answer", [
    b"\xff", b"\x0a\x7f", b"\x0b", b"\x80" * 11, b"\x0a\x0c" + with_output(data_type=1, shape=[1], data=b"abcd")[2:],
    with_output(data_type=1, shape=[3], data=b"ab"),
    with_output(data_type=77, shape=[1], data=b"ab"), with_output(data_type=1, shape=[-1, -1], data=b"abcd")])
def test_answer_that_is_no_response(call, answer):
    error, _ = call([answer])
    assert error.status == grpc.StatusCode.INTERNAL and "no AttendResponse" in error.message


def test_answer_of_a_newer_server(call):
    message = pb.AttendResponse(output=pb.Tensor(data_type=1, shape=[1], data=b"\0\0\x80\x3f"), multiply_adds=5)
    newer = b"\xf2\x7f\x03new" + message.SerializeToString() + b"\xe5\x7f\x01\x02\x03\x04"
    result, _ = call([newer])
    assert result.output.tolist() == [1.0] and result.multiply_adds == 5


# Addresses.

@pytest.mark.parametrize("address, words", [
    ("http://127.0.0.1:8001", "is an URL, .*: '127.0.0.1:8001'$"), ("https://a.b:443/x", "'a.b:443' and tls=True"),
    ("grpc://a:1", "'a:1'"), ("localhost", "is no address, must be host:port"), ("a:b", "no address"),
    ("::1:8001", "no address"), ("host:65536", "no address"), ("ipv4:foo", "no address"), ("unix:", "no address"),
    ("ipv4:1.2.3.4:1,1.2.3.5", "no address"), ("", "no address"), (b"a:1", "the address is b'a:1', must be host:port"),
    (8001, "the address is 8001, must be host:port"), ("host:80 01", "no address")])
def test_addresses_that_are_none(address, words):
    with pytest.raises(attend.InvalidArgumentError, match=words):
        attend.connect(address)


def test_nobody_listens(tensors):
    port = unused_port()
    with attend.connect(f"127.0.0.1:{port}") as client:
        words = f"no server at 127.0.0.1:{port}: Connection refused"
        with pytest.raises(attend.UnavailableError, match=words) as caught:
            client.attention(*tensors)
        assert caught.value.attempts == 1 and isinstance(caught.value, ConnectionError)


def test_http_port(server, tensors):
    with attend.connect(server["http"]) as client:
        with pytest.raises(attend.UnavailableError, match="speaks HTTP/1, not gRPC"):
            client.attention(*tensors)


class Relay:
    """Answers each connection by an answer of its own, or passes on to a server no more than `limit` bytes."""

    def __init__(self, answer=b"", server=None, limit=0):
        self._answer, self._server, self._limit = answer, server, limit

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return "{}:{}".format(*self._listener.getsockname())

    def __exit__(self, *error):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._server is None:
                    client.recv(4096)
                    client.sendall(self._answer)
                    client.close()
                    continue
                server = socket.create_connection(self._server.split(":"))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, sink):
        passed = 0
        with contextlib.suppress(OSError):
            while (some := source.recv(65536)) and passed < self._limit:
                sink.sendall(some)
                passed += len(some)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_server_of_another_protocol(tensors, answer):
    with Relay(answer) as address, attend.connect(address) as client:
        with pytest.raises(attend.UnavailableError, match="what answers at .* speaks (no gRPC|HTTP/1)"):
            client.attention(*tensors)


@pytest.mark.parametrize("answered", [False, True])
def test_proxy_that_cuts_long_messages(server, tensors, answered):
    large = np.zeros((1, 8, 4096, 64), np.float32)
    with Relay(server=server["grpc"], limit=4 << 20) as address, attend.connect(address, retry=False) as client:
        if answered:
            client.attention(*tensors)
        with pytest.raises(attend.UnavailableError, match=f"the connection to {address} broke off: .*a proxy between"):
            client.attention(large, large, large)


def test_grpc_server_of_another_service(tensors):
    empty = grpc.server(None, options=[("grpc.so_reuseport", 0)])
    port = empty.add_insecure_port("127.0.0.1:0")
    empty.start()
    try:
        with attend.connect(f"127.0.0.1:{port}") as client, pytest.raises(attend.UnimplementedError, match=str(port)):
            client.attention(*tensors)
    finally:
        empty.stop(grace=None)


def test_silent_server(tensors):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with attend.connect("127.0.0.1:%d" % silent.getsockname()[1], timeout=0.2) as client:
            with pytest.raises(attend.DeadlineExceededError, match="within 0.2 s") as caught:
                client.attention(*tensors)
            assert isinstance(caught.value, TimeoutError)


def test_server_that_does_not_serve():
    not_serving = health_pb2.HealthCheckResponse(
        status=health_pb2.HealthCheckResponse.SERVING_STATUS_NOT_SERVING).SerializeToString()
    serving = health_pb2.HealthCheckResponse(
        status=health_pb2.HealthCheckResponse.SERVING_STATUS_SERVING).SerializeToString()
    fake = FakeServer([not_serving, serving])
    with fake.running() as port, attend.connect(f"127.0.0.1:{port}") as client:
        client.wait_until_serving()
    assert len(fake.requests) == 2
    with FakeServer([Refusal(grpc.StatusCode.UNAUTHENTICATED, "no token")]).running() as port:
        with attend.connect(f"127.0.0.1:{port}") as client, pytest.raises(attend.UnauthenticatedError):
            client.wait_until_serving()
    with attend.connect(f"127.0.0.1:{unused_port()}") as client:
        with pytest.raises(attend.UnavailableError, match="not serving within 0.1 s: no server at"):
            client.wait_until_serving(timeout=0.1)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_timeouts_that_are_none(client, tensors, timeout):
    with pytest.raises(attend.InvalidArgumentError, match="must be more than 0"):
        attend.connect(timeout=timeout)
    with pytest.raises(attend.InvalidArgumentError, match="must be more than 0"):
        client.attention(*tensors, timeout=timeout)


def test_threads_share_a_client(client, tensors):
    scales = [0.1 * step for step in range(16)]
    want = [client.attention(*tensors, scale=scale).output for scale in scales]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda scale: client.attention(*tensors, scale=scale).output, scales))
    np.testing.assert_array_equal(got, want)


def test_closing_ends_calls_in_progress(tensors):
    begun, release = threading.Event(), threading.Event()

    def answer():
        begun.set()
        release.wait()
        return b""

    caught = []
    with FakeServer([answer]).running() as port:
        client = attend.connect(f"127.0.0.1:{port}")

        def wait():
            try:
                client.attention(*tensors)
            except attend.AttendError as error:
                caught.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        begun.wait()
        client.close()
        waiting.join(JOIN_SECONDS)
        release.set()
    assert isinstance(caught[0], attend.CancelledError)
    with pytest.raises(attend.CancelledError, match="closed"):
        client.attention(*tensors)


# Options.

@pytest.mark.parametrize("options, words", [
    ({"causal": True}, "'top_left' or 'bottom_right'"), ({"causal": "bottomright"}, "'top_left' or 'bottom_right'"),
    ({"layout": "BHND"}, "'bhnd' or 'bnhd' or 'thd'"), ({"scores": "all"}, "'softcapped'"),
    ({"compute_type": "f16"}, "'bf16'"), ({"output_type": np.float32}, "'float32'"),
    ({"key_lengths": [1.5, 2]}, "list of integers"), ({"sinks": 3}, "list of numbers"),
    ({"window_left": 2**63}, "window_left is 9223372036854775808"), ({"scale": "x"}, "scale is 'x'"),
    ({"request_id": 5}, "request_id is 5, must be of str"), ({"priority": 2**40}, "priority is 1099511627776")])
def test_options_that_say_nothing(client, tensors, options, words):
    with pytest.raises(attend.InvalidArgumentError, match=words) as caught:
        client.attention(*tensors, **options)
    assert caught.value.field.split(".")[-1] == next(iter(options)) and caught.value.attempts == 0


def test_option_that_there_is_not(client, tensors):
    for compute_it in (client.attention, attend.reference):
        with pytest.raises(TypeError, match="no option 'is_causal'; there are layout, scale, "):
            compute_it(*tensors, is_causal=True)


# TLS and tokens.

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The paths of a key and of a certificate of its own for the name attend.test."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=attend.test",
                    "-addext", "subjectAltName=DNS:attend.test"], check=True, capture_output=True)
    return key, cert


def test_tls_with_token_and_client_certificate(tensors, certificate):
    key, cert = certificate
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())], cert.read_bytes(), True)
    fake = FakeServer([OK])
    with fake.running(credentials=credentials) as port:
        with attend.connect(f"127.0.0.1:{port}", ca_file=cert, certificate_file=cert, key_file=key,
                            server_name="attend.test", token="secret") as client:
            client.attention(*tensors)
        assert fake.metadata[0]["authorization"] == "Bearer secret"
        for settings, words in (({"tls": True}, "no TLS with"), ({"ca_file": cert}, "no TLS with"),
                                ({}, r"Socket closed \(the server may want tls=True or ca_file, or")):
            with attend.connect(f"127.0.0.1:{port}", **settings) as stranger:
                with pytest.raises(attend.UnavailableError, match=words):
                    stranger.attention(*tensors)
    assert len(fake.metadata) == 1


def test_tls_to_a_server_without(server, tensors):
    with attend.connect(server["grpc"], tls=True) as client:
        with pytest.raises(attend.UnavailableError, match="speaks no TLS"):
            client.attention(*tensors)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory, certificate):
    """The paths of what is no certificate or no key of `certificate`, by their names."""
    folder = tmp_path_factory.mktemp("bad")
    begin, end = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
    texts = {"text": "text", "empty": "", "broken": f"{begin}MAA=\n{end}",
             "revocations": f"{begin}MAA=\n{end}".replace("CERTIFICATE", "X509 CRL"),
             "half": certificate[1].read_text() + f"{begin}MAA=\n{end}"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    for name, options in (("other", ["-nodes"]), ("encrypted", ["-passout", "pass:secret"])):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-keyout", folder / name, "-out", folder / f"{name}.cert", "-subj", "/CN=attend.test", *options],
                       check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", ["text", "empty", "broken", "revocations", "half", "pipe", "folder"])
def test_authorities_that_are_none(bad_files, name):
    with pytest.raises(attend.InvalidArgumentError, match=f"ca_file .*{name}"):
        attend.connect(ca_file=bad_files / name)


@pytest.mark.parametrize("name", ["text", "empty", "broken", "revocations", "pipe", "folder"])
def test_pairs_that_are_none(bad_files, certificate, name):
    key, cert = certificate
    with pytest.raises(attend.InvalidArgumentError, match=f"certificate_file .*{name}"):
        attend.connect(certificate_file=bad_files / name, key_file=key)
    with pytest.raises(attend.InvalidArgumentError, match=f"key_file .*{name}"):
        attend.connect(certificate_file=cert, key_file=bad_files / name)


def test_keys_that_are_not_those_of_the_certificate(bad_files, certificate):
    with pytest.raises(attend.InvalidArgumentError, match=f"key_file .*other cannot be used.*of certificate_file "
                                                          f"{certificate[1]}: KEY_VALUES_MISMATCH"):
        attend.connect(certificate_file=certificate[1], key_file=bad_files / "other")
    with pytest.raises(attend.InvalidArgumentError, match="key_file .*encrypted cannot be used.*without a passphrase"):
        attend.connect(certificate_file=bad_files / "encrypted.cert", key_file=bad_files / "encrypted")


def test_words_between_certificates(certificate, tmp_path):
    (tmp_path / "bundle").write_text("# Autorit\u00e9\n" + certificate[1].read_text())
    attend.connect(ca_file=tmp_path / "bundle").close()


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**12])
def test_timeouts_of_no_end(server, tensors, timeout):
    with attend.connect(server["grpc"], timeout=timeout) as client:
        assert client.attention(*tensors).output.shape == (2, 4, 5, 6)


@pytest.mark.parametrize("timeout", ["5", None, True, float("nan"), 0])
def test_timeouts_that_are_none(timeout):
    words = f"timeout is {timeout!r} s, must be more than 0"
    with pytest.raises(attend.InvalidArgumentError, match=words):
        attend.connect("127.0.0.1:1", timeout=timeout)
    with attend.connect("127.0.0.1:1") as client, pytest.raises(attend.InvalidArgumentError, match=words):
        client.wait_until_serving(timeout=timeout)


def test_settings_that_cannot_be(certificate):
    key, cert = certificate
    with pytest.raises(FileNotFoundError, match="absent"):
        attend.connect(ca_file=cert.parent / "absent")
    for option in ("certificate_file", "key_file"):  # gRPC would abort the process
        with pytest.raises(ValueError, match="certificate_file and key_file belong together"):
            attend.connect(**{option: cert})
    for settings in ({"ca_file": cert}, {"certificate_file": cert, "key_file": key}, {"server_name": "attend.test"}):
        with pytest.raises(attend.InvalidArgumentError, match=f"tls is False, and {next(iter(settings))} is given"):
            attend.connect(tls=False, **settings)
    with pytest.raises(attend.InvalidArgumentError, match="ca_file '' is no file"):
        attend.connect(ca_file="")
    for address in ("ipv4:127.0.0.1:1,127.0.0.1:2", "unix:/socket", "unix-abstract:socket"):
        with pytest.raises(attend.InvalidArgumentError, match="names no host: with TLS, server_name must be given"):
            attend.connect(address, tls=True)
    attend.connect("ipv4:127.0.0.1:1,127.0.0.1:2", tls=True, server_name="attend.test").close()
    for name in ("token", "server_name"):
        for text in ("", b"secret", "a\nb", "schl\u00fcssel", 5):
            with pytest.raises(attend.InvalidArgumentError, match=f"{name} must be a text, printable ASCII") as raised:
                attend.connect(**{name: text})
            assert not text or str(text) not in str(raised.value)


def test_token_without_tls(tensors, recwarn):
    fake = FakeServer([OK])
    with fake.running() as port, attend.connect(f"127.0.0.1:{port}", token="secret") as client:
        client.attention(*tensors)
        assert fake.metadata[0]["authorization"] == "Bearer secret" and not recwarn
    with pytest.warns(UserWarning, match="in the clear") as warned:
        attend.connect("192.0.2.1:8001", token="secret").close()
    assert warned[0].filename == __file__


def test_token_that_is_wrong(call):
    error, _ = call([Refusal(grpc.StatusCode.UNAUTHENTICATED, "no such token")])
    assert isinstance(error, attend.UnauthenticatedError) and isinstance(error, PermissionError)
