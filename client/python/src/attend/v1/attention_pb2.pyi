from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CAUSAL_ALIGNMENT_BOTTOM_RIGHT: CausalAlignment
CAUSAL_ALIGNMENT_NONE: CausalAlignment
CAUSAL_ALIGNMENT_TOP_LEFT: CausalAlignment
CAUSAL_ALIGNMENT_UNSPECIFIED: CausalAlignment
COMPUTE_TYPE_BF16: ComputeType
COMPUTE_TYPE_UNSPECIFIED: ComputeType
DATA_TYPE_BFLOAT16: DataType
DATA_TYPE_BOOL: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_INT64: DataType
DATA_TYPE_UNSPECIFIED: DataType
DESCRIPTOR: _descriptor.FileDescriptor
LAYOUT_BHND: Layout
LAYOUT_BNHD: Layout
LAYOUT_THD: Layout
LAYOUT_UNSPECIFIED: Layout
SCORE_STAGE_MASKED: ScoreStage
SCORE_STAGE_NONE: ScoreStage
SCORE_STAGE_SCALED: ScoreStage
SCORE_STAGE_SOFTCAPPED: ScoreStage
SCORE_STAGE_UNSPECIFIED: ScoreStage

class AttendRequest(_message.Message):
    __slots__ = ["key", "options", "priority", "query", "request_id", "results", "value"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: Tensor
    options: AttentionOptions
    priority: int
    query: Tensor
    request_id: str
    results: ResultSelection
    value: Tensor
    def __init__(self, query: _Optional[_Union[Tensor, _Mapping]] = ..., key: _Optional[_Union[Tensor, _Mapping]] = ..., value: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[AttentionOptions, _Mapping]] = ..., results: _Optional[_Union[ResultSelection, _Mapping]] = ..., request_id: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class AttendResponse(_message.Message):
    __slots__ = ["logsumexp", "multiply_adds", "output", "request_id", "scores", "timings", "weights"]
    LOGSUMEXP_FIELD_NUMBER: _ClassVar[int]
    MULTIPLY_ADDS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    logsumexp: Tensor
    multiply_adds: int
    output: Tensor
    request_id: str
    scores: Tensor
    timings: Timings
    weights: Tensor
    def __init__(self, output: _Optional[_Union[Tensor, _Mapping]] = ..., weights: _Optional[_Union[Tensor, _Mapping]] = ..., scores: _Optional[_Union[Tensor, _Mapping]] = ..., logsumexp: _Optional[_Union[Tensor, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., multiply_adds: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class AttentionOptions(_message.Message):
    __slots__ = ["alibi_slopes", "bias", "causal", "compute_type", "key_lengths", "key_starts", "layout", "mask", "output_type", "query_offset", "query_starts", "reject_non_finite", "scale", "sinks", "softcap", "window_left", "window_right"]
    ALIBI_SLOPES_FIELD_NUMBER: _ClassVar[int]
    BIAS_FIELD_NUMBER: _ClassVar[int]
    CAUSAL_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    KEY_STARTS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUERY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    QUERY_STARTS_FIELD_NUMBER: _ClassVar[int]
    REJECT_NON_FINITE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    SOFTCAP_FIELD_NUMBER: _ClassVar[int]
    WINDOW_LEFT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_RIGHT_FIELD_NUMBER: _ClassVar[int]
    alibi_slopes: _containers.RepeatedScalarFieldContainer[float]
    bias: Tensor
    causal: CausalAlignment
    compute_type: ComputeType
    key_lengths: _containers.RepeatedScalarFieldContainer[int]
    key_starts: _containers.RepeatedScalarFieldContainer[int]
    layout: Layout
    mask: Tensor
    output_type: DataType
    query_offset: _containers.RepeatedScalarFieldContainer[int]
    query_starts: _containers.RepeatedScalarFieldContainer[int]
    reject_non_finite: bool
    scale: float
    sinks: _containers.RepeatedScalarFieldContainer[float]
    softcap: float
    window_left: int
    window_right: int
    def __init__(self, layout: _Optional[_Union[Layout, str]] = ..., scale: _Optional[float] = ..., softcap: _Optional[float] = ..., causal: _Optional[_Union[CausalAlignment, str]] = ..., query_offset: _Optional[_Iterable[int]] = ..., window_left: _Optional[int] = ..., window_right: _Optional[int] = ..., key_lengths: _Optional[_Iterable[int]] = ..., query_starts: _Optional[_Iterable[int]] = ..., key_starts: _Optional[_Iterable[int]] = ..., mask: _Optional[_Union[Tensor, _Mapping]] = ..., bias: _Optional[_Union[Tensor, _Mapping]] = ..., alibi_slopes: _Optional[_Iterable[float]] = ..., sinks: _Optional[_Iterable[float]] = ..., compute_type: _Optional[_Union[ComputeType, str]] = ..., output_type: _Optional[_Union[DataType, str]] = ..., reject_non_finite: bool = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ["compute_threads", "front_ends", "instruction_set", "max_head_dim", "max_message_bytes", "memory_budget_bytes", "multiply_adds_per_second", "native_types", "onednn_version", "supported_options", "version"]
    COMPUTE_THREADS_FIELD_NUMBER: _ClassVar[int]
    FRONT_ENDS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_SET_FIELD_NUMBER: _ClassVar[int]
    MAX_HEAD_DIM_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    MULTIPLY_ADDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    NATIVE_TYPES_FIELD_NUMBER: _ClassVar[int]
    ONEDNN_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    compute_threads: int
    front_ends: _containers.RepeatedScalarFieldContainer[str]
    instruction_set: str
    max_head_dim: int
    max_message_bytes: int
    memory_budget_bytes: int
    multiply_adds_per_second: float
    native_types: _containers.RepeatedScalarFieldContainer[DataType]
    onednn_version: str
    supported_options: _containers.RepeatedScalarFieldContainer[str]
    version: str
    def __init__(self, version: _Optional[str] = ..., onednn_version: _Optional[str] = ..., instruction_set: _Optional[str] = ..., native_types: _Optional[_Iterable[_Union[DataType, str]]] = ..., compute_threads: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_head_dim: _Optional[int] = ..., supported_options: _Optional[_Iterable[str]] = ..., front_ends: _Optional[_Iterable[str]] = ..., multiply_adds_per_second: _Optional[float] = ...) -> None: ...

class ResultSelection(_message.Message):
    __slots__ = ["average_weights_over_heads", "logsumexp", "omit_output", "scores", "weight_query_rows", "weights"]
    AVERAGE_WEIGHTS_OVER_HEADS_FIELD_NUMBER: _ClassVar[int]
    LOGSUMEXP_FIELD_NUMBER: _ClassVar[int]
    OMIT_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_QUERY_ROWS_FIELD_NUMBER: _ClassVar[int]
    average_weights_over_heads: bool
    logsumexp: bool
    omit_output: bool
    scores: ScoreStage
    weight_query_rows: _containers.RepeatedScalarFieldContainer[int]
    weights: bool
    def __init__(self, weights: bool = ..., weight_query_rows: _Optional[_Iterable[int]] = ..., average_weights_over_heads: bool = ..., scores: _Optional[_Union[ScoreStage, str]] = ..., logsumexp: bool = ..., omit_output: bool = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ["data", "data_type", "shape"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    data_type: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, data_type: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ["compute", "encode", "pack", "queue", "receive"]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    ENCODE_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    compute: _duration_pb2.Duration
    encode: _duration_pb2.Duration
    pack: _duration_pb2.Duration
    queue: _duration_pb2.Duration
    receive: _duration_pb2.Duration
    def __init__(self, receive: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., queue: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., pack: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., compute: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., encode: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class CausalAlignment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ComputeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ScoreStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
