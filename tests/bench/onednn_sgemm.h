// The machine's own limit: a large f32 matrix product by oneDNN, with its own threads.
#ifndef ATTEND_TESTS_BENCH_ONEDNN_SGEMM_H_
#define ATTEND_TESTS_BENCH_ONEDNN_SGEMM_H_

#include <memory>

namespace attend::bench {

// A product of two matrices of kSize x kSize, the second packed beforehand as oneDNN likes it.
class OnednnSgemm {
 public:
  static constexpr int kSize = 2048;
  static constexpr double kOperations = 2.0 * kSize * kSize * kSize;

  OnednnSgemm();
  ~OnednnSgemm();
  void Run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_ONEDNN_SGEMM_H_
