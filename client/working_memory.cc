// The client knows the wire and not the core, so this says again in one place what the core decides in several: how a
// problem is cut (core/tiling.cc, core/decode_splits.cc) and what each piece takes (core/packed_key_value.cc,
// core/query_block.cc, core/decode_block.cc, core/decode_attention.cc). Numbers of one name are the same numbers there.
// estimate_agreement_test compares the two on problems of every kind: what changes there and not here fails it.
#include "client/working_memory.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"

namespace attend::client {
namespace {

using Wide = absl::int128;

constexpr int64_t kKeyGranule = 64;
constexpr int64_t kKeyBlock = 256;
constexpr int64_t kMaxTileRows = 128;
constexpr int64_t kDimGranule = 16;
constexpr int64_t kMaxDecodeRows = 16;
constexpr int64_t kDecodePiece = 512;
constexpr int64_t kMaxDecodeSplits = 64;
constexpr int64_t kBookkeeping = 4096;
constexpr int64_t kBookkeepingOfAWorker = 8192;

Wide CeilDivide(Wide count, Wide unit) { return (count + unit - 1) / unit; }
Wide RoundUp(Wide count, Wide unit) { return CeilDivide(count, unit) * unit; }
Wide FloatBytes(Wide count) { return RoundUp(4 * count, 64); }

// What a pool of large blocks may round a block up to.
Wide MostBytes(Wide bytes) { return bytes == 0 ? Wide{0} : bytes + bytes / 8 + 4096; }

int64_t Saturate(Wide bytes) {
  return static_cast<int64_t>(std::min<Wide>(bytes, std::numeric_limits<int64_t>::max()));
}

class Plan {
 public:
  Plan(const PlannedProblem& problem, const ProblemCost& cost, const ComputeSetup& setup)
      : problem_(problem),
        axes_(problem.axes),
        multiply_adds_(cost.multiply_adds),
        workers_(setup.compute_threads),
        group_(axes_.query_heads / axes_.kv_heads),
        value_dim_(problem.omit_output ? 0 : axes_.value_dim),
        heads_(Wide{axes_.batch} * axes_.kv_heads) {
    const bool native = setup.instruction_set == "avx512_bf16" || setup.instruction_set == "amx";
    const bool wanted = problem.element_type == v1::DATA_TYPE_BFLOAT16 || problem.compute_type == v1::COMPUTE_TYPE_BF16;
    bfloat16_ = native && wanted;
    granule_panels_ = !bfloat16_ && setup.instruction_set != "avx2";
  }

  WorkingMemory Predict() const {
    const Wide fixed = kBookkeeping + workers_ * kBookkeepingOfAWorker;
    if (IsDecode()) return {.total = Saturate(fixed + DecodeBytes())};
    const Wide blocks = Blocks();
    const Wide turns = problem_.average_weights ? axes_.batch * (blocks / Pieces()) : Wide{0};
    const Wide packed = MostBytes(PackedHeadBytes()) * std::min<Wide>(heads_, workers_ + 1);
    const Wide working = MostBytes(QueryBlockBytes()) * std::min<Wide>(heads_ * blocks, workers_);
    return {.total = Saturate(fixed + 8 * turns + packed + working), .packed = Saturate(packed)};
  }

 private:
  Wide HeadDim() const { return RoundUp(axes_.head_dim, kDimGranule); }
  Wide ValueDim() const { return RoundUp(value_dim_, kDimGranule); }
  Wide ProductBytes() const { return bfloat16_ ? 2 : 4; }

  // The keys that some query sees.
  KeyPositions SeenKeys() const {
    return {.begin = VisibleKeys(problem_, 0).begin, .end = VisibleKeys(problem_, axes_.query_length - 1).end};
  }

  bool IsDecode() const {
    return axes_.query_length <= kMaxDecodeRows && group_ <= kMaxDecodeRows / axes_.query_length;
  }

  Wide DecodeSplits() const {
    const KeyPositions seen = SeenKeys();
    if (seen.begin >= seen.end) return 1;
    const Wide pieces = CeilDivide(axes_.key_length, kDecodePiece);
    const Wide length = std::max<Wide>(1, CeilDivide(pieces, kMaxDecodeSplits)) * kDecodePiece;
    return CeilDivide(seen.end, length) - seen.begin / length;
  }

  Wide DecodeBytes() const {
    const auto expanded = [](Wide dim) { return RoundUp(dim, 32); };
    const Wide rows = Wide{axes_.query_length} * group_;
    const Wide splits = DecodeSplits();
    const Wide sums = FloatBytes(rows * expanded(value_dim_)) + 2 * FloatBytes(rows) + RoundUp(rows, 64);
    const Wide block = FloatBytes(rows * expanded(axes_.head_dim)) + 2 * FloatBytes(expanded(axes_.value_dim));
    const Wide turns = problem_.average_weights ? axes_.batch : 0;
    return kBookkeeping + workers_ * kBookkeepingOfAWorker + 8 * turns +
           MostBytes(splits * sums) * std::min<Wide>(heads_, workers_) +
           MostBytes(block) * std::min<Wide>(heads_ * splits, workers_);
  }

  // Rows of a block of queries.
  Wide QueryBlock() const {
    constexpr int64_t kWorkOfAWorker = 2'000'000;
    const Wide useful = std::clamp<Wide>(multiply_adds_ / kWorkOfAWorker, 1, workers_);
    const Wide most = HeadDim() + ValueDim() > 512 ? 64 : kMaxTileRows;
    const Wide wanted = useful == 1 ? Wide{1} : 2 * useful;
    const Wide rows = Wide{group_} * axes_.query_length;
    const Wide blocks = std::max(CeilDivide(rows, most), CeilDivide(wanted, heads_));
    const Wide block = std::clamp<Wide>(RoundUp(CeilDivide(rows, blocks), 16), 64, most);
    if (!problem_.average_weights || group_ > kMaxTileRows) return block;
    return std::max<Wide>(1, block / group_) * group_;
  }

  // Blocks of one position: more than 1 only where averaged weights have very large groups.
  Wide Pieces() const { return problem_.average_weights ? CeilDivide(group_, QueryBlock()) : Wide{1}; }

  // Blocks of each head.
  Wide Blocks() const {
    const Wide pieces = Pieces();
    return pieces > 1 ? axes_.query_length * pieces : CeilDivide(Wide{group_} * axes_.query_length, QueryBlock());
  }

  Wide QueryBlockBytes() const {
    const Wide padded = RoundUp(QueryBlock(), 16);
    const Wide rows = padded == 32 ? Wide{48} : padded;
    return RoundUp(rows * HeadDim() * ProductBytes(), 64) + FloatBytes(rows * ValueDim()) + 3 * FloatBytes(rows);
  }

  // Whether rows of `dim` of one head lie together.
  bool IsDense() const { return problem_.layout == v1::LAYOUT_BHND || axes_.kv_heads == 1; }

  bool SharesValues() const {
    const auto same = bfloat16_ ? v1::DATA_TYPE_BFLOAT16 : v1::DATA_TYPE_FLOAT32;
    return problem_.element_type == same && value_dim_ == ValueDim() && value_dim_ > 0 && IsDense();
  }

  bool ReadsInPlace() const {
    constexpr int64_t kMostBlocks = 4;
    return Blocks() <= kMostBlocks && axes_.key_length % kKeyGranule == 0 && granule_panels_ &&
           problem_.element_type == v1::DATA_TYPE_FLOAT32 && axes_.head_dim == HeadDim() && IsDense() &&
           (SharesValues() || value_dim_ == 0);
  }

  Wide PackedKeys() const {
    const bool every_key = problem_.scores == v1::SCORE_STAGE_SCALED || problem_.scores == v1::SCORE_STAGE_SOFTCAPPED;
    if (every_key) return axes_.key_length;
    const KeyPositions seen = SeenKeys();
    return seen.begin >= seen.end ? 0 : seen.end - seen.begin / kKeyBlock * kKeyBlock;
  }

  Wide PackedHeadBytes() const {
    const Wide keys = RoundUp(PackedKeys(), kKeyGranule);
    if (keys == 0 || ReadsInPlace()) return 0;
    const Wide panel_keys = granule_panels_ ? kKeyGranule : kKeyBlock;
    const Wide panel_stride = granule_panels_ ? kKeyGranule : kKeyBlock + 16;
    const Wide values = SharesValues() ? std::min<Wide>(keys, kKeyBlock) : keys;
    const Wide panels = CeilDivide(keys, panel_keys) * HeadDim() * panel_stride;
    return RoundUp((panels + values * ValueDim()) * ProductBytes() + keys / kKeyGranule, 64);
  }

  const PlannedProblem& problem_;
  const AxisLengths& axes_;
  const int64_t multiply_adds_;
  const int64_t workers_;
  const int64_t group_;
  const int64_t value_dim_;
  const Wide heads_;
  bool bfloat16_ = false;        // whether products are
  bool granule_panels_ = false;  // whether f32 keys are packed without gaps, and can be read in place
};

}  // namespace

WorkingMemory PredictWorkingMemory(const PlannedProblem& problem, const ProblemCost& cost, const ComputeSetup& setup) {
  return Plan(problem, cost, setup).Predict();
}

}  // namespace attend::client
