#include "tests/bench/machine_limits.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/onednn_version.h"
#include "tests/bench/processor_time.h"

namespace attend::bench {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

// left [rows, depth] . right [depth, columns], the second in the primitive's own layout. Scratch memory is its own, as
// the default kind belongs to the thread that made the primitive.
class Product {
 public:
  Product(core::ElementType type, int64_t rows, int64_t columns, int64_t depth) {
    constexpr auto kFloat = dnnl::memory::data_type::f32;
    const auto input = type == core::ElementType::kBFloat16 ? dnnl::memory::data_type::bf16 : kFloat;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto description =
        core::DescribeMatmul(engine_, Desc({rows, depth}, input, Tag::ab), Desc({depth, columns}, input, Tag::any),
                             Desc({rows, columns}, kFloat, Tag::ab), attributes);
    primitive_ = dnnl::matmul(description);
    left_ = dnnl::memory(description.src_desc(), engine_);
    right_ = dnnl::memory(description.weights_desc(), engine_);
    result_ = dnnl::memory(description.dst_desc(), engine_);
    scratch_ = dnnl::memory(description.scratchpad_desc(), engine_);
    Fill(left_, {rows, depth});
    Fill(right_, {depth, columns});
  }

  void Run() {
    primitive_.execute(
        stream_,
        {{DNNL_ARG_SRC, left_}, {DNNL_ARG_WEIGHTS, right_}, {DNNL_ARG_DST, result_}, {DNNL_ARG_SCRATCHPAD, scratch_}});
    stream_.wait();
  }

 private:
  void Fill(dnnl::memory& to, const dnnl::memory::dims& shape) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<size_t>(shape[0] * shape[1]));
    for (float& x : numbers) x = normal(random);
    dnnl::memory plain(Desc(shape, dnnl::memory::data_type::f32, Tag::ab), engine_, numbers.data());
    dnnl::reorder(plain, to).execute(stream_, plain, to);
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul primitive_;
  dnnl::memory left_, right_, result_, scratch_;
};

absl::Status NoProduct(core::ElementType type, const dnnl::error& error) {
  return absl::UnimplementedError(
      absl::StrCat("oneDNN has no ", core::ElementTypeName(type), " product here: ", error.what()));
}

}  // namespace

struct LargeMatmul::State {
  explicit State(core::ElementType type) : product(type, kSize, kSize, kSize) {}
  Product product;
};

absl::StatusOr<std::unique_ptr<LargeMatmul>> LargeMatmul::Create(core::ElementType type) {
  try {
    return std::unique_ptr<LargeMatmul>(new LargeMatmul(std::make_unique<State>(type)));
  } catch (const dnnl::error& error) {
    return NoProduct(type, error);
  }
}

LargeMatmul::LargeMatmul(std::unique_ptr<State> state) : state_(std::move(state)) {}

LargeMatmul::~LargeMatmul() = default;

void LargeMatmul::Run(int workers) {
  omp_set_num_threads(workers);
  state_->product.Run();
}

struct TileMatmuls::Tile {
  static constexpr int kRows = 256, kColumns = 256, kDepth = 128;
  static constexpr double kOperations = 2.0 * kRows * kColumns * kDepth;
  explicit Tile(core::ElementType type) : product(type, kRows, kColumns, kDepth) {}
  Product product;
};

absl::StatusOr<std::unique_ptr<TileMatmuls>> TileMatmuls::Create(core::ElementType type, int workers) {
  std::unique_ptr<TileMatmuls> matmuls(new TileMatmuls);
  try {
    for (int worker = 0; worker < workers; ++worker) matmuls->tiles_.push_back(std::make_unique<Tile>(type));
  } catch (const dnnl::error& error) {
    return NoProduct(type, error);
  }
  return matmuls;
}

TileMatmuls::~TileMatmuls() = default;

double TileMatmuls::Rate() {
  constexpr int kWarm = 20, kRuns = 300;
  std::vector<double> rates(tiles_.size());
  std::latch together(static_cast<std::ptrdiff_t>(tiles_.size()));
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < tiles_.size(); ++worker) {
    threads.emplace_back([&, worker] {
      omp_set_num_threads(1);
      Tile& tile = *tiles_[worker];
      for (int run = 0; run < kWarm; ++run) tile.product.Run();
      together.arrive_and_wait();
      const double start = WallSeconds();
      for (int run = 0; run < kRuns; ++run) tile.product.Run();
      rates[worker] = kRuns * Tile::kOperations / (WallSeconds() - start);
    });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

PlainRead::PlainRead() : words_(kBytes / sizeof(uint64_t)) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] = i;
}

uint64_t PlainRead::Run(int workers) const {
  constexpr size_t kPiece = size_t{256} << 10;  // bytes
  constexpr size_t kWords = kPiece / sizeof(uint64_t);
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> total = 0;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&] {
      uint64_t sum = 0;
      for (size_t first = next.fetch_add(kWords); first < words_.size(); first = next.fetch_add(kWords)) {
        const uint64_t* piece = words_.data() + first;
        for (size_t i = 0; i < kWords; ++i) sum += piece[i];
      }
      total += sum;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return total;
}

}  // namespace attend::bench
