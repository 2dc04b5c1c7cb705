#include "tests/testing/random_problem.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/testing/generators.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;
using core::ResultSelection;
using core::ScoreStage;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};

int64_t DrawLength(Draw& draw) {
  constexpr int64_t kBorders[] = {0, 16, 64, 128, 256, 512, 1024};
  if (draw.OneIn(3)) return draw.Between(1, 300);
  return std::max<int64_t>(0, draw.From(kBorders) + draw.Between(-2, 2));
}

int64_t DrawDim(Draw& draw) {
  constexpr int64_t kUsual[] = {16, 32, 64, 80, 96, 128, 256};
  return draw.OneIn(2) ? draw.Between(1, 140) : draw.From(kUsual);
}

AttentionShape DrawShape(Draw& draw, int64_t max_multiply_adds) {
  constexpr int64_t kGroups[] = {1, 1, 2, 3, 4, 7, 8};
  AttentionShape shape;
  do {
    shape.batch = draw.Between(1, 3);
    shape.kv_heads = draw.Between(1, 3);
    shape.query_heads = shape.kv_heads * draw.From(kGroups);
    shape.query_length = draw.OneIn(5) ? 1 : DrawLength(draw);
    shape.key_length = draw.OneIn(3) ? shape.query_length : DrawLength(draw);
    shape.head_dim = DrawDim(draw);
    shape.value_dim = draw.OneIn(2) ? shape.head_dim : DrawDim(draw);
  } while (shape.batch * shape.query_heads * shape.query_length * shape.key_length *
               (shape.head_dim + shape.value_dim) >
           max_multiply_adds);
  return shape;
}

int64_t DrawWindow(Draw& draw) {
  constexpr int64_t kSides[] = {0, 1, 5, 63, 64, 65, 200, 512, kLargest};
  return draw.OneIn(2) ? -1 : draw.From(kSides);
}

int64_t DrawOffset(const AttentionShape& shape, Draw& draw) {
  constexpr int64_t kExtremes[] = {kLargest, kSmallest, kLargest - 100, int64_t{1} << 40, -(int64_t{1} << 40)};
  if (draw.OneIn(12)) return draw.From(kExtremes);
  return draw.Between(-shape.query_length - 3, shape.key_length + 3);
}

// What says where a query stands and how far it sees.
void DrawPositions(const AttentionShape& shape, Draw& draw, AttentionOptions* options) {
  constexpr CausalAlignment kAlignments[] = {CausalAlignment::kNone, CausalAlignment::kTopLeft,
                                             CausalAlignment::kBottomRight};
  options->causal = draw.From(kAlignments);
  if (draw.OneIn(4)) {
    for (int64_t b = 0; b < shape.batch; ++b) options->query_offset.push_back(DrawOffset(shape, draw));
  }
  if (draw.OneIn(3)) {
    options->window_left = DrawWindow(draw);
    options->window_right = DrawWindow(draw);
  }
}

// What only layouts with a batch axis have.
void DrawTensorMasks(const AttentionShape& shape, Draw& draw, AttentionOptions* options) {
  if (draw.OneIn(3)) {
    for (int64_t b = 0; b < shape.batch; ++b) options->key_lengths.push_back(draw.Between(0, shape.key_length));
  }
  if (draw.OneIn(3)) options->mask = {.shape = DrawBroadcastShape(shape, draw)};
  if (draw.OneIn(3)) options->bias = {.shape = DrawBroadcastShape(shape, draw), .type = draw.From(kTypes)};
}

void DrawHeadOptions(const AttentionShape& shape, Draw& draw, AttentionOptions* options) {
  const bool slopes = draw.OneIn(4);
  const bool sinks = draw.OneIn(4);
  for (int64_t h = 0; h < shape.query_heads; ++h) {
    if (slopes) options->alibi_slopes.push_back(static_cast<float>(draw.Between(-20, 100)) / 64);
    if (sinks) options->sinks.push_back(draw.OneIn(5) ? -kInfinity : static_cast<float>(draw.Between(-50, 50)) / 8);
  }
}

AttentionOptions DrawOptions(const AttentionShape& shape, ElementType type, Draw& draw) {
  constexpr float kSoftcaps[] = {0.5, 2, 30, 50};
  AttentionOptions options;
  options.layout = draw.OneIn(2) ? Layout::kBHND : draw.OneIn(2) ? Layout::kBNHD : Layout::kTHD;
  if (draw.OneIn(3)) options.scale = static_cast<float>(draw.Between(-100, 100)) / 100;
  if (draw.OneIn(4)) options.softcap = draw.From(kSoftcaps);
  DrawPositions(shape, draw, &options);
  DrawHeadOptions(shape, draw, &options);
  if (options.layout == Layout::kTHD) {
    options.query_starts = DrawStarts(shape.batch, shape.query_length, draw);
    options.key_starts = DrawStarts(shape.batch, shape.key_length, draw);
  } else {
    DrawTensorMasks(shape, draw, &options);
  }
  if (type != ElementType::kFloat16 && draw.OneIn(4)) options.compute_type = core::ComputeType::kBFloat16;
  if (draw.OneIn(4)) options.output_type = draw.OneIn(2) ? type : ElementType::kFloat32;
  return options;
}

ResultSelection DrawResults(const AttentionShape& shape, Layout layout, Draw& draw) {
  constexpr ScoreStage kStages[] = {ScoreStage::kScaled, ScoreStage::kSoftcapped, ScoreStage::kMasked};
  ResultSelection results;
  results.logsumexp = draw.OneIn(2);
  if (layout != Layout::kTHD) {
    results.weights = draw.OneIn(2);
    if (draw.OneIn(3)) results.scores = draw.From(kStages);
    if (results.weights) results.average_weights_over_heads = draw.OneIn(3);
    if ((results.weights || results.scores != ScoreStage::kNone) && draw.OneIn(3)) {
      for (int64_t i = 0; i < shape.query_length; ++i) {
        if (draw.OneIn(8)) results.weight_query_rows.push_back(i);
      }
      if (draw.OneIn(2)) std::reverse(results.weight_query_rows.begin(), results.weight_query_rows.end());
    }
  }
  const bool others = results.logsumexp || results.weights || results.scores != ScoreStage::kNone;
  results.omit_output = others && draw.OneIn(6);
  return results;
}

// A type's lowest number: what model code adds to the scores of keys that it means to hide.
float Lowest(ElementType type) {
  if (type == ElementType::kFloat16) return -65504;
  return type == ElementType::kBFloat16 ? -0x1.FEp127F : std::numeric_limits<float>::lowest();
}

// Stretches of keys, all of them there or all of them not.
Fill Runs(int mean_length) {
  return [mean_length, current = 1.0F](std::mt19937_64& random) mutable {
    if (random() % mean_length == 0) current = 1 - current;
    return current;
  };
}

Fills DrawFills(ElementType type, ElementType bias_type, Draw& draw) {
  const auto numbers = [&] {
    switch (draw.Between(0, 5)) {
      case 0:
        return Integers(2);
      case 1:
        return Specials(type);
      case 2:
        return Normal(0.5, 2);
      default:
        return Normal();
    }
  };
  Fills fills = {.query_and_key = numbers(), .value = numbers()};
  const float lowest = Lowest(bias_type);
  fills.bias = draw.From(std::vector<Fill>{Normal(), Normal(0, 5), OneIn(4, -kInfinity, Normal()),
                                           OneIn(3, lowest, Normal()), Constant(lowest)});
  fills.mask = draw.From(std::vector<Fill>{OneIn(4, 0, Constant(1)), OneIn(50, 1, Constant(0)), Constant(1),
                                           Constant(0), Runs(3), Runs(60), Runs(200)});
  return fills;
}

}  // namespace

std::vector<int64_t> DrawBroadcastShape(const AttentionShape& shape, Draw& draw) {
  const int64_t whole[] = {shape.batch, shape.query_heads, shape.query_length, shape.key_length};
  std::vector<int64_t> drawn;
  for (int64_t axis = 4 - draw.Between(2, 4); axis < 4; ++axis) drawn.push_back(draw.OneIn(3) ? 1 : whole[axis]);
  return drawn;
}

std::vector<int64_t> DrawStarts(int64_t count, int64_t total, Draw& draw) {
  std::vector<int64_t> starts = {0, total};
  while (static_cast<int64_t>(starts.size()) < count + 1) {
    starts.push_back(draw.OneIn(4) ? draw.From(starts) : draw.Between(0, total));
  }
  if (count == 0) starts = {0};
  std::sort(starts.begin(), starts.end());
  return starts;
}

ProblemInstance DrawProblem(uint64_t seed, int64_t max_multiply_adds) {
  Draw draw(seed);
  const AttentionShape shape = DrawShape(draw, max_multiply_adds);
  const ElementType type = draw.From(kTypes);
  AttentionOptions options = DrawOptions(shape, type, draw);
  ResultSelection results = DrawResults(shape, options.layout, draw);
  const Fills fills = DrawFills(type, options.bias.has_value() ? options.bias->type : type, draw);
  AttentionProblem problem = AttentionProblem::Create(shape, type, std::move(options), std::move(results)).value();
  ProblemValues values = Generate(problem, seed, fills);
  return {std::move(problem), std::move(values)};
}

}  // namespace attend::testing
