#include "tests/bench/onednn_sgemm.h"

#include <random>
#include <vector>

#include "core/onednn_version.h"

namespace attend::bench {

struct OnednnSgemm::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul product;
  dnnl::memory left, right, result;
};

OnednnSgemm::OnednnSgemm() : state_(std::make_unique<State>()) {
  using Desc = dnnl::memory::desc;
  using Tag = dnnl::memory::format_tag;
  constexpr auto kFloat = dnnl::memory::data_type::f32;
  const dnnl::memory::dims shape = {kSize, kSize};
  const Desc plain(shape, kFloat, Tag::ab);
  const auto description =
      core::DescribeMatmul(state_->engine, plain, Desc(shape, kFloat, Tag::any), plain, dnnl::primitive_attr());
  state_->product = dnnl::matmul(description);
  state_->left = dnnl::memory(plain, state_->engine);
  state_->result = dnnl::memory(plain, state_->engine);
  state_->right = dnnl::memory(description.weights_desc(), state_->engine);

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(size_t{kSize} * kSize);
  for (float& x : numbers) x = normal(random);
  dnnl::memory unpacked(plain, state_->engine, numbers.data());
  dnnl::reorder(unpacked, state_->left).execute(state_->stream, unpacked, state_->left);
  dnnl::reorder(unpacked, state_->right).execute(state_->stream, unpacked, state_->right);
  state_->stream.wait();
}

OnednnSgemm::~OnednnSgemm() = default;

void OnednnSgemm::Run() {
  state_->product.execute(
      state_->stream,
      {{DNNL_ARG_SRC, state_->left}, {DNNL_ARG_WEIGHTS, state_->right}, {DNNL_ARG_DST, state_->result}});
  state_->stream.wait();
}

}  // namespace attend::bench
