"""HTTP/2 as no library would speak it: frames by hand, over a plain socket."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM = ACK = 1
END_HEADERS = 4
CHECK = "/grpc.health.v1.Health/Check"
ATTEND = "/attend.v1.AttentionService/Attend"
SERVING = b"\0\0\0\0\x02\x08\x01"  # a HealthCheckResponse behind its five bytes


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def text(value):
    """A string of HPACK, not compressed."""
    value = value.encode()
    length, size = len(value), b""
    if length >= 127:
        size, length = b"\x7f", length - 127
        while length >= 128:
            size += bytes((length % 128 + 128,))
            length //= 128
    return size + bytes((length,)) + value


def header_block(path, **extra):
    """The headers of a call, literals that are not indexed."""
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", "te": "trailers",
               "content-type": "application/grpc", **{name.replace("_", "-"): value for name, value in extra.items()}}
    return b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


class Connection:
    """One that keeps to the protocol: it acknowledges what must be, and gives the peer room to send."""

    def __init__(self, address):
        self.socket = connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self._received = b""
        self._next_stream = 1

    def close(self):
        self.socket.close()

    def check_health(self):
        """Asks the server as a whole; raises ConnectionError for any answer but SERVING."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, header_block(CHECK)) +
                            frame(DATA, END_STREAM, stream, bytes(5)) +
                            frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(SERVING))))
        answer = b""
        while True:
            kind, flags, of_stream, payload = self.read_frame()
            if kind == DATA and of_stream == stream:
                answer += payload
            if of_stream == stream and (kind == RESET or flags & END_STREAM and kind in (DATA, HEADERS)):
                break
        if answer != SERVING:
            raise ConnectionError(f"health answered {answer!r}")

    def read_frame(self):
        head = self._read(9)
        payload = self._read(int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big") & 0x7fffffff
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        return kind, flags, stream, payload

    def _read(self, size):
        while len(self._received) < size:
            received = self.socket.recv(65536)
            if not received:
                raise ConnectionError("the server closed the connection")
            self._received += received
        taken, self._received = self._received[:size], self._received[size:]
        return taken
