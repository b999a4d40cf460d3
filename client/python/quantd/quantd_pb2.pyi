from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

AMAX_DOMAIN_ROW: AmaxDomain
AMAX_DOMAIN_TENSOR: AmaxDomain
DESCRIPTOR: _descriptor.FileDescriptor
DTYPE_BF16: DType
DTYPE_E2M1X2: DType
DTYPE_E4M3: DType
DTYPE_E5M2: DType
DTYPE_E8M0: DType
DTYPE_F16: DType
DTYPE_F32: DType
DTYPE_UNSPECIFIED: DType
FORMAT_FP8_BLOCK_2D_E4M3: Format
FORMAT_FP8_BLOCK_2D_E5M2: Format
FORMAT_FP8_BLOCK_E4M3: Format
FORMAT_FP8_BLOCK_E5M2: Format
FORMAT_FP8_CHANNEL_E4M3: Format
FORMAT_FP8_E4M3: Format
FORMAT_FP8_E5M2: Format
FORMAT_MXFP4: Format
FORMAT_MXFP8_E4M3: Format
FORMAT_MXFP8_E5M2: Format
FORMAT_NVFP4: Format
FORMAT_NVFP4_2D: Format
FORMAT_UNSPECIFIED: Format
FOUR_OVER_SIX_MAE: FourOverSix
FOUR_OVER_SIX_MSE: FourOverSix
FOUR_OVER_SIX_OFF: FourOverSix
HISTORY_RULE_MAX: HistoryRule
HISTORY_RULE_MOST_RECENT: HistoryRule
LAYOUT_LINEAR: Layout
LAYOUT_SWIZZLED: Layout
LAYOUT_UNSPECIFIED: Layout
NON_FINITE_IGNORE: NonFinite
NON_FINITE_PROPAGATE: NonFinite
NON_FINITE_REJECT: NonFinite
PROFILE_COMFY_0_2_40: Profile
PROFILE_COMFY_0_2_40_CUDA: Profile
PROFILE_COMPRESSED_TENSORS_0_20: Profile
PROFILE_COMPRESSED_TENSORS_0_20_CUDA: Profile
PROFILE_DEEPGEMM: Profile
PROFILE_DEEPGEMM_CUDA: Profile
PROFILE_MILES: Profile
PROFILE_MODELOPT_0_47: Profile
PROFILE_MODELOPT_0_47_CUDA: Profile
PROFILE_TE: Profile
PROFILE_TORCHAO_0_18: Profile
PROFILE_TORCHAO_0_18_CUDA: Profile
ROUNDING_NEAREST: Rounding
ROUNDING_STOCHASTIC: Rounding
SCALE_RULE_CEIL: ScaleRule
SCALE_RULE_EVEN: ScaleRule
SCALE_RULE_FLOOR: ScaleRule
SCALE_RULE_UP: ScaleRule
TENSOR_KIND_AMAX: TensorKind
TENSOR_KIND_AMAX_HISTORY: TensorKind
TENSOR_KIND_COLUMNWISE_AMAX: TensorKind
TENSOR_KIND_COLUMNWISE_DATA: TensorKind
TENSOR_KIND_COLUMNWISE_RHT_AMAX: TensorKind
TENSOR_KIND_COLUMNWISE_SCALE: TensorKind
TENSOR_KIND_DBIAS: TensorKind
TENSOR_KIND_DEQUANTIZED: TensorKind
TENSOR_KIND_INPUT: TensorKind
TENSOR_KIND_NEXT_SCALE: TensorKind
TENSOR_KIND_ROTATED: TensorKind
TENSOR_KIND_ROWWISE_AMAX: TensorKind
TENSOR_KIND_ROWWISE_DATA: TensorKind
TENSOR_KIND_ROWWISE_GLOBAL_DIVISOR: TensorKind
TENSOR_KIND_ROWWISE_GLOBAL_SCALE: TensorKind
TENSOR_KIND_ROWWISE_RHT_AMAX: TensorKind
TENSOR_KIND_ROWWISE_SCALE: TensorKind
TENSOR_KIND_UNSPECIFIED: TensorKind
USAGE_BOTH: Usage
USAGE_COLUMNWISE: Usage
USAGE_NONE: Usage
USAGE_ROWWISE: Usage
USAGE_UNSPECIFIED: Usage

class ApplyRhtOptions(_message.Message):
    __slots__ = ["inverse", "output", "rht"]
    inverse: bool
    output: DType
    rht: Rht
    def __init__(self, inverse: bool = ..., output: _Optional[_Union[DType, str]] = ..., rht: _Optional[_Union[Rht, _Mapping]] = ...) -> None: ...

class ApplyRhtReply(_message.Message):
    __slots__ = ["options", "payload", "report", "request_id", "tensor", "tensors"]
    options: ApplyRhtOptions
    payload: bytes
    report: Report
    request_id: str
    tensor: Tensor
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[ApplyRhtOptions, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., request_id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ApplyRhtRequest(_message.Message):
    __slots__ = ["memory", "options", "payload", "tensor"]
    memory: LentMemory
    options: ApplyRhtOptions
    payload: bytes
    tensor: Tensor
    def __init__(self, tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[ApplyRhtOptions, _Mapping]] = ..., memory: _Optional[_Union[LentMemory, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CopyForm(_message.Message):
    __slots__ = ["compact_scales", "row_scaled", "scale_256", "scale_layout"]
    compact_scales: bool
    row_scaled: bool
    scale_256: bool
    scale_layout: Layout
    def __init__(self, scale_layout: _Optional[_Union[Layout, str]] = ..., compact_scales: bool = ..., row_scaled: bool = ..., scale_256: bool = ...) -> None: ...

class DequantizeOptions(_message.Message):
    __slots__ = ["form", "format", "inverse_rht", "output", "profile", "rotated_dimension", "splits", "usage"]
    form: CopyForm
    format: Format
    inverse_rht: Rht
    output: DType
    profile: Profile
    rotated_dimension: int
    splits: Splits
    usage: Usage
    def __init__(self, format: _Optional[_Union[Format, str]] = ..., usage: _Optional[_Union[Usage, str]] = ..., output: _Optional[_Union[DType, str]] = ..., inverse_rht: _Optional[_Union[Rht, _Mapping]] = ..., form: _Optional[_Union[CopyForm, _Mapping]] = ..., splits: _Optional[_Union[Splits, _Mapping]] = ..., rotated_dimension: _Optional[int] = ..., profile: _Optional[_Union[Profile, str]] = ...) -> None: ...

class DequantizeReply(_message.Message):
    __slots__ = ["options", "payload", "report", "request_id", "tensor", "tensors"]
    options: DequantizeOptions
    payload: bytes
    report: Report
    request_id: str
    tensor: Tensor
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[DequantizeOptions, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., request_id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class DequantizeRequest(_message.Message):
    __slots__ = ["amax", "memory", "options", "payload", "tensor", "tensors"]
    amax: float
    memory: LentMemory
    options: DequantizeOptions
    payload: bytes
    tensor: Tensor
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[DequantizeOptions, _Mapping]] = ..., tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., amax: _Optional[float] = ..., memory: _Optional[_Union[LentMemory, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class DescribeQuantizeReply(_message.Message):
    __slots__ = ["input_bytes", "output_bytes", "request_id", "scratch_bytes", "tensors"]
    input_bytes: int
    output_bytes: int
    request_id: str
    scratch_bytes: int
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., input_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., scratch_bytes: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ["description", "jobs", "kind", "memory_high_water_bytes", "memory_limit_bytes", "name", "rht_cache_hits", "rht_cache_misses", "rht_launches", "state"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    STATE_HEALTHY: Device.State
    STATE_QUARANTINED: Device.State
    STATE_UNSPECIFIED: Device.State
    description: str
    jobs: int
    kind: str
    memory_high_water_bytes: int
    memory_limit_bytes: int
    name: str
    rht_cache_hits: int
    rht_cache_misses: int
    rht_launches: int
    state: Device.State
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[_Union[Device.State, str]] = ..., memory_limit_bytes: _Optional[int] = ..., memory_high_water_bytes: _Optional[int] = ..., jobs: _Optional[int] = ..., rht_cache_hits: _Optional[int] = ..., rht_cache_misses: _Optional[int] = ..., rht_launches: _Optional[int] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ["expected", "field", "got", "limit", "reason", "retry_delay_ms"]
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    REASON_BUSY: ErrorDetail.Reason
    REASON_CANCELLED: ErrorDetail.Reason
    REASON_DEADLINE: ErrorDetail.Reason
    REASON_DEVICE_FAULT: ErrorDetail.Reason
    REASON_DRAINING: ErrorDetail.Reason
    REASON_INVALID_FIELD: ErrorDetail.Reason
    REASON_MALFORMED: ErrorDetail.Reason
    REASON_NO_DEVICE: ErrorDetail.Reason
    REASON_TOO_LARGE: ErrorDetail.Reason
    REASON_UNSPECIFIED: ErrorDetail.Reason
    expected: str
    field: str
    got: str
    limit: int
    reason: ErrorDetail.Reason
    retry_delay_ms: int
    def __init__(self, reason: _Optional[_Union[ErrorDetail.Reason, str]] = ..., field: _Optional[str] = ..., expected: _Optional[str] = ..., got: _Optional[str] = ..., limit: _Optional[int] = ..., retry_delay_ms: _Optional[int] = ...) -> None: ...

class ErrorStatistics(_message.Message):
    __slots__ = ["clipped", "elements", "flushed", "max_error", "noise", "signal", "sqnr_db"]
    clipped: int
    elements: int
    flushed: int
    max_error: float
    noise: float
    signal: float
    sqnr_db: float
    def __init__(self, elements: _Optional[int] = ..., clipped: _Optional[int] = ..., flushed: _Optional[int] = ..., max_error: _Optional[float] = ..., signal: _Optional[float] = ..., noise: _Optional[float] = ..., sqnr_db: _Optional[float] = ...) -> None: ...

class FormatSupport(_message.Message):
    __slots__ = ["device_kinds", "format", "inputs", "name", "options", "rht_dimensions", "usages"]
    device_kinds: _containers.RepeatedScalarFieldContainer[str]
    format: Format
    inputs: _containers.RepeatedScalarFieldContainer[DType]
    name: str
    options: _containers.RepeatedScalarFieldContainer[str]
    rht_dimensions: _containers.RepeatedScalarFieldContainer[int]
    usages: _containers.RepeatedScalarFieldContainer[Usage]
    def __init__(self, format: _Optional[_Union[Format, str]] = ..., name: _Optional[str] = ..., device_kinds: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[_Union[DType, str]]] = ..., usages: _Optional[_Iterable[_Union[Usage, str]]] = ..., rht_dimensions: _Optional[_Iterable[int]] = ..., options: _Optional[_Iterable[str]] = ...) -> None: ...

class GetServerInfoReply(_message.Message):
    __slots__ = ["devices", "formats", "limits", "version"]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    formats: _containers.RepeatedCompositeFieldContainer[FormatSupport]
    limits: Limits
    version: str
    def __init__(self, version: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., formats: _Optional[_Iterable[_Union[FormatSupport, _Mapping]]] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GivenAmax(_message.Message):
    __slots__ = ["columnwise", "columnwise_values", "rowwise", "rowwise_values"]
    columnwise: float
    columnwise_values: _containers.RepeatedScalarFieldContainer[float]
    rowwise: float
    rowwise_values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rowwise: _Optional[float] = ..., columnwise: _Optional[float] = ..., rowwise_values: _Optional[_Iterable[float]] = ..., columnwise_values: _Optional[_Iterable[float]] = ...) -> None: ...

class History(_message.Message):
    __slots__ = ["amax", "margin", "rule"]
    amax: _containers.RepeatedScalarFieldContainer[float]
    margin: int
    rule: HistoryRule
    def __init__(self, amax: _Optional[_Iterable[float]] = ..., rule: _Optional[_Union[HistoryRule, str]] = ..., margin: _Optional[int] = ...) -> None: ...

class LentMemory(_message.Message):
    __slots__ = ["inputs", "outputs", "record_event", "wait_event"]
    inputs: _containers.RepeatedCompositeFieldContainer[MemoryRange]
    outputs: _containers.RepeatedCompositeFieldContainer[LentOutput]
    record_event: bytes
    wait_event: bytes
    def __init__(self, inputs: _Optional[_Iterable[_Union[MemoryRange, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[LentOutput, _Mapping]]] = ..., wait_event: _Optional[bytes] = ..., record_event: _Optional[bytes] = ...) -> None: ...

class LentOutput(_message.Message):
    __slots__ = ["kind", "range"]
    kind: TensorKind
    range: MemoryRange
    def __init__(self, kind: _Optional[_Union[TensorKind, str]] = ..., range: _Optional[_Union[MemoryRange, _Mapping]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ["amax_estimation_scale", "max_rank", "max_request_bytes", "memory_budget_bytes", "reduce_amax"]
    amax_estimation_scale: float
    max_rank: int
    max_request_bytes: int
    memory_budget_bytes: int
    reduce_amax: bool
    def __init__(self, max_request_bytes: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., max_rank: _Optional[int] = ..., amax_estimation_scale: _Optional[float] = ..., reduce_amax: bool = ...) -> None: ...

class Maxima(_message.Message):
    __slots__ = ["columnwise", "rowwise", "saw_inf", "saw_nan"]
    columnwise: _containers.RepeatedScalarFieldContainer[float]
    rowwise: _containers.RepeatedScalarFieldContainer[float]
    saw_inf: bool
    saw_nan: bool
    def __init__(self, rowwise: _Optional[_Iterable[float]] = ..., columnwise: _Optional[_Iterable[float]] = ..., saw_nan: bool = ..., saw_inf: bool = ...) -> None: ...

class MemoryRange(_message.Message):
    __slots__ = ["offset", "region", "size"]
    offset: int
    region: bytes
    size: int
    def __init__(self, region: _Optional[bytes] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class QuantizeOptions(_message.Message):
    __slots__ = ["amax", "amax_estimation_scale", "dbias", "dbias_dtype", "epsilon", "fast_error", "form", "format", "four_over_six", "given_amax", "history", "non_finite", "power_of_two", "profile", "rht", "rounding", "scale", "scale_rule", "scale_search", "shard", "splits", "statistics", "stochastic", "usage"]
    amax: bool
    amax_estimation_scale: float
    dbias: bool
    dbias_dtype: DType
    epsilon: float
    fast_error: bool
    form: CopyForm
    format: Format
    four_over_six: FourOverSix
    given_amax: GivenAmax
    history: History
    non_finite: NonFinite
    power_of_two: bool
    profile: Profile
    rht: Rht
    rounding: Rounding
    scale: _containers.RepeatedScalarFieldContainer[float]
    scale_rule: ScaleRule
    scale_search: bool
    shard: Shard
    splits: Splits
    statistics: bool
    stochastic: Stochastic
    usage: Usage
    def __init__(self, format: _Optional[_Union[Format, str]] = ..., usage: _Optional[_Union[Usage, str]] = ..., rht: _Optional[_Union[Rht, _Mapping]] = ..., non_finite: _Optional[_Union[NonFinite, str]] = ..., given_amax: _Optional[_Union[GivenAmax, _Mapping]] = ..., form: _Optional[_Union[CopyForm, _Mapping]] = ..., rounding: _Optional[_Union[Rounding, str]] = ..., stochastic: _Optional[_Union[Stochastic, _Mapping]] = ..., shard: _Optional[_Union[Shard, _Mapping]] = ..., four_over_six: _Optional[_Union[FourOverSix, str]] = ..., fast_error: bool = ..., amax_estimation_scale: _Optional[float] = ..., epsilon: _Optional[float] = ..., power_of_two: bool = ..., scale: _Optional[_Iterable[float]] = ..., history: _Optional[_Union[History, _Mapping]] = ..., scale_rule: _Optional[_Union[ScaleRule, str]] = ..., splits: _Optional[_Union[Splits, _Mapping]] = ..., amax: bool = ..., dbias: bool = ..., dbias_dtype: _Optional[_Union[DType, str]] = ..., statistics: bool = ..., profile: _Optional[_Union[Profile, str]] = ..., scale_search: bool = ...) -> None: ...

class QuantizeReply(_message.Message):
    __slots__ = ["options", "payload", "report", "request_id", "tensor", "tensors"]
    options: QuantizeOptions
    payload: bytes
    report: Report
    request_id: str
    tensor: Tensor
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[QuantizeOptions, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., request_id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class QuantizeRequest(_message.Message):
    __slots__ = ["memory", "options", "payload", "tensor"]
    memory: LentMemory
    options: QuantizeOptions
    payload: bytes
    tensor: Tensor
    def __init__(self, tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[QuantizeOptions, _Mapping]] = ..., memory: _Optional[_Union[LentMemory, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ["columnwise", "device", "replaced_globals", "rowwise", "saw_inf", "saw_nan"]
    columnwise: ErrorStatistics
    device: str
    replaced_globals: int
    rowwise: ErrorStatistics
    saw_inf: bool
    saw_nan: bool
    def __init__(self, saw_nan: bool = ..., saw_inf: bool = ..., device: _Optional[str] = ..., rowwise: _Optional[_Union[ErrorStatistics, _Mapping]] = ..., columnwise: _Optional[_Union[ErrorStatistics, _Mapping]] = ..., replaced_globals: _Optional[int] = ...) -> None: ...

class Rht(_message.Message):
    __slots__ = ["columnwise", "dimension", "rowwise", "sign_mask"]
    columnwise: bool
    dimension: int
    rowwise: bool
    sign_mask: bytes
    def __init__(self, rowwise: bool = ..., columnwise: bool = ..., dimension: _Optional[int] = ..., sign_mask: _Optional[bytes] = ...) -> None: ...

class RhtAmaxOptions(_message.Message):
    __slots__ = ["columnwise", "columnwise_rht", "domain", "non_finite", "rht", "rowwise", "rowwise_rht", "splits"]
    columnwise: bool
    columnwise_rht: bool
    domain: AmaxDomain
    non_finite: NonFinite
    rht: Rht
    rowwise: bool
    rowwise_rht: bool
    splits: Splits
    def __init__(self, rowwise: bool = ..., rowwise_rht: bool = ..., columnwise: bool = ..., columnwise_rht: bool = ..., rht: _Optional[_Union[Rht, _Mapping]] = ..., non_finite: _Optional[_Union[NonFinite, str]] = ..., domain: _Optional[_Union[AmaxDomain, str]] = ..., splits: _Optional[_Union[Splits, _Mapping]] = ...) -> None: ...

class RhtAmaxReply(_message.Message):
    __slots__ = ["options", "payload", "report", "request_id", "tensor", "tensors"]
    options: RhtAmaxOptions
    payload: bytes
    report: Report
    request_id: str
    tensor: Tensor
    tensors: _containers.RepeatedCompositeFieldContainer[TensorRef]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorRef, _Mapping]]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[RhtAmaxOptions, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., request_id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class RhtAmaxRequest(_message.Message):
    __slots__ = ["memory", "options", "payload", "tensor"]
    memory: LentMemory
    options: RhtAmaxOptions
    payload: bytes
    tensor: Tensor
    def __init__(self, tensor: _Optional[_Union[Tensor, _Mapping]] = ..., options: _Optional[_Union[RhtAmaxOptions, _Mapping]] = ..., memory: _Optional[_Union[LentMemory, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ["column_offset", "row_offset", "total_columns"]
    column_offset: int
    row_offset: int
    total_columns: int
    def __init__(self, row_offset: _Optional[int] = ..., column_offset: _Optional[int] = ..., total_columns: _Optional[int] = ...) -> None: ...

class Splits(_message.Message):
    __slots__ = ["partial", "rows"]
    partial: bool
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rows: _Optional[_Iterable[int]] = ..., partial: bool = ...) -> None: ...

class Stochastic(_message.Message):
    __slots__ = ["seed", "seed_offset"]
    seed: int
    seed_offset: int
    def __init__(self, seed: _Optional[int] = ..., seed_offset: _Optional[int] = ...) -> None: ...

class StreamReply(_message.Message):
    __slots__ = ["apply_rht", "chunk", "dequantize", "maxima", "quantize", "rht_amax"]
    apply_rht: ApplyRhtReply
    chunk: bytes
    dequantize: DequantizeReply
    maxima: Maxima
    quantize: QuantizeReply
    rht_amax: RhtAmaxReply
    def __init__(self, quantize: _Optional[_Union[QuantizeReply, _Mapping]] = ..., dequantize: _Optional[_Union[DequantizeReply, _Mapping]] = ..., rht_amax: _Optional[_Union[RhtAmaxReply, _Mapping]] = ..., apply_rht: _Optional[_Union[ApplyRhtReply, _Mapping]] = ..., maxima: _Optional[_Union[Maxima, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ["apply_rht", "chunk", "dequantize", "payload_bytes", "quantize", "reduce_amax", "reduced_amax", "rht_amax"]
    apply_rht: ApplyRhtRequest
    chunk: bytes
    dequantize: DequantizeRequest
    payload_bytes: int
    quantize: QuantizeRequest
    reduce_amax: QuantizeRequest
    reduced_amax: GivenAmax
    rht_amax: RhtAmaxRequest
    def __init__(self, quantize: _Optional[_Union[QuantizeRequest, _Mapping]] = ..., dequantize: _Optional[_Union[DequantizeRequest, _Mapping]] = ..., rht_amax: _Optional[_Union[RhtAmaxRequest, _Mapping]] = ..., apply_rht: _Optional[_Union[ApplyRhtRequest, _Mapping]] = ..., reduce_amax: _Optional[_Union[QuantizeRequest, _Mapping]] = ..., payload_bytes: _Optional[int] = ..., reduced_amax: _Optional[_Union[GivenAmax, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ["dtype", "flatten_axis", "shape"]
    dtype: DType
    flatten_axis: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., flatten_axis: _Optional[int] = ...) -> None: ...

class TensorRef(_message.Message):
    __slots__ = ["dtype", "group_offsets", "kind", "layout", "memory", "offset", "shape", "size"]
    dtype: DType
    group_offsets: _containers.RepeatedScalarFieldContainer[int]
    kind: TensorKind
    layout: Layout
    memory: MemoryRange
    offset: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    size: int
    def __init__(self, kind: _Optional[_Union[TensorKind, str]] = ..., dtype: _Optional[_Union[DType, str]] = ..., layout: _Optional[_Union[Layout, str]] = ..., shape: _Optional[_Iterable[int]] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., group_offsets: _Optional[_Iterable[int]] = ..., memory: _Optional[_Union[MemoryRange, _Mapping]] = ...) -> None: ...

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Profile(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Usage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Rounding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ScaleRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class FourOverSix(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class AmaxDomain(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class HistoryRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class NonFinite(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class TensorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
