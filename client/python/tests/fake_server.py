"""A gRPC server that answers as it is told, one answer after the other."""

import concurrent.futures
import contextlib

import grpc
from google.protobuf import any_pb2

from attend.client.v1 import error_details_pb2
from attend.v1 import attention_pb2 as pb

OK = object()


class Refusal:
    """A status, with the trailers that Attend sends."""

    def __init__(self, code, message="no", details=(), trailers=()):
        self.code, self.message = code, message
        status = error_details_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            status.details.append(any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{detail.DESCRIPTOR.name}",
                                              value=detail.SerializeToString()))
        self.trailers = tuple(trailers)
        if details:
            self.trailers += (("grpc-status-details-bin", status.SerializeToString()),)


def retry_info(milliseconds):
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(milliseconds)
    return info


class FakeServer(grpc.GenericRpcHandler):
    """`answers`: a Refusal, OK (an empty response) or the response's bytes each; the last one stays. `requests` and
    `metadata` are what arrived."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests, self.metadata = [], []

    def service(self, details):
        self.metadata.append(dict(details.invocation_metadata))
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request, context):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Refusal):
            context.set_trailing_metadata(answer.trailers)
            context.abort(answer.code, answer.message)
        if callable(answer):
            answer = answer()
        return pb.AttendResponse().SerializeToString() if answer is OK else answer

    @contextlib.contextmanager
    def running(self, address="127.0.0.1:0", credentials=None):
        """Listens; gives the port."""
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[self],
                             options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
        port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
        server.start()
        try:
            yield port
        finally:
            server.stop(grace=None).wait()
